#include "embedding/requested_rows.h"

#include <algorithm>

#include "embedding/row_access.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/core/wide.h"

namespace hlite::embedding {
namespace {

constexpr int64_t kRowsAhead = 16;   // prefetched before they are used
constexpr int64_t kGrainRows = 256;  // rows that are worth a task

// Calls body(first row, end) for the rows that lists have, in tasks.
template <typename Body>
void for_each_request(const Exec& exec, const ExchangeShape& shape, const uint32_t* counts,
                      Body&& body) {
  for (int32_t q = 0; q < shape.ranks; ++q) {
    const int64_t first = q * shape.capacity;
    exec.threads().parallel_for(counts[q], kGrainRows, [&](int64_t begin, int64_t end) {
      wide([&] { body(first + begin, first + end); });
    });
  }
}

template <typename W>
void gather_on_cpu(const Exec& exec, Matrix<const W> table, Vector<const uint32_t> rows, int64_t n,
                   Matrix<float> out) {
  const int64_t width = out.dim(1);
  const uint32_t* const from = rows.data();
  with_width(width, [&]<int kWidth>() {
    exec.threads().parallel_for(n, kGrainRows, [&](int64_t begin, int64_t end) {
      wide([&] {
        for (int64_t i = begin; i < end; ++i) {
          if (i + kRowsAhead < end && from[i + kRowsAhead] != kNoKey)
            prefetch_row<0>(table.row(from[i + kRowsAhead]), width);
          if (from[i] != kNoKey) Row<kWidth>::copy(table.row(from[i]), width, out.row(i));
        }
      });
    });
  });
}

void scatter_on_cpu(const Exec& exec, const ScatterArgs& args) {
  const float factor = args.factor ? *args.factor : 1.0f;
  const int64_t width = args.in.dim(1);
  exec.threads().parallel_for(*args.count, kGrainRows, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const uint32_t to = args.rows.data()[i];
      const float* const from = args.in.row(i);
      std::transform(from, from + width, args.out.row(to), [=](float x) { return x * factor; });
      if (args.touched) args.touched[to] = 1;
    }
  });
}

void update_on_cpu(const Exec& exec, const RowsUpdateArgs& args) {
  if (args.scale.skips()) return;
  const float by = args.scale.inverse ? *args.scale.inverse : 1.0f;
  const int64_t width = args.rows.w.dim(1);
  const auto scalars = optimizer::step_scalars(args.rule, *args.lr, *args.step);
  optimizer::with_rule_type(args.rule.type, [&]<optimizer::OptimizerType kType>() {
    with_row_type(args.rows, [&]<typename W, int kWidth>() {
      const RowUpdates<kType, kWidth, W> rows(scalars, args.rows, *args.step);
      const auto update = [&](int64_t begin, int64_t end) {
        std::vector<float> scaled(by == 1 ? 0 : static_cast<size_t>(width));
        for (int64_t i = begin; i < end; ++i) {
          if (args.touched && args.touched[i] == 0) continue;
          const float* g = args.gradients + i * width;
          if (by != 1) {
            std::transform(g, g + width, scaled.begin(), [=](float x) { return x * by; });
            g = scaled.data();
          }
          rows.update(i, g);
        }
      };
      exec.threads().parallel_for(args.rows.w.dim(0), kGrainRows, [&](int64_t begin, int64_t end) {
        wide([&] { update(begin, end); });
      });
    });
  });
}

}  // namespace

void gather_requested(const Exec& exec, const ConstWeightRows& table, Vector<const uint32_t> rows,
                      const uint32_t* count, Matrix<float> out) {
  if (exec.on_gpu()) return kernels::gather_requested(exec, table, rows, count, out);
  const int64_t n = count ? std::min<int64_t>(*count, rows.dim(0)) : rows.dim(0);
  with_float_type(table.type(),
                  [&]<typename W>() { gather_on_cpu(exec, table.as<W>(), rows, n, out); });
}

void round_requested(const Exec& exec, const ExchangeShape& shape, const uint32_t* counts,
                     Matrix<const float> rows, Matrix<bf16> narrowed) {
  if (exec.on_gpu()) return kernels::round_requested(exec, shape, counts, rows, narrowed);
  for_each_request(exec, shape, counts, [&](int64_t begin, int64_t end) {
    narrow(rows.row(begin), (end - begin) * shape.width, narrowed.row(begin));
  });
}

void widen_requested(const Exec& exec, const ExchangeShape& shape, const uint32_t* counts,
                     Matrix<const bf16> narrowed, Matrix<float> rows) {
  if (exec.on_gpu()) return kernels::widen_requested(exec, shape, counts, narrowed, rows);
  for_each_request(exec, shape, counts, [&](int64_t begin, int64_t end) {
    widen(narrowed.row(begin), (end - begin) * shape.width, rows.row(begin));
  });
}

void scatter_scaled(const Exec& exec, const ScatterArgs& args) {
  if (exec.on_gpu()) return kernels::scatter_scaled(exec, args);
  scatter_on_cpu(exec, args);
}

void update_rows(const Exec& exec, const RowsUpdateArgs& args) {
  if (exec.on_gpu()) return kernels::update_rows(exec, args);
  update_on_cpu(exec, args);
}

}  // namespace hlite::embedding
