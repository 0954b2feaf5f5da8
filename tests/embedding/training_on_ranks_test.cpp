// Training of a layer's tables on any number of ranks, however their rows are spread: lookups,
// exchanges and updates are what the definition says.
#include <cmath>

#include "embedding/embedding_tables.h"
#include "hugectr_lite/comm/thread_communicator.h"
#include "tests/embedding/lookup_case.h"
#include "tests/optimizer/rule_oracle.h"
#include "tests/support/catch.h"

using namespace hlite;
using namespace hlite::embedding;
using comm::Communicator;
using test::LookupCase;

namespace {

struct Training {
  optimizer::UpdateRule rule;
  bool sweep = false;  // rows without a gradient move, too
  FloatType tables = FloatType::kFloat, wire = FloatType::kFloat;
};

// One rank's part in training on the case's batches. Without a placement it is the only one.
class Rank {
 public:
  Rank(const LookupCase& of, const Training& how, const RowPlacement* placement,
       Communicator& world)
      : c_(of),
        world_(world),
        pool_(1 + world.rank() % 2),
        tables_(spec_of(of, how), place_of(of, how, placement, world)) {
    tables_.declare(buffers_);
    const auto add = [&](const char* name, int64_t bytes) {
      return buffers_.add(name, plan::BufferKind::kState, std::max<int64_t>(bytes, 1));
    };
    const int64_t vectors = of.batch * of.layout.slots() * of.layout.width * 4;
    io_.keys = add("keys", of.batch * of.layout.keys.columns * 4);
    io_.output = add("output", vectors);
    io_.grad = add("grad", vectors);
    io_.rate = add("rate", 4);
    io_.step = add("step", 8);
    RowExchange* const exchange = tables_.steps().exchange();
    if (exchange) {
      io_.capacity_exceeded = add("capacity_exceeded", 4);
      copied_ = add("copied", exchange->replicated_gradient_bytes());
      exchange->set_replicated_gradients(copied_);
    }
    tables_.steps().emit_forward(forward_, io_);
    tables_.steps().emit_backward(backward_, io_);
    tables_.steps().emit_update(update_, io_);
    buffers_.allocate();
    tables_.prepare();
    tables_.initialize(exec());
    for (const TensorRef& tensor : tables_.tables()) put(tensor);
    buffers_.set_value(io_.rate, 0.1f);
    if (exchange) buffers_.set_value(io_.capacity_exceeded, int32_t{0});
  }

  // Samples [begin, end) of the case's batch: returns what is looked up.
  std::vector<float> forward(int64_t begin, int64_t end) {
    batch_ = end - begin;
    const int64_t columns = c_.layout.keys.columns, row = c_.layout.slots() * c_.layout.width;
    const auto part = [&](const auto& all, int64_t size) {
      return std::vector(all.begin() + begin * size, all.begin() + end * size);
    };
    buffers_.write<uint32_t>(io_.keys, 0, part(c_.keys, columns));
    buffers_.write<float>(io_.grad, 0, part(c_.dout, row));
    run(forward_);
    std::vector<float> out(static_cast<size_t>(batch_ * row));
    buffers_.read(io_.output, 0, std::span(out));
    return out;
  }
  void backward(int64_t step) {
    buffers_.set_value(io_.step, step);
    run(backward_);
    if (const RowExchange* const exchange = tables_.steps().exchange())
      world_.all_reduce(exec(), {buffers_.data<float>(copied_),
                                 static_cast<size_t>(exchange->replicated_gradient_bytes() / 4)});
    run(update_);
  }
  // All rows, on rank 0; collective.
  std::vector<float> rows() {
    std::vector<float> all;
    for (const TensorRef& tensor : tables_.tables()) {
      std::vector<float> values(static_cast<size_t>(tensor.size()));
      if (tensor.data)
        std::copy_n(tensor.data, tensor.size(), values.begin());
      else
        tensor.get(0, values);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

 private:
  Exec exec() { return {.pool = &pool_}; }
  void run(const plan::Plan& plan) { plan::run_in_order(plan, {.exec = exec(), .batch = batch_}); }
  void put(const TensorRef& tensor) {
    const auto first = c_.table.begin() + put_;
    put_ += tensor.size();
    if (tensor.data)
      std::copy_n(first, tensor.size(), tensor.data);
    else
      tensor.put(0, std::span(first, static_cast<size_t>(tensor.size())));
  }
  static TablesSpec spec_of(const LookupCase& of, const Training& how) {
    return {
        .name = "emb",
        .layout = of.layout,
        .rule = how.rule,
        .update_type = how.sweep ? optimizer::UpdateType::kGlobal : optimizer::UpdateType::kLocal,
        .seed = 5,
        .table_type = how.tables};
  }
  static TablesPlace place_of(const LookupCase& of, const Training& how,
                              const RowPlacement* placement, Communicator& world) {
    TablesPlace place{.max_batch = of.batch, .train_batch = of.batch, .threads = 2};
    if (!placement) return place;
    place.ranks = {.rank = world.rank(),
                   .topology = std::make_shared<comm::Topology>(world.topology()),
                   .world = &world};
    place.placement = std::make_shared<RowPlacement>(*placement);
    place.wire = how.wire;
    return place;
  }

  const LookupCase& c_;
  Communicator& world_;
  ThreadPool pool_;
  plan::Buffers buffers_;
  plan::Plan forward_{buffers_}, backward_{buffers_}, update_{buffers_};
  EmbeddingTables tables_;
  TablesIo io_;
  plan::BufferId copied_ = plan::kNoBuffer;
  int64_t batch_ = 0, put_ = 0;
};

// The vectors that a batch looks up, [B,S,V].
std::vector<double> looked_up(const LookupCase& c, const std::vector<double>& table) {
  const int64_t V = c.layout.width, S = c.layout.slots();
  std::vector<double> out(static_cast<size_t>(c.batch * S * V), 0);
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t s = 0; s < S; ++s) {
      const auto rows = c.rows_of(b, s);
      for (const int64_t row : rows)
        for (int64_t j = 0; j < V; ++j)
          out[static_cast<size_t>((b * S + s) * V + j)] +=
              c.weight(rows.size()) * table[static_cast<size_t>(row * V + j)];
    }
  return out;
}

// The step of all rows that the batch moves.
void take_step(const LookupCase& c, const Training& how, int64_t t, test::RuleOracle& oracle) {
  const int64_t V = c.layout.width, S = c.layout.slots();
  std::vector<double> gradient(c.table.size(), 0);
  std::vector<bool> touched(static_cast<size_t>(c.layout.total_rows), how.sweep);
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t s = 0; s < S; ++s) {
      const auto rows = c.rows_of(b, s);
      for (const int64_t row : rows) {
        touched[static_cast<size_t>(row)] = true;
        for (int64_t j = 0; j < V; ++j)
          gradient[static_cast<size_t>(row * V + j)] +=
              c.weight(rows.size()) *
              static_cast<double>(c.dout[static_cast<size_t>((b * S + s) * V + j)]);
      }
    }
  for (size_t row = 0; row < touched.size(); ++row)
    if (touched[row])
      oracle.step_row(static_cast<double>(0.1f), t, row,
                      std::span(gradient).subspan(row * oracle.width, oracle.width));
}

void require_near(std::span<const float> got, std::span<const double> want, double relative,
                  const char* what) {
  for (size_t i = 0; i < got.size(); ++i)
    if (!(std::abs(static_cast<double>(got[i]) - want[i]) <= 2e-5 + relative * std::abs(want[i])))
      raise("{}, element {}: {}, expected {}", what, i, got[i], want[i]);
}

// `placement`: null on one rank.
void check_training(LookupCase c, const RowPlacement* placement, const Training& how) {
  const int ranks = placement ? placement->ranks() : 1;
  test::RuleOracle oracle(how.rule, c.table, c.layout.width);
  std::vector<double>
      expected;  // the oracle works between two barriers, on the first rank's thread
  comm::run_ranks(ranks, [&](Communicator& world) {
    Rank rank(c, how, placement, world);
    const int r = world.rank();
    const int64_t begin = c.batch * r / ranks, end = c.batch * (r + 1) / ranks,
                  row = c.layout.slots() * c.layout.width;
    for (int64_t t = 1; t <= 3; ++t) {
      world.barrier();
      if (r == 0) {
        c.draw(static_cast<uint64_t>(t));
        expected = looked_up(c, oracle.w);
      }
      world.barrier();
      require_near(rank.forward(begin, end),
                   std::span(expected).subspan(static_cast<size_t>(begin * row),
                                               static_cast<size_t>((end - begin) * row)),
                   0, "looked up");
      rank.backward(t);
      if (r == 0) take_step(c, how, t, oracle);
    }
    const auto rows = rank.rows();
    if (r == 0) require_near(rows, oracle.w, 2e-5, "rows");
  });
}

// All ways to spread the case's tables over so many ranks.
std::vector<RowPlacement> placements(const LookupCase& c, int ranks) {
  std::vector<RowPlacement> all;
  const auto tables = static_cast<size_t>(c.layout.tables());
  std::vector<std::vector<int>> whole(tables), copied(tables), mixed(tables);
  for (size_t t = 0; t < tables; ++t) {
    whole[t] = {static_cast<int>(t) % ranks};
    if (t % 3 == 0)
      for (int q = 0; q < ranks; ++q) mixed[t].push_back(ranks - 1 - q);
    if (t % 3 == 1) mixed[t] = {ranks - 1};
  }
  all.push_back(RowPlacement::by_table(c.layout, whole, ranks));
  all.push_back(RowPlacement::by_table(c.layout, copied, ranks));
  all.push_back(RowPlacement::by_table(c.layout, mixed, ranks));
  all.push_back(RowPlacement::by_category(c.layout, CategoryModel(c.layout, ranks)));
  std::vector<int64_t> lookups;
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t s = 0; s < c.layout.slots(); ++s)
      for (const int64_t row : c.rows_of(b, s)) lookups.push_back(row);
  const auto statistics = FrequencyStatistics::of_lookups(lookups);
  all.push_back(RowPlacement::by_category(
      c.layout, CategoryModel(c.layout, ranks, statistics, 2, c.layout.total_rows)));
  return all;
}

}  // namespace

TEST_CASE("ranks compute what the definition says, however tables are spread", "[threads]") {
  for (const int ranks : {2, 3, 7})
    for (const int shape : {0, 1, 2, 3, 4}) {
      const LookupCase c =
          shape == 0   ? LookupCase({300, 3, 1, 57}, 16, 61)
          : shape == 1 ? LookupCase({300, 3, 57}, 5, 40, {3, 1, 2}, Combiner::kMean)
          : shape == 2 ? LookupCase({300, 3, 57}, 8, 23, {1, 4, 2}, Combiner::kSum)
          : shape == 3
              ? LookupCase({60, 3, 60, 60}, 8, 23, {1, 4, 2, 1}, Combiner::kSum, {0, 1, 0, 0})
              : LookupCase({60, 3, 60, 3, 7}, 5, 31, {2, 1, 1, 3, 1}, Combiner::kMean,
                           {0, 1, 0, 1, 2});
      CHECK_NOTHROW(check_training(c, nullptr, {.rule = test::all_rules()[0]}));
      for (const RowPlacement& placement : placements(c, ranks)) {
        INFO(ranks << " ranks, shape " << shape << ", " << placement.replicated_rows()
                   << " copied");
        CHECK_NOTHROW(check_training(c, &placement, {.rule = test::all_rules()[0]}));
      }
    }
}

TEST_CASE("every rule, with and without a sweep over all rows, on three ranks", "[threads]") {
  const LookupCase c({300, 3, 57, 900}, 16, 50, {1, 2, 1, 3}, Combiner::kMean);
  for (const auto& rule : test::all_rules())
    for (const bool sweep : {false, true})
      for (const RowPlacement& placement : placements(c, 3))
        CHECK_NOTHROW(check_training(c, &placement, {rule, sweep}));
}

TEST_CASE("every rule on three ranks, of tables that slots share", "[threads]") {
  const LookupCase c({60, 3, 60, 60}, 16, 50, {1, 2, 1, 3}, Combiner::kMean, {0, 1, 0, 0});
  for (const auto& rule : test::all_rules())
    for (const bool sweep : {false, true})
      for (const RowPlacement& placement : placements(c, 3))
        CHECK_NOTHROW(check_training(c, &placement, {rule, sweep}));
}

TEST_CASE("fewer samples than ranks", "[threads]") {
  const LookupCase c({30, 3}, 4, 2);
  for (const RowPlacement& placement : placements(c, 5))
    CHECK_NOTHROW(check_training(c, &placement, {.rule = test::all_rules()[0]}));
}

namespace {

// All rows after `steps` iterations on one rank, or on those of the placement.
std::vector<float> trained(LookupCase c, const RowPlacement* placement, const Training& how,
                           int64_t steps) {
  const int ranks = placement ? placement->ranks() : 1;
  std::vector<float> all;
  comm::run_ranks(ranks, [&](Communicator& world) {
    Rank rank(c, how, placement, world);
    const int r = world.rank();
    for (int64_t t = 1; t <= steps; ++t) {
      world.barrier();
      if (r == 0) c.draw(static_cast<uint64_t>(t));
      world.barrier();
      (void)rank.forward(c.batch * r / ranks, c.batch * (r + 1) / ranks);
      rank.backward(t);
    }
    auto rows = rank.rows();
    if (r == 0) all = std::move(rows);
  });
  return all;
}

// The distance between x and the next value of the type away from 0.
double step_above(FloatType type, double x) {
  const int least = type == FloatType::kBf16 ? -133 : -24,
            digits = type == FloatType::kBf16 ? 8 : 11;
  return std::ldexp(1.0, x == 0 ? least : std::max(least, std::ilogb(x) + 1 - digits));
}

constexpr FloatType kNarrowTypes[] = {FloatType::kBf16, FloatType::kFp16};

}  // namespace

TEST_CASE("a step of tables in 16 bits is close to the definition's, for every rule") {
  for (const FloatType type : kNarrowTypes)
    for (const auto& rule : test::all_rules())
      for (const bool sweep : {false, true}) {
        INFO(float_type_name(type) << ", rule " << static_cast<int>(rule.type));
        LookupCase c({300, 3, 57, 900}, 17, 50, {1, 2, 1, 3}, Combiner::kMean);
        for (float& w : c.table) w = rounded_to(type, w);
        const Training how{rule, sweep, type};
        const std::vector<float> got = trained(c, nullptr, how, 1);
        test::RuleOracle oracle(rule, c.table, c.layout.width);
        c.draw(1);
        take_step(c, how, 1, oracle);
        int beyond = 0, up = 0, down = 0;
        for (size_t i = 0; i < got.size(); ++i) {
          const double off = static_cast<double>(got[i]) - oracle.w[i],
                       most = step_above(type, oracle.w[i]) + 2e-6 * (1 + std::abs(oracle.w[i]));
          beyond += !(std::abs(off) <= most);
          up += off > 1e-5;
          down += off < -1e-5;
        }
        CHECK(beyond == 0);
        CHECK(up > 100);
        CHECK(down > 100);
      }
}

TEST_CASE("tables in 16 bits have the same bits on any ranks, however their rows are spread",
          "[threads]") {
  // Sums of these gradients are exact, in any order.
  const LookupCase c({300, 3, 57}, 8, 40, {1, 2, 1});
  for (const FloatType type : kNarrowTypes)
    for (const auto& rule : test::all_rules()) {
      const Training how{.rule = rule, .tables = type};
      const std::vector<float> alone = trained(c, nullptr, how, 3);
      CHECK((trained(c, nullptr, how, 3) == alone));
      for (const int ranks : {2, 4})
        for (const RowPlacement& placement : placements(c, ranks)) {
          INFO(float_type_name(type) << ", rule " << static_cast<int>(rule.type) << ", " << ranks
                                     << " ranks, " << placement.replicated_rows() << " copied");
          CHECK((trained(c, &placement, how, 3) == alone));
        }
    }
}

TEST_CASE("rows of bf16 tables arrive as they are where bf16 travels", "[threads]") {
  const LookupCase c({300, 3, 57}, 8, 40, {1, 2, 1});
  const Training how{
      .rule = test::all_rules()[0], .tables = FloatType::kBf16, .wire = FloatType::kBf16};
  const auto looked_up_on = [&](const RowPlacement* placement) {
    const int ranks = placement ? placement->ranks() : 1;
    std::vector<std::vector<float>> parts(static_cast<size_t>(ranks));
    comm::run_ranks(ranks, [&](Communicator& world) {
      Rank rank(c, how, placement, world);
      const int r = world.rank();
      parts[static_cast<size_t>(r)] = rank.forward(c.batch * r / ranks, c.batch * (r + 1) / ranks);
    });
    std::vector<float> all;
    for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  };
  const std::vector<float> alone = looked_up_on(nullptr);
  for (const RowPlacement& placement : placements(c, 3)) CHECK((looked_up_on(&placement) == alone));
}
