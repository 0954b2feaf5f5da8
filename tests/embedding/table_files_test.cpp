// What TableFiles give and takes by name is the same table, wherever its rows lie.
#include <array>
#include <numeric>

#include "embedding/slots_ref.h"
#include "embedding/table_files.h"
#include "hugectr_lite/comm/thread_communicator.h"
#include "tests/support/catch.h"

namespace hlite::embedding {
namespace {

constexpr int64_t kFileWidth = 3;

using optimizer::OptimizerType;

TablesSpec spec_of(std::vector<int64_t> rows, OptimizerType type = OptimizerType::kAdaGrad) {
  return {.name = "emb",
          .layout = SlotLayout(std::move(rows), kFileWidth),
          .rule = {.type = type, .initial_accumulator = 0.25},
          .seed = 5};
}

// Element i of a tensor's number t.
std::vector<float> numbered(size_t t, int64_t size) {
  std::vector<float> values(static_cast<size_t>(size));
  std::iota(values.begin(), values.end(), static_cast<float>(1000 * (t + 1)));
  return values;
}

// One rank's storage, with memory.
struct Held {
  Held(const TablesSpec& spec, const std::shared_ptr<const RowPlacement>& placement,
       comm::Communicator& world)
      : storage(spec, {.ranks = {.rank = world.rank(),
                                 .topology = std::make_shared<comm::Topology>(world.topology()),
                                 .world = &world},
                       .placement = placement}),
        files(spec, storage) {
    storage.declare(buffers);
    buffers.allocate();
  }
  [[nodiscard]] std::vector<TensorRef> tensors(const TableFiles::Keys& keys = nullptr) const {
    auto all = files.tables(keys);
    for (auto& state : files.states(keys)) all.push_back(std::move(state));
    return all;
  }
  ThreadPool pool{1};
  plan::Buffers buffers;
  TableStorage storage;
  const TableFiles files;
};

// Puts and gets every tensor in pieces of `piece` elements, which cut rows; returns what rank 0
// got.
std::vector<std::vector<float>> through(const std::vector<TensorRef>& tensors, int64_t piece,
                                        int rank) {
  std::vector<std::vector<float>> got;
  for (size_t t = 0; t < tensors.size(); ++t) {
    const TensorRef& tensor = tensors[t];
    auto values = numbered(t, tensor.size());
    for (int64_t at = 0; at < tensor.size(); at += piece)
      tensor.put(
          at, std::span(values).subspan(static_cast<size_t>(at),
                                        static_cast<size_t>(std::min(piece, tensor.size() - at))));
    std::fill(values.begin(), values.end(), -1.0f);
    for (int64_t at = 0; at < tensor.size(); at += piece)
      tensor.get(
          at, std::span(values).subspan(static_cast<size_t>(at),
                                        static_cast<size_t>(std::min(piece, tensor.size() - at))));
    if (rank == 0) got.push_back(std::move(values));
  }
  return got;
}

void check_through(const TablesSpec& spec, const RowPlacement& placement) {
  const auto shared = std::make_shared<const RowPlacement>(placement);
  for (const int64_t piece : {1, 2, 7, 1000}) {
    INFO(placement.ranks() << " ranks, pieces of " << piece);
    std::vector<std::vector<float>> got;
    std::vector<std::string> names;
    comm::run_ranks(placement.ranks(), [&](comm::Communicator& world) {
      const Held held(spec, shared, world);
      auto of_rank = through(held.tensors(), piece, world.rank());
      if (world.rank() != 0) return;
      got = std::move(of_rank);
      for (const TensorRef& tensor : held.tensors()) names.push_back(tensor.name);
    });
    CHECK((names == std::vector<std::string>{"emb.table_0", "emb.table_1", "emb.table_2",
                                             "emb.table_0.accumulator", "emb.table_1.accumulator",
                                             "emb.table_2.accumulator"}));
    REQUIRE(got.size() == 6);
    const int64_t state_width = optimizer::state_width(spec.rule.type, 0, kFileWidth);
    for (size_t t = 0; t < got.size(); ++t)
      CHECK((got[t] == numbered(t, spec.layout.rows[t % 3] * (t < 3 ? kFileWidth : state_width))));
  }
}

}  // namespace

TEST_CASE("tables on ranks, split over them or copied are whole tables in files", "[threads]") {
  const TablesSpec spec =
      spec_of({7, 1, 5}, GENERATE(OptimizerType::kAdaGrad, OptimizerType::kRowWiseAdaGrad));
  check_through(spec, RowPlacement::by_table(spec.layout, {{0}, {1}, {2, 0}}, 3));
  check_through(spec, RowPlacement::by_table(spec.layout, {{1, 0}, {}, {}}, 2));
  check_through(spec, RowPlacement::by_table(spec.layout, {{0}, {0}, {0}}, 1));
}

TEST_CASE("categories over ranks, frequent ones on all, are whole tables in files", "[threads]") {
  const TablesSpec spec =
      spec_of({7, 1, 5}, GENERATE(OptimizerType::kAdaGrad, OptimizerType::kRowWiseAdaGrad));
  const auto statistics = FrequencyStatistics::of_lookups({0, 0, 3, 3, 7, 7, 9, 9, 9});
  for (const int ranks : {2, 3, 7})
    check_through(
        spec, RowPlacement::by_category(spec.layout, CategoryModel(spec.layout, ranks, statistics,
                                                                   2, spec.layout.total_rows)));
}

TEST_CASE("hashed rows are in a file in the order of keys, with their keys", "[threads]") {
  TablesSpec spec = spec_of({int64_t{kNoKey}, int64_t{kNoKey}});
  spec.hash_capacity = 4;
  spec.init_rows = {4, 4};
  constexpr int kRanks = 2;
  const auto placement = std::make_shared<const RowPlacement>(
      RowPlacement::by_key(spec.layout, kRanks, spec.hash_capacity, KeyOwner::kByKey));
  // Key k on rank k mod 2, in a row that only this rank knows.
  const std::vector<std::vector<uint32_t>> keys = {{2, 3, 9}, {4}};
  const std::array<std::vector<std::vector<uint32_t>>, kRanks> rows = {
      {{{1, kNoRow, kNoRow}, {3}}, {{kNoRow, 2, 0}, {kNoRow}}}};
  std::vector<std::vector<float>> got;
  std::vector<std::vector<uint32_t>> got_keys;
  std::array<std::vector<float>, kRanks> held_rows;
  comm::run_ranks(kRanks, [&](comm::Communicator& world) {
    const Held held(spec, placement, world);
    const auto r = static_cast<size_t>(world.rank());
    const auto of_rank = std::make_shared<const FileKeys>(FileKeys{keys, rows[r]});
    auto tensors = held.files.tables(of_rank);
    std::vector<TensorRef> of_keys(tensors.begin() + 2, tensors.end());
    tensors.resize(2);
    auto values = through(tensors, 2, world.rank());
    const auto own = held.storage.own().w.as<float>();
    held_rows[r].assign(own.data(), own.data() + own.size());
    if (world.rank() != 0) return;
    got = std::move(values);
    for (const TensorRef& tensor : of_keys) {
      auto& list = got_keys.emplace_back(static_cast<size_t>(tensor.size()));
      tensor.get(0, {reinterpret_cast<float*>(list.data()), list.size()});
    }
  });
  REQUIRE(got.size() == 2);
  CHECK((got[0] == numbered(0, 3 * kFileWidth)));
  CHECK((got[1] == numbered(1, kFileWidth)));
  CHECK((got_keys == keys));
  // Row 1 of rank 0 is key 2, the first of slot 0; its row 3 is key 4 of slot 1.
  CHECK((held_rows[0] == std::vector<float>{0, 0, 0, 1000, 1001, 1002, 0, 0, 0, 2000, 2001, 2002}));
  CHECK((held_rows[1] == std::vector<float>{1006, 1007, 1008, 0, 0, 0, 1003, 1004, 1005, 0, 0, 0}));
}

}  // namespace hlite::embedding
