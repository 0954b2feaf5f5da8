// The interaction kernels against the definition in double precision, on the emulated device and,
// where there is one, on the GPU.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "hugectr_lite/ops/interaction_inputs.cuh"
#include "tests/cuda/interaction_problem.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

using Case = InteractionCase;
template <typename T>
using Problem = InteractionProblem<T>;

std::vector<Case> dot_cases() {
  std::vector<Case> all;
  for (const int64_t samples : {0, 1, 3})
    for (const int64_t slots : {0, 1, 26})
      for (const int64_t width : {1, 3, 16, 33, 128}) all.push_back({samples, slots, width});
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
    all.push_back(c);
  return all;
}

TEMPLATE_TEST_CASE("interaction kernels agree with the definition on every CUDA backend", "", float,
                   bf16, fp16) {
  using T = TestType;
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    for (const Case& size : dot_cases()) {
      const Problem<T> problem(size);
      compare(run_forward(*backend.table, problem), forward_oracle(problem), size);
      const InteractionGradients<double> want = backward_oracle(problem);
      for (const bool in_place : {false, true}) {
        const InteractionGradients<T> got = run_backward(*backend.table, problem, in_place);
        compare(got.bottom, want.bottom, size);
        compare(got.slots, want.slots, size);
      }
    }
  }
}

TEMPLATE_TEST_CASE("interaction kernels take any address", "", float, bf16, fp16) {
  using T = TestType;
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    for (const Case& size : {Case{3, 5, 16}, Case{2, 26, 32}}) {
      const Problem<T> problem(size);
      const InteractionGradients<double> want = backward_oracle(problem);
      for (const Shifts& shifts : {Shifts{0, 1}, Shifts{0, 7}, Shifts{1, 0}, Shifts{3, 2}}) {
        INFO("vectors " << shifts.vectors << ", rows " << shifts.rows);
        compare(run_forward(*backend.table, problem, shifts), forward_oracle(problem), size);
        const InteractionGradients<T> got = run_backward(*backend.table, problem, true, shifts);
        compare(got.bottom, want.bottom, size);
        compare(got.slots, want.slots, size);
      }
    }
  }
}

TEMPLATE_TEST_CASE("interaction kernels give the same bits in any order of threads", "", float,
                   bf16, fp16) {
  using T = TestType;
  for (const Case& size : {Case{3, 26, 33}, Case{3, 26, 32}, Case{2, 40, 16}}) {
    const Problem<T> problem(size);
    const std::vector<T> out = run_forward(emulated_cuda(), problem);
    const InteractionGradients<T> gradients = run_backward(emulated_cuda(), problem, true);
    for (const auto order : {emulation::Order::kReverse, emulation::Order::kShuffled}) {
      emulation::set_order(order, 5);
      CHECK(same_bits(run_forward(emulated_cuda(), problem), out));
      const InteractionGradients<T> again = run_backward(emulated_cuda(), problem, true);
      CHECK(same_bits(again.bottom, gradients.bottom));
      CHECK(same_bits(again.slots, gradients.slots));
    }
    emulation::set_order(emulation::Order::kForward);
  }
}

// What is not finite shows where the definition lets it, and nowhere else.
TEMPLATE_TEST_CASE("interaction kernels keep NaN and infinity where they belong", "", float, bf16,
                   fp16) {
  using T = TestType;
  constexpr int64_t kSample = 1, kInput = 2, kColumn = 5;
  const auto finite = [](T x) { return std::isfinite(to_float(x)); };
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    for (const Case& size : {Case{3, 26, 16}, Case{3, 4, 9}}) {
      INFO(size.text());
      const auto [B, n, V] = size;
      const Problem<T> clean(size);
      const std::vector<T> out = run_forward(*backend.table, clean);
      const InteractionGradients<T> gradients = run_backward(*backend.table, clean, false);
      for (const float odd : {std::numeric_limits<float>::quiet_NaN(), INFINITY, -INFINITY}) {
        Problem<T> problem = clean;
        problem.input(kSample, kInput, kColumn) = from_float<T>(odd);
        const std::vector<T> odd_out = run_forward(*backend.table, problem);
        std::vector<char> touched(odd_out.size());
        for (int64_t i = 0; i <= n; ++i)
          if (i != kInput)
            touched[static_cast<size_t>(
                kSample * size.out_width() +
                ops::interaction_column(V, std::min(i, kInput), std::max(i, kInput)))] = 1;
        for (size_t i = 0; i < out.size(); ++i) {
          INFO("out " << i);
          if (touched[i])
            REQUIRE(!finite(odd_out[i]));
          else
            REQUIRE(std::memcmp(&odd_out[i], &out[i], sizeof(T)) == 0);
        }
        const InteractionGradients<T> got = run_backward(*backend.table, problem, false);
        for (int64_t b = 0; b < B; ++b)
          for (int64_t i = 0; i <= n; ++i)
            for (int64_t v = 0; v < V; ++v) {
              const auto at = static_cast<size_t>(i == 0 ? b * V + v : (b * n + i - 1) * V + v);
              const T x = i == 0 ? got.bottom[at] : got.slots[at];
              const T before = i == 0 ? gradients.bottom[at] : gradients.slots[at];
              INFO("gradient " << b << "," << i << "," << v);
              if (b == kSample && v == kColumn) {
                if (i != kInput) REQUIRE(!finite(x));
              } else {
                REQUIRE(std::memcmp(&x, &before, sizeof(T)) == 0);
              }
            }
      }
      Problem<T> problem = clean;
      problem.grad(kSample, ops::interaction_column(V, 1, kInput)) = from_float<T>(NAN);
      problem.grad(kSample, kColumn) = from_float<T>(INFINITY);
      const InteractionGradients<T> got = run_backward(*backend.table, problem, true);
      for (size_t i = 0; i < got.bottom.size(); ++i)
        REQUIRE(finite(got.bottom[i]) == (i != static_cast<size_t>(kSample * V + kColumn)));
      for (size_t i = 0; i < got.slots.size(); ++i) {
        const auto slot = static_cast<int64_t>(i) / V;
        REQUIRE(finite(got.slots[i]) == (slot != kSample * n && slot != kSample * n + kInput - 1));
      }
    }
  }
}

// Directional derivative of L = sum(weights * out), by central differences along a random
// direction. The definition is bilinear: only rounding separates the two.
TEST_CASE("interaction gradients are those of the forward kernel by finite differences") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    for (const Case& size : {Case{1, 1, 3}, Case{3, 5, 16}, Case{2, 26, 33}}) {
      Problem<float> problem(size);
      for (int64_t b = 0; b < size.samples; ++b) problem.grad(b, size.out_width() - 1) = 0;
      const InteractionGradients<float> gradients = run_backward(*backend.table, problem, false);
      const auto direction_bottom =
          random_values<float>(static_cast<int64_t>(problem.bottom.size()), 8);
      const auto direction_slots =
          random_values<float>(static_cast<int64_t>(problem.slots.size()), 9);
      const auto loss_at = [&](float step) {
        Problem<float> moved = problem;
        for (size_t i = 0; i < moved.bottom.size(); ++i)
          moved.bottom[i] += step * direction_bottom[i];
        for (size_t i = 0; i < moved.slots.size(); ++i) moved.slots[i] += step * direction_slots[i];
        const std::vector<float> out = run_forward(*backend.table, moved);
        double loss = 0;
        for (size_t i = 0; i < out.size(); ++i) loss += double{problem.dout[i]} * double{out[i]};
        return loss;
      };
      double want = 0;
      for (size_t i = 0; i < gradients.bottom.size(); ++i)
        want += double{gradients.bottom[i]} * double{direction_bottom[i]};
      for (size_t i = 0; i < gradients.slots.size(); ++i)
        want += double{gradients.slots[i]} * double{direction_slots[i]};
      const double got = (loss_at(0.5f) - loss_at(-0.5f)) / 1.0;
      INFO(size.text());
      CHECK(std::abs(got - want) <= 1e-4 * (1 + std::abs(want)));
    }
  }
}

// out, dbottom and dslots by the kernels themselves, on host memory.
template <typename T>
std::vector<T> run_kernels(const Problem<T>& problem, const ops::InteractionLaunch& how) {
  const auto [B, n, V] = problem.size;
  const int64_t width = problem.size.out_width();
  std::vector<T> out(static_cast<size_t>(B * width), from_float<T>(NAN));
  std::vector<T> dbottom(problem.bottom), dslots(problem.slots);
  const Exec exec = emulated_exec();
  ops::kernels::interaction_forward<T>(exec, {problem.bottom.data(), B, V},
                                       {problem.slots.data(), B, n, V}, {out.data(), B, width},
                                       how);
  ops::kernels::interaction_backward<T>(exec, {dbottom.data(), B, V}, {dslots.data(), B, n, V},
                                        {problem.dout.data(), B, width}, {dbottom.data(), B, V},
                                        {dslots.data(), B, n, V}, nullptr, how);
  out.insert(out.end(), dbottom.begin(), dbottom.end());
  out.insert(out.end(), dslots.begin(), dslots.end());
  return out;
}

// Little shared memory cuts the vectors into chunks, few blocks make the grid take several samples
// each; neither changes a bit. With 50 inputs a thread's pairs are more than it sums at a time.
TEMPLATE_TEST_CASE("chunks and the grid do not change the interaction's bits", "", float, bf16,
                   fp16) {
  using T = TestType;
  for (const Case& size : {Case{7, 4, 33}, Case{2, 49, 33}}) {
    const Problem<T> problem(size);
    const std::vector<T> want = run_kernels(problem, {});
    for (const int64_t columns : {1, 2, 3, 10, 32, 33, 34}) {
      const ops::InteractionLaunch how{.shared_bytes = size.inputs() * columns * 4,
                                       .max_blocks = 2};
      INFO(size.text() << ", columns " << columns);
      CHECK(ops::gpu::interaction_chunk(size.inputs(), size.width, how.shared_bytes) ==
            std::min<int64_t>(size.width, columns % 2 == 1 ? columns : columns - 1));
      CHECK(same_bits(run_kernels(problem, how), want));
    }
  }
}

TEMPLATE_TEST_CASE("warps a block and blocks do not change the interaction's bits", "", float, bf16,
                   fp16) {
  using T = TestType;
  for (const Case& size : {Case{11, 4, 16}, Case{7, 20, 32}}) {
    INFO(size.text());
    const Problem<T> problem(size);
    const std::vector<T> want = run_kernels(problem, {});
    for (const auto order :
         {emulation::Order::kForward, emulation::Order::kReverse, emulation::Order::kShuffled}) {
      emulation::set_order(order, 7);
      for (const int64_t max_blocks : {1, 2, 3})
        CHECK(same_bits(run_kernels(problem, {.max_blocks = max_blocks}), want));
    }
    emulation::set_order(emulation::Order::kForward);
    // Room for one warp or two, whose samples need 1 to 13 KB.
    for (const int64_t bytes : {14000, 28000})
      CHECK(same_bits(run_kernels(problem, {.shared_bytes = bytes, .max_blocks = 2}), want));
  }
}

// A wave is the blocks that run at a time: `multiprocessors` of 2 blocks of 2 warps.
TEMPLATE_TEST_CASE("the interaction goes round over samples, several waves of them", "", float,
                   bf16, fp16) {
  using T = TestType;
  emulation::Machine& machine = emulation::machine();
  const emulation::Machine before = machine;
  for (const Case& size : {Case{0, 4, 16}, Case{1, 4, 16}, Case{4, 4, 16}, Case{5, 26, 16},
                           Case{17, 15, 16}, Case{37, 4, 16}, Case{13, 3, 20}}) {
    INFO(size.text());
    const Problem<T> problem(size);
    machine.multiprocessors = 100;
    const std::vector<T> want = run_kernels(problem, {});
    std::vector<double> oracle = forward_oracle(problem);
    const InteractionGradients<double> gradients = backward_oracle(problem);
    oracle.insert(oracle.end(), gradients.bottom.begin(), gradients.bottom.end());
    oracle.insert(oracle.end(), gradients.slots.begin(), gradients.slots.end());
    compare(want, oracle, size);
    for (const auto order :
         {emulation::Order::kForward, emulation::Order::kReverse, emulation::Order::kShuffled}) {
      emulation::set_order(order, 11);
      for (const int multiprocessors : {1, 3}) {
        machine.multiprocessors = multiprocessors;
        CHECK(same_bits(run_kernels(problem, {}), want));
      }
    }
    emulation::set_order(emulation::Order::kForward);
  }
  machine.multiprocessors = before.multiprocessors;
}

// 27 vectors of 128 are MLPerf's DLRM; the others have whole and partial tiles.
TEMPLATE_TEST_CASE("the interaction's vectors come from shared memory without bank conflicts", "",
                   bf16, fp16) {
  using T = TestType;
  for (const Case& size : {Case{3, 26, 128}, Case{2, 15, 48}, Case{2, 32, 64}, Case{1, 63, 16}}) {
    INFO(size.text());
    emulation::matrix_bank_conflicts = 0;
    run_kernels(Problem<T>(size), {});
    CHECK(emulation::matrix_bank_conflicts == 0);
  }
}

// Shapes for tensor cores, for multiply-adds, and for neither.
TEMPLATE_TEST_CASE("the interaction finds overflow in its slots' gradients, and nowhere else", "",
                   float, bf16, fp16) {
  using T = TestType;
  const float largest = std::is_same_v<T, fp16> ? 65504.0f : 3.3e38f;
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    for (const Case& size : {Case{5, 26, 16}, Case{9, 3, 48}, Case{3, 4, 9}, Case{5, 4, 12}}) {
      INFO(size.text());
      const Problem<T> clean(size);
      const auto found = [&](const Problem<T>& problem) {
        int32_t flag = 0;
        run_backward(*backend.table, problem, true, {}, &flag);
        return flag;
      };
      CHECK(found(clean) == 0);
      for (int64_t b = 0; b < size.samples; ++b) {
        // The gradient of slot 2 becomes too large at one column: twice the largest number.
        Problem<T> problem = clean;
        problem.input(b, 1, size.width - 1) = from_float<T>(largest);
        problem.grad(b, ops::interaction_column(size.width, 1, 2)) = from_float<T>(2.0f);
        CHECK(found(problem) == 1);
        // That of the bottom vector is not one of them.
        problem = clean;
        problem.grad(b, size.width - 1) = from_float<T>(INFINITY);
        CHECK(found(problem) == 0);
      }
      // A NaN; and a flag that is set stays set.
      Problem<T> problem = clean;
      problem.grad(0, ops::interaction_column(size.width, 0, 1)) = from_float<T>(NAN);
      CHECK(found(problem) == 1);
      int32_t set = 1;
      run_backward(*backend.table, clean, false, {}, &set);
      CHECK(set == 1);
    }
  }
}

// A shape that a warp would take, where shared memory is too small for it.
TEMPLATE_TEST_CASE("interaction kernels for any shape take what a warp has no room for", "", float,
                   bf16, fp16) {
  using T = TestType;
  const Case size{3, 26, 32};
  const Problem<T> problem(size);
  std::vector<double> want = forward_oracle(problem);
  const InteractionGradients<double> gradients = backward_oracle(problem);
  want.insert(want.end(), gradients.bottom.begin(), gradients.bottom.end());
  want.insert(want.end(), gradients.slots.begin(), gradients.slots.end());
  compare(run_kernels(problem, {.shared_bytes = 1200}), want, size);
}

TEST_CASE("more slots than shared memory holds are an error that says so") {
  const Case size{1, 40, 3};
  const Problem<float> problem(size);
  std::vector<float> out(static_cast<size_t>(size.out_width()));
  const std::string text = message_of<DeviceError>([&] {
    ops::kernels::interaction_forward<float>(
        emulated_exec(), {problem.bottom.data(), 1, 3}, {problem.slots.data(), 1, 40, 3},
        {out.data(), 1, size.out_width()}, {.shared_bytes = 160});
  });
  check_contains(text, {"interaction_forward", "160 bytes", "found 40 slots of width 3"});
}

}  // namespace
}  // namespace hlite::test
