// GatheredBlocks from the keys of all ranks: those that each rank's own routing sends, number by
// number.
#include "embedding/gathered_lists.h"

#include <algorithm>

#include "embedding/device_placement.h"
#include "embedding/device_slots.h"
#include "hugectr_lite/core/exec_memory.h"
#include "tests/embedding/routing_case.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

using namespace embedding;

constexpr int64_t kRankSamples = 23;  // of a rank

struct GatheredBlocks {
  std::vector<uint32_t> blocks;
  std::vector<int64_t> received_bytes;
};

constexpr uint32_t kNotWritten = 0x77777777u;

GatheredBlocks gathered_on(const OpDevice& on, const RowPlacement& placement, int rank,
                           int64_t capacity, Matrix<const uint32_t> keys) {
  const Exec& exec = on.exec();
  const SlotLayout& layout = placement.layout();
  const int ranks = placement.ranks();
  const ExchangeShape shape{.ranks = ranks, .capacity = capacity, .width = layout.width};
  const DevicePlacement place(exec, placement);
  const DeviceSlots slots(exec, layout);
  const ExecMemory workspace(
      exec,
      gathered_workspace(exec, slots.ref(), ranks, kRankSamples, place.ref().numbers,
                         on.on_gpu() ? 1 : exec.threads().threads()),
      "gathered lists");
  const std::vector<uint32_t> values(keys.data(), keys.data() + keys.size());
  const DeviceTensor<uint32_t> on_device(on, values);
  DeviceTensor<uint32_t> blocks(
      on, std::vector<uint32_t>(static_cast<size_t>(ranks * shape.block_words()), kNotWritten));
  DeviceTensor<int64_t> bytes(on, std::vector<int64_t>(static_cast<size_t>(ranks), -1));
  list_gathered(exec, {.slots = slots.ref(),
                       .placement = place.ref(),
                       .shape = shape,
                       .rank = rank,
                       .keys = {on_device.data(), keys.dim(0), keys.dim(1)},
                       .samples_of_rank = kRankSamples,
                       .blocks = blocks.data(),
                       .received_bytes = bytes.data(),
                       .workspace = workspace.data(),
                       .workspace_bytes = workspace.size()});
  return {blocks.host(), bytes.host()};
}

// What rank `from` would have sent to `rank`.
void check_gathered_block(const GatheredBlocks& got, const ExpectedRoute& want, int from, int rank,
                          int64_t capacity) {
  const auto& list = want.lists[static_cast<size_t>(rank)];
  const auto block = got.blocks.begin() + from * (kListHeader + capacity);
  const auto longest = static_cast<uint64_t>(want.longest());
  CHECK((block[0] | uint64_t{block[1]} << 32) == longest);
  const bool fits = want.longest() <= capacity;
  CHECK(got.received_bytes[static_cast<size_t>(from)] ==
        4 * (kListHeader + (fits ? std::ssize(list) : 0)));
  const int64_t listed = std::min(std::ssize(list), capacity);
  CHECK(std::equal(list.begin(), list.begin() + listed, block + kListHeader));
  CHECK(std::all_of(block + kListHeader + listed, block + kListHeader + capacity,
                    [](uint32_t word) { return word == kNotWritten; }));
}

}  // namespace

TEST_CASE("lists from the keys of all ranks are those of each rank's routing, number by number",
          "[gpu]") {
  const auto devices = op_devices<float>();
  for (uint64_t round = 0; round < 16; ++round) {
    RoutingCase random(round, 2);
    const RowPlacement& placement = random.placement();
    const int ranks = placement.ranks(),
              rank = static_cast<int>(random.draw(static_cast<uint32_t>(ranks)));
    const int64_t capacity =
        round % 4 == 3 ? 1 + random.draw(12) : kRankSamples * random.tables().columns();
    for (const OpDevice& on : devices) {
      for (const int64_t batch : {ranks * kRankSamples, int64_t{0}, int64_t{1},
                                  std::min(ranks * kRankSamples, kRankSamples + 7)}) {
        INFO(on.name() << ", round " << round << ", rank " << rank << " of " << ranks << ", batch "
                       << batch);
        const auto keys = random.keys(batch);
        const GatheredBlocks got = gathered_on(on, placement, rank, capacity, keys.view());
        for (int q = 0; q < ranks; ++q) {
          const int64_t begin = std::min(batch, q * kRankSamples),
                        end = std::min(batch, (q + 1) * kRankSamples);
          check_gathered_block(got, ExpectedRoute(placement, keys.view().rows(begin, end)), q, rank,
                               capacity);
        }
      }
    }
  }
}

}  // namespace hlite::test
