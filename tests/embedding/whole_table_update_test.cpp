// Gradients of whole tables against sums by hand, and the step of every row against the rule.
#include "embedding/whole_table_update.h"

#include <algorithm>
#include <numeric>

#include "embedding/embedding_tables.h"
#include "hugectr_lite/core/random.h"
#include "tests/optimizer/rule_oracle.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

namespace hlite::embedding {
namespace {

constexpr int64_t kWholeWidth = 5, kWholeBatch = 7, kWholeSlots = 2;
constexpr float kWholeRate = 0.25f;

const optimizer::UpdateRule kWholeRule{
    .type = optimizer::OptimizerType::kAdam, .beta1 = 0.75, .beta2 = 0.875, .epsilon = 1e-3};

TablesSpec whole_spec(const optimizer::UpdateRule& rule) {
  return {.name = "emb",
          .layout = SlotLayout({11, 1}, kWholeWidth),
          .rule = rule,
          .update_type = optimizer::UpdateType::kGlobal,
          .seed = 9,
          .whole_gradients = true};
}

// Tables of one rank with what an iteration needs.
struct WholeTables {
  ThreadPool pool{2};
  const Exec exec{.pool = &pool};
  plan::Buffers buffers;
  plan::Plan plan{buffers};
  EmbeddingTables tables;
  TablesIo io;
  WholeGradients whole;

  explicit WholeTables(const optimizer::UpdateRule& rule = kWholeRule)
      : tables(whole_spec(rule),
               {.max_batch = kWholeBatch, .train_batch = kWholeBatch, .threads = 2}) {
    tables.declare(buffers);
    const auto add = [&](const char* name, plan::BufferKind kind, int64_t bytes) {
      return buffers.add(name, kind, bytes);
    };
    const int64_t vectors = kWholeBatch * kWholeSlots * kWholeWidth * 4;
    io.keys = add("keys", plan::BufferKind::kInput, kWholeBatch * kWholeSlots * 4);
    io.grad = add("grad", plan::BufferKind::kState, vectors);
    io.rate = add("rate", plan::BufferKind::kState, 4);
    io.step = add("step", plan::BufferKind::kState, 8);
    io.capacity_exceeded = add("capacity_exceeded", plan::BufferKind::kState, 4);
    io.clip = add("clip", plan::BufferKind::kState, 4);
    tables.steps().emit_backward(plan, io);
    tables.steps().emit_update(plan, io);
    plan.finalize();
    buffers.allocate();
    tables.prepare();
    tables.initialize(exec);
    REQUIRE(tables.steps().whole_gradients().size() == 1);
    whole = tables.steps().whole_gradients()[0];
    *buffers.data<float>(io.rate) = kWholeRate;
    *buffers.data<int64_t>(io.step) = 0;
    *buffers.data<int32_t>(io.capacity_exceeded) = 0;
    *buffers.data<float>(io.clip) = 1;
  }

  // An iteration of `samples` of them; returns the gradient of each element, which is exact: sums
  // of small whole numbers.
  std::vector<double> iterate(int64_t samples) {
    const int64_t t = ++*buffers.data<int64_t>(io.step);
    std::vector<double> sums(static_cast<size_t>(12 * kWholeWidth));
    uint64_t n = 0;
    const auto draw = [&](uint32_t below) {
      return random::word(3, static_cast<uint64_t>(t), n++) % below;
    };
    for (int64_t b = 0; b < samples; ++b)
      for (int64_t s = 0; s < kWholeSlots; ++s) {
        const uint32_t key = s == 0 ? draw(10) : 0;  // row 10 is never looked up
        buffers.data<uint32_t>(io.keys)[b * kWholeSlots + s] = key;
        const int64_t row = s == 0 ? key : 11;
        for (int64_t j = 0; j < kWholeWidth; ++j) {
          const float g = static_cast<float>(draw(9)) - 4;
          buffers.data<float>(io.grad)[(b * kWholeSlots + s) * kWholeWidth + j] = g;
          sums[static_cast<size_t>(row * kWholeWidth + j)] += g;
        }
      }
    plan::run_in_order(plan, {.exec = exec, .batch = samples});
    return sums;
  }
  [[nodiscard]] std::vector<float> floats(plan::BufferId id) const {
    const float* const from = buffers.data<float>(id);
    return {from, from + 12 * kWholeWidth};
  }
};

}  // namespace

TEST_CASE("whole gradients are the sums of each row, anew in each iteration", "[threads]") {
  WholeTables t;
  CHECK(t.whole.count == 12 * kWholeWidth);
  CHECK(!t.whole.replicated);
  for (const int64_t samples : {kWholeBatch, int64_t{3}, int64_t{0}}) {
    const std::vector<double> want = t.iterate(samples);
    const std::vector<float> got = t.floats(t.whole.gradients);
    CHECK(std::equal(got.begin(), got.end(), want.begin()));
    CHECK((samples == 0) == std::all_of(got.begin(), got.end(), [](float g) { return g == 0; }));
  }
}

TEST_CASE("a whole table takes the rule's step in every row, of clipped gradients", "[threads]") {
  const size_t kind = GENERATE(0, 7, 10);
  const auto rule = kind == 0 ? kWholeRule : test::all_rules()[kind];
  WholeTables t(rule);
  test::RuleOracle oracle(rule, t.floats(t.whole.weights), kWholeWidth);
  for (const double clip : {1.0, 0.5, 1.0}) {
    *t.buffers.data<float>(t.io.clip) = static_cast<float>(clip);
    std::vector<double> g = t.iterate(kWholeBatch - 1);
    for (double& x : g) x *= clip;
    for (size_t row = 0; row < 12; ++row)
      oracle.step_row(kWholeRate, *t.buffers.data<int64_t>(t.io.step), row,
                      std::span(g).subspan(row * kWholeWidth, kWholeWidth));
    test::check_close(t.floats(t.whole.weights), oracle.w, {.absolute = 2e-6, .relative = 2e-6});
  }
}

TEST_CASE("a run that counts for nothing leaves a whole table as it was", "[threads]") {
  WholeTables t;
  t.iterate(kWholeBatch);
  const std::vector<float> before = t.floats(t.whole.weights);
  *t.buffers.data<int32_t>(t.io.capacity_exceeded) = 1;
  t.iterate(kWholeBatch);
  CHECK((t.floats(t.whole.weights) == before));
  *t.buffers.data<int32_t>(t.io.capacity_exceeded) = 0;
  t.iterate(kWholeBatch);
  CHECK((t.floats(t.whole.weights) != before));
}

}  // namespace hlite::embedding
