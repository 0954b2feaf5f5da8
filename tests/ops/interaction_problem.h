// Inputs of the dot interaction as T holds them, its definition in double precision, and runs of
// the ops on a device.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/interaction.h"
#include "tests/support/op_device.h"

namespace hlite::test {

struct InteractionCase {
  int64_t samples, slots, width;

  [[nodiscard]] int64_t inputs() const { return slots + 1; }
  [[nodiscard]] int64_t out_width() const { return ops::interaction_width(slots, width); }
  [[nodiscard]] int64_t out_size() const { return samples * out_width(); }
  [[nodiscard]] std::string text() const {
    return fmt::format("B {} n {} V {}", samples, slots, width);
  }
};

// More than the emulated device does in short time.
inline std::vector<InteractionCase> interaction_cases_for_cpu() {
  return {{0, 3, 4},    {1, 0, 1},   {3, 0, 16},  {2, 1, 1},    {5, 1, 3},
          {4, 2, 7},    {3, 3, 8},   {2, 4, 33},  {3, 5, 24},   {65, 26, 16},
          {9, 26, 128}, {7, 27, 13}, {2, 31, 40}, {1, 101, 56}, {1037, 2, 3}};
}

template <typename T>
struct InteractionProblem {
  InteractionCase size;
  std::vector<float> bottom, slots, dout;

  explicit InteractionProblem(const InteractionCase& c)
      : size(c),
        bottom(random_values<T>(c.samples * c.width, 1)),
        slots(random_values<T>(c.samples * c.slots * c.width, 2)),
        dout(random_values<T>(c.out_size(), 3)) {
    for (int64_t b = 0; b < c.samples; ++b)
      grad(b, c.out_width() - 1) = NAN;  // the pad column's, which must not count
  }
  [[nodiscard]] float& input(int64_t b, int64_t i, int64_t v) {
    return i == 0 ? bottom[static_cast<size_t>(b * size.width + v)]
                  : slots[static_cast<size_t>((b * size.slots + i - 1) * size.width + v)];
  }
  [[nodiscard]] double input(int64_t b, int64_t i, int64_t v) const {
    return static_cast<double>(const_cast<InteractionProblem*>(this)->input(b, i, v));
  }
  [[nodiscard]] float& grad(int64_t b, int64_t column) {
    return dout[static_cast<size_t>(b * size.out_width() + column)];
  }
};

// The definition: bottom, then dot(r, c) in the order of c, then of r < c, then a zero.
template <typename T>
std::vector<double> forward_oracle(const InteractionProblem<T>& p) {
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

template <typename T>
struct InteractionGradients {
  std::vector<T> bottom, slots;
};

// Each pair passes its gradient to both of its vectors; and a ReLU that made the bottom vector what
// it let pass.
template <typename T>
InteractionGradients<double> backward_oracle(const InteractionProblem<T>& p, bool relu = false) {
  const auto [B, n, V] = p.size;
  InteractionGradients<double> g;
  std::vector<double> all(static_cast<size_t>((n + 1) * V));  // of a sample
  const float* weight = p.dout.data();
  for (int64_t b = 0; b < B; ++b, ++weight) {  // after each sample, the pad
    std::fill(all.begin(), all.end(), 0.0);
    for (int64_t v = 0; v < V; ++v, ++weight) all[static_cast<size_t>(v)] = *weight;
    for (int64_t c = 1; c <= n; ++c)
      for (int64_t r = 0; r < c; ++r, ++weight)
        for (int64_t v = 0; v < V; ++v) {
          all[static_cast<size_t>(r * V + v)] += static_cast<double>(*weight) * p.input(b, c, v);
          all[static_cast<size_t>(c * V + v)] += static_cast<double>(*weight) * p.input(b, r, v);
        }
    for (int64_t v = 0; v < V; ++v)
      g.bottom.push_back(!relu || p.input(b, 0, v) > 0 ? all[static_cast<size_t>(v)] : 0.0);
    g.slots.insert(g.slots.end(), all.begin() + V, all.end());
  }
  return g;
}

// Sums of `terms` products below 1 in float, by tensor cores not with float's rounding; then comes
// the rounding to T.
template <typename T>
Tolerance interaction_tolerance(const OpDevice& on, int64_t terms) {
  if (!std::is_same_v<T, float>) return {.absolute = 5e-5, .relative = kRounding<T>};
  const double deviation = std::sqrt(static_cast<double>(terms) / 9);
  return {.absolute = on.on_gpu() ? 2e-5 : 1e-6 * (deviation + 1), .relative = 1e-6};
}

// How far tensors lie past an aligned address, in elements.
struct Shifts {
  int64_t vectors = 0;  // inputs and their gradients
  int64_t rows = 0;     // out and dout
};

// Through the op's own dispatch, as a layer calls it. What is not written stays NaN.
template <typename T>
std::vector<float> run_forward(const OpDevice& on, const InteractionProblem<T>& p,
                               const Shifts& shifts = {}) {
  const auto [B, n, V] = p.size;
  const DeviceTensor<T> bottom(on, p.bottom, shifts.vectors), slots(on, p.slots, shifts.vectors);
  const DeviceTensor<T> out(on, nans(p.size.out_size()), shifts.rows);
  ops::interaction_forward<T>(on.exec(), bottom.view(B, V), slots.view(B, n, V),
                              out.view(B, p.size.out_width()));
  return out.host();
}

// The slots of a problem as rows of a table: every third one absent, for which the problem gets
// zeros, and in another order than they are looked up in.
template <typename T>
struct InteractionTable {
  int64_t columns, first_column;
  std::vector<float> rows;  // [samples * slots + 1, width], the last one of nobody
  std::vector<uint32_t> numbers;

  InteractionTable(InteractionProblem<T>& p, int64_t more_columns, int64_t first)
      : columns(p.size.slots + more_columns), first_column(first) {
    const auto [B, n, V] = p.size;
    // Between two values of T: it is the kernel that rounds.
    const auto random = random_values<float>((B * n + 1) * V, 4);
    rows.assign(random.begin(), random.end());
    numbers.assign(static_cast<size_t>(B * columns), 0);  // of other layers
    for (int64_t i = 0; i < B * n; ++i) {
      const int64_t row = B * n - 1 - i;
      const bool absent = i % 3 == 2;
      numbers[static_cast<size_t>(i / n * columns + first + i % n)] =
          !absent      ? static_cast<uint32_t>(row)
          : i % 2 == 0 ? 0xffffffffu
                       : uint32_t(B * n + 1);
      for (int64_t v = 0; v < V; ++v)
        p.slots[static_cast<size_t>(i * V + v)] =
            absent ? 0.0f : to_float(from_float<T>(rows[static_cast<size_t>(row * V + v)]));
    }
  }
};

// out, and the slots that the op has made of rows.
template <typename T>
std::pair<std::vector<float>, std::vector<float>> run_forward_of_rows(
    const OpDevice& on, const InteractionProblem<T>& p, const InteractionTable<T>& t,
    int64_t row_shift = 0, const ops::InteractionLaunch* how = nullptr) {
  const auto [B, n, V] = p.size;
  const DeviceTensor<T> bottom(on, p.bottom), slots(on, nans(B * n * V)),
      out(on, nans(p.size.out_size()), row_shift);
  const DeviceTensor<float> table(on, t.rows);
  const DeviceTensor<uint32_t> numbers(on, t.numbers);
  const ops::InteractionRows rows{.table = table.view(B * n + 1, V),
                                  .numbers = numbers.view(B, t.columns),
                                  .first_column = t.first_column};
  if (how)
    ops::kernels::interaction_forward_of_rows<T>(on.exec(), bottom.view(B, V), rows,
                                                 slots.view(B, n, V),
                                                 out.view(B, p.size.out_width()), *how);
  else
    ops::interaction_forward_of_rows<T>(on.exec(), bottom.view(B, V), rows, slots.view(B, n, V),
                                        out.view(B, p.size.out_width()));
  return {out.host(), slots.host()};
}

// In place: the gradients replace the inputs, as the contract allows on a GPU. `gradient_overflow`:
// the flag that the op may set, null for none.
template <typename T>
InteractionGradients<float> run_backward(const OpDevice& on, const InteractionProblem<T>& p,
                                         bool in_place = false, const Shifts& shifts = {},
                                         int32_t* gradient_overflow = nullptr, bool relu = false) {
  const auto [B, n, V] = p.size;
  const DeviceTensor<T> bottom(on, p.bottom, shifts.vectors), slots(on, p.slots, shifts.vectors);
  const DeviceTensor<T> dout(on, p.dout, shifts.rows);
  const DeviceTensor<T> dbottom(on, nans(bottom.size()), shifts.vectors);
  const DeviceTensor<T> dslots(on, nans(slots.size()), shifts.vectors);
  const DeviceTensor<int32_t> flag(on, {gradient_overflow ? *gradient_overflow : 0});
  const auto& to_bottom = in_place ? bottom : dbottom;
  const auto& to_slots = in_place ? slots : dslots;
  ops::interaction_backward<T>(on.exec(), bottom.view(B, V), slots.view(B, n, V),
                               dout.view(B, p.size.out_width()), to_bottom.view(B, V),
                               to_slots.view(B, n, V), gradient_overflow ? flag.data() : nullptr,
                               relu);
  if (gradient_overflow) *gradient_overflow = flag.host()[0];
  return {to_bottom.host(), to_slots.host()};
}

}  // namespace hlite::test
