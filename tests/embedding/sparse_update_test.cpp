#include "embedding/sparse_update.h"

#include <algorithm>
#include <string>
#include <vector>

#include "embedding/device_slots.h"
#include "tests/embedding/hashed_case.h"
#include "tests/embedding/lookup_case.h"
#include "tests/optimizer/rule_oracle.h"
#include "tests/support/catch.h"

using namespace hlite;
using embedding::SparseUpdate;
using optimizer::OptimizerType;
using optimizer::UpdateRule;
using optimizer::UpdateType;

namespace {
constexpr int64_t kSteps = 3;

// Steps on the CPU, both halves at once.
class Stepper {
 public:
  Stepper(const embedding::SlotLayout& layout, const embedding::SparseUpdateOptions& how)
      : slots_({}, layout), update_({}, slots_.ref(), how) {}
  void step(ThreadPool& pool, float rate, int64_t step, Matrix<const uint32_t> keys,
            View<const float, 3> dout, const embedding::UpdatedRows& rows,
            const optimizer::GradientScale& scale = {}) {
    optimizer::StepScalars scalars;
    update_.sort({.pool = &pool}, keys, &rate, &step, &scalars);
    update_.update<float>({.pool = &pool}, dout, rows, scale);
  }

 private:
  const embedding::DeviceSlots slots_;
  SparseUpdate update_;
};

struct Trained {
  std::vector<float> table, state0, state1;
  bool operator==(const Trained&) const = default;
};

float rate_at(int64_t step) { return 0.05f / static_cast<float>(step); }

Trained train(test::LookupCase x, const UpdateRule& rule, UpdateType update_type, int threads) {
  ThreadPool pool(threads);
  Trained t{x.table, x.state(rule, 0), x.state(rule, 1)};
  Stepper sparse(x.layout,
                 {.rule = rule, .type = update_type, .max_batch = x.batch, .threads = threads});
  for (int64_t step = 1; step <= kSteps; ++step) {
    x.draw(static_cast<uint64_t>(step));
    sparse.step(pool, rate_at(step), step, x.keys_view(), x.dout_view(),
                {x.like_table(t.table), x.like_table(t.state0), x.like_table(t.state1)});
  }
  return t;
}

// The definition: a dense gradient in double, then the rule on all rows, or on those looked up.
test::RuleOracle train_densely(test::LookupCase x, const UpdateRule& rule, UpdateType update_type) {
  const int64_t width = x.layout.width;
  test::RuleOracle want(rule, x.table, width);
  for (int64_t step = 1; step <= kSteps; ++step) {
    x.draw(static_cast<uint64_t>(step));
    std::vector<double> gradient(x.table.size(), 0);
    std::vector<char> touched(static_cast<size_t>(x.layout.total_rows),
                              update_type == UpdateType::kGlobal);
    for (int64_t b = 0; b < x.batch; ++b)
      for (int64_t s = 0; s < x.layout.slots(); ++s) {
        const auto rows = x.rows_of(b, s);
        for (const int64_t row : rows) {
          touched[static_cast<size_t>(row)] = 1;
          for (int64_t j = 0; j < width; ++j)
            gradient[static_cast<size_t>(row * width + j)] +=
                static_cast<double>(x.dout_view()(b, s, j)) * x.weight(rows.size());
        }
      }
    for (size_t row = 0; row < touched.size(); ++row)
      if (touched[row])
        want.step_row(static_cast<double>(rate_at(step)), step, row,
                      std::span(gradient).subspan(row * want.width, want.width));
  }
  return want;
}

void check_against_oracle(const test::LookupCase& x, const UpdateRule& rule,
                          UpdateType update_type) {
  const Trained got = train(x, rule, update_type, 2);
  const test::RuleOracle want = train_densely(x, rule, update_type);
  // A lookup lost or counted twice is off by about 1.
  const test::Tolerance tolerance{.absolute = 5e-6, .relative = 1e-5};
  const std::string what =
      fmt::format("rule {}, update {}, slots {}, width {}, batch {}:", static_cast<int>(rule.type),
                  static_cast<int>(update_type), x.layout.slots(), x.layout.width, x.batch);
  test::check_close<const float, const double>(got.table, want.w, tolerance, what.c_str());
  if (!got.state0.empty())
    test::check_close<const float, const double>(got.state0, want.a, tolerance, what.c_str());
  if (!got.state1.empty())
    test::check_close<const float, const double>(
        got.state1, want.b, {test::state1_tolerance(rule, tolerance.absolute), tolerance.relative},
        what.c_str());
}
}  // namespace

TEST_CASE("SparseUpdate equals a dense update, for every rule and update type", "[threads]") {
  for (const UpdateRule& rule : test::all_rules())
    for (const UpdateType type : {UpdateType::kLocal, UpdateType::kGlobal})
      for (const int64_t width : {3, 16, 33})
        check_against_oracle({{1000, 3, 1, 257, 40}, width, 300}, rule, type);
}

TEST_CASE("SparseUpdate equals a dense update, for odd tables, widths and batches",
          "[no-tsan][threads]") {
  for (const UpdateRule& rule : {test::all_rules()[4], test::all_rules()[7], test::all_rules()[10]})
    for (const auto& rows : test::table_sizes())
      for (const int64_t width : {1, 3, 8, 16, 32, 33, 64, 128})
        for (const int64_t batch : {0, 1, 7, 211})
          check_against_oracle({rows, width, batch}, rule, UpdateType::kLocal);
  for (const auto& rows : test::table_sizes())
    check_against_oracle({rows, 8, 2048}, test::all_rules()[0], UpdateType::kLocal);
}

TEST_CASE("SparseUpdate of several keys a slot equals a dense update", "[threads]") {
  using embedding::Combiner;
  for (const UpdateRule& rule : test::all_rules())
    for (const UpdateType type : {UpdateType::kLocal, UpdateType::kGlobal})
      for (const Combiner combiner : {Combiner::kSum, Combiner::kMean})
        check_against_oracle({{1000, 3, 40}, 16, 200, {4, 1, 20}, combiner}, rule, type);
  const UpdateRule rule = test::all_rules()[4];
  for (const Combiner combiner : {Combiner::kSum, Combiner::kMean})
    for (const int64_t width : {1, 3, 33, 64, 128})
      for (const int64_t batch : {0, 1, 7, 101})
        check_against_oracle({{500, 2}, width, batch, {1, 5}, combiner}, rule, UpdateType::kLocal);
}

TEST_CASE("SparseUpdate of several keys a slot gives the same bits on any number of threads",
          "[threads]") {
  using embedding::Combiner;
  for (const UpdateRule& rule : test::all_rules())
    for (const UpdateType type : {UpdateType::kLocal, UpdateType::kGlobal})
      for (const Combiner combiner : {Combiner::kSum, Combiner::kMean}) {
        const test::LookupCase x({3000, 1, 5}, 16, 1000, {10, 1, 3}, combiner);
        const Trained one = train(x, rule, type, 1);
        CHECK(train(x, rule, type, 2) == one);
        CHECK(train(x, rule, type, 3) == one);
      }
}

TEST_CASE("SparseUpdate of slots that share tables equals a dense update", "[threads]") {
  using embedding::Combiner;
  for (const UpdateRule& rule : test::all_rules())
    for (const UpdateType type : {UpdateType::kLocal, UpdateType::kGlobal})
      for (const Combiner combiner : {Combiner::kSum, Combiner::kMean})
        for (const auto& hotness : {std::vector<int64_t>{1, 1, 1, 1, 1}, {4, 1, 20, 1, 2}}) {
          const test::LookupCase x({90, 3, 90, 7, 90}, 16, 200, hotness, combiner, {0, 1, 0, 2, 0});
          check_against_oracle(x, rule, type);
          const Trained one = train(x, rule, type, 1);
          CHECK(train(x, rule, type, 2) == one);
          CHECK(train(x, rule, type, 3) == one);
        }
}

TEST_CASE("two slots that share a table train it as one slot of both keys does, bit for bit",
          "[threads]") {
  ThreadPool pool(2);
  constexpr int64_t kBatch = 300, kWidth = 7;
  const test::LookupCase x({40, 40}, kWidth, kBatch, {1, 1}, embedding::Combiner::kSum, {0, 0});
  // The one slot's gradient goes to both keys: in two slots, it is that of either.
  std::vector<float> one_dout, two_dout;
  for (int64_t b = 0; b < kBatch; ++b) {
    const auto row = std::span(x.dout).subspan(static_cast<size_t>(b * 2 * kWidth), kWidth);
    one_dout.insert(one_dout.end(), row.begin(), row.end());
    for (int i = 0; i < 2; ++i) two_dout.insert(two_dout.end(), row.begin(), row.end());
  }
  for (const UpdateRule& rule : test::all_rules()) {
    const auto trained = [&](const embedding::SlotLayout& layout, std::vector<float>& dout) {
      Trained t{x.table, x.state(rule, 0), x.state(rule, 1)};
      Stepper sparse(layout, {.rule = rule, .max_batch = kBatch, .threads = 2});
      for (int64_t step = 1; step <= kSteps; ++step)
        sparse.step(pool, rate_at(step), step, x.keys_view(),
                    {dout.data(), kBatch, layout.slots(), kWidth},
                    {x.like_table(t.table), x.like_table(t.state0), x.like_table(t.state1)});
      return t;
    };
    const embedding::SlotLayout one({40}, kWidth, KeyLayout({3, 2, 2}), embedding::Combiner::kSum,
                                    1);
    CHECK(trained(x.layout, two_dout) == trained(one, one_dout));
  }
}

TEST_CASE("the mean of a hashed slot counts the keys that were refused a row", "[threads]") {
  constexpr int64_t kBatch = test::HashedCase::kMaxBatch, kWidth = 5, kCapacity = 300;
  ThreadPool pool(2);
  embedding::VocabularyRules rules;
  rules.admission = {.type = embedding::AdmissionType::kCount, .threshold = 2};
  test::HashedCase hashed({.pool = &pool}, {4, 1, 3}, kWidth, kCapacity, embedding::Combiner::kMean,
                          {}, rules);
  Stepper sparse(hashed.layout().pooled(kCapacity),
                 {.rule = {.type = OptimizerType::kSgd}, .max_batch = kBatch, .threads = 2});
  const int64_t slots = hashed.layout().slots();
  std::vector<float> table(kCapacity * kWidth, 1),
      dout(static_cast<size_t>(kBatch * slots * kWidth));
  std::vector<double> want(table.begin(), table.end());
  int64_t refused = 0;
  for (int64_t step = 1; step <= 4; ++step) {
    const auto round = static_cast<uint64_t>(step);
    hashed.set_iterations(step - 1);
    const std::vector<uint32_t> keys = hashed.draw(kBatch, 60, round),
                                rows = hashed.find_rows(keys, /*training=*/true);
    test::fill_random(dout, round);
    sparse.step(pool, rate_at(step), step, {rows.data(), kBatch, hashed.columns()},
                {dout.data(), kBatch, slots, kWidth},
                {.w = Matrix<float>(table.data(), kCapacity, kWidth)});
    for (int64_t b = 0; b < kBatch; ++b)
      for (int64_t s = 0; s < slots; ++s) {
        const auto from = keys.begin() + b * hashed.columns() + hashed.layout().column(s);
        std::vector<uint32_t> of_slot(from, from + hashed.layout().hotness(s));
        std::erase(of_slot, kNoKey);
        for (const uint32_t key : of_slot) {
          const int64_t row = hashed.index.find(s, key);
          refused += row == embedding::KeyIndex::kAbsent;
          for (int64_t j = 0; j < kWidth && row != embedding::KeyIndex::kAbsent; ++j)
            want[static_cast<size_t>(row * kWidth + j)] -=
                static_cast<double>(rate_at(step)) *
                static_cast<double>(dout[static_cast<size_t>((b * slots + s) * kWidth + j)]) /
                static_cast<double>(of_slot.size());
        }
      }
  }
  CHECK(refused > 0);
  test::check_close<const float, const double>(table, want, {.absolute = 5e-6, .relative = 1e-5},
                                               "hashed rows");
}

TEST_CASE("the mean over one-hot slots has the bits of the sum", "[threads]") {
  using embedding::Combiner;
  const UpdateRule rule = test::all_rules()[0];
  const test::LookupCase sum({3000, 1, 5}, 16, 500, {1, 1, 1}),
      mean({3000, 1, 5}, 16, 500, {1, 1, 1}, Combiner::kMean);
  CHECK(train(sum, rule, UpdateType::kLocal, 2) == train(mean, rule, UpdateType::kLocal, 2));
}

TEST_CASE("SparseUpdate: a key that a sample has twice counts twice") {
  using embedding::Combiner;
  ThreadPool pool(1);
  const std::vector<uint32_t> keys{2, 2, 1, kNoKey, kNoKey, kNoKey};
  const std::vector<float> dout{6, 8};
  for (const Combiner combiner : {Combiner::kSum, Combiner::kMean}) {
    Stepper sparse({{4}, 1, KeyLayout({3}), combiner}, {.max_batch = 2});
    std::vector<float> table{100, 100, 100, 100};
    sparse.step(pool, 1, 1, {keys.data(), 2, 3}, {dout.data(), 2, 1, 1},
                {.w = {table.data(), 4, 1}});
    if (combiner == Combiner::kSum)
      CHECK(table == std::vector<float>{100, 94, 88, 100});
    else
      CHECK(table == std::vector<float>{100, 98, 96, 100});
  }
}

TEST_CASE("SparseUpdate gives the same bits on any number of threads", "[threads]") {
  for (const auto& rows : test::table_sizes()) {
    for (const UpdateRule& rule : test::all_rules()) {
      for (const UpdateType type : {UpdateType::kLocal, UpdateType::kGlobal}) {
        const test::LookupCase x(rows, 16, 2048);
        const Trained one = train(x, rule, type, 1);
        CHECK(train(x, rule, type, 2) == one);
        CHECK(train(x, rule, type, 3) == one);
      }
    }
  }
}

TEST_CASE("Local leaves rows without a lookup alone, Global moves them by their momentum") {
  const UpdateRule rule{.type = OptimizerType::kMomentum, .momentum = 0.5};
  ThreadPool pool(1);
  const embedding::SlotLayout layout({4}, 1);
  const uint32_t key = 2;
  const float gradient = 4;
  for (const UpdateType type : {UpdateType::kLocal, UpdateType::kGlobal}) {
    std::vector<float> table{1, 2, 3, 4}, momentum{8, 8, 8, 8};
    Stepper sparse(layout, {.rule = rule, .type = type, .max_batch = 1});
    sparse.step(pool, 0.25f, 1, {&key, 1, 1}, {&gradient, 1, 1, 1},
                {.w = {table.data(), 4, 1}, .state0 = {momentum.data(), 4, 1}});
    if (type == UpdateType::kLocal) {
      CHECK(table == std::vector<float>{1, 2, 6, 4});
      CHECK(momentum == std::vector<float>{8, 8, 3, 8});
    } else {
      CHECK(table == std::vector<float>{5, 6, 6, 8});
      CHECK(momentum == std::vector<float>{4, 4, 3, 4});
    }
  }
}

TEST_CASE("SparseUpdate: many duplicates of one row are one update", "[threads]") {
  // AdaGrad distinguishes one update with the sum from many updates.
  const UpdateRule rule{.type = OptimizerType::kAdaGrad, .epsilon = 0};
  ThreadPool pool(2);
  Stepper sparse({{9}, 2}, {.rule = rule, .max_batch = 600, .threads = 2});
  const std::vector<uint32_t> keys(600, 8);
  const std::vector<float> dout(1200, 0.5f);
  std::vector<float> table(18, 0), accumulator(18, 0);
  sparse.step(pool, 0.1f, 1, {keys.data(), 600, 1}, {dout.data(), 600, 1, 2},
              {.w = {table.data(), 9, 2}, .state0 = {accumulator.data(), 9, 2}});
  for (size_t i = 0; i < 18; ++i) {
    CHECK(accumulator[i] == (i < 16 ? 0.f : 90000.f));
    CHECK(table[i] == (i < 16 ? 0.f : -0.1f));
  }
}

TEST_CASE("SparseUpdate scales gradients back, and skips a step that asks for it", "[threads]") {
  const test::LookupCase x({50, 3}, 8, 64, {1, 3}, embedding::Combiner::kMean);
  ThreadPool pool(2);
  Stepper sparse(x.layout, {.max_batch = 64, .threads = 2});
  const auto step = [&](View<const float, 3> dout, const optimizer::GradientScale& scale) {
    std::vector<float> table = x.table;
    sparse.step(pool, 0.1f, 1, x.keys_view(), dout, {.w = x.like_table(table)}, scale);
    return table;
  };
  std::vector<float> scaled = x.dout;
  for (float& g : scaled) g *= 1024;
  const View<const float, 3> large(scaled.data(), 64, 2, 8);
  const float inverse = 1.0f / 1024;
  const int32_t yes = 1, no = 0;
  const std::vector<float> want = step(x.dout_view(), {});
  CHECK(step(large, {.inverse = &inverse}) == want);
  CHECK(step(large, {.inverse = &inverse, .skip = &no}) == want);
  CHECK(step(large, {.inverse = &inverse, .skip = &yes}) == x.table);
  CHECK(step(large, {.inverse = &inverse, .skip = &no, .capacity_exceeded = &no}) == want);
  CHECK(step(large, {.inverse = &inverse, .skip = &no, .capacity_exceeded = &yes}) == x.table);
}

TEST_CASE("SparseUpdate from zero leaves sums of gradients in rows, whatever they held",
          "[threads]") {
  const test::LookupCase x({50, 3}, 8, 64, {1, 3});
  ThreadPool pool(2);
  Stepper sparse(x.layout, {.max_batch = 64, .threads = 2});
  const auto summed = [&](float before, bool from_zero) {
    std::vector<float> table(x.table.size(), before);
    sparse.step(pool, -1, 1, x.keys_view(), x.dout_view(),
                {.w = x.like_table(table), .from_zero = from_zero});
    return table;
  };
  const std::vector<float> want = summed(0, false), got = summed(7, true);
  std::vector<char> looked_up(static_cast<size_t>(x.layout.total_rows));
  for (int64_t b = 0; b < x.batch; ++b)
    for (int64_t s = 0; s < x.layout.slots(); ++s)
      for (const int64_t row : x.rows_of(b, s)) looked_up[static_cast<size_t>(row)] = 1;
  CHECK(std::count(looked_up.begin(), looked_up.end(), 0) > 0);
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == (looked_up[i / 8] ? want[i] : 7));
}

TEST_CASE("SparseUpdate takes partial batches after full ones, and refuses larger ones",
          "[threads]") {
  const test::LookupCase large({50, 3}, 8, 64), small({50, 3}, 8, 5);
  ThreadPool pool(2);
  Stepper sparse(large.layout, {.max_batch = 64, .threads = 2}),
      fresh(large.layout, {.max_batch = 5, .threads = 2});
  std::vector<float> a = large.table, b = large.table;
  const auto step = [&](Stepper& with, const test::LookupCase& x, std::vector<float>& table) {
    with.step(pool, 0.1f, 1, x.keys_view(), x.dout_view(), {.w = x.like_table(table)});
  };
  step(sparse, large, a);
  a = large.table;
  step(sparse, small, a);
  step(fresh, small, b);
  CHECK(a == b);
  CHECK(a != large.table);
  CHECK_THROWS_AS(step(fresh, large, b), Error);
}

TEST_CASE("SparseUpdate refuses LazyGlobal, more threads than planned and wrong shapes",
          "[threads]") {
  const test::LookupCase x({50, 3}, 8, 5);
  ThreadPool one(1), two(2);
  std::vector<float> table = x.table;
  const auto step = [&](ThreadPool& pool, OptimizerType rule, UpdateType type,
                        View<const float, 3> dout) {
    Stepper sparse(x.layout, {.rule = {.type = rule}, .type = type, .max_batch = 5});
    sparse.step(pool, 0.1f, 1, x.keys_view(), dout, {.w = x.like_table(table)});
  };
  const auto sgd = OptimizerType::kSgd;
  const auto local = UpdateType::kLocal;
  CHECK_NOTHROW(step(one, sgd, local, x.dout_view()));
  CHECK_THROWS_AS(step(one, sgd, UpdateType::kLazyGlobal, x.dout_view()), Error);
  CHECK_THROWS_AS(step(two, sgd, local, x.dout_view()), Error);
  CHECK_THROWS_AS(step(one, sgd, local, x.dout_view().rows(0, 4)), Error);
  CHECK_THROWS_AS(step(one, OptimizerType::kAdam, local, x.dout_view()), Error);  // no states
}
