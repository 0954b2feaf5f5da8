#include "embedding/routed_rows.h"

#include "hugectr_lite/comm/thread_communicator.h"
#include "tests/comm/rank_blocks.h"
#include "tests/embedding/lookup_case.h"
#include "tests/optimizer/rule_oracle.h"
#include "tests/support/catch.h"
#include "tests/support/typed_values.h"

using namespace hlite;
using namespace hlite::embedding;
using comm::Communicator;
using test::LookupCase;

namespace {

// Rows of one rank with two states, kept by the test.
struct Rows {
  Tensor<float, 2> w, state0, state1;
  Rows(int64_t rows, int64_t width, float initial)
      : w(rows, width), state0(rows, width), state1(rows, width) {
    std::fill_n(state0.data(), state0.size(), initial);
  }
};

// One rank's part in training on the case's batches, by the functions under test.
class Rank {
 public:
  Rank(const LookupCase& of, const RowPlacement& where, Communicator& world, const RowStep& how,
       int64_t most)
      : c(of),
        placement(where),
        comm(world),
        step(how),
        pool(1 + world.rank() % 2),
        room(most * of.layout.columns()),
        routing(where, most, pool.threads()),
        own(where.rows_of(world.rank()), of.layout.width, optimizer::initial_state(how.rule)),
        copied(where.copied_rows(), of.layout.width, optimizer::initial_state(how.rule)) {
    for (const bool copies : {false, true}) {
      Rows& rows = copies ? copied : own;
      for (int64_t i = 0; i < rows.w.view().dim(0); ++i) {
        const TableRow of_row = where.table_row(copies ? -1 : world.rank(), i);
        const int64_t row = of.layout.offset[static_cast<size_t>(of_row.slot)] + of_row.key;
        std::copy_n(of.table.data() + row * of.layout.width, of.layout.width, rows.w.view().row(i));
      }
    }
  }

  // Samples [begin, end) of the case's batch: returns what comes out of the embedding.
  std::vector<float> forward(int64_t begin, int64_t end) {
    const int64_t V = c.layout.width;
    first = begin;
    samples = end - begin;
    routing.route(exec(), c.keys_view().rows(begin, end), room);
    wanted = exchange<uint32_t>(1, [&](int q) { return routing.list(q); });
    std::vector<std::vector<float>> out;
    for (const auto& rows : wanted) {
      out.emplace_back(rows.size() * static_cast<size_t>(V));
      gather_rows(exec(), own.w.view(), rows,
                  {out.back().data(), static_cast<int64_t>(rows.size()), V});
    }
    std::vector<float> vectors(static_cast<size_t>(comm.size() * room * V), -7);
    const auto parts = exchange<float>(
        V, [&](int q) { return std::span<const float>(out[static_cast<size_t>(q)]); });
    for (size_t q = 0; q < parts.size(); ++q)
      std::copy(parts[q].begin(), parts[q].end(),
                vectors.begin() + static_cast<int64_t>(q) * room * V);
    std::vector<float> result(static_cast<size_t>(samples * c.layout.slots() * V), -7);
    const Matrix<const float> listed(vectors.data(), comm.size() * room, V);
    pool_rows<float>(exec(), routing, listed, copied.w.view(),
                     {result.data(), samples, c.layout.slots(), V});
    std::vector<bf16> half(result.size());
    pool_rows<bf16>(exec(), routing, listed, copied.w.view(),
                    {half.data(), samples, c.layout.slots(), V});
    CHECK(test::same_values(test::widened(half), test::as<bf16>(result)));
    return result;
  }

  void backward(float lr, int64_t t) {
    const int64_t V = c.layout.width, S = c.layout.slots();
    std::vector<float> gradients(static_cast<size_t>(comm.size() * room * V), -7);
    const auto copies = static_cast<size_t>(placement.copied_rows());
    std::vector<float> shared(copies * static_cast<size_t>(V) + copies, -7);
    const Matrix<float> copied_gradients(shared.data(), placement.copied_rows(), V);
    const std::span<float> touched(shared.data() + copied_gradients.size(), copies);
    const Matrix<float> listed(gradients.data(), comm.size() * room, V);
    const auto reduce = [&]<typename T>(const std::vector<T>& dout) {
      reduce_gradients<T>(exec(), routing, {dout.data() + first * S * V, samples, S, V}, listed,
                          copied_gradients, touched);
      return std::pair(gradients, shared);
    };
    const auto half = test::rounded<bf16>(c.dout);
    CHECK(reduce(half) == reduce(test::widened(half)));
    reduce(c.dout);
    comm.all_reduce(exec(), shared);
    const auto parts = exchange<float>(V, [&](int q) {
      return std::span<const float>(gradients).subspan(
          static_cast<size_t>(q * room * V), routing.list(q).size() * static_cast<size_t>(V));
    });
    std::vector<RowGradients> from;
    for (size_t q = 0; q < parts.size(); ++q)
      from.push_back({wanted[q], {parts[q].data(), static_cast<int64_t>(wanted[q].size()), V}});
    step.lr = lr;
    step.step = t;
    update_rows(exec(), step, from, {own.w.view(), own.state0.view(), own.state1.view()});
    update_copied(exec(), step, copied_gradients, touched,
                  {copied.w.view(), copied.state0.view(), copied.state1.view()});
  }

  Exec exec() { return {.pool = &pool}; }

  const LookupCase& c;
  const RowPlacement& placement;
  Communicator& comm;
  RowStep step;
  ThreadPool pool;
  const int64_t room;  // rows of a list: the most there can be
  KeyRouting routing;
  Rows own, copied;
  std::vector<std::vector<uint32_t>> wanted;  // of me, by each rank
  int64_t first = 0, samples = 0;

 private:
  // What each rank gives this one, in the order of ranks: up to room * width values.
  template <typename T, typename Give>
  std::vector<std::vector<T>> exchange(int64_t width, Give&& give) {
    test::RankBlocks<T> blocks(comm.size(), static_cast<size_t>(room * width));
    for (int q = 0; q < comm.size(); ++q) blocks.set(q, give(q));
    comm.all_to_all_v(exec(), blocks.blocks());
    std::vector<std::vector<T>> got;
    for (int q = 0; q < comm.size(); ++q)
      got.emplace_back(blocks.got(q).begin(), blocks.got(q).end());
    return got;
  }
};

void check_training(LookupCase c, const RowPlacement& placement, const RowStep& step) {
  const int ranks = placement.ranks();
  const int64_t V = c.layout.width, S = c.layout.slots();
  test::RuleOracle oracle(step.rule, c.table);
  // The oracle works between two barriers, on the first rank's thread.
  std::vector<double> expected;
  comm::run_ranks(ranks, [&](Communicator& world) {
    Rank rank(c, placement, world, step, c.batch);
    const int r = world.rank();
    const int64_t begin = c.batch * r / ranks, end = c.batch * (r + 1) / ranks;
    for (int64_t t = 1; t <= 3; ++t) {
      if (r == 0) {
        c.draw(static_cast<uint64_t>(t));
        expected.assign(static_cast<size_t>(c.batch * S * V), 0);
        for (int64_t b = 0; b < c.batch; ++b)
          for (int64_t s = 0; s < S; ++s) {
            const auto rows = c.rows_of(b, s);
            for (const int64_t row : rows)
              for (int64_t j = 0; j < V; ++j)
                expected[static_cast<size_t>((b * S + s) * V + j)] +=
                    c.weight(rows.size()) * oracle.w[static_cast<size_t>(row * V + j)];
          }
      }
      world.barrier();
      const auto out = rank.forward(begin, end);
      for (size_t i = 0; i < out.size(); ++i) {
        const double want = expected[static_cast<size_t>(begin * S * V) + i];
        if (!(std::abs(static_cast<double>(out[i]) - want) <= 2e-5))
          raise("rank {} of {}, step {}: element {} is {}, expected {}", r, ranks, t, i, out[i],
                want);
      }
      rank.backward(0.1f, t);
      world.barrier();
      if (r == 0) {
        std::vector<double> gradient(c.table.size(), 0);
        std::vector<bool> touched(static_cast<size_t>(c.layout.total_rows), false);
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
        for (size_t i = 0; i < gradient.size(); ++i)
          if (step.sweep || touched[i / static_cast<size_t>(V)])
            oracle.step(static_cast<double>(0.1f), t, i, gradient[i]);
      }
    }
    world.barrier();
    // Every row of every rank.
    for (const bool copies : {false, true}) {
      const Rows& rows = copies ? rank.copied : rank.own;
      for (int64_t i = 0; i < rows.w.view().dim(0); ++i) {
        const TableRow of = placement.table_row(copies ? -1 : r, i);
        const int64_t row = c.layout.offset[static_cast<size_t>(of.slot)] + of.key;
        for (int64_t j = 0; j < V; ++j) {
          const double want = oracle.w[static_cast<size_t>(row * V + j)];
          const double got = static_cast<double>(rows.w.view()(i, j));
          if (!(std::abs(got - want) <= 2e-5 + 2e-5 * std::abs(want)))
            raise("rank {} of {}: row {} [{}] is {}, expected {}", r, ranks, row, j, got, want);
        }
      }
    }
  });
}

// All ways to spread the case's tables over so many ranks.
std::vector<RowPlacement> placements(const LookupCase& c, int ranks) {
  std::vector<RowPlacement> all;
  const auto slots = static_cast<size_t>(c.layout.slots());
  std::vector<std::vector<int>> whole(slots), copied(slots), mixed(slots);
  for (size_t s = 0; s < slots; ++s) {
    whole[s] = {static_cast<int>(s) % ranks};
    if (s % 3 == 0)
      for (int q = 0; q < ranks; ++q) mixed[s].push_back(ranks - 1 - q);
    if (s % 3 == 1) mixed[s] = {ranks - 1};
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

TEST_CASE("ranks compute what the definition says, however tables are spread") {
  for (const int ranks : {1, 2, 3, 7})
    for (const int shape : {0, 1, 2}) {
      const LookupCase c = shape == 0 ? LookupCase({300, 3, 1, 57}, 16, 61)
                           : shape == 1
                               ? LookupCase({300, 3, 57}, 5, 40, {3, 1, 2}, Combiner::kMean)
                               : LookupCase({300, 3, 57}, 8, 23, {1, 4, 2}, Combiner::kSum);
      for (const RowPlacement& placement : placements(c, ranks)) {
        const RowStep step{.rule = test::all_rules()[0]};
        INFO(ranks << " ranks, shape " << shape << ", " << placement.copied_rows() << " copied");
        CHECK_NOTHROW(check_training(c, placement, step));
      }
    }
}

TEST_CASE("every rule, with and without a sweep over all rows, on three ranks") {
  const LookupCase c({300, 3, 57, 900}, 16, 50, {1, 2, 1, 3}, Combiner::kMean);
  for (const auto& rule : test::all_rules())
    for (const bool sweep : {false, true})
      for (const RowPlacement& placement : placements(c, 3))
        CHECK_NOTHROW(check_training(c, placement, {.rule = rule, .sweep = sweep}));
}

TEST_CASE("fewer samples than ranks") {
  const LookupCase c({30, 3}, 4, 2);
  for (const RowPlacement& placement : placements(c, 5))
    CHECK_NOTHROW(check_training(c, placement, {.rule = test::all_rules()[0]}));
}
