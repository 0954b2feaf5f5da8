// Fully connected layers: shapes, values, and their products in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "hugectr_lite/ops/fully_connected.h"
#include "tests/support/op_device.h"

namespace hlite::test {

struct LayerShape {
  int64_t batch, in, out;
  bool large = false;  // more than the emulated device does in short time
  [[nodiscard]] std::string text() const { return fmt::format("[{},{}] -> {}", batch, in, out); }
};
inline constexpr LayerShape kLayerShapes[] = {
    {1, 1, 1},          {0, 5, 3},          {1, 7, 33},          {7, 33, 1},
    {33, 1, 7},         {31, 13, 17},       {64, 16, 64},        {67, 29, 31},
    {131, 13, 40},      {65, 40, 16},       {3, 211, 5},         {5, 3, 211},
    {5, 0, 3},          {4, 0, 1},          {70, 64, 1},         {270, 24, 1},
    {3, 5, 0},          {0, 4, 1},          {259, 13, 40, true}, {513, 37, 5, true},
    {1031, 3, 2, true}, {3, 1031, 5, true}, {5, 3, 1031, true}};

inline size_t at(int64_t row, int64_t columns, int64_t column) {
  return static_cast<size_t>(row * columns + column);
}

// x w, in double.
template <typename Value>
std::vector<double> products(const LayerShape& s, const std::vector<Value>& x,
                             const std::vector<Value>& w) {
  std::vector<double> z(at(s.batch, s.out, 0));
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t i = 0; i < s.in; ++i)
      for (int64_t o = 0; o < s.out; ++o)
        z[at(b, s.out, o)] +=
            static_cast<double>(x[at(b, s.in, i)]) * static_cast<double>(w[at(i, s.out, o)]);
  return z;
}

template <typename T>
struct LayerCase {
  LayerShape shape;
  std::vector<float> x, w, dz;
  std::vector<double> z, dx, dw;  // x w, dz w^T, x^T dz

  explicit LayerCase(const LayerShape& s)
      : shape(s),
        x(random_values<T>(s.batch * s.in, 1)),
        w(random_values<T>(s.in * s.out, 2)),
        dz(random_values<T>(s.batch * s.out, 3)),
        dx(x.size()),
        dw(w.size()) {
    for (size_t i = 0; i < x.size(); i += 5) x[i] = 0;  // which a ReLU below would not let pass
    z = products(s, x, w);
    for (int64_t b = 0; b < s.batch; ++b)
      for (int64_t i = 0; i < s.in; ++i)
        for (int64_t o = 0; o < s.out; ++o) {
          const auto d = static_cast<double>(dz[at(b, s.out, o)]);
          dx[at(b, s.in, i)] += d * static_cast<double>(w[at(i, s.out, o)]);
          dw[at(i, s.out, o)] += d * static_cast<double>(x[at(b, s.in, i)]);
        }
  }
};

// What rounding to T adds to the error of float sums.
template <typename T>
inline constexpr double kUnit = std::is_same_v<T, float> ? 0 : kRounding<T>;

// Of a float sum of n products of numbers in [-1, 1), which deviates by sqrt(n) / 3, rounded twice
// to T at most. term_error: what each product may be wrong by, beyond the rounding of float.
template <typename T>
Tolerance sum_tolerance(int64_t n, double term_error = 0) {
  const double deviation = std::sqrt(static_cast<double>(n));
  return {5e-6 * (deviation / 3 + 1) + (kUnit<T> > 0 ? 1e-7 : 0) + term_error * deviation,
          1e-6 + 2 * kUnit<T>};
}

// The mask of values > 0, as fully_connected_forward() writes it.
inline std::vector<uint8_t> mask_of(const std::vector<float>& values, int64_t rows,
                                    int64_t columns) {
  const int64_t row_bytes = ops::relu_mask_bytes(columns);
  std::vector<uint8_t> mask(at(rows, row_bytes, 0));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      if (values[at(row, columns, column)] > 0)
        mask[at(row, row_bytes, column / 8)] |= static_cast<uint8_t>(1u << (column % 8));
  return mask;
}

// Which ReLU and bias the layer below has, and whether its mask is given: on a GPU.
struct Below {
  bool relu, bias, mask;
};
inline std::vector<Below> layers_below(bool on_gpu) {
  std::vector<Below> all = {
      {false, false, false}, {false, true, false}, {true, false, false}, {true, true, false}};
  if (on_gpu) all.insert(all.end(), {{true, false, true}, {true, true, true}});
  return all;
}

// Gradients [.., columns] after that layer, and the sums of its columns.
struct Masked {
  std::vector<double> values, sums;

  Masked(std::vector<double> gradients, const Below& has, const std::vector<float>& y,
         int64_t columns)
      : values(std::move(gradients)), sums(static_cast<size_t>(columns)) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (has.relu && !(y[i] > 0)) values[i] = 0;
      sums[i % sums.size()] += values[i];
    }
  }
};

// How a check differs from the plain one.
struct Layout {
  double term_error = 0;  // what each term of a sum may be wrong by, beyond the rounding of float
  int64_t shift = 0;      // of all tensors, in elements from an aligned address
};

template <typename T, typename Y>
void check_forward(const OpDevice& on, const LayerCase<T>& layer, const Layout& how = {}) {
  const LayerShape& s = layer.shape;
  const int64_t row_bytes = ops::relu_mask_bytes(s.out);
  const std::vector<uint8_t> untouched(at(s.batch, row_bytes, 0), 0x5A);
  const auto bias_values = random_values<Y>(s.out, 4);
  const DeviceTensor<T> x(on, layer.x, how.shift), w(on, layer.w, how.shift);
  const DeviceTensor<Y> bias(on, bias_values, how.shift);
  const Tolerance allowed = sum_tolerance<Y>(s.in, how.term_error);
  const auto check = [&](bool with_bias, bool relu, bool with_mask) {
    INFO("bias " << with_bias << ", relu " << relu << ", mask " << with_mask);
    std::vector<double> z = layer.z, want;
    for (size_t i = 0; i < z.size(); ++i) {
      if (with_bias) z[i] += static_cast<double>(bias_values[i % bias_values.size()]);
      want.push_back(relu ? std::max(z[i], 0.0) : z[i]);
    }
    const DeviceTensor<Y> y(on, nans(s.batch * s.out), how.shift);
    const DeviceTensor<uint8_t> mask(on, untouched);
    ops::fully_connected_forward<T, Y>(on.exec(), x.view(s.batch, s.in), w.view(s.in, s.out),
                                       {with_bias ? bias.data() : nullptr, s.out}, relu,
                                       y.view(s.batch, s.out),
                                       {with_mask ? mask.data() : nullptr, s.batch, row_bytes});
    check_close(y.host(), want, allowed, "y");
    const std::vector<uint8_t> bits = mask.host();
    if (!relu || !with_mask) {
      CHECK(bits == untouched);
      return;
    }
    int64_t wrong = 0;
    for (int64_t b = 0; b < s.batch; ++b)
      for (int64_t o = 0; o < s.out; ++o) {
        const double value = z[at(b, s.out, o)];
        const bool bit = (bits[at(b, row_bytes, o / 8)] >> (o % 8) & 1) != 0;
        if (std::abs(value) > allowed.absolute && bit != (value > 0)) ++wrong;
      }
    CHECK(wrong == 0);
  };
  INFO(on.name() << ", " << s.text());
  for (const bool with_bias : {false, true})
    for (const bool relu : {false, true}) {
      check(with_bias, relu, false);
      if (on.on_gpu()) check(with_bias, relu, true);
    }
}

template <typename T>
void check_backward(const OpDevice& on, const LayerCase<T>& layer, const Layout& how = {}) {
  const LayerShape& s = layer.shape;
  INFO(on.name() << ", " << s.text());
  const DeviceTensor<T> x(on, layer.x, how.shift), w(on, layer.w, how.shift);
  const DeviceTensor<T> dz(on, layer.dz, how.shift);
  const DeviceTensor<uint8_t> mask(on, mask_of(layer.x, s.batch, s.in));
  const DeviceTensor<float> dw(on, nans(s.in * s.out), how.shift);
  ops::fully_connected_backward_weights<T>(on.exec(), x.view(s.batch, s.in),
                                           dz.view(s.batch, s.out), dw.view(s.in, s.out));
  check_close(dw.host(), layer.dw, sum_tolerance<float>(s.batch, how.term_error), "dw");
  const DeviceTensor<float> again(on, nans(s.in * s.out), how.shift);
  const DeviceTensor<float> db(on, nans(s.out), how.shift);
  ops::fully_connected_backward_weights<T>(on.exec(), x.view(s.batch, s.in),
                                           dz.view(s.batch, s.out), again.view(s.in, s.out),
                                           {db.data(), s.out});
  check_close(again.host(), layer.dw, sum_tolerance<float>(s.batch, how.term_error),
              "dw beside db");
  const Masked of_dz({layer.dz.begin(), layer.dz.end()}, {}, {}, s.out);
  check_close(db.host(), of_dz.sums, sum_tolerance<float>(s.batch, how.term_error), "db of dz");

  const auto before = random_values<T>(s.batch * s.in, 5);
  std::vector<double> added = layer.dx;
  for (size_t i = 0; i < added.size(); ++i) added[i] += static_cast<double>(before[i]);
  const DeviceTensor<T> sum(on, before, how.shift);
  ops::fully_connected_add_backward_data<T>(on.exec(), dz.view(s.batch, s.out), w.view(s.in, s.out),
                                            sum.view(s.batch, s.in));
  const Tolerance once = sum_tolerance<T>(s.out + 1, how.term_error);
  if (!on.on_gpu()) {
    check_close(sum.host(), added, once, "dx, added to");
  } else {  // where the product may be rounded before it is added
    const std::vector<float> got = sum.host();
    for (size_t i = 0; i < got.size(); ++i) {
      const Tolerance allowed = {once.absolute + kUnit<T> * std::abs(layer.dx[i]), once.relative};
      check_close(std::span(&got[i], 1), std::span(&added[i], 1), allowed, "dx, added to");
    }
  }

  for (const Below& has : layers_below(on.on_gpu())) {
    INFO("relu " << has.relu << ", bias " << has.bias << ", mask " << has.mask);
    const Masked want(layer.dx, has, layer.x, s.in);
    const DeviceTensor<T> dx(on, nans(s.batch * s.in), how.shift);
    const DeviceTensor<float> dbias(on, nans(s.in), how.shift);
    const ops::LayerBelow<T> below = {
        {has.relu ? x.data() : nullptr, s.batch, s.in},
        {has.bias ? dbias.data() : nullptr, s.in},
        {has.mask ? mask.data() : nullptr, s.batch, ops::relu_mask_bytes(s.in)}};
    ops::fully_connected_backward_data<T>(on.exec(), dz.view(s.batch, s.out), w.view(s.in, s.out),
                                          dx.view(s.batch, s.in),
                                          has.relu || has.bias ? below : ops::LayerBelow<T>{});
    check_close(dx.host(), want.values, sum_tolerance<T>(s.out, how.term_error), "dx");
    if (!has.bias) continue;
    // Sums of numbers that may each have been rounded to T, rounded to T themselves.
    const int64_t terms = s.batch * s.out;
    check_close(dbias.host(), want.sums, sum_tolerance<T>(terms, how.term_error + kUnit<T>), "db");
  }
}

template <typename T>
void check_bias_relu(const OpDevice& on, int64_t batch, int64_t out, int64_t shift = 0) {
  INFO(on.name() << ", [" << batch << "," << out << "]");
  auto y_values = random_values<T>(batch * out, 1);
  for (size_t i = 0; i < y_values.size(); i += 3) y_values[i] = 0;
  const auto dy = random_values<T>(batch * out, 2);
  const DeviceTensor<T> y(on, y_values, shift);
  const DeviceTensor<uint8_t> mask(on, mask_of(y_values, batch, out));
  for (const Below& has : layers_below(on.on_gpu())) {
    INFO("relu " << has.relu << ", bias " << has.bias << ", mask " << has.mask);
    const Masked want({dy.begin(), dy.end()}, has, y_values, out);
    const DeviceTensor<T> dz(on, dy, shift);
    const DeviceTensor<float> dbias(on, nans(out), shift);
    ops::bias_relu_backward<T>(
        on.exec(), {has.relu ? y.data() : nullptr, batch, out}, dz.view(batch, out),
        {has.bias ? dbias.data() : nullptr, out},
        {has.mask ? mask.data() : nullptr, batch, ops::relu_mask_bytes(out)});
    check_close(dz.host(), want.values, {0, 0}, "dz");
    if (has.bias) check_close(dbias.host(), want.sums, sum_tolerance<float>(batch), "db");
  }
}

inline const MatmulOptions kPlainProducts;

}  // namespace hlite::test
