// An iteration of a layer's tables on one rank (LocalSteps) and on several (ShardedSteps).
#include "embedding/table_steps.h"

#include <algorithm>
#include <array>

#include "embedding/embedding_tables.h"
#include "hugectr_lite/comm/thread_communicator.h"
#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"

namespace hlite::embedding {
namespace {

constexpr int64_t kStepWidth = 3, kStepBatch = 5;  // samples of one rank
constexpr float kStepRate = 0.5f;

TablesSpec steps_spec() {
  return {.name = "emb",
          .layout = SlotLayout({11, 1, 5}, kStepWidth),
          .rule = {.type = optimizer::OptimizerType::kSgd},
          .seed = 9};
}

uint32_t key_of(int rank, int64_t sample, int64_t slot) {
  return random::word(1, static_cast<uint64_t>(rank), static_cast<uint64_t>(sample * 3 + slot)) %
         static_cast<uint32_t>(steps_spec().layout.rows[static_cast<size_t>(slot)]);
}
// Small whole numbers: their sums, and half of those, are exact.
float gradient_of(int rank, int64_t element) {
  return static_cast<float>(
             random::word(2, static_cast<uint64_t>(rank), static_cast<uint64_t>(element)) % 9) -
         4;
}

// All rows of all tables, as rank 0 gets them; collective.
std::vector<float> rows_of(const EmbeddingTables& tables) {
  std::vector<float> all;
  for (const TensorRef& tensor : tables.tables()) {
    std::vector<float> rows(static_cast<size_t>(tensor.size()));
    if (tensor.data)
      std::copy_n(tensor.data, tensor.size(), rows.begin());
    else
      tensor.get(0, rows);
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

// A rank's tables with what an iteration needs.
class StepsOfRank {
 public:
  StepsOfRank(comm::Communicator& world, int64_t capacity)
      : rank_(world.rank()), tables_(steps_spec(), place_of(world, capacity)) {
    tables_.declare(buffers_);
    const auto add = [&](const char* name, plan::BufferKind kind, int64_t bytes) {
      return buffers_.add(name, kind, bytes);
    };
    io_.keys = add("keys", plan::BufferKind::kInput, kStepBatch * 3 * 4);
    io_.output = add("output", plan::BufferKind::kActivation, kStepBatch * 3 * kStepWidth * 4);
    io_.grad = add("grad", plan::BufferKind::kGradient, kStepBatch * 3 * kStepWidth * 4);
    io_.rate = add("rate", plan::BufferKind::kState, 4);
    io_.step = add("step", plan::BufferKind::kState, 8);
    if (world.size() > 1) io_.overflow = add("overflow", plan::BufferKind::kState, 4);
    tables_.steps().emit_forward(plan_, io_);
    tables_.steps().emit_backward(plan_, io_);
    tables_.steps().emit_update(plan_, io_);
    buffers_.allocate();
    tables_.prepare();
    tables_.initialize(exec_);
    *buffers_.data<float>(io_.rate) = kStepRate;
    *buffers_.data<int64_t>(io_.step) = 1;
  }

  // Returns what was looked up.
  std::vector<float> iterate(int64_t samples) {
    for (int64_t i = 0; i < samples * 3; ++i)
      buffers_.data<uint32_t>(io_.keys)[i] = key_of(rank_, i / 3, i % 3);
    for (int64_t i = 0; i < samples * 3 * kStepWidth; ++i)
      buffers_.data<float>(io_.grad)[i] = gradient_of(rank_, i);
    plan::run_in_order(plan_, {.exec = exec_, .batch = samples});
    const float* const out = buffers_.data<float>(io_.output);
    return {out, out + samples * 3 * kStepWidth};
  }
  [[nodiscard]] EmbeddingTables& tables() { return tables_; }
  // Whether the last run counts for nothing; clears that.
  bool take_overflow() { return std::exchange(*buffers_.data<int32_t>(io_.overflow), 0) != 0; }

 private:
  static TablesPlace place_of(comm::Communicator& world, int64_t capacity) {
    const int n = world.size();
    TablesPlace place{.ranks = {.rank = world.rank(),
                                .topology = std::make_shared<comm::Topology>(world.topology()),
                                .world = &world},
                      .exchange = {.capacity = capacity},
                      .max_batch = kStepBatch,
                      .train_batch = kStepBatch};
    std::vector<int> all;
    for (int q = 0; q < n; ++q) all.push_back(q);
    if (n > 1)
      place.placement = std::make_shared<RowPlacement>(
          RowPlacement::by_table(steps_spec().layout, {all, {n - 1}, {0}}, n));
    return place;
  }

  int rank_;
  ThreadPool pool_{1};
  Exec exec_{.pool = &pool_};
  plan::Buffers buffers_;
  plan::Plan plan_{buffers_};
  EmbeddingTables tables_;
  TablesIo io_;
};

// Row `key` of a slot among all rows.
std::ptrdiff_t place_in(const SlotLayout& layout, int64_t slot, uint32_t key) {
  return (layout.offset[static_cast<size_t>(slot)] + key) * kStepWidth;
}

// The tables after an iteration in which each rank had so many samples, from the first values.
std::vector<float> updated(std::vector<float> rows, const std::vector<int64_t>& samples) {
  const SlotLayout layout = steps_spec().layout;
  std::vector<float> sums(rows.size());
  for (size_t q = 0; q < samples.size(); ++q)
    for (int64_t i = 0; i < samples[q] * 3; ++i)
      for (int64_t v = 0; v < kStepWidth; ++v)
        sums[static_cast<size_t>(
            place_in(layout, i % 3, key_of(static_cast<int>(q), i / 3, i % 3)) + v)] +=
            gradient_of(static_cast<int>(q), i * kStepWidth + v);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] -= kStepRate * sums[i];
  return rows;
}

std::vector<float> first_values() {
  ThreadPool pool(1);
  const TablesSpec of = steps_spec();
  std::vector<float> rows(static_cast<size_t>(of.layout.total_rows * kStepWidth));
  init_tables({.pool = &pool}, of.seed, of.name, of.layout,
              {rows.data(), of.layout.total_rows, kStepWidth});
  return rows;
}

}  // namespace

TEST_CASE("rows are looked up and updated as the definition says, on any ranks") {
  const auto first = first_values();
  const SlotLayout layout = steps_spec().layout;
  for (const int ranks : {1, 2, 3, 7}) {
    INFO(ranks << " ranks");
    std::vector<int64_t> samples;
    for (int q = 0; q < ranks; ++q)
      samples.push_back((kStepBatch + q) % (kStepBatch + 1));  // of one: none
    std::vector<std::vector<float>> looked_up(static_cast<size_t>(ranks));
    std::vector<float> after;
    comm::run_ranks(ranks, [&](comm::Communicator& world) {
      const auto q = static_cast<size_t>(world.rank());
      StepsOfRank rank(world, 0);
      looked_up[q] = rank.iterate(samples[q]);
      auto rows = rows_of(rank.tables());
      if (q == 0) after = std::move(rows);
    });
    for (int q = 0; q < ranks; ++q) {
      std::vector<float> want;
      for (int64_t i = 0; i < samples[static_cast<size_t>(q)] * 3; ++i) {
        const auto row = first.begin() + place_in(layout, i % 3, key_of(q, i / 3, i % 3));
        want.insert(want.end(), row, row + kStepWidth);
      }
      CHECK((looked_up[static_cast<size_t>(q)] == want));
    }
    CHECK((after == updated(first, samples)));
  }
}

TEST_CASE("lists that do not fit leave the tables alone on all ranks, and fit once room is made") {
  constexpr int kRanks = 3;
  std::array<std::vector<float>, 3> rows;  // of rank 0: at first, after that run, after the next
  std::array<std::string, kRanks> grown;
  std::array<std::array<bool, 2>, kRanks> overflow{};
  comm::run_ranks(kRanks, [&](comm::Communicator& world) {
    const auto q = static_cast<size_t>(world.rank());
    StepsOfRank rank(world, 1);
    const auto keep = [&](size_t i) {
      auto now = rows_of(rank.tables());
      if (q == 0) rows[i] = std::move(now);
    };
    keep(0);
    (void)rank.iterate(kStepBatch);
    overflow[q][0] = rank.take_overflow();
    keep(1);
    grown[q] = rank.tables().sharded()->grow();
    (void)rank.iterate(kStepBatch);
    overflow[q][1] = rank.take_overflow();
    keep(2);
  });
  CHECK((rows[0] == first_values()));
  CHECK((rows[1] == rows[0]));
  CHECK((rows[2] == updated(rows[0], {kStepBatch, kStepBatch, kStepBatch})));
  for (size_t q = 0; q < kRanks; ++q) {
    CHECK(overflow[q] == std::array{true, false});
    CHECK(grown[q] == grown[0]);
    CHECK(grown[q].find("room for 1;") != std::string::npos);
  }
}

}  // namespace hlite::embedding
