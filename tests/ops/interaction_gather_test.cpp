// The interaction of rows that are read from their tables, against a lookup and the interaction of
// what it gives.
#include "tests/ops/interaction_problem.h"

namespace hlite::test {
namespace {

struct Gathered {
  std::vector<float> out, slots;
};

template <typename T>
Gathered run_gather(const OpDevice& on, const GatherProblem<T>& g, bool keep,
                    int64_t table_shift = 0) {
  const auto [B, n, V] = g.problem.size;
  const DeviceTensor<T> bottom(on, g.problem.bottom), out(on, nans(g.problem.size.out_size()));
  const DeviceTensor<T> slots(on, nans(B * n * V));
  const DeviceRows rows(on, g, table_shift);
  ops::interaction_forward_gather<T>(on.exec(), bottom.view(B, V), rows.rows,
                                     out.view(B, g.problem.size.out_width()),
                                     {keep ? slots.data() : nullptr, B, n, V});
  return {out.host(), slots.host()};
}

TEMPLATE_TEST_CASE("interaction_forward_gather gives the bits of lookup and interaction", "", float,
                   bf16, fp16) {
  using T = TestType;
  std::vector<InteractionCase> cases = {{0, 3, 16},  {3, 0, 16},   {1, 1, 1},   {3, 1, 16},
                                        {3, 26, 33}, {2, 26, 128}, {5, 26, 16}, {2, 63, 32},
                                        {2, 64, 16}, {3, 15, 48},  {9, 3, 20}};
  const auto large = cases.size();
  if (std::is_same_v<T, float>)
    for (const InteractionCase& size : interaction_cases_for_cpu()) cases.push_back(size);
  const auto devices = op_devices<T>();
  for (size_t i = 0; i < cases.size(); ++i) {
    const GatherProblem<T> g(cases[i]);
    for (const OpDevice& on : devices) {
      if (i >= large && on.on_gpu()) continue;
      INFO(on.name() << ", " << cases[i].text());
      const auto want = run_forward(on, g.problem);
      const Gathered got = run_gather(on, g, true);
      CHECK(same_values(got.out, want));
      CHECK(same_values(got.slots, g.problem.slots));
      CHECK(same_values(run_gather(on, g, false).out, want));
    }
  }
}

TEMPLATE_TEST_CASE("interaction_forward_gather takes a table at any address", "", float, bf16,
                   fp16) {
  using T = TestType;
  const GatherProblem<T> g({3, 26, 16});
  const auto want = forward_oracle(g.problem);
  for (const OpDevice& on : op_devices<T>()) {
    INFO(on.name());
    const Gathered got = run_gather(on, g, true, 1);
    check_close(got.out, want, interaction_tolerance<T>(on, 16), "out");
    CHECK(same_values(got.slots, g.problem.slots));
  }
}

TEST_CASE("interaction_forward_gather gives the same bits on any threads") {
  for (const InteractionCase& size : {InteractionCase{3, 26, 33}, InteractionCase{3, 26, 32}})
    check_same_bits([&]<typename T>(const OpDevice& on) {
      Gathered got = run_gather(on, GatherProblem<T>(size), true);
      got.out.insert(got.out.end(), got.slots.begin(), got.slots.end());
      return got.out;
    });
}

TEST_CASE("interaction_forward_gather refuses shapes that do not fit") {
  const OpDevice on(1);
  const GatherProblem<float> g({2, 3, 4});
  const DeviceRows device_rows(on, g);
  const ops::OneHotRows& rows = device_rows.rows;
  std::vector<float> m(200);
  const Matrix<float> bottom(m.data(), 2, 4), out(m.data(), 2, ops::interaction_width(3, 4));
  const View<float, 3> slots(m.data(), 2, 3, 4), narrow(m.data(), 2, 3, 3);
  const auto gather = [&](const ops::OneHotRows& from, Matrix<float> to, View<float, 3> kept) {
    ops::interaction_forward_gather(on.exec(), bottom, from, to, kept);
  };
  gather(rows, out, slots);
  gather(rows, out, {});
  CHECK_THROWS_AS(gather(rows, bottom, slots), Error);
  CHECK_THROWS_AS(gather(rows, out, narrow), Error);
  CHECK_THROWS_AS(gather({{m.data(), 7, 3}, rows.offset, rows.keys}, out, slots), Error);
  CHECK_THROWS_AS(gather({rows.table, {rows.offset.data(), 2}, rows.keys}, out, slots), Error);
  CHECK_THROWS_AS(gather({rows.table, rows.offset, {rows.keys.data(), 1, 3}}, out, slots), Error);
}

}  // namespace
}  // namespace hlite::test
