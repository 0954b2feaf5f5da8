#include "hugectr_lite/ops/cross.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/cuda_emulation/cuda_runtime_api.h"
#include "tests/support/errors.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

const MatmulOptions kCrossOptions;

struct CrossShape {
  int64_t batch, n;
  [[nodiscard]] int64_t size() const { return batch * n; }
};
constexpr CrossShape kCrossShapes[] = {{0, 3},   {1, 1},   {5, 1},   {7, 13},
                                       {33, 24}, {131, 5}, {3, 301}, {67, 40}};

struct Role {
  bool wanted, first, last;
};
constexpr Role kRoles[] = {{true, true, false},
                           {true, false, false},
                           {true, false, true},
                           {true, true, true},
                           {false, true, true}};

template <typename T>
struct CrossValues {
  std::vector<float> x0, h, x, g, dx0, a, b;
  explicit CrossValues(const CrossShape& s)
      : x0(random_values<T>(s.size(), 1)),
        h(random_values<T>(s.size(), 2)),
        x(random_values<T>(s.size(), 3)),
        g(random_values<T>(s.size(), 4)),
        dx0(random_values<T>(s.size(), 5)),
        a(random_values<T>(s.batch, 6)),
        b(random_values<T>(s.n, 7)) {}
};

template <typename T>
std::vector<std::vector<float>> forward_crosses(const OpDevice& on, const CrossShape& s,
                                                int64_t offset) {
  const CrossValues<T> values(s);
  const DeviceTensor<T> x0(on, values.x0, offset), h(on, values.h, offset), x(on, values.x, offset);
  const DeviceTensor<T> a(on, values.a, offset), b(on, values.b, offset);
  const DeviceTensor<T> low(on, nans(s.size()), offset), one(on, nans(s.size()), offset);
  ops::cross_forward<T>(on.exec(), x0.view(s.batch, s.n), h.view(s.batch, s.n),
                        x.view(s.batch, s.n), low.view(s.batch, s.n));
  ops::vector_cross_forward<T>(on.exec(), x0.view(s.batch, s.n), a.view(s.batch, int64_t{1}), b,
                               x.view(s.batch, s.n), one.view(s.batch, s.n));
  return {low.host(), one.host()};
}

// s, dx0 and db of a low-rank layer, then p and dx0 of a vector's.
template <typename T>
std::vector<std::vector<float>> backward_crosses(const OpDevice& on, const CrossShape& s,
                                                 const Role& role, int64_t offset) {
  const CrossValues<T> values(s);
  const DeviceTensor<T> x0(on, values.x0, offset), h(on, values.h, offset), g(on, values.g, offset);
  const DeviceTensor<T> a(on, values.a, offset), p(on, nans(s.batch), offset);
  const auto start = role.first ? nans(s.size()) : values.dx0;
  const DeviceTensor<T> low(on, start, offset), one(on, start, offset);
  const DeviceTensor<float> db(on, nans(s.n), offset);
  const auto input = [&](const DeviceTensor<T>& dx0) {
    return ops::CrossInput<T>{
        {role.wanted ? dx0.data() : nullptr, s.batch, s.n}, role.first, role.last};
  };
  ops::cross_backward<T>(on.exec(), g.view(s.batch, s.n), x0.view(s.batch, s.n),
                         h.view(s.batch, s.n), input(low), db);
  ops::vector_cross_backward<T>(on.exec(), g.view(s.batch, s.n), x0.view(s.batch, s.n),
                                a.view(s.batch, int64_t{1}), input(one),
                                p.view(s.batch, int64_t{1}));
  return {h.host(), low.host(), db.host(), p.host(), one.host()};
}

TEMPLATE_TEST_CASE("cross layers' forward passes agree with the definition", "[gpu]", float, bf16,
                   fp16) {
  using T = TestType;
  const auto devices = op_devices<T>(&kCrossOptions);
  for (const CrossShape& s : kCrossShapes) {
    const CrossValues<T> v(s);
    std::vector<double> low, one;
    for (size_t i = 0; i < v.x0.size(); ++i) {
      const size_t row = i / static_cast<size_t>(s.n), column = i % static_cast<size_t>(s.n);
      const double x0 = v.x0[i], x = v.x[i];
      low.push_back(x0 * v.h[i] + x);
      one.push_back(x0 * v.a[row] + v.b[column] + x);
    }
    for (const OpDevice& on : devices)
      for (const int64_t offset : {0, 1}) {
        INFO(on.name() << ", [" << s.batch << "," << s.n << "], offset " << offset);
        const auto got = forward_crosses<T>(on, s, offset);
        check_close(got[0], low, {3e-7, kRounding<T>}, "low rank");
        check_close(got[1], one, {3e-7, kRounding<T>}, "vector");
      }
  }
}

TEMPLATE_TEST_CASE("cross layers' backward passes agree with the definition", "[gpu]", float, bf16,
                   fp16) {
  using T = TestType;
  const auto devices = op_devices<T>(&kCrossOptions);
  for (const CrossShape& s : kCrossShapes)
    for (const Role& role : kRoles) {
      const CrossValues<T> v(s);
      std::vector<double> product, low, one, db(static_cast<size_t>(s.n)),
          p(static_cast<size_t>(s.batch));
      for (size_t i = 0; i < v.x0.size(); ++i) {
        const size_t row = i / static_cast<size_t>(s.n), column = i % static_cast<size_t>(s.n);
        const double g = v.g[i], rest = (role.first ? 0.0 : v.dx0[i]) + (role.last ? g : 0.0);
        product.push_back(g * v.x0[i]);
        low.push_back(rest + g * v.h[i]);
        one.push_back(rest + g * v.a[row]);
        db[column] += product.back();
        p[row] += product.back();
      }
      for (const OpDevice& on : devices)
        for (const int64_t offset : {0, 1}) {
          INFO(on.name() << ", [" << s.batch << "," << s.n << "], offset " << offset << ", wanted "
                         << role.wanted << ", first " << role.first << ", last " << role.last);
          const auto got = backward_crosses<T>(on, s, role, offset);
          const Tolerance few = {5e-7, kRounding<T>}, sums = {1e-5, 1e-6 + kRounding<T>};
          check_close(got[0], product, {1e-7, kRounding<T>}, "s");
          if (role.wanted) check_close(got[1], low, few, "dx0, low rank");
          check_close(got[2], db, {1e-5, 1e-6}, "db");
          check_close(got[3], p, sums, "p");
          if (role.wanted) check_close(got[4], one, few, "dx0, vector");
        }
    }
}

TEST_CASE("cross layers give the same bits on any threads") {
  check_same_bits(
      []<typename T>(const OpDevice& on) {
        std::vector<float> all;
        for (const auto& part : backward_crosses<T>(on, {301, 37}, {true, false, true}, 0))
          all.insert(all.end(), part.begin(), part.end());
        return all;
      },
      &kCrossOptions);
}

TEST_CASE("cross layers give the same bits whether L2 holds their matrices or not") {
  int& l2_bytes = emulation::l2_bytes();
  const int before = l2_bytes;
  const OpDevice on = emulated_device(&kCrossOptions);
  for (const CrossShape& s : kCrossShapes)
    for (const Role& role : kRoles) {
      INFO("[" << s.batch << "," << s.n << "]");
      const auto run = [&] {
        auto all = backward_crosses<bf16>(on, s, role, 0);
        for (auto& part : forward_crosses<bf16>(on, s, 0)) all.push_back(std::move(part));
        return all;
      };
      const auto want = run();
      l2_bytes = 0;
      const auto got = run();
      l2_bytes = before;
      for (size_t i = 0; i < want.size(); ++i) CHECK(same_values(got[i], want[i]));
    }
}

TEST_CASE("cross layers refuse what does not fit") {
  const OpDevice on(1);
  std::vector<float> m(24);
  const Matrix<float> x(m.data(), 4, 3), bad(m.data(), 3, 4), a(m.data(), 4, 1);
  const Vector<float> b(m.data(), 3), wrong(m.data(), 4);
  CHECK_THROWS_AS(ops::cross_forward(on.exec(), x, bad, x, x), Error);
  CHECK_THROWS_AS(ops::vector_cross_forward(on.exec(), x, x, b, x, x), Error);
  CHECK_THROWS_AS(ops::vector_cross_forward(on.exec(), x, a, wrong, x, x), Error);
  CHECK_THROWS_AS(ops::cross_backward(on.exec(), x, x, bad, {}, b), Error);
  CHECK_THROWS_AS(ops::cross_backward(on.exec(), x, x, x, {bad}, b), Error);
  CHECK_THROWS_AS(ops::cross_backward(on.exec(), x, x, x, {}, wrong), Error);
  CHECK_THROWS_AS(ops::vector_cross_backward(on.exec(), x, x, a, {}, x), Error);
  const Matrix<fp16> half(reinterpret_cast<fp16*>(m.data()), 4, 3);
  check_contains(
      message_of<Error>([&] { ops::cross_forward<fp16>(on.exec(), half, half, half, half); }),
      {"cross_forward", "fp16 needs a GPU"});
}

}  // namespace
}  // namespace hlite::test
