// The sort by table, on the emulated device: its list is that of a stable sort of all lookups.
#include "embedding/table_sort.cuh"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "embedding/device_slots.h"
#include "tests/cuda/embedding_device.h"

namespace hlite::test {
namespace {

using embedding::SlotLayout;
using embedding::gpu::kClusterBlocks;
using embedding::gpu::kMaxPartLookups;
using embedding::gpu::table_sort_bytes;

// Pairs of row and bag.
struct SortedLookups {
  std::vector<uint32_t> rows, bags;
  bool operator==(const SortedLookups&) const = default;
};

// The bags of lookups without a row are in any order: here they ascend.
SortedLookups with_bags_in_order(SortedLookups list, uint32_t no_row) {
  const auto none = std::find(list.rows.begin(), list.rows.end(), no_row) - list.rows.begin();
  std::sort(list.bags.begin() + none, list.bags.end());
  return list;
}

struct TableSortCase {
  SlotLayout layout;
  int64_t batch;
  std::vector<uint32_t> keys;  // [batch, columns]
  std::vector<uint32_t> line_of = {};

  [[nodiscard]] uint32_t no_row() const {
    return static_cast<uint32_t>(layout.total_rows);  // and the number of lines
  }
  [[nodiscard]] SortedLookups expected() const {
    SortedLookups list;
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t s = 0; s < layout.slots(); ++s)
        for (int64_t k = 0; k < layout.hotness(s); ++k) {
          const auto i = static_cast<size_t>(s);
          const uint32_t key =
              keys[static_cast<size_t>(b * layout.keys.columns + layout.column(s) + k)];
          list.rows.push_back(key < layout.rows[i]
                                  ? static_cast<uint32_t>(layout.offset[i] + int64_t{key})
                                  : no_row());
          list.bags.push_back(static_cast<uint32_t>(b * layout.slots() + s));
        }
    std::vector<size_t> order(list.rows.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return list.rows[a] < list.rows[b]; });
    SortedLookups sorted;
    for (const size_t i : order) {
      const uint32_t row = list.rows[i];
      sorted.rows.push_back(line_of.empty() || row == no_row() ? row : line_of[row]);
      sorted.bags.push_back(list.bags[i]);
    }
    return with_bags_in_order(std::move(sorted), no_row());
  }
};

// Sorts `times` times, each time into lists that are empty before, by so many blocks a part.
SortedLookups sorted_by_table(const TableSortCase& x, int times = 1, unsigned blocks = 1) {
  const OnDevice device(emulated_cuda());
  const embedding::DeviceSlots slots(device.exec(), x.layout);
  const auto lookups = static_cast<size_t>(x.batch * x.layout.columns());
  const auto parts = static_cast<size_t>(slots.ref().parts());
  const DeviceArray<uint32_t> keys(device.ops(), x.keys), lines(device.ops(), x.line_of);
  const DeviceArray<unsigned long long> progress(device.ops(),
                                                 std::vector<unsigned long long>(1 + parts));
  const DeviceArray<float> rate(device.ops(), std::vector<float>{0.5f});
  const DeviceArray<int64_t> step(device.ops(), std::vector<int64_t>{1});
  const DeviceArray<optimizer::StepScalars> scalars(device.ops(), 1);
  SortedLookups list;
  for (int i = 0; i < times; ++i) {
    const DeviceArray<uint32_t> rows(device.ops(), lookups), bags(device.ops(), lookups);
    embedding::gpu::sort_by_table(
        static_cast<cudaStream_t>(device.stream()),
        {.slots = slots.ref(),
         .keys = keys.data(),
         .batch = static_cast<uint32_t>(x.batch),
         .lines = {x.line_of.empty() ? nullptr : lines.data(), x.no_row()},
         .rows = rows.data(),
         .sources = bags.data(),
         .touched = nullptr,
         .progress = progress.data(),
         .inputs = {{}, rate.data(), step.data()},
         .scalars = scalars.data()},
        blocks);
    list = {rows.to_host(device.stream()), bags.to_host(device.stream())};
    CHECK(scalars.to_host(device.stream())[0].rate == 0.5f);
  }
  return with_bags_in_order(std::move(list), x.no_row());
}

enum class Keys { kUniform, kEqual, kDistinct, kTop, kSkewed, kSomeBad, kAllBad };
constexpr Keys kAllKeys[] = {Keys::kUniform, Keys::kEqual,   Keys::kDistinct, Keys::kTop,
                             Keys::kSkewed,  Keys::kSomeBad, Keys::kAllBad};

// A key of a table of so many rows; the bad ones are absent or beyond the table.
uint32_t draw_key(Keys how, uint32_t rows, uint32_t sample, uint64_t place) {
  const uint64_t word = random::word(41, static_cast<uint64_t>(how), place);
  const auto any = static_cast<uint32_t>(word % rows);
  const uint32_t bad[] = {kNoKey, embedding::kUnseen, rows};
  switch (how) {
    case Keys::kUniform:
      return any;
    case Keys::kEqual:
      return rows / 2;
    case Keys::kDistinct:  // as far as they reach
      return (sample * 40503u) % rows;
    case Keys::kTop:
      return rows - 1 - sample % 3 % rows;
    case Keys::kSkewed:
      return static_cast<uint32_t>(any * (word >> 40 & 1) * (word >> 41 & 1));
    case Keys::kSomeBad:
      return word >> 50 & 1 ? any : bad[(word >> 51) % 3];
    default:
      return bad[(word >> 51) % 3];
  }
}

TableSortCase case_of(SlotLayout layout, int64_t batch, Keys how) {
  TableSortCase x{std::move(layout), batch, {}};
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t c = 0; c < x.layout.keys.columns; ++c) {
      const int64_t s = x.layout.keys.slot_of(c) - x.layout.first_slot;
      const bool other = s < 0 || s >= x.layout.slots();
      const int64_t rows = other ? 1 : x.layout.rows[static_cast<size_t>(s)];
      x.keys.push_back(draw_key(how, static_cast<uint32_t>(rows), static_cast<uint32_t>(b),
                                static_cast<uint64_t>(x.keys.size())));
    }
  return x;
}

// Tables of 1 row to nearly as many as there are numbers, of one to four digits.
SlotLayout one_hot_tables() { return {{3, 1, 256, 257, 4294000000, 65536, 65537, 2, 700000}, 8}; }
// Slots of several keys, between columns of other layers, some of which share a table.
SlotLayout shared_tables() {
  return {{900, 3, 900, 40, 900},    8, KeyLayout({2, 4, 1, 1, 7, 3, 1}),
          embedding::Combiner::kSum, 1, {0, 1, 0, 2, 0}};
}

TEST_CASE("a sort by table gives the list of a stable sort") {
  for (const auto& layout : {one_hot_tables(), shared_tables()})
    for (const int64_t batch : {0, 1, 2, 31, 127, 251})
      for (const Keys how : kAllKeys) {
        INFO("batch " << batch << ", keys " << static_cast<int>(how));
        const TableSortCase x = case_of(layout, batch, how);
        const SortedLookups want = x.expected();
        CHECK((sorted_by_table(x) == want));
        CHECK((sorted_by_table(x, 1, kClusterBlocks) == want));
      }
}

TEST_CASE("rows that do not ascend with tables are sorted as one") {
  const SlotLayout pooled = shared_tables().pooled(70000);
  CHECK(!pooled.rows_ascend());
  CHECK(shared_tables().rows_ascend());
  CHECK(SlotLayout({5}, 8).pooled(9).rows_ascend());  // a table of its own
  for (const int64_t batch : {1, 67})
    for (const Keys how : kAllKeys) {
      const TableSortCase x = case_of(pooled, batch, how);
      CHECK((sorted_by_table(x) == x.expected()));
      CHECK((sorted_by_table(x, 1, kClusterBlocks) == x.expected()));
    }
  // A rank may own no rows.
  const TableSortCase none = case_of(shared_tables().pooled(0), 0, Keys::kUniform);
  CHECK(sorted_by_table(none).rows.empty());
  CHECK(sorted_by_table(none, 1, kClusterBlocks).rows.empty());
}

TEST_CASE("a sort by table takes lines in place of rows") {
  TableSortCase x = case_of({{300, 2, 70}, 8}, 113, Keys::kSomeBad);
  x.line_of.resize(372);
  for (uint32_t row = 0; row < 372; ++row) x.line_of[row] = row * 5 % 372;
  CHECK((sorted_by_table(x) == x.expected()));
  CHECK((sorted_by_table(x, 1, kClusterBlocks) == x.expected()));
}

TEST_CASE("a sort by table is the same in any order of threads and blocks, again and again") {
  for (const auto& layout : {one_hot_tables(), shared_tables()}) {
    const TableSortCase x = case_of(layout, 89, Keys::kSomeBad);
    const SortedLookups want = x.expected();
    for (const auto order :
         {emulation::Order::kForward, emulation::Order::kReverse, emulation::Order::kShuffled}) {
      emulation::set_order(order, 5);
      CHECK((sorted_by_table(x, 3) == want));
      CHECK((sorted_by_table(x, 3, kClusterBlocks) == want));
    }
    emulation::set_order(emulation::Order::kForward);
  }
}

TEST_CASE("a block sorts as many lookups as its memory holds") {
  int64_t most = 24000;
  const auto bytes = static_cast<size_t>(emulation::machine().shared_bytes_optin);
  while (embedding::gpu::table_sort_bytes(most + 1) <= bytes) ++most;
  CHECK(most == 24927);
  for (const Keys how : {Keys::kDistinct, Keys::kSomeBad}) {
    const TableSortCase x = case_of({{70001, 9}, 8}, most, how);
    CHECK((sorted_by_table(x) == x.expected()));
  }
}

TEST_CASE("a cluster of blocks sorts what no block holds alone") {
  CHECK(table_sort_bytes(kMaxPartLookups, kClusterBlocks) <=
        static_cast<size_t>(emulation::machine().shared_bytes_optin));
  // Tables of one row, of few and of as many as the largest has; a prime, and all that 16 bits
  // number. Keys of one batch are of every kind.
  const std::pair<int64_t, Keys> cases[] = {{24927, Keys::kEqual},
                                            {24928, Keys::kUniform},
                                            {30011, Keys::kSomeBad},
                                            {49999, Keys::kSkewed},
                                            {kMaxPartLookups, Keys::kDistinct}};
  for (const auto& [lookups, how] : cases) {
    INFO(lookups << " lookups, keys " << static_cast<int>(how));
    const TableSortCase x = case_of({{1, 40000000, 3}, 8}, lookups, how);
    CHECK((sorted_by_table(x, 1, kClusterBlocks) == x.expected()));
  }
}

TEST_CASE("tables are sorted by blocks where these have the memory and are expected to be fast") {
  const auto blocks = embedding::gpu::table_sort_blocks;
  CHECK(blocks(24927, 26 * 24927) == 1);
  CHECK(blocks(24928, 26 * 24928) == kClusterBlocks);
  CHECK(blocks(65536, 26 * 65536) == kClusterBlocks);
  CHECK(blocks(65537, 26 * 65537) == 0);
  CHECK(blocks(20000, 20000) == kClusterBlocks);
  CHECK(blocks(60000, 60000) == 0);
  emulation::machine().has_clusters = false;
  CHECK(blocks(4096, 26 * 4096) == 1);
  CHECK(blocks(24927, 26 * 24927) == 1);
  CHECK(blocks(24928, 26 * 24928) == 0);
  CHECK(blocks(65536, 26 * 65536) == 0);
  CHECK(blocks(12288, 12288) == 1);
  CHECK(blocks(20000, 20000) == 0);
  emulation::machine().has_clusters = true;
  // Of a device whose blocks have 99 KiB.
  const int bytes = std::exchange(emulation::machine().shared_bytes_optin, 99 * 1024);
  CHECK(blocks(8543, 26 * 8543) == 1);
  CHECK(blocks(8544, 26 * 8544) == kClusterBlocks);
  CHECK(blocks(40000, 26 * 40000) == 0);
  emulation::machine().shared_bytes_optin = bytes;
}

}  // namespace
}  // namespace hlite::test
