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
    std::vector<int64_t> first = {0};  // number of each rank, of copies, behind all
    for (int q = 0; q < placement.ranks(); ++q)
      first.push_back(first.back() + placement.rows_of(q));
    first.push_back(first.back() + placement.copied_rows());
    CHECK(ref.numbers == first.back());
    bool good = true;
    for (int64_t s = 0; s < random.tables().slots(); ++s)
      for (uint32_t key = 0; key < random.tables().rows[static_cast<size_t>(s)]; ++key) {
        const auto& slot = slots.ref().slots[s];
        const embedding::RowPlace want = placement.locate(s, key),
                                  got = ref.locate(slot, static_cast<int32_t>(s), key);
        good &= got.rank == want.rank && got.row == want.row;
        const auto block = static_cast<size_t>(want.rank < 0 ? placement.ranks() : want.rank);
        good &= ref.number_of(slot, static_cast<int32_t>(s), key) == first[block] + want.row;
      }
    CHECK(good);
  }
}

}  // namespace hlite::test
