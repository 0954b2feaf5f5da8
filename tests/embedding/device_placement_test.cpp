// In the CPU's memory: what kernels read is the same there.
#include "embedding/device_placement.h"

#include "embedding/device_slots.h"
#include "tests/embedding/routing_case.h"
#include "tests/support/catch.h"

namespace hlite::test {

TEST_CASE("every key is where its placement says, and rows are numbered through by rank") {
  for (uint64_t round = 0; round < 12; ++round) {
    const RoutingCase random(round, 2);
    const embedding::RowPlacement& placement = random.placement();
    const embedding::DevicePlacement device({}, placement);
    const embedding::DeviceSlots slots({}, random.tables());
    const embedding::PlacementRef& ref = device.ref();
    INFO("round " << round);
    std::vector<int64_t> first = {0};  // first number of each rank, of replicated rows, and the end
    for (int q = 0; q < placement.ranks(); ++q)
      first.push_back(first.back() + placement.rows_of(q));
    first.push_back(first.back() + placement.replicated_rows());
    CHECK(ref.numbers == first.back());
    bool good = true;
    for (int64_t s = 0; s < random.tables().slots(); ++s)
      for (uint32_t key = 0; key < random.tables().rows[static_cast<size_t>(s)]; ++key) {
        const auto& slot = slots.ref().slots[s];
        const int32_t table = slots.ref().table_of[s];
        const embedding::RowPlace want = placement.locate(table, key),
                                  got = ref.locate(slot.first_row, table, key);
        good &= got.rank == want.rank && got.row == want.row;
        const auto block = static_cast<size_t>(want.rank < 0 ? placement.ranks() : want.rank);
        good &= ref.number_of(slot, table, key) == first[block] + want.row;
      }
    CHECK(good);
  }
}

TEST_CASE("hashed tables on ranks are numbered consecutively") {
  const embedding::SlotLayout layout({7, 1, 12}, 2);
  const embedding::DeviceSlots slots({}, layout);
  for (const int ranks : {1, 2, 5})
    for (const auto by : {embedding::KeyOwner::kByKey, embedding::KeyOwner::kByTable}) {
      const auto placement = embedding::RowPlacement::by_key(layout, ranks, 100, by);
      const embedding::DevicePlacement device({}, placement);
      const embedding::PlacementRef& ref = device.ref();
      CHECK(ref.numbers == static_cast<uint32_t>(3 * ranks));
      for (int q = 0; q <= ranks + 1; ++q)  // replicated rows: none
        CHECK(ref.first_number[q] == static_cast<uint32_t>(3 * std::min(q, ranks)));
      for (int32_t s = 0; s < 3; ++s)
        for (const uint32_t key : {0u, 1u, 6u, 4'000'000'000u})
          CHECK(ref.number_of(slots.ref().slots[s], s, key) ==
                static_cast<uint32_t>(placement.locate(s, key).rank * 3 + s));
    }
}

}  // namespace hlite::test
