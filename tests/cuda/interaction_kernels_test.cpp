// The interaction kernels against the definition in double precision, on the emulated device and,
// where there is one, on the GPU.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "hugectr_lite/ops/interaction.h"
#include "hugectr_lite/ops/interaction_kernels.cuh"
#include "tests/support/compare.h"
#include "tests/support/cuda_backends.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

struct Case {
  int64_t samples, slots, width;

  [[nodiscard]] int64_t inputs() const { return slots + 1; }
  [[nodiscard]] int64_t out_width() const { return ops::interaction_width(slots, width); }
  [[nodiscard]] std::string text() const {
    return fmt::format("B {} n {} V {}", samples, slots, width);
  }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int64_t samples : {0, 1, 3})
    for (const int64_t slots : {0, 1, 26})
      for (const int64_t width : {1, 3, 16, 33, 128}) all.push_back({samples, slots, width});
  return all;
}

std::vector<float> random_values(int64_t n, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(n));
  fill_random(values, seed);
  return values;
}

struct Problem {
  Case size;
  std::vector<float> bottom, slots, dout;

  explicit Problem(const Case& c)
      : size(c),
        bottom(random_values(c.samples * c.width, 1)),
        slots(random_values(c.samples * c.slots * c.width, 2)),
        dout(random_values(c.samples * c.out_width(), 3)) {
    // The pad column's gradient must not count.
    for (int64_t b = 0; b < c.samples; ++b)
      dout[static_cast<size_t>((b + 1) * c.out_width() - 1)] =
          std::numeric_limits<float>::quiet_NaN();
  }
  [[nodiscard]] double input(int64_t b, int64_t i, int64_t v) const {
    return i == 0 ? bottom[static_cast<size_t>(b * size.width + v)]
                  : slots[static_cast<size_t>((b * size.slots + i - 1) * size.width + v)];
  }
  [[nodiscard]] double grad(int64_t b, int64_t column) const {
    return dout[static_cast<size_t>(b * size.out_width() + column)];
  }
};

// The definition: bottom, then dot(r, c) in the order of c, then of r < c, then a zero.
std::vector<double> forward_oracle(const Problem& p) {
  std::vector<double> out;
  for (int64_t b = 0; b < p.size.samples; ++b) {
    for (int64_t v = 0; v < p.size.width; ++v) out.push_back(p.input(b, 0, v));
    for (int64_t c = 1; c < p.size.inputs(); ++c)
      for (int64_t r = 0; r < c; ++r) {
        double dot = 0;
        for (int64_t v = 0; v < p.size.width; ++v) dot += p.input(b, r, v) * p.input(b, c, v);
        out.push_back(dot);
      }
    out.push_back(0);
  }
  return out;
}

struct Gradients {
  std::vector<double> bottom, slots;
};

// Each pair passes its gradient to both of its vectors.
Gradients backward_oracle(const Problem& p) {
  const auto [B, n, V] = p.size;
  std::vector<double> all(static_cast<size_t>(B * (n + 1) * V));
  const auto at = [&, inputs = n + 1, width = V](int64_t b, int64_t i, int64_t v) -> double& {
    return all[static_cast<size_t>((b * inputs + i) * width + v)];
  };
  Gradients g;
  for (int64_t b = 0; b < B; ++b) {
    int64_t column = 0;
    for (; column < V; ++column) at(b, 0, column) = p.grad(b, column);
    for (int64_t c = 1; c <= n; ++c)
      for (int64_t r = 0; r < c; ++r, ++column)
        for (int64_t v = 0; v < V; ++v) {
          at(b, r, v) += p.grad(b, column) * p.input(b, c, v);
          at(b, c, v) += p.grad(b, column) * p.input(b, r, v);
        }
    for (int64_t i = 0; i <= n; ++i)
      for (int64_t v = 0; v < V; ++v) (i == 0 ? g.bottom : g.slots).push_back(at(b, i, v));
  }
  return g;
}

// Through the op's own dispatch, as a layer calls it.
Exec on(const cuda::OpTable& table, const TestStream& stream) {
  return {.device = Device::kCuda, .cuda = &table, .stream = stream.get()};
}

std::vector<float> run_forward(const cuda::OpTable& table, const Problem& p) {
  const auto [B, n, V] = p.size;
  const TestStream stream(table);
  const DeviceArray<float> bottom(table, p.bottom), slots(table, p.slots);
  const DeviceArray<float> out(table, static_cast<size_t>(B * p.size.out_width()));
  ops::interaction_forward(on(table, stream), {bottom.data(), B, V}, {slots.data(), B, n, V},
                           {out.data(), B, p.size.out_width()});
  return out.to_host(stream.get());
}

struct FloatGradients {
  std::vector<float> bottom, slots;
};

// In place: the gradients replace the inputs, as the contract allows.
FloatGradients run_backward(const cuda::OpTable& table, const Problem& p, bool in_place) {
  const auto [B, n, V] = p.size;
  const TestStream stream(table);
  const DeviceArray<float> bottom(table, p.bottom), slots(table, p.slots), dout(table, p.dout);
  const DeviceArray<float> dbottom(table, p.bottom.size()), dslots(table, p.slots.size());
  const auto& to_bottom = in_place ? bottom : dbottom;
  const auto& to_slots = in_place ? slots : dslots;
  ops::interaction_backward(on(table, stream), {bottom.data(), B, V}, {slots.data(), B, n, V},
                            {dout.data(), B, p.size.out_width()}, {to_bottom.data(), B, V},
                            {to_slots.data(), B, n, V});
  return {to_bottom.to_host(stream.get()), to_slots.to_host(stream.get())};
}

// Terms are below 1 and at most 128 (forward) or 27 (backward) are summed in float.
constexpr Tolerance kTolerance{.absolute = 2e-5, .relative = 1e-6};

template <typename Got, typename Want>
void compare(const std::vector<Got>& got, const std::vector<Want>& want, const Case& size) {
  check_close(std::span<const Got>(got), std::span<const Want>(want), kTolerance,
              size.text().c_str());
}

TEST_CASE("interaction kernels agree with the definition on every CUDA backend") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    for (const Case& size : cases()) {
      const Problem problem(size);
      compare(run_forward(*backend.table, problem), forward_oracle(problem), size);
      const Gradients want = backward_oracle(problem);
      for (const bool in_place : {false, true}) {
        const FloatGradients got = run_backward(*backend.table, problem, in_place);
        compare(got.bottom, want.bottom, size);
        compare(got.slots, want.slots, size);
      }
    }
  }
}

TEST_CASE("interaction kernels give the same bits in any order of threads") {
  const Problem problem({3, 26, 33});
  const std::vector<float> out = run_forward(emulated_cuda(), problem);
  const FloatGradients gradients = run_backward(emulated_cuda(), problem, true);
  for (const auto order : {emulation::Order::kReverse, emulation::Order::kShuffled}) {
    emulation::set_order(order, 5);
    CHECK((run_forward(emulated_cuda(), problem) == out));
    const FloatGradients again = run_backward(emulated_cuda(), problem, true);
    CHECK((again.bottom == gradients.bottom));
    CHECK((again.slots == gradients.slots));
  }
  emulation::set_order(emulation::Order::kForward);
}

// Directional derivative of L = sum(weights * out), by central differences along a random
// direction. The definition is bilinear: only rounding separates the two.
TEST_CASE("interaction gradients are those of the forward kernel by finite differences") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    for (const Case& size : {Case{1, 1, 3}, Case{3, 5, 16}, Case{2, 26, 33}}) {
      Problem problem(size);
      for (int64_t b = 0; b < size.samples; ++b)
        problem.dout[static_cast<size_t>((b + 1) * size.out_width() - 1)] = 0;
      const FloatGradients gradients = run_backward(*backend.table, problem, false);
      const auto direction_bottom = random_values(static_cast<int64_t>(problem.bottom.size()), 8);
      const auto direction_slots = random_values(static_cast<int64_t>(problem.slots.size()), 9);
      const auto loss_at = [&](float step) {
        Problem moved = problem;
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

// The launchers directly: little shared memory cuts the vectors into chunks, few blocks make the
// grid take several samples each; neither changes a bit.
TEST_CASE("chunks and the grid do not change the interaction's bits") {
  const Case size{7, 4, 33};
  Problem problem(size);
  const auto [B, n, V] = size;
  const auto run = [&, samples = B, slots = n, width = V](const ops::gpu::InteractionLaunch& how) {
    std::vector<float> out(static_cast<size_t>(samples * size.out_width()), NAN);
    std::vector<float> dbottom(problem.bottom), dslots(problem.slots);
    const Matrix<const float> bottom(problem.bottom.data(), samples, width);
    const View<const float, 3> slot_view(problem.slots.data(), samples, slots, width);
    ops::gpu::interaction_forward<float>(nullptr, bottom, slot_view,
                                         {out.data(), samples, size.out_width()}, how);
    ops::gpu::interaction_backward<float>(
        nullptr, Matrix<const float>(dbottom.data(), samples, width),
        View<const float, 3>(dslots.data(), samples, slots, width),
        Matrix<const float>(problem.dout.data(), samples, size.out_width()),
        {dbottom.data(), samples, width}, {dslots.data(), samples, slots, width}, how);
    out.insert(out.end(), dbottom.begin(), dbottom.end());
    out.insert(out.end(), dslots.begin(), dslots.end());
    return out;
  };
  const std::vector<float> want = run({});
  for (const int64_t columns : {1, 2, 3, 10, 32, 33, 34}) {
    const ops::gpu::InteractionLaunch how{.shared_bytes = (n + 1) * columns * 4, .max_blocks = 2};
    INFO(columns);
    CHECK(ops::gpu::interaction_chunk(n + 1, V, how.shared_bytes) ==
          std::min<int64_t>(V, columns % 2 == 1 ? columns : columns - 1));
    CHECK((run(how) == want));  // in parentheses: not to print them all
  }
}

TEST_CASE("more slots than shared memory holds are an error that says so") {
  const Case size{1, 40, 3};
  const Problem problem(size);
  std::vector<float> out(static_cast<size_t>(size.out_width()));
  const std::string text = message_of<CudaError>([&] {
    ops::gpu::interaction_forward<float>(nullptr, {problem.bottom.data(), 1, 3},
                                         {problem.slots.data(), 1, 40, 3},
                                         {out.data(), 1, size.out_width()}, {.shared_bytes = 160});
  });
  check_contains(text, {"interaction_forward", "160 bytes", "found 40 slots of width 3"});
}

}  // namespace
}  // namespace hlite::test
