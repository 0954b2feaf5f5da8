#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "tests/ops/interaction_problem.h"

namespace hlite::test {
namespace {

using Case = InteractionCase;
template <typename T>
using Problem = InteractionProblem<T>;

TEST_CASE("interaction_width counts bottom, pairs and the pad column") {
  CHECK(ops::interaction_width(26, 128) == 480);
  CHECK(ops::interaction_width(26, 16) == 368);
  CHECK(ops::interaction_width(0, 5) == 6);
  CHECK(ops::interaction_width(1, 1) == 3);
  CHECK(ops::interaction_column(128, 0, 1) == 128);
  CHECK(ops::interaction_column(128, 25, 26) == 478);
}

// On one device; in place, too, where it may be.
template <typename T>
void check_definition(const OpDevice& on, const Problem<T>& problem, const Shifts& shifts = {}) {
  const auto [B, n, V] = problem.size;
  INFO(on.name() << ", " << problem.size.text() << ", vectors " << shifts.vectors << ", rows "
                 << shifts.rows);
  const std::vector<float> out = run_forward(on, problem, shifts);
  check_close(out, forward_oracle(problem), interaction_tolerance<T>(on, V), "out");
  for (int64_t b = 0; b < B; ++b) {  // not only close: copied, and zero
    const auto row = out.begin() + b * problem.size.out_width();
    REQUIRE(std::equal(row, row + V, problem.bottom.begin() + b * V));
    REQUIRE(row[problem.size.out_width() - 1] == 0);
  }
  for (const bool relu : {false, true}) {
    const InteractionGradients<double> want = backward_oracle(problem, relu);
    for (const bool in_place : {false, true}) {
      if (in_place && !on.on_gpu()) continue;
      const InteractionGradients<float> got =
          run_backward(on, problem, in_place, shifts, nullptr, relu);
      check_close(got.bottom, want.bottom, interaction_tolerance<T>(on, n), "dbottom");
      check_close(got.slots, want.slots, interaction_tolerance<T>(on, n), "dslots");
    }
  }
}

TEMPLATE_TEST_CASE("interaction_forward and interaction_backward agree with the definition",
                   "[gpu]", float, bf16, fp16) {
  using T = TestType;
  std::vector<Case> cases;
  for (const int64_t samples : {0, 1, 3})
    for (const int64_t slots : {0, 1, 26})
      for (const int64_t width : {1, 3, 16, 33, 128}) cases.push_back({samples, slots, width});
  // Whole tiles of 16 inputs, one more, one less; 64 and 65 inputs; rows of odd width.
  for (const Case& c : {Case{5, 15, 48},
                        {2, 16, 64},
                        {2, 31, 16},
                        {2, 32, 32},
                        {3, 46, 16},
                        {1, 48, 16},
                        {3, 63, 32},
                        {2, 64, 16},
                        {2, 26, 36},
                        {9, 3, 20}})
    cases.push_back(c);
  for (const OpDevice& on : op_devices<T>()) {
    for (const Case& size : cases) check_definition(on, Problem<T>(size));
    if (on.on_gpu()) continue;
    // In turn on one thread, whose workspace must follow every change of shape.
    for (const Case& size : interaction_cases_for_cpu()) check_definition(on, Problem<T>(size));
    for (const Case& size : {Case{2, 26, 16}, Case{2, 3, 5}, Case{2, 26, 17}, Case{2, 26, 16}})
      check_definition(on, Problem<T>(size));
  }
}

TEMPLATE_TEST_CASE("interaction takes any address", "[gpu]", float, bf16, fp16) {
  using T = TestType;
  for (const OpDevice& on : op_devices<T>())
    for (const Case& size : {Case{3, 5, 16}, Case{2, 26, 32}})
      for (const Shifts& shifts : {Shifts{0, 1}, Shifts{0, 7}, Shifts{1, 0}, Shifts{3, 2}})
        check_definition(on, Problem<T>(size), shifts);
}

TEST_CASE("interaction gives the same bits on any threads") {
  for (const Case& size : {Case{3, 26, 33}, Case{3, 26, 32}, Case{2, 40, 16}})
    check_same_bits([&]<typename T>(const OpDevice& on) {
      const Problem<T> problem(size);
      std::vector<float> all = run_forward(on, problem);
      const InteractionGradients<float> g = run_backward(on, problem, on.on_gpu());
      all.insert(all.end(), g.bottom.begin(), g.bottom.end());
      all.insert(all.end(), g.slots.begin(), g.slots.end());
      return all;
    });
}

// As the op and a pass over its result do it: the other gradients keep their bits, and what does
// not pass is 0 whatever it was.
TEMPLATE_TEST_CASE("interaction_backward masks by the bottom vector what a ReLU did not let pass",
                   "[gpu]", float, bf16, fp16) {
  using T = TestType;
  for (const OpDevice& on : op_devices<T>())
    for (const Case& size : {Case{5, 26, 128}, Case{3, 4, 48}, Case{3, 4, 12}, Case{3, 4, 5}}) {
      INFO(on.name() << ", " << size.text());
      Problem<T> problem(size);
      problem.input(0, 0, 1) = 0;
      problem.input(0, 0, 2) = -0.0f;
      problem.input(1, 0, 3) = -1;
      problem.grad(1, 3) = NAN;
      InteractionGradients<float> want = run_backward(on, problem);
      for (size_t i = 0; i < want.bottom.size(); ++i)
        if (!(problem.bottom[i] > 0)) want.bottom[i] = 0;
      const auto got = run_backward(on, problem, on.on_gpu(), {}, nullptr, true);
      CHECK(same_values(got.bottom, want.bottom));
      CHECK(same_values(got.slots, want.slots));
      CHECK(std::count(got.bottom.begin(), got.bottom.end(), 0.0f) > size.samples);
    }
}

// ---- Slots that are rows of a table ----

TEMPLATE_TEST_CASE("interaction_forward_of_rows makes the slots, and the bits of the two in turn",
                   "[gpu]", bf16, fp16) {
  using T = TestType;
  for (const OpDevice& on : op_devices<T>()) {
    if (!on.on_gpu()) continue;
    for (const Case& size :
         {Case{0, 26, 16}, Case{1, 26, 128}, Case{5, 26, 128}, Case{37, 26, 16}, Case{1, 1, 16},
          Case{3, 1, 128}, Case{7, 15, 48}, Case{2, 16, 64}, Case{3, 31, 32}, Case{3, 46, 112},
          Case{2, 63, 128}, Case{2, 33, 256}, Case{4, 0, 32}})
      for (const int64_t shift : {0, 3}) {
        INFO(on.name() << ", " << size.text() << ", shift " << shift);
        Problem<T> problem(size);
        const InteractionTable<T> table(problem, shift, shift / 2);
        REQUIRE(ops::interaction_takes_rows(size.slots, size.width));
        const auto [out, slots] = run_forward_of_rows(on, problem, table, shift);
        CHECK(same_values(slots, problem.slots));
        CHECK(same_values(out, run_forward(on, problem, {.rows = shift})));
      }
  }
}

TEST_CASE("interaction_takes_rows is about whole tiles, and the memory of a warp") {
  CHECK(ops::interaction_takes_rows(26, 128));
  CHECK(ops::interaction_takes_rows(63, 256));
  CHECK(!ops::interaction_takes_rows(64, 16));
  CHECK(!ops::interaction_takes_rows(26, 24));
  CHECK(!ops::interaction_takes_rows(26, 0));
  CHECK(!ops::interaction_takes_rows(1, 272));
}

// ---- Numbers that are none ----

constexpr int64_t kSample = 1, kInput = 2, kColumn = 5;  // where they are put

// That of one input shows in the dots with it, and in the gradients of its column.
template <typename T>
void check_odd_input(const OpDevice& on, const Problem<T>& clean, float odd) {
  const auto [B, n, V] = clean.size;
  Problem<T> problem = clean;
  problem.input(kSample, kInput, kColumn) = odd;
  const auto out = run_forward(on, clean), odd_out = run_forward(on, problem);
  std::vector<char> touched(out.size());
  for (int64_t i = 0; i <= n; ++i)
    if (i != kInput)
      touched[static_cast<size_t>(
          kSample * clean.size.out_width() +
          ops::interaction_column(V, std::min(i, kInput), std::max(i, kInput)))] = 1;
  for (size_t i = 0; i < out.size(); ++i) {
    INFO("out " << i);
    REQUIRE((touched[i] ? !std::isfinite(odd_out[i]) : same_values({odd_out[i]}, {out[i]})));
  }
  const auto before = run_backward(on, clean), got = run_backward(on, problem);
  for (int64_t b = 0; b < B; ++b)
    for (int64_t i = 0; i <= n; ++i)
      for (int64_t v = 0; v < V; ++v) {
        INFO("gradient " << b << "," << i << "," << v);
        const auto of = [&, input = i,
                         at = i == 0 ? b * V + v : (b * clean.size.slots + i - 1) * V + v](
                            const InteractionGradients<float>& g) {
          return (input == 0 ? g.bottom : g.slots)[static_cast<size_t>(at)];
        };
        if (b != kSample || v != kColumn)
          REQUIRE(same_values({of(got)}, {of(before)}));
        else if (i != kInput)
          REQUIRE(!std::isfinite(of(got)));
      }
}

TEMPLATE_TEST_CASE("interaction keeps NaN and infinity where they belong", "[gpu]", float, bf16,
                   fp16) {
  using T = TestType;
  for (const OpDevice& on : op_devices<T>()) {
    for (const Case& size : {Case{3, 26, 16}, Case{3, 4, 9}}) {
      INFO(on.name() << ", " << size.text());
      const auto [B, n, V] = size;
      const Problem<T> clean(size);
      for (const float odd : {NAN, INFINITY, -INFINITY}) check_odd_input(on, clean, odd);
      Problem<T> problem = clean;
      problem.grad(kSample, ops::interaction_column(V, 1, kInput)) = NAN;
      problem.grad(kSample, kColumn) = INFINITY;
      const auto got = run_backward(on, problem, on.on_gpu());
      for (int64_t i = 0; i < B * V; ++i)
        REQUIRE(std::isfinite(got.bottom[static_cast<size_t>(i)]) == (i != kSample * V + kColumn));
      for (int64_t i = 0; i < B * n * V; ++i) {
        const int64_t slot = i / V - kSample * n;
        REQUIRE(std::isfinite(got.slots[static_cast<size_t>(i)]) ==
                (slot != 0 && slot != kInput - 1));
      }
    }
  }
}

// Shapes for tensor cores, for multiply-adds, and for neither.
TEMPLATE_TEST_CASE("interaction_backward finds overflow in the slots' gradients, nowhere else",
                   "[gpu]", float, bf16, fp16) {
  using T = TestType;
  for (const OpDevice& on : op_devices<T>()) {
    for (const Case& size :
         {Case{5, 26, 16}, Case{9, 3, 48}, Case{3, 4, 9}, Case{5, 4, 12}, Case{3, 4, 5}}) {
      INFO(on.name() << ", " << size.text());
      const Problem<T> clean(size);
      const auto found = [&](const Problem<T>& problem, int32_t flag = 0) {
        run_backward(on, problem, on.on_gpu() && flag == 0, {}, &flag);
        return flag;
      };
      CHECK(found(clean) == 0);
      for (int64_t b = 0; b < size.samples; ++b) {
        // The gradient of slot 2 becomes too large at one column: twice the largest number.
        Problem<T> problem = clean;
        problem.input(b, 1, size.width - 1) = kLargest<T>;
        problem.grad(b, ops::interaction_column(size.width, 1, 2)) = 2;
        CHECK(found(problem) == 1);
        // That of the bottom vector is not one of them.
        problem = clean;
        problem.grad(b, size.width - 1) = INFINITY;
        CHECK(found(problem) == 0);
      }
      Problem<T> problem = clean;
      problem.grad(0, ops::interaction_column(size.width, 0, 1)) = NAN;
      CHECK(found(problem) == 1);
      CHECK(found(clean, 1) == 1);  // a flag that is set stays set
    }
  }
}

// Directional derivative of L = sum(dout * out), by central differences along a random direction.
// The definition is bilinear: only rounding separates the two.
TEST_CASE("interaction gradients are those of interaction_forward by finite differences", "[gpu]") {
  for (const OpDevice& on : op_devices<float>()) {
    for (const Case& size : {Case{1, 1, 3}, Case{3, 5, 16}, Case{2, 26, 33}}) {
      INFO(on.name() << ", " << size.text());
      Problem<float> problem(size);
      for (int64_t b = 0; b < size.samples; ++b) problem.grad(b, size.out_width() - 1) = 0;
      const auto gradients = run_backward(on, problem);
      const auto to_bottom = random_values(std::ssize(problem.bottom), 8);
      const auto to_slots = random_values(std::ssize(problem.slots), 9);
      const auto loss_at = [&](float step) {
        Problem<float> moved = problem;
        for (size_t i = 0; i < to_bottom.size(); ++i) moved.bottom[i] += step * to_bottom[i];
        for (size_t i = 0; i < to_slots.size(); ++i) moved.slots[i] += step * to_slots[i];
        const auto out = run_forward(on, moved);
        return std::inner_product(out.begin(), out.end(), problem.dout.begin(), 0.0);
      };
      const double want = std::inner_product(
          to_slots.begin(), to_slots.end(), gradients.slots.begin(),
          std::inner_product(to_bottom.begin(), to_bottom.end(), gradients.bottom.begin(), 0.0));
      const double got = loss_at(0.5f) - loss_at(-0.5f);
      CHECK(std::abs(got - want) <= 1e-4 * (1 + std::abs(want)));
    }
  }
}

// The same of the definition, element by element: it is linear in each of them.
TEST_CASE("interaction gradients are those of the definition by finite differences", "[gpu]") {
  Problem<float> problem({2, 4, 5});
  for (int64_t b = 0; b < 2; ++b) problem.grad(b, problem.size.out_width() - 1) = 0;
  const auto loss = [&] {
    const auto out = forward_oracle(problem);
    return std::inner_product(out.begin(), out.end(), problem.dout.begin(), 0.0);
  };
  const auto slopes = [&](std::vector<float>& values) {
    std::vector<double> all;
    for (float& value : values) {
      const float before = std::exchange(value, value + 0.5f);
      const double high = value, above = loss();
      value = before - 0.5f;
      all.push_back((above - loss()) / (high - static_cast<double>(value)));
      value = before;
    }
    return all;
  };
  const auto of_bottom = slopes(problem.bottom), of_slots = slopes(problem.slots);
  for (const OpDevice& on : op_devices<float>()) {
    INFO(on.name());
    const auto gradients = run_backward(on, problem);
    check_close(gradients.bottom, of_bottom, {1e-6, 1e-5}, "dbottom");
    check_close(gradients.slots, of_slots, {1e-6, 1e-5}, "dslots");
  }
}

TEST_CASE("interaction refuses shapes that do not fit") {
  const OpDevice on(1);
  std::vector<float> m(200);
  const Matrix<float> bottom(m.data(), 2, 4), out(m.data(), 2, ops::interaction_width(3, 4));
  const View<float, 3> slots(m.data(), 2, 3, 4), narrow(m.data(), 2, 3, 3);
  CHECK_THROWS_AS(ops::interaction_forward(on.exec(), bottom, narrow, out), Error);
  CHECK_THROWS_AS(ops::interaction_forward(on.exec(), bottom, slots, bottom), Error);
  const auto backward = [&](Matrix<float> dout, Matrix<float> dbottom, View<float, 3> dslots) {
    ops::interaction_backward(on.exec(), bottom, slots, dout, dbottom, dslots);
  };
  CHECK_THROWS_AS(backward(bottom, bottom, slots), Error);
  CHECK_THROWS_AS(backward(out, out, slots), Error);
  CHECK_THROWS_AS(backward(out, bottom, narrow), Error);
}

}  // namespace
}  // namespace hlite::test
