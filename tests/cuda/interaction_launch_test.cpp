// How the interaction's kernels are started, on the emulated device: shared memory, blocks, warps.
#include <cuda_runtime.h>  // the emulated one
#include <cuda_runtime_api.h>

#include <algorithm>

#include "hugectr_lite/ops/interaction_inputs.cuh"
#include "tests/ops/interaction_problem.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

using Case = InteractionCase;
template <typename T>
using Problem = InteractionProblem<T>;

// out, dbottom and dslots, in place, of a bottom vector that comes out of a ReLU.
template <typename T>
std::vector<float> run_kernels(const Problem<T>& problem, const ops::InteractionLaunch& how) {
  const OpDevice on = emulated_device();
  const auto [B, n, V] = problem.size;
  const int64_t width = problem.size.out_width();
  const DeviceTensor<T> bottom(on, problem.bottom), slots(on, problem.slots);
  const DeviceTensor<T> dout(on, problem.dout), out(on, nans(B * width));
  ops::kernels::interaction_forward<T>(on.exec(), bottom.view(B, V), slots.view(B, n, V),
                                       out.view(B, width), how);
  ops::kernels::interaction_backward<T>(on.exec(), bottom.view(B, V), slots.view(B, n, V),
                                        dout.view(B, width), bottom.view(B, V), slots.view(B, n, V),
                                        nullptr, true, how);
  std::vector<float> all = out.host();
  for (const auto& part : {bottom.host(), slots.host()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

// What run_kernels() gives, by definition.
template <typename T>
std::vector<double> oracle(const Problem<T>& problem) {
  std::vector<double> all = forward_oracle(problem);
  const InteractionGradients<double> g = backward_oracle(problem, true);
  all.insert(all.end(), g.bottom.begin(), g.bottom.end());
  all.insert(all.end(), g.slots.begin(), g.slots.end());
  return all;
}

// body() with threads in every order.
template <typename Body>
void for_each_order(Body&& body) {
  for (const auto order :
       {emulation::Order::kForward, emulation::Order::kReverse, emulation::Order::kShuffled}) {
    emulation::set_order(order, 7);
    body();
  }
  emulation::set_order(emulation::Order::kForward);
}

// Little shared memory cuts the vectors into chunks, few blocks make the grid take several samples
// each; neither changes a bit. With 50 inputs a thread's pairs are more than it sums at a time.
TEMPLATE_TEST_CASE("chunks and the grid do not change the interaction's bits", "", float, bf16,
                   fp16) {
  for (const Case& size : {Case{7, 4, 33}, Case{2, 49, 33}}) {
    const Problem<TestType> problem(size);
    const auto want = run_kernels(problem, {});
    for (const int64_t columns : {1, 2, 3, 10, 32, 33, 34}) {
      const ops::InteractionLaunch how{.shared_bytes = size.inputs() * columns * 4,
                                       .max_blocks = 2};
      INFO(size.text() << ", columns " << columns);
      CHECK(ops::gpu::interaction_chunk(size.inputs(), size.width, how.shared_bytes) ==
            std::min<int64_t>(size.width, columns % 2 == 1 ? columns : columns - 1));
      CHECK(same_values(run_kernels(problem, how), want));
    }
  }
}

TEMPLATE_TEST_CASE("warps a block and blocks do not change the interaction's bits", "", float, bf16,
                   fp16) {
  for (const Case& size : {Case{11, 4, 16}, Case{7, 20, 32}}) {
    INFO(size.text());
    const Problem<TestType> problem(size);
    const auto want = run_kernels(problem, {});
    for_each_order([&] {
      for (const int64_t max_blocks : {1, 2, 3})
        CHECK(same_values(run_kernels(problem, {.max_blocks = max_blocks}), want));
    });
    // Memory for one warp or two, whose samples need 1 to 13 KB.
    for (const int64_t bytes : {14000, 28000})
      CHECK(same_values(run_kernels(problem, {.shared_bytes = bytes, .max_blocks = 2}), want));
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
    const auto want = run_kernels(problem, {});
    check_close(want, oracle(problem), interaction_tolerance<T>(emulated_device(), size.width));
    for_each_order([&] {
      for (const int multiprocessors : {1, 3}) {
        machine.multiprocessors = multiprocessors;
        CHECK(same_values(run_kernels(problem, {}), want));
      }
    });
  }
  machine.multiprocessors = before.multiprocessors;
}

TEMPLATE_TEST_CASE("an interaction of rows has the same bits with every grid and order", "", bf16,
                   fp16) {
  using T = TestType;
  emulation::Machine& machine = emulation::machine();
  const emulation::Machine before = machine;
  for (const Case& size : {Case{11, 4, 16}, Case{13, 26, 128}, Case{5, 40, 48}, Case{3, 63, 16}}) {
    INFO(size.text());
    Problem<T> problem(size);
    const InteractionTable<T> table(problem, 1, 1);
    const std::pair want(run_forward(emulated_device(), problem), problem.slots);
    const auto check = [&](const ops::InteractionLaunch& how) {
      const auto got = run_forward_of_rows(emulated_device(), problem, table, 0, &how);
      CHECK(same_values(got.first, want.first));
      CHECK(same_values(got.second, want.second));
    };
    for_each_order([&] {
      for (const int64_t max_blocks : {1, 2, 3}) check({.max_blocks = max_blocks});
      machine.multiprocessors = 1;
      check({});
      machine.multiprocessors = before.multiprocessors;
    });
    check({.shared_bytes = 17000, .max_blocks = 2});  // for one warp, or two
  }
}

TEST_CASE("an interaction gains by rows where slots are twice what the L2 cache holds") {
  constexpr int64_t kOfH200 = int64_t{50} << 20;
  CHECK(ops::interaction_gains_by_rows(nullptr, 2 * kOfH200 + 1));
  CHECK(!ops::interaction_gains_by_rows(nullptr, 2 * kOfH200));
  int& l2_bytes = emulation::l2_bytes();
  const int before = l2_bytes;
  l2_bytes = 10;
  CHECK(ops::interaction_gains_by_rows(&emulated_cuda(), 21));
  CHECK(!ops::interaction_gains_by_rows(&emulated_cuda(), 20));
  l2_bytes = before;
}

TEST_CASE("an interaction of rows that tensor cores do not take is an error") {
  Problem<bf16> problem({2, 3, 16});
  const InteractionTable<bf16> table(problem, 0, 0);
  const ops::InteractionLaunch little{.shared_bytes = 100};
  check_contains(message_of<DeviceError>(
                     [&] { run_forward_of_rows(emulated_device(), problem, table, 0, &little); }),
                 {"interaction_forward_of_rows", "3 of width 16"});
}

// 27 vectors of 128 are MLPerf's DLRM; the others have whole and partial tiles.
TEMPLATE_TEST_CASE("the interaction's vectors come from shared memory without bank conflicts", "",
                   bf16, fp16) {
  for (const Case& size : {Case{3, 26, 128}, Case{2, 15, 48}, Case{2, 32, 64}, Case{1, 63, 16}}) {
    INFO(size.text());
    emulation::matrix_bank_conflicts = 0;
    Problem<TestType> problem(size);
    run_kernels(problem, {});
    run_forward_of_rows(emulated_device(), problem, InteractionTable<TestType>(problem, 0, 0));
    CHECK(emulation::matrix_bank_conflicts == 0);
  }
}

// A shape that a warp would take, where shared memory is too small for it.
TEMPLATE_TEST_CASE("interaction kernels for any shape take samples that exceed a warp's memory", "",
                   float, bf16, fp16) {
  const Problem<TestType> problem({3, 26, 32});
  check_close(run_kernels(problem, {.shared_bytes = 1200}), oracle(problem),
              interaction_tolerance<TestType>(emulated_device(), 32));
}

TEST_CASE("more slots than shared memory holds are an error that says so") {
  const std::string text = message_of<DeviceError>([&] {
    run_kernels(Problem<float>({1, 40, 3}), {.shared_bytes = 160});
  });
  check_contains(text, {"interaction_forward", "160 bytes", "found 40 slots of width 3"});
}

}  // namespace
}  // namespace hlite::test
