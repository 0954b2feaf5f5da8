// Routing: lists, counts and entries are those of the definition.
#include <algorithm>
#include <array>
#include <memory>

#include "embedding/cutter.h"
#include "embedding/device_placement.h"
#include "embedding/device_slots.h"
#include "embedding/routing.h"
#include "hugectr_lite/core/exec_memory.h"
#include "tests/embedding/routing_case.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

using namespace embedding;

constexpr int64_t kMaxSamples = RoutingCase::kMaxSamples, kRoutedWidth = 2;

// Memory of a device for one rank's routing.
class RoutedRank {
 public:
  RoutedRank(const OpDevice& on, const RowPlacement& placement, int64_t capacity)
      : exec_(on.exec()),
        layout_(placement.layout()),
        shape_{.ranks = placement.ranks(),
               .capacity = capacity,
               .replicated_capacity =
                   std::min(placement.replicated_rows(), kMaxSamples * layout_.columns()),
               .width = kRoutedWidth,
               .hashed_tables = placement.hashed() ? layout_.tables() : 0},
        placement_(exec_, placement),
        slots_(exec_, layout_),
        workspace_(exec_,
                   routing_workspace(exec_, slots_.ref(), placement.ranks(), kMaxSamples,
                                     placement_.ref().numbers,
                                     on.on_gpu() ? 1 : exec_.threads().threads()),
                   "routing") {
    Cutter counting(nullptr);
    cut(counting);
    memory_ = ExecMemory(exec_, counting.bytes(), "routing");
    Cutter cutter(memory_.data());
    cut(cutter);
  }
  void route(Matrix<const uint32_t> keys) {
    put_bytes(exec_, keys_, keys.data(), static_cast<size_t>(keys.size()) * 4);
    batch_ = keys.dim(0);
    route_keys(exec_, {.slots = slots_.ref(),
                       .placement = placement_.ref(),
                       .shape = shape_,
                       .keys = {keys_, batch_, layout_.keys.columns},
                       .entries = {entries_, batch_, layout_.keys.columns},
                       .lists = lists_,
                       .workspace = workspace_.data(),
                       .workspace_bytes = workspace_.size()});
  }
  template <typename T>
  [[nodiscard]] std::vector<T> get(const T* from, int64_t n) const {
    std::vector<T> values(static_cast<size_t>(n));
    get_bytes(exec_, values.data(), from, values.size() * sizeof(T));
    return values;
  }
  [[nodiscard]] std::vector<uint32_t> block(int rank) const {
    return get(lists_.blocks + rank * shape_.block_words(), shape_.block_words());
  }
  [[nodiscard]] std::vector<uint32_t> entries() const {
    return get(entries_, batch_ * layout_.keys.columns);
  }
  [[nodiscard]] std::vector<uint32_t> replicated() const {
    return get(lists_.replicated, get(lists_.counts, shape_.ranks + 1).back());
  }
  [[nodiscard]] const RequestLists& lists() const { return lists_; }
  [[nodiscard]] const ExchangeShape& shape() const { return shape_; }

 private:
  void cut(Cutter& cutter) {
    keys_ = cutter.cut<uint32_t>(kMaxSamples * layout_.keys.columns);
    entries_ = cutter.cut<uint32_t>(kMaxSamples * layout_.keys.columns);
    lists_ = {.blocks = cutter.cut<uint32_t>(shape_.ranks * shape_.block_words()),
              .list_bytes = cutter.cut<int64_t>(shape_.ranks),
              .replicated = cutter.cut<uint32_t>(shape_.replicated_capacity),
              .counts = cutter.cut<uint32_t>(shape_.ranks + 1),
              .vector_bytes = cutter.cut<int64_t>(shape_.ranks)};
  }
  const Exec exec_;
  const SlotLayout layout_;
  const ExchangeShape shape_;
  DevicePlacement placement_;
  DeviceSlots slots_;
  ExecMemory workspace_, memory_;
  uint32_t *keys_ = nullptr, *entries_ = nullptr;
  RequestLists lists_;
  int64_t batch_ = 0;
};

void check_lists(const ExpectedRoute& want, const RoutedRank& rank) {
  const ExchangeShape& shape = rank.shape();
  const auto counts = rank.get(rank.lists().counts, shape.ranks + 1);
  const auto list_bytes = rank.get(rank.lists().list_bytes, shape.ranks);
  const auto vector_bytes = rank.get(rank.lists().vector_bytes, shape.ranks);
  const bool fits = want.longest() <= shape.capacity;
  for (int q = 0; q < shape.ranks; ++q) {
    const auto i = static_cast<size_t>(q);
    const auto& list = want.lists[i];
    const auto block = rank.block(q);
    CHECK((block[0] | uint64_t{block[1]} << 32) == static_cast<uint64_t>(want.longest()));
    const int64_t listed = std::min(std::ssize(list), shape.capacity);
    CHECK(counts[i] == listed);
    CHECK(vector_bytes[i] == listed * kRoutedWidth * 4);
    CHECK(list_bytes[i] == 4 * (shape.header_words() + (fits ? std::ssize(list) : 0)));
    CHECK(std::equal(list.begin(), list.begin() + listed, block.begin() + shape.header_words()));
    uint32_t end = 0;  // of each table's keys, where they are listed
    for (int64_t t = 0; t < shape.hashed_tables; ++t) {
      for (const auto& [key, row] : want.rows[static_cast<size_t>(t)]) end += row.rank == q ? 1 : 0;
      CHECK(block[static_cast<size_t>(kListHeader + t)] == end);
    }
  }
  if (fits) {
    auto replicated = rank.replicated();  // in any order
    std::sort(replicated.begin(), replicated.end());
    CHECK(replicated == want.replicated);
  }
}

// Every lookup's received row.
bool entries_are(const ExpectedRoute& want, const RoutedRank& rank, const SlotLayout& layout,
                 Matrix<const uint32_t> keys) {
  const ExchangeShape& shape = rank.shape();
  const auto got = rank.entries(), replicated = rank.replicated();
  bool good = true;
  for (int64_t s = 0; s < layout.slots(); ++s)
    for (int64_t b = 0; b < keys.dim(0); ++b)
      for (int64_t c = layout.column(s); c < layout.column(s) + layout.hotness(s); ++c) {
        const uint32_t entry = got[static_cast<size_t>(b * layout.keys.columns + c)];
        if (keys(b, c) == kNoKey) {
          good &= entry == kNoKey;
          continue;
        }
        const ExpectedRoute::Row& row =
            want.rows[static_cast<size_t>(layout.table_of[static_cast<size_t>(s)])].at(keys(b, c));
        const auto copy = std::find(replicated.begin(), replicated.end(), row.at);
        good &= entry == (row.rank < 0 ? shape.list_capacity() + (copy - replicated.begin())
                                       : row.rank * shape.capacity + row.at);
      }
  return good;
}

}  // namespace

TEST_CASE("random batches are routed as the definition says, number by number", "[gpu]") {
  const auto devices = op_devices<float>();
  for (uint64_t round = 0; round < 24; ++round) {
    RoutingCase random(round, kRoutedWidth);
    const int64_t capacity =
        round % 4 == 3 ? 1 + random.draw(20) : kMaxSamples * random.tables().columns();
    const RowPlacement hashed = random.hashed_placement();
    const RowPlacement& placement = round % 3 == 2 ? hashed : random.placement();
    for (const OpDevice& on : devices) {
      RoutedRank rank(on, placement, capacity);
      for (const int64_t batch : {kMaxSamples, int64_t{0}, int64_t{1}, int64_t{40}}) {
        INFO(on.name() << ", round " << round << ", batch " << batch);
        const auto keys = random.keys(batch);
        const ExpectedRoute want(placement, keys.view());
        rank.route(keys.view());
        check_lists(want, rank);
        if (want.longest() <= capacity)
          CHECK(entries_are(want, rank, random.tables(), keys.view()));
      }
    }
  }
}

TEST_CASE("requests are read from the lists of all ranks, and all learn of a list that is too long",
          "[gpu]") {
  constexpr int32_t kRanks = 3;
  const ExchangeShape shape{
      .ranks = kRanks, .capacity = 4, .replicated_capacity = 0, .width = kRoutedWidth};
  for (const OpDevice& on : op_devices<float>())
    for (const uint32_t longest : {4u, 5u}) {
      INFO(on.name() << ", longest " << longest);
      const Exec& exec = on.exec();
      const uint32_t x = 77;  // after a list's end
      const DeviceTensor<uint32_t> blocks(
          on, {2, 0, 8, 9, x, x, longest, 0, 1, 2, 3, 4, 0, 0, x, x, x, x});
      const DeviceTensor<int64_t> received(on,
                                           {(2 + 2) * 4, longest > 4 ? 2 * 4 : (2 + 4) * 4, 2 * 4});
      DeviceTensor<int64_t> sent(on, {8, 12, 16}), wanted_bytes(on, {0, 8, 16}),
          bytes(on, {-1, -1, -1}), needed(on, {-1});
      DeviceTensor<uint32_t> own_counts(on, {0, 1, 2, 0}), rows(on, std::vector<uint32_t>(12, x)),
          counts(on, {x, x, x});
      DeviceTensor<int32_t> capacity_exceeded(on, {0});
      std::array<PeerCounts, kRanks> total;
      const ExecMemory totals(exec, sizeof(total), "totals");
      put_bytes(exec, totals.data(), total.data(), sizeof(total));
      for (const bool training : {true, false})
        take_lists(exec, {.shape = shape,
                          .blocks = blocks.data(),
                          .received_bytes = received.data(),
                          .lists = {.list_bytes = sent.data(),
                                    .counts = own_counts.data(),
                                    .vector_bytes = wanted_bytes.data()},
                          .requested = {rows.data(), counts.data(), bytes.data(), needed.data()},
                          .capacity_exceeded = capacity_exceeded.data(),
                          .counts = reinterpret_cast<PeerCounts*>(totals.data()),
                          .training = training});
      get_bytes(exec, total.data(), totals.data(), sizeof(total));
      const bool fits = longest <= 4;
      CHECK(capacity_exceeded.host()[0] == (fits ? 0 : 1));
      CHECK(needed.host()[0] == longest);
      const uint32_t none = kNoKey;
      CHECK(rows.host() ==
            (fits ? std::vector<uint32_t>{8, 9, none, none, 1, 2, 3, 4, none, none, none, none}
                  : std::vector<uint32_t>(12, none)));
      CHECK(counts.host() == (fits ? std::vector<uint32_t>{2, 4, 0} : std::vector<uint32_t>(3, 0)));
      CHECK(bytes.host() == (fits ? std::vector<int64_t>{16, 32, 0} : std::vector<int64_t>(3, 0)));
      CHECK(total[1].keys.sent == 2 * 12);
      CHECK(total[0].keys.received == 2 * 16);
      CHECK(total[2].keys.messages == 2);
      CHECK(total[1].rows.sent == (fits ? 2 * 32 : 0));
      CHECK(total[2].rows.messages == 0);
      CHECK(total[1].rows.received == (fits ? 2 * 8 : 0));
      CHECK(total[1].grads.sent == (fits ? 8 : 0));
      CHECK(total[0].grads.messages == 0);
      CHECK(total[1].grads.received == (fits ? 32 : 0));
    }
}

TEST_CASE("keys that ranks request are read with their tables", "[gpu]") {
  constexpr int32_t kRanks = 2;
  const ExchangeShape shape{
      .ranks = kRanks, .capacity = 3, .width = kRoutedWidth, .hashed_tables = 4};
  for (const OpDevice& on : op_devices<float>())
    for (const uint32_t longest : {3u, 4u}) {
      INFO(on.name() << ", longest " << longest);
      const uint32_t x = 77;
      // After the longest list: where tables 0 to 3 end.
      const DeviceTensor<uint32_t> blocks(
          on, {longest, 0, 0, 2, 2, 3, 8, 9, 8, 1, 0, 0, 0, 0, 1, 5, x, x});
      const bool fits = longest <= 3;
      const DeviceTensor<int64_t> received(on,
                                           {(6 + (fits ? 3 : 0)) * 4, (6 + (fits ? 1 : 0)) * 4});
      const DeviceTensor<int64_t> sent(on, {24, 24}), wanted_bytes(on, {0, 0}), needed(on, {-1}),
          bytes(on, {-1, -1});
      const DeviceTensor<uint32_t> own_counts(on, {0, 0, 0}), counts(on, {x, x}),
          keys(on, std::vector<uint32_t>(6, x)), tables(on, std::vector<uint32_t>(6, x));
      const DeviceTensor<int32_t> capacity_exceeded(on, {0});
      const std::array<PeerCounts, kRanks> none_yet;
      const ExecMemory totals(on.exec(), sizeof(none_yet), "totals");
      put_bytes(on.exec(), totals.data(), none_yet.data(), sizeof(none_yet));
      take_lists(on.exec(), {.shape = shape,
                             .blocks = blocks.data(),
                             .received_bytes = received.data(),
                             .lists = {.list_bytes = sent.data(),
                                       .counts = own_counts.data(),
                                       .vector_bytes = wanted_bytes.data()},
                             .requested = {.counts = counts.data(),
                                           .vector_bytes = bytes.data(),
                                           .needed = needed.data(),
                                           .keys = keys.data(),
                                           .tables = tables.data()},
                             .capacity_exceeded = capacity_exceeded.data(),
                             .counts = reinterpret_cast<PeerCounts*>(totals.data())});
      const uint32_t none = kNoKey;
      CHECK(keys.host() == (fits ? std::vector<uint32_t>{8, 9, 8, 5, none, none}
                                 : std::vector<uint32_t>(6, none)));
      if (fits) {
        const auto got = tables.host();
        CHECK(std::vector<uint32_t>(got.begin(), got.begin() + 4) ==
              std::vector<uint32_t>{1, 1, 3, 3});
      }
      CHECK(counts.host() == (fits ? std::vector<uint32_t>{3, 1} : std::vector<uint32_t>(2, 0)));
      CHECK(capacity_exceeded.host()[0] == (fits ? 0 : 1));
    }
}

}  // namespace hlite::test
