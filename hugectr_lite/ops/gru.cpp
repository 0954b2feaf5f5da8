#include "hugectr_lite/ops/gru.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "hugectr_lite/ops/cpu_column_sums.h"
#include "hugectr_lite/ops/cpu_threads.h"
#include "hugectr_lite/ops/row_product.h"
#include "hugectr_lite/ops/row_sum.h"
#include "hugectr_lite/ops/transpose.h"

namespace hlite::ops {
namespace {

// Samples whose states a task multiplies at a time. More of them read R less often; their states
// and products should stay in L2.
constexpr int64_t kGruSamples = 64;

// e^x to 2 units in the last place, without a call, so that loops around it have vectors: the gates
// of a narrow state otherwise take longer than its products. Where e^x leaves what floats have with
// all their digits, the last value that has not. NaN stays NaN.
inline float vector_exp(float x) {
  constexpr float kMost = 88, kRound = 12582912;  // 1.5 2^23: a sum with it has no fraction
  x = x < -kMost ? -kMost : x;
  x = x > kMost ? kMost : x;
  const float shifted = x * 1.44269504f + kRound;
  const float whole = shifted - kRound;
  const float f = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;  // ln 2 in two parts
  float sum = 1.9875691500e-4f;
  sum = sum * f + 1.3981999507e-3f;
  sum = sum * f + 8.3334519073e-3f;
  sum = sum * f + 4.1665795894e-2f;
  sum = sum * f + 1.6666665459e-1f;
  sum = sum * f + 5.0000001201e-1f;
  sum = sum * f * f + f + 1;
  // The last bits of `shifted` are the power of two, which goes where a float has its exponent.
  const uint32_t power = (std::bit_cast<uint32_t>(shifted) + 127) << 23;
  return sum * std::bit_cast<float>(power);
}
inline float vector_sigmoid(float x) { return 1 / (1 + vector_exp(-x)); }
inline float vector_tanh(float x) { return 1 - 2 / (1 + vector_exp(2 * x)); }

// Some samples of one task, the longest first: those that have position t are the first ones, and
// their rows of a factor lie together.
struct GruTask {
  std::vector<int64_t> order;  // samples
  std::vector<float> states, products;
  int64_t active = 0;

  template <typename T>
  void begin(const GruTensors<T>& gru, int64_t from, int64_t to, int64_t n) {
    order.resize(static_cast<size_t>(to - from));
    std::iota(order.begin(), order.end(), from);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return gru.length(a) > gru.length(b); });
    states.assign(order.size() * static_cast<size_t>(n), 0.0f);
    products.resize(order.size() * static_cast<size_t>(3 * n));
    active = 0;
  }
};

// body(GruTask&) for tasks of samples; `begin` has run.
template <typename T, typename Body>
void for_gru_tasks(const Exec& exec, const char* op, const GruTensors<T>& gru, Body&& body) {
  ThreadPool& threads = cpu_threads(exec, op);
  const int64_t batch = gru.states.dim(0), n = gru.states.dim(2);
  const int64_t tasks = std::max(int64_t{2} * threads.threads(), blocks_of(batch, kGruSamples));
  threads.run(std::min(tasks, batch), [&](int64_t i, int) {
    const int64_t count = std::min(tasks, batch);
    thread_local GruTask task;  // grown once
    task.begin(gru, batch * i / count, batch * (i + 1) / count, n);
    body(task);
  });
}

template <typename T>
void gru_forward_of(const GruTensors<T>& gru, GruTask& task) {
  const int64_t n = gru.states.dim(2), positions = gru.states.dim(1);
  task.active = std::ssize(task.order);
  for (int64_t t = 0; t < positions; ++t) {
    while (task.active > 0 && gru.length(task.order[task.active - 1]) <= t) --task.active;
    if (t == 0)
      std::fill(task.products.begin(), task.products.end(), 0.0f);
    else
      row_product(task.active, 3 * n, n, {task.states.data(), n}, {gru.recurrent.data(), 3 * n},
                  {task.products.data(), 3 * n});
    for (int64_t i = 0; i < std::ssize(task.order); ++i) {
      const int64_t row = gru.row(task.order[i], t);
      T* const out = gru.states.data() + row * n;
      if (i >= task.active) {
        std::fill_n(out, n, T{});
        continue;
      }
      const float a = gru.score(row);
      const float* const product = task.products.data() + i * 3 * n;
      float* const h = task.states.data() + i * n;
      T* const p = gru.gates.data() + row * 3 * n;
      T* const kept = gru.products.data() ? gru.products.data() + row * 3 * n + 2 * n : nullptr;
      wide([=] {
#pragma GCC ivdep
        for (int64_t j = 0; j < n; ++j) {
          const float r = vector_sigmoid(to_float(p[j]) + product[j]);
          const float z = vector_sigmoid(to_float(p[n + j]) + product[n + j]);
          const float c = vector_tanh(to_float(p[2 * n + j]) + r * product[2 * n + j]);
          h[j] += a * (1 - z) * (c - h[j]);
          p[j] = from_float<T>(r);
          p[n + j] = from_float<T>(z);
          p[2 * n + j] = from_float<T>(c);
          out[j] = from_float<T>(h[j]);
        }
        if (kept)
          for (int64_t j = 0; j < n; ++j) kept[j] = from_float<T>(product[2 * n + j]);
      });
    }
  }
}

// states: dL/dh but for the part through the products, which is `through`.
template <typename T>
void gru_backward_of(const GruTensors<T>& gru, View<const T, 3> dstates, Matrix<const float> turned,
                     Matrix<T> dattention, GruTask& task) {
  const int64_t n = gru.states.dim(2), count = std::ssize(task.order);
  thread_local std::vector<float> through, scores;  // grown once
  through.assign(static_cast<size_t>(count * n), 0.0f);
  scores.resize(static_cast<size_t>(n));
  for (int64_t t = gru.states.dim(1); t-- > 0;) {
    while (task.active < count && gru.length(task.order[task.active]) > t) ++task.active;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = gru.row(task.order[i], t);
      T* const p = gru.gates.data() + row * 3 * n;
      T* const u = gru.products.data() + row * 3 * n;
      if (i >= task.active) {
        std::fill_n(p, 3 * n, T{});
        std::fill_n(u, 3 * n, T{});
        if (dattention.data()) dattention.data()[row] = T{};
        continue;
      }
      const float a = gru.score(row);
      const T* const above = dstates.data() + row * n;
      const T* const before = t > 0 ? gru.states.data() + (row - 1) * n : nullptr;
      float* const dh = task.states.data() + i * n;
      float* const d = task.products.data() + i * 3 * n;
      const float* const added = through.data() + i * n;
      float* const da = scores.data();
      wide([=] {
#pragma GCC ivdep
        for (int64_t j = 0; j < n; ++j) {
          const GruGradient out = gru_gradient(
              dh[j] + added[j] + to_float(above[j]), a, to_float(p[j]), to_float(p[n + j]),
              to_float(p[2 * n + j]), to_float(u[2 * n + j]), before ? to_float(before[j]) : 0.0f);
          d[j] = out.dr;
          d[n + j] = out.dz;
          d[2 * n + j] = out.product;
          dh[j] = out.dh;
          da[j] = out.da;
          p[j] = from_float<T>(out.dr);
          p[n + j] = from_float<T>(out.dz);
          p[2 * n + j] = from_float<T>(out.dc);
        }
        for (int64_t j = 0; j < 3 * n; ++j) u[j] = from_float<T>(before ? d[j] : 0.0f);
        if (dattention.data())
          dattention.data()[row] = from_float<T>(row_sum(n, [&](int64_t j) { return da[j]; }));
      });
    }
    if (t > 0)
      row_product(task.active, n, 3 * n, {task.products.data(), 3 * n}, {turned.data(), n},
                  {through.data(), n});
  }
}

template <typename T>
void check_gru(const char* op, const GruTensors<T>& gru) {
  const int64_t batch = gru.states.dim(0), positions = gru.states.dim(1), n = gru.states.dim(2);
  const auto fits = [&](const View<T, 3>& of) {
    return of.dim(0) == batch && of.dim(1) == positions && of.dim(2) == 3 * n;
  };
  HLITE_CHECK(fits(gru.gates) && (!gru.products.data() || fits(gru.products)) &&
                  gru.lengths.dim(0) == batch && gru.recurrent.dim(0) == n &&
                  gru.recurrent.dim(1) == 3 * n && n <= kWidestGru &&
                  (!gru.attention.data() ||
                   (gru.attention.dim(0) == batch && gru.attention.dim(1) == positions)),
              "{}: states {}, gates {}, products {}, lengths {}, recurrent {}, attention {}", op,
              gru.states.shape(), gru.gates.shape(), gru.products.shape(), gru.lengths.shape(),
              gru.recurrent.shape(), gru.attention.shape());
}

}  // namespace

template <typename T>
void gru_forward(const Exec& exec, const GruTensors<std::type_identity_t<T>>& gru) {
  constexpr const char* kName = "gru_forward";
  check_gru(kName, gru);
  if (exec.on_gpu()) return kernels::gru_forward<T>(exec, gru);
  if constexpr (kOnCpu<T>)
    for_gru_tasks(exec, kName, gru, [&](GruTask& task) { gru_forward_of(gru, task); });
  else
    needs_gpu(kName);
}

template <typename T>
void gru_backward(const Exec& exec, const GruTensors<std::type_identity_t<T>>& gru,
                  ViewOf<const T, 3> dstates, Matrix<float> turned, MatrixOf<T> dattention) {
  constexpr const char* kName = "gru_backward";
  check_gru(kName, gru);
  const int64_t n = gru.states.dim(2);
  HLITE_CHECK(gru.products.size() == gru.gates.size() && dstates.size() == gru.states.size() &&
                  turned.dim(0) == 3 * n && turned.dim(1) == n &&
                  (!dattention.data() || dattention.size() * n == gru.states.size()),
              "{}: states {}, products {}, dstates {}, turned {}, dattention {}", kName,
              gru.states.shape(), gru.products.shape(), dstates.shape(), turned.shape(),
              dattention.shape());
  if (exec.on_gpu()) return kernels::gru_backward<T>(exec, gru, dstates, turned, dattention);
  if constexpr (kOnCpu<T>) {
    wide([&] { transpose({gru.recurrent.data(), 3 * n}, n, 3 * n, {turned.data(), n}); });
    for_gru_tasks(exec, kName, gru, [&](GruTask& task) {
      gru_backward_of<T>(gru, dstates, turned, dattention, task);
    });
  } else {
    needs_gpu(kName);
  }
}

HLITE_INSTANTIATE_FLOATS(gru_forward)
HLITE_INSTANTIATE_FLOATS(gru_backward)

}  // namespace hlite::ops
