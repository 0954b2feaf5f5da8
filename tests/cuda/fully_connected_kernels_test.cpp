// Fully connected layers on every CUDA backend against the definition in double precision.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/ops/column_sums.cuh"
#include "hugectr_lite/ops/fully_connected.h"
#include "tests/cuda/matmul_test_context.h"
#include "tests/cuda/typed_values.h"
#include "tests/support/compare.h"
#include "tests/support/cuda_emulation/cublasLt.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

struct Shape {
  int64_t batch, in, out;
  [[nodiscard]] std::string text() const { return fmt::format("[{},{}] -> {}", batch, in, out); }
};
const Shape kShapes[] = {{1, 1, 1},    {0, 5, 3},    {1, 7, 33},   {7, 33, 1},    {33, 1, 7},
                         {31, 13, 17}, {64, 16, 64}, {67, 29, 31}, {131, 13, 40}, {65, 40, 16},
                         {3, 211, 5},  {5, 3, 211},  {5, 0, 3},    {4, 0, 1},     {70, 64, 1},
                         {270, 24, 1}, {3, 5, 0},    {0, 4, 1}};

template <typename T>
constexpr double kUnit = 0;  // half the distance of neighbours, relative
template <>
constexpr double kUnit<bf16> = 1.0 / 256;
template <>
constexpr double kUnit<fp16> = 1.0 / 2048;

// Float sums of n products of numbers in [-1, 1), rounded twice to T at most.
template <typename T>
Tolerance tolerance(int64_t n) {
  return {5e-6 * (std::sqrt(static_cast<double>(n)) + 1) + (kUnit<T> > 0 ? 1e-7 : 0),
          1e-6 + 2 * kUnit<T>};
}

template <typename T>
std::vector<double> doubles(const std::vector<T>& values) {
  std::vector<double> wide;
  for (const T value : values) wide.push_back(to_float(value));
  return wide;
}

template <typename T>
void compare(const std::vector<T>& got, const std::vector<double>& want, Tolerance allowed,
             const std::string& what) {
  const std::vector<double> wide = doubles(got);
  check_close(std::span<const double>(wide), std::span<const double>(want), allowed, what.c_str());
}

size_t at(int64_t row, int64_t columns, int64_t column) {
  return static_cast<size_t>(row * columns + column);
}

// z = x w + bias.
std::vector<double> products(const Shape& s, const std::vector<double>& x,
                             const std::vector<double>& w, const std::vector<double>& bias) {
  std::vector<double> z(at(s.batch, s.out, 0));
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t o = 0; o < s.out; ++o) {
      double sum = bias.empty() ? 0 : bias[static_cast<size_t>(o)];
      for (int64_t i = 0; i < s.in; ++i) sum += x[at(b, s.in, i)] * w[at(i, s.out, o)];
      z[at(b, s.out, o)] = sum;
    }
  return z;
}

bool bit_of(const std::vector<uint8_t>& mask, int64_t row, int64_t columns, int64_t column) {
  return (mask[at(row, ops::relu_mask_bytes(columns), column / 8)] >> (column % 8) & 1) != 0;
}

// The mask of values > 0.
std::vector<uint8_t> mask_of(const std::vector<double>& values, int64_t rows, int64_t columns) {
  std::vector<uint8_t> mask(at(rows, ops::relu_mask_bytes(columns), 0));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      if (values[at(row, columns, column)] > 0)
        mask[at(row, ops::relu_mask_bytes(columns), column / 8)] |=
            static_cast<uint8_t>(1u << (column % 8));
  return mask;
}

// Values on a backend that begin `shift` elements after an aligned address.
template <typename T>
class Shifted {
 public:
  Shifted(const cuda::Backend& table, std::vector<T> values, size_t shift)
      : shift_(shift), array_(table, padded(std::move(values), shift)) {}
  [[nodiscard]] T* data() const { return array_.data() + shift_; }
  [[nodiscard]] std::vector<T> to_host(void* stream) const {
    std::vector<T> values = array_.to_host(stream);
    values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(shift_));
    return values;
  }

 private:
  static std::vector<T> padded(std::vector<T> values, size_t shift) {
    values.insert(values.begin(), shift, from_float<T>(NAN));
    return values;
  }
  size_t shift_;
  DeviceArray<T> array_;
};

template <typename T>
std::vector<T> nans(int64_t n) {
  return std::vector<T>(static_cast<size_t>(n), from_float<T>(NAN));
}

// term_error: what each term of a sum may be wrong by, beyond the rounding of float.
template <typename T, typename Y>
void check_forward(const MatmulStream& on, const Shape& s, double term_error = 0,
                   size_t shift = 0) {
  const auto x = random_values<T>(s.batch * s.in, 1), w = random_values<T>(s.in * s.out, 2);
  const auto bias = random_values<Y>(s.out, 3);
  const Shifted<T> x_data(on.table(), x, shift), w_data(on.table(), w, shift);
  const Shifted<Y> bias_data(on.table(), bias, shift);
  Tolerance allowed = tolerance<Y>(s.in);
  allowed.absolute += term_error * std::sqrt(static_cast<double>(s.in));
  for (const bool with_bias : {false, true}) {
    const auto z =
        products(s, doubles(x), doubles(w), with_bias ? doubles(bias) : std::vector<double>());
    for (const bool relu : {false, true}) {
      std::vector<double> want = z;
      if (relu)
        for (double& value : want) value = std::max(value, 0.0);
      for (const bool with_mask : {false, true}) {
        const Shifted<Y> y(on.table(), nans<Y>(s.batch * s.out), shift);
        const int64_t row_bytes = ops::relu_mask_bytes(s.out);
        const DeviceArray<uint8_t> mask(on.table(),
                                        std::vector<uint8_t>(at(s.batch, row_bytes, 0), 0x5A));
        ops::fully_connected_forward<T, Y>(
            on.exec(), {x_data.data(), s.batch, s.in}, {w_data.data(), s.in, s.out},
            {with_bias ? bias_data.data() : nullptr, s.out}, relu, {y.data(), s.batch, s.out},
            {with_mask ? mask.data() : nullptr, s.batch, row_bytes});
        compare(y.to_host(on.get()), want, allowed, s.text() + " y");
        const std::vector<uint8_t> bits = mask.to_host(on.get());
        if (!relu || !with_mask) {
          CHECK(std::all_of(bits.begin(), bits.end(), [](uint8_t byte) { return byte == 0x5A; }));
          continue;
        }
        int64_t wrong = 0;
        for (int64_t b = 0; b < s.batch; ++b)
          for (int64_t o = 0; o < s.out; ++o) {
            const double value = z[at(b, s.out, o)];
            if (std::abs(value) > allowed.absolute && bit_of(bits, b, s.out, o) != (value > 0))
              ++wrong;
          }
        INFO(s.text());
        CHECK(wrong == 0);
      }
    }
  }
}

// Which ReLU and bias the layer below has, and whether its mask is given.
struct Below {
  bool relu, bias, mask;
};
constexpr Below kBelow[] = {{false, false, false}, {false, true, false}, {true, false, false},
                            {true, true, false},   {true, false, true},  {true, true, true}};

template <typename T>
void check_backward(const MatmulStream& on, const Shape& s, double term_error = 0,
                    size_t shift = 0) {
  auto x = random_values<T>(s.batch * s.in, 1);
  for (size_t i = 0; i < x.size(); i += 5) x[i] = from_float<T>(0);  // below the ReLU's edge
  const auto w = random_values<T>(s.in * s.out, 2), dz = random_values<T>(s.batch * s.out, 3);
  const auto wide_x = doubles(x), wide_w = doubles(w), wide_dz = doubles(dz);
  const Shifted<T> x_data(on.table(), x, shift), w_data(on.table(), w, shift);
  const Shifted<T> dz_data(on.table(), dz, shift);
  const DeviceArray<uint8_t> mask(on.table(), mask_of(wide_x, s.batch, s.in));
  const Matrix<const T> x_view(x_data.data(), s.batch, s.in), w_view(w_data.data(), s.in, s.out);
  const Matrix<const T> dz_view(dz_data.data(), s.batch, s.out);

  std::vector<double> dw(w.size()), dx(x.size());
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t i = 0; i < s.in; ++i)
      for (int64_t o = 0; o < s.out; ++o) {
        dx[at(b, s.in, i)] += wide_dz[at(b, s.out, o)] * wide_w[at(i, s.out, o)];
        dw[at(i, s.out, o)] += wide_dz[at(b, s.out, o)] * wide_x[at(b, s.in, i)];
      }
  const auto allowed = [&](Tolerance t, int64_t n) {
    t.absolute += term_error * std::sqrt(static_cast<double>(n));
    return t;
  };

  const Shifted<float> dw_data(on.table(), nans<float>(s.in * s.out), shift);
  ops::fully_connected_backward_weights<T>(on.exec(), x_view, dz_view,
                                           {dw_data.data(), s.in, s.out});
  compare(dw_data.to_host(on.get()), dw, allowed(tolerance<float>(s.batch), s.batch),
          s.text() + " dw");

  for (const Below& has : kBelow) {
    const std::string what =
        fmt::format("{} relu {} bias {} mask {}", s.text(), has.relu, has.bias, has.mask);
    std::vector<double> want = dx, sums(static_cast<size_t>(s.in));
    for (size_t i = 0; i < want.size(); ++i) {
      if (has.relu && !(wide_x[i] > 0)) want[i] = 0;
      sums[i % sums.size()] += want[i];
    }
    const Shifted<T> dx_data(on.table(), nans<T>(s.batch * s.in), shift);
    const Shifted<float> dbias(on.table(), nans<float>(s.in), shift);
    const ops::LayerBelow<T> below = {
        {has.relu ? x_data.data() : nullptr, s.batch, s.in},
        {has.bias ? dbias.data() : nullptr, s.in},
        {has.mask ? mask.data() : nullptr, s.batch, ops::relu_mask_bytes(s.in)}};
    ops::fully_connected_backward_data<T>(on.exec(), dz_view, w_view,
                                          {dx_data.data(), s.batch, s.in},
                                          has.relu || has.bias ? &below : nullptr);
    compare(dx_data.to_host(on.get()), want, allowed(tolerance<T>(s.out), s.out), what + " dx");
    if (!has.bias) continue;
    // Sums of numbers that may each have been rounded to T, rounded to T themselves.
    Tolerance bound = allowed(tolerance<T>(s.batch * s.out), s.batch * s.out);
    bound.absolute += kUnit<T> * std::sqrt(static_cast<double>(s.batch * s.out));
    compare(dbias.to_host(on.get()), sums, bound, what + " db");
  }
}

template <typename T>
void check_bias_relu(const MatmulStream& on, const Shape& s, size_t shift = 0) {
  auto y = random_values<T>(s.batch * s.out, 1);
  for (size_t i = 0; i < y.size(); i += 3) y[i] = from_float<T>(0);
  const auto dy = random_values<T>(s.batch * s.out, 2);
  const Shifted<T> y_data(on.table(), y, shift);
  const DeviceArray<uint8_t> mask(on.table(), mask_of(doubles(y), s.batch, s.out));
  for (const Below& has : kBelow) {
    std::vector<double> want = doubles(dy), sums(static_cast<size_t>(s.out));
    for (size_t i = 0; i < want.size(); ++i) {
      if (has.relu && !(to_float(y[i]) > 0)) want[i] = 0;
      sums[i % sums.size()] += want[i];
    }
    const Shifted<T> dz(on.table(), dy, shift);
    const Shifted<float> dbias(on.table(), nans<float>(s.out), shift);
    ops::bias_relu_backward<T>(
        on.exec(), {has.relu ? y_data.data() : nullptr, s.batch, s.out},
        {dz.data(), s.batch, s.out}, {has.bias ? dbias.data() : nullptr, s.out},
        {has.mask ? mask.data() : nullptr, s.batch, ops::relu_mask_bytes(s.out)});
    compare(dz.to_host(on.get()), want, {0, 0}, s.text() + " dz");
    if (has.bias)
      compare(dbias.to_host(on.get()), sums, tolerance<float>(s.batch), s.text() + " db");
  }
}

// The emulated library without epilogues, while it lives.
struct WithoutEpilogues {
  WithoutEpilogues() { emulation::matmul_library().epilogues = false; }
  ~WithoutEpilogues() { emulation::matmul_library().epilogues = true; }
};

TEST_CASE("fully connected layers on CUDA agree with the definition") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const MatmulStream on(*backend.table);
    for (const Shape& s : kShapes) {
      check_forward<float, float>(on, s);
      check_forward<bf16, bf16>(on, s);
      check_forward<fp16, fp16>(on, s);
      check_forward<bf16, float>(on, s);
      check_forward<fp16, float>(on, s);
      check_backward<float>(on, s);
      check_backward<bf16>(on, s);
      check_backward<fp16>(on, s);
    }
  }
}

// For contexts that would warn of what a test does on purpose.
void ignore(const char*) {}

TEST_CASE("fully connected layers on CUDA do without cuBLASLt's epilogues") {
  const WithoutEpilogues without;
  const MatmulStream on(emulated_cuda(), {.warn = ignore});
  for (const Shape& s : kShapes) {
    check_forward<float, float>(on, s);
    check_forward<bf16, bf16>(on, s, kUnit<bf16>);  // rounded before the bias is added, too
    check_forward<fp16, float>(on, s);
    check_backward<float>(on, s);
    check_backward<fp16>(on, s);
  }
}

TEST_CASE("fully connected layers on CUDA take views that are aligned to nothing") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const MatmulStream on(*backend.table);
    for (const Shape& s : {Shape{67, 24, 40}, Shape{35, 16, 1}}) {
      check_forward<float, float>(on, s, 0, 1);
      check_forward<bf16, bf16>(on, s, 0, 1);
      check_backward<float>(on, s, 0, 1);
      check_backward<fp16>(on, s, 0, 1);
      check_bias_relu<bf16>(on, s, 1);
    }
  }
}

TEST_CASE("TF32 rounds the factors of float products, and only when asked") {
  constexpr double kTf32 = 1.0 / 2048;  // of each factor
  const Shape s = {65, 40, 16};
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const MatmulStream on(*backend.table, {.tf32 = true});
    check_forward<float, float>(on, s, 2 * kTf32);
    check_backward<float>(on, s, 2 * kTf32);
    check_forward<bf16, bf16>(on, s);
  }
  const MatmulStream rounding(emulated_cuda(), {.tf32 = true}), plain(emulated_cuda());
  const DeviceArray<float> x(emulated_cuda(), std::vector<float>{1 + 1.0f / 4096});
  const DeviceArray<float> w(emulated_cuda(), std::vector<float>{1, 2}), y(emulated_cuda(), 2);
  for (const MatmulStream* on : {&plain, &rounding}) {
    ops::fully_connected_forward(on->exec(), {x.data(), 1, 1}, {w.data(), 1, 2}, {}, false,
                                 {y.data(), 1, 2});
    CHECK(y.to_host(on->get())[0] == (on == &plain ? 1 + 1.0f / 4096 : 1.0f));
  }
}

TEST_CASE("bias_relu_backward on CUDA masks in place and sums the columns") {
  const Shape shapes[] = {{1, 0, 1},    {0, 0, 3},    {1100, 0, 1}, {600, 0, 3}, {300, 0, 8},
                          {301, 0, 40}, {70, 0, 300}, {5, 0, 0},    {64, 0, 129}};
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const MatmulStream on(*backend.table);
    for (const Shape& s : shapes) {
      check_bias_relu<float>(on, s);
      check_bias_relu<bf16>(on, s);
      check_bias_relu<fp16>(on, s);
    }
  }
}

TEST_CASE("fully connected kernels give the same bits in any order of threads") {
  const WithoutEpilogues without;
  const Shape s = {131, 24, 16};
  const MatmulStream on(emulated_cuda(), {.warn = ignore});
  const auto run = [&] {
    const auto x = random_values<bf16>(s.batch * s.in, 1), w = random_values<bf16>(s.in * s.out, 2);
    const auto dz = random_values<bf16>(s.batch * s.out, 3);
    const DeviceArray<bf16> x_data(on.table(), x), w_data(on.table(), w), dz_data(on.table(), dz);
    const DeviceArray<bf16> dx(on.table(), x.size()), y(on.table(), dz.size());
    const DeviceArray<float> db(on.table(), static_cast<size_t>(s.in)), dw(on.table(), w.size());
    std::vector<float> all;
    const auto keep = [&](const auto& array) {
      for (const auto value : array.to_host(on.get())) all.push_back(to_float(value));
    };
    for (const int64_t out : {s.out, int64_t{1}}) {
      const Matrix<const bf16> x_view(x_data.data(), s.batch, s.in);
      const Matrix<const bf16> w_view(w_data.data(), s.in, out);
      const Matrix<const bf16> dz_view(dz_data.data(), s.batch, out);
      const ops::LayerBelow<bf16> below = {x_view, {db.data(), s.in}};
      ops::fully_connected_forward<bf16>(on.exec(), x_view, w_view, {}, true,
                                         {y.data(), s.batch, out});
      ops::fully_connected_backward_data<bf16>(on.exec(), dz_view, w_view,
                                               {dx.data(), s.batch, s.in}, &below);
      ops::fully_connected_backward_weights<bf16>(on.exec(), x_view, dz_view,
                                                  {dw.data(), s.in, out});
      keep(y);
      keep(dx);
      keep(db);
      keep(dw);
    }
    return all;
  };
  // NaN of what a smaller layer leaves over would never compare equal.
  const auto without_nan = [](std::vector<float> values) {
    std::replace_if(
        values.begin(), values.end(), [](float v) { return std::isnan(v); }, 0.0f);
    return values;
  };
  const std::vector<float> want = without_nan(run());
  for (const auto order : {emulation::Order::kReverse, emulation::Order::kShuffled}) {
    emulation::set_order(order, 7);
    CHECK((without_nan(run()) == want));
  }
  emulation::set_order(emulation::Order::kForward);
}

// The elements of a matrix as they are.
struct PlainSource {
  const float* values;
  int64_t columns;
  template <int W>
  using Item = ops::gpu::Pack<float, W>;
  template <int W>
  Item<W> load(int64_t row, int64_t column) const {
    return ops::gpu::load_pack<W>(values + row * columns + column);
  }
  template <int W>
  void finish(const ops::gpu::Pack<float, W>& item, int64_t, int64_t, float* sums) const {
    for (int i = 0; i < W; ++i) sums[i] += item.values[i];
  }
};

TEST_CASE("column sums do with as much scratch memory as there is") {
  constexpr int64_t kRows = 1100, kColumns = 12;
  const auto values = random_values<float>(kRows * kColumns, 1);
  std::vector<double> want(kColumns);
  for (size_t i = 0; i < values.size(); ++i) want[i % kColumns] += values[i];
  for (const int64_t scratch_rows : {0, 1, 2, 3, 1000}) {
    for (const bool packable : {false, true}) {
      std::vector<float> sums(kColumns, NAN);
      std::vector<float> scratch(static_cast<size_t>(scratch_rows * kColumns));
      ops::gpu::sum_columns<float>("sums", nullptr, PlainSource{values.data(), kColumns}, kRows,
                                   kColumns, packable, sums.data(), scratch);
      compare(sums, want, tolerance<float>(kRows), fmt::format("{} rows", scratch_rows));
    }
  }
}

TEST_CASE("fully connected ops refuse what does not fit on CUDA") {
  const MatmulStream on(emulated_cuda());
  std::vector<float> m(200);
  std::vector<uint8_t> bits(64);
  const Matrix<float> x(m.data(), 4, 3), w(m.data(), 3, 5), y(m.data(), 4, 5);
  const Matrix<uint8_t> short_mask(bits.data(), 4, 1);
  check_contains(message_of<Error>([&] {
                   ops::fully_connected_forward(on.exec(), x, w, {}, true, y, short_mask);
                 }),
                 {"mask [4,1]", "expected [4,16]"});
  const ops::ReluBelow below{x, {}, short_mask};
  CHECK_THROWS_AS(ops::fully_connected_backward_data(on.exec(), y, w, x, &below), Error);
  CHECK_THROWS_AS(ops::bias_relu_backward(on.exec(), y, y, {}, short_mask), Error);

  Exec no_context = on.exec();
  no_context.matmul = nullptr;
  check_contains(
      message_of<Error>([&] { ops::fully_connected_forward(no_context, x, w, {}, true, y); }),
      {"fully_connected_forward", "MatmulContext"});

  ThreadPool threads(1);
  const Exec cpu = {.pool = &threads};
  CHECK_THROWS_AS(ops::fully_connected_forward(cpu, x, w, {}, true, y,
                                               {bits.data(), 4, ops::relu_mask_bytes(5)}),
                  Error);
  CHECK_THROWS_AS((ops::fully_connected_backward_weights<bf16>(cpu, {}, {}, {})), Error);
}

}  // namespace
}  // namespace hlite::test
