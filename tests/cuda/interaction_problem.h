// Inputs of the dot interaction in T, its definition in double precision on what T holds of them,
// and runs of the ops on a CUDA backend.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/ops/interaction.h"
#include "tests/cuda/typed_values.h"
#include "tests/support/compare.h"
#include "tests/support/cuda_backends.h"

namespace hlite::test {

struct InteractionCase {
  int64_t samples, slots, width;

  [[nodiscard]] int64_t inputs() const { return slots + 1; }
  [[nodiscard]] int64_t out_width() const { return ops::interaction_width(slots, width); }
  [[nodiscard]] std::string text() const {
    return fmt::format("B {} n {} V {}", samples, slots, width);
  }
};

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <typename T>
struct InteractionProblem {
  InteractionCase size;
  std::vector<T> bottom, slots, dout;

  explicit InteractionProblem(const InteractionCase& c)
      : size(c),
        bottom(random_values<T>(c.samples * c.width, 1)),
        slots(random_values<T>(c.samples * c.slots * c.width, 2)),
        dout(random_values<T>(c.samples * c.out_width(), 3)) {
    // The pad column's gradient must not count.
    for (int64_t b = 0; b < c.samples; ++b)
      grad(b, c.out_width() - 1) = from_float<T>(std::numeric_limits<float>::quiet_NaN());
  }
  [[nodiscard]] T& input(int64_t b, int64_t i, int64_t v) {
    return i == 0 ? bottom[static_cast<size_t>(b * size.width + v)]
                  : slots[static_cast<size_t>((b * size.slots + i - 1) * size.width + v)];
  }
  [[nodiscard]] T& grad(int64_t b, int64_t column) {
    return dout[static_cast<size_t>(b * size.out_width() + column)];
  }
};

// The definition: bottom, then dot(r, c) in the order of c, then of r < c, then a zero.
template <typename T>
std::vector<double> forward_oracle(InteractionProblem<T> p) {
  const auto at = [&](int64_t b, int64_t i, int64_t v) {
    return static_cast<double>(to_float(p.input(b, i, v)));
  };
  std::vector<double> out;
  for (int64_t b = 0; b < p.size.samples; ++b) {
    for (int64_t v = 0; v < p.size.width; ++v) out.push_back(at(b, 0, v));
    for (int64_t c = 1; c < p.size.inputs(); ++c)
      for (int64_t r = 0; r < c; ++r) {
        double dot = 0;
        for (int64_t v = 0; v < p.size.width; ++v) dot += at(b, r, v) * at(b, c, v);
        out.push_back(dot);
      }
    out.push_back(0);
  }
  return out;
}

template <typename T>
struct InteractionGradients {
  std::vector<T> bottom, slots;
};

// Each pair passes its gradient to both of its vectors.
template <typename T>
InteractionGradients<double> backward_oracle(InteractionProblem<T> p) {
  const auto [B, n, V] = p.size;
  std::vector<double> all(static_cast<size_t>(B * (n + 1) * V));
  const auto at = [&, inputs = n + 1, width = V](int64_t b, int64_t i, int64_t v) -> double& {
    return all[static_cast<size_t>((b * inputs + i) * width + v)];
  };
  InteractionGradients<double> g;
  for (int64_t b = 0; b < B; ++b) {
    int64_t column = 0;
    for (; column < V; ++column) at(b, 0, column) = double{to_float(p.grad(b, column))};
    for (int64_t c = 1; c <= n; ++c)
      for (int64_t r = 0; r < c; ++r, ++column) {
        const double weight = double{to_float(p.grad(b, column))};
        for (int64_t v = 0; v < V; ++v) {
          at(b, r, v) += weight * double{to_float(p.input(b, c, v))};
          at(b, c, v) += weight * double{to_float(p.input(b, r, v))};
        }
      }
    for (int64_t i = 0; i <= n; ++i)
      for (int64_t v = 0; v < V; ++v) (i == 0 ? g.bottom : g.slots).push_back(at(b, i, v));
  }
  return g;
}

// Terms are below 1 and at most 128 of them are summed in float, by tensor cores not with float's
// rounding; then comes the rounding to T.
template <typename T>
constexpr Tolerance kInteractionTolerance = {.absolute = 2e-5, .relative = 1e-6};
template <>
inline constexpr Tolerance kInteractionTolerance<bf16> = {.absolute = 5e-5, .relative = 1.0 / 256};
template <>
inline constexpr Tolerance kInteractionTolerance<fp16> = {.absolute = 5e-5, .relative = 1.0 / 2048};

template <typename T>
void compare(const std::vector<T>& got, const std::vector<double>& want,
             const InteractionCase& size) {
  const std::vector<float> floats = widened(got);
  check_close(std::span<const float>(floats), std::span<const double>(want),
              kInteractionTolerance<T>, size.text().c_str());
}

// Values on the device, so many elements past an address that is a multiple of 256.
template <typename T>
class ShiftedArray {
 public:
  ShiftedArray(const cuda::Backend& table, std::vector<T> values, int64_t shift = 0)
      : shift_(shift), array_(table, (values.insert(values.begin(), shift_of(), T{}), values)) {}

  [[nodiscard]] T* data() const { return array_.data() + shift_; }
  [[nodiscard]] std::vector<T> to_host(void* stream) const {
    std::vector<T> values = array_.to_host(stream);
    values.erase(values.begin(), values.begin() + shift_);
    return values;
  }

 private:
  [[nodiscard]] size_t shift_of() const { return static_cast<size_t>(shift_); }

  int64_t shift_;
  DeviceArray<T> array_;
};

// How far arrays lie past a multiple of 256 bytes, in elements.
struct Shifts {
  int64_t vectors = 0;  // inputs and their gradients
  int64_t rows = 0;     // out and dout
};

// The emulated device takes host memory as its own.
inline Exec emulated_exec() { return {.device = Device::kCuda, .cuda = &emulated_cuda()}; }
inline Exec exec_on(const cuda::Backend& table, const TestStream& stream) {
  return {.device = Device::kCuda, .cuda = &table, .stream = stream.get()};
}

// Through the op's own dispatch, as a layer calls it. What is not written stays NaN.
template <typename T>
std::vector<T> run_forward(const cuda::Backend& table, const InteractionProblem<T>& p,
                           Shifts shifts = {}) {
  const auto [B, n, V] = p.size;
  const TestStream stream(table);
  const ShiftedArray<T> bottom(table, p.bottom, shifts.vectors),
      slots(table, p.slots, shifts.vectors),
      out(table, std::vector<T>(static_cast<size_t>(B * p.size.out_width()), from_float<T>(NAN)),
          shifts.rows);
  ops::interaction_forward<T>(exec_on(table, stream), {bottom.data(), B, V},
                              {slots.data(), B, n, V}, {out.data(), B, p.size.out_width()});
  return out.to_host(stream.get());
}

// In place: the gradients replace the inputs, as the contract allows. `overflow`: the flag that the
// op may set, null for none.
template <typename T>
InteractionGradients<T> run_backward(const cuda::Backend& table, const InteractionProblem<T>& p,
                                     bool in_place, Shifts shifts = {},
                                     int32_t* overflow = nullptr) {
  const auto [B, n, V] = p.size;
  const TestStream stream(table);
  const auto nans = [](size_t size) { return std::vector<T>(size, from_float<T>(NAN)); };
  const ShiftedArray<T> bottom(table, p.bottom, shifts.vectors),
      slots(table, p.slots, shifts.vectors), dout(table, p.dout, shifts.rows),
      dbottom(table, nans(p.bottom.size()), shifts.vectors),
      dslots(table, nans(p.slots.size()), shifts.vectors);
  const auto& to_bottom = in_place ? bottom : dbottom;
  const auto& to_slots = in_place ? slots : dslots;
  const DeviceArray<int32_t> flag(table, std::vector<int32_t>{overflow ? *overflow : 0});
  ops::interaction_backward<T>(exec_on(table, stream), {bottom.data(), B, V},
                               {slots.data(), B, n, V}, {dout.data(), B, p.size.out_width()},
                               {to_bottom.data(), B, V}, {to_slots.data(), B, n, V},
                               overflow ? flag.data() : nullptr);
  if (overflow) *overflow = flag.to_host(stream.get())[0];
  return {to_bottom.to_host(stream.get()), to_slots.to_host(stream.get())};
}

}  // namespace hlite::test
