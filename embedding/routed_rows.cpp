#include "embedding/routed_rows.h"

#include <algorithm>

#include "embedding/key_sort.h"
#include "embedding/row_access.h"

namespace hlite::embedding {
namespace {
using optimizer::OptimizerType;

constexpr int64_t kRowsAhead = 16;   // asked for before they are used
constexpr int64_t kGrainRows = 256;  // rows that are worth a task
constexpr int64_t kTasksPerThread = 4;

// Keys that each sample has in a slot; valid until the thread's next call.
const std::vector<uint32_t>& keys_per_sample(const KeyRouting& routing, int64_t slot,
                                             int64_t batch) {
  thread_local std::vector<uint32_t> count;  // grows once
  count.assign(static_cast<size_t>(batch), 0);
  const auto distinct = routing.distinct(slot);
  const uint64_t* pairs = routing.pairs(slot);
  const uint32_t n = distinct.empty() ? 0 : distinct.back().end;
  for (uint32_t i = 0; i < n; ++i) ++count[static_cast<size_t>(sample_of(pairs[i]))];
  return count;
}

void check_shapes(const KeyRouting& routing, int64_t width, Matrix<const float> vectors,
                  Matrix<const float> copied, int64_t slots) {
  const int64_t entries = routing.placement().ranks() * routing.block();
  HLITE_CHECK(slots == routing.layout().slots() && vectors.dim(0) == entries &&
                  (entries == 0 || vectors.dim(1) == width) &&
                  copied.dim(0) == routing.placement().copied_rows() &&
                  (copied.dim(0) == 0 || copied.dim(1) == width),
              "{} slots, vectors {} of {}, copied {}, width {}", slots, vectors.shape(), entries,
              copied.shape(), width);
}

// The vectors of a slot's samples: w numbers each, `stride` from one to the next.
template <typename S>
struct SlotVectors {
  S* data;
  int64_t batch, w, stride;
};

// S: float, or another type for slots of one key.
template <int kWidth, typename S>
void pool_into(const KeyRouting& routing, Matrix<const float> vectors, Matrix<const float> copied,
               const SlotVectors<S>& out, int64_t slot) {
  using R = Row<kWidth>;
  const auto [to, batch, w, stride] = out;
  const bool one_key = routing.layout().hotness(slot) == 1;
  if (!one_key || routing.distinct(slot).empty())
    for (int64_t b = 0; b < batch; ++b) std::fill_n(to + b * stride, w, S{});
  const uint64_t* pairs = routing.pairs(slot);
  int64_t filled = 0;
  for (const auto& key : routing.distinct(slot)) {
    const float* from = (key.copied ? copied : vectors).row(key.entry);
    for (uint32_t i = key.begin; i < key.end; ++i) {
      S* row = to + sample_of(pairs[i]) * stride;
      if constexpr (std::is_same_v<S, float>) {
        if (!one_key) {
          R::add(from, w, row);
          continue;
        }
      }
      R::copy(from, w, row);
    }
    filled += key.end - key.begin;
  }
  if (one_key && filled < batch && filled > 0) {  // samples without a key
    const auto& count = keys_per_sample(routing, slot, batch);
    for (int64_t b = 0; b < batch; ++b)
      if (count[static_cast<size_t>(b)] == 0) std::fill_n(to + b * stride, w, S{});
  }
  if constexpr (std::is_same_v<S, float>) {
    if (!routing.layout().scales(slot)) return;
    const auto& count = keys_per_sample(routing, slot, batch);
    for (int64_t b = 0; b < batch; ++b)
      if (count[static_cast<size_t>(b)] > 1)
        R::scale(1.0f / static_cast<float>(count[static_cast<size_t>(b)]), w, to + b * stride);
  }
}

template <int kWidth, typename T>
void pool_slot(const KeyRouting& routing, Matrix<const float> vectors, Matrix<const float> copied,
               View<T, 3> out, int64_t slot) {
  const int64_t w = out.dim(2), batch = out.dim(0), stride = out.dim(1) * w;
  T* const to = out.data() + slot * w;
  if (std::is_same_v<T, float> || routing.layout().hotness(slot) == 1)
    return pool_into<kWidth, T>(routing, vectors, copied, {to, batch, w, stride}, slot);
  thread_local std::vector<float> sums;  // grows once
  sums.resize(static_cast<size_t>(batch * w));
  pool_into<kWidth, float>(routing, vectors, copied, {sums.data(), batch, w, w}, slot);
  for (int64_t b = 0; b < batch; ++b) narrow(sums.data() + b * w, w, to + b * stride);
}

template <int kWidth, typename T>
void reduce_slot(const KeyRouting& routing, View<const T, 3> dout, Matrix<float> gradients,
                 Matrix<float> copied, std::span<float> touched, int64_t slot) {
  using R = Row<kWidth>;
  const int64_t w = dout.dim(2), stride = dout.dim(1) * w;
  const T* from = dout.data() + slot * w;
  const uint64_t* pairs = routing.pairs(slot);
  const bool scales = routing.layout().scales(slot);
  const uint32_t* count = scales ? keys_per_sample(routing, slot, dout.dim(0)).data() : nullptr;
  for (const auto& key : routing.distinct(slot)) {
    float* to = (key.copied ? copied : gradients).row(key.entry);
    if (key.copied && !touched.empty()) touched[key.entry] = 1;
    std::fill_n(to, w, 0.0f);
    for (uint32_t i = key.begin; i < key.end; ++i) {
      const int64_t sample = sample_of(pairs[i]);
      if (scales)
        R::add_scaled(1.0f / static_cast<float>(count[sample]), from + sample * stride, w, to);
      else
        R::add(from + sample * stride, w, to);
    }
  }
}

// A gradient of a row: which list, and where in it.
struct Part {
  uint32_t row, list, at;
};

// Rows [begin, end): the parts of all lists, by row and then list.
void collect(std::span<const RowGradients> from, int64_t begin, int64_t end,
             std::vector<Part>& parts) {
  parts.clear();
  for (size_t q = 0; q < from.size(); ++q) {
    const auto rows = from[q].rows;
    auto at = std::lower_bound(rows.begin(), rows.end(), begin);
    for (; at != rows.end() && *at < end; ++at) {
      const auto i = static_cast<size_t>(at - rows.begin());
      parts.push_back({*at, static_cast<uint32_t>(q),
                       from[q].order.empty() ? static_cast<uint32_t>(i) : from[q].order[i]});
    }
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return a.row != b.row ? a.row < b.row : a.list < b.list;
  });
}

template <typename Updates, int kWidth>
void update_range(const Updates& updates, std::span<const RowGradients> from, bool sweep,
                  int64_t begin, int64_t end) {
  thread_local std::vector<Part> parts;  // grow once
  thread_local std::vector<float> sum;
  collect(from, begin, end, parts);
  sum.resize(static_cast<size_t>(updates.width()));
  int64_t next = begin;
  for (size_t i = 0; i < parts.size();) {
    if (i + kRowsAhead < parts.size()) updates.prefetch(parts[i + kRowsAhead].row);
    const uint32_t row = parts[i].row;
    const float* gradient = from[parts[i].list].gradients.row(parts[i].at);
    if (i + 1 < parts.size() && parts[i + 1].row == row) {
      Row<kWidth>::copy(gradient, updates.width(), sum.data());
      for (++i; i < parts.size() && parts[i].row == row; ++i)
        Row<kWidth>::add(from[parts[i].list].gradients.row(parts[i].at), updates.width(),
                         sum.data());
      gradient = sum.data();
    } else {
      ++i;
    }
    if (sweep) updates.without_gradient(next, row);
    updates.update(row, gradient);
    next = row + 1;
  }
  if (sweep) updates.without_gradient(next, end);
}

// Calls body.operator()<kWidth>(updates) with the rule and width known to the compiler.
template <typename Body>
void with_updates(const RowStep& step, const UpdatedRows& rows, Body&& body) {
  const auto scalars = optimizer::step_scalars(step.rule, step.lr, step.step);
  optimizer::with_rule_type(step.rule.type, [&]<OptimizerType kType>() {
    with_width(rows.w.dim(1), [&]<int kWidth>() {
      body.template operator()<kWidth>(RowUpdates<kType, kWidth>(scalars, rows));
    });
  });
}

}  // namespace

void gather_rows(const Exec& exec, Matrix<const float> table, std::span<const uint32_t> rows,
                 Matrix<float> out) {
  const auto n = static_cast<int64_t>(rows.size());
  HLITE_CHECK(out.dim(0) == n && (n == 0 || out.dim(1) == table.dim(1)), "{} rows of {}, out {}", n,
              table.shape(), out.shape());
  with_width(table.dim(1), [&]<int kWidth>() {
    exec.threads().parallel_for(n, kGrainRows, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (i + kRowsAhead < end)
          prefetch_row<0>(table.row(rows[static_cast<size_t>(i + kRowsAhead)]), table.dim(1));
        Row<kWidth>::copy(table.row(rows[static_cast<size_t>(i)]), table.dim(1), out.row(i));
      }
    });
  });
}

template <typename T>
void pool_rows(const Exec& exec, const KeyRouting& routing, Matrix<const float> vectors,
               Matrix<const float> copied, View<T, 3> out) {
  check_shapes(routing, out.dim(2), vectors, copied, out.dim(1));
  with_width(out.dim(2), [&]<int kWidth>() {
    exec.threads().run(out.dim(1), [&](int64_t slot, int) {
      pool_slot<kWidth>(routing, vectors, copied, out, slot);
    });
  });
}

template <typename T>
void reduce_gradients(const Exec& exec, const KeyRouting& routing, View<const T, 3> dout,
                      Matrix<float> gradients, Matrix<float> copied, std::span<float> touched) {
  check_shapes(routing, dout.dim(2), gradients, copied, dout.dim(1));
  std::fill(touched.begin(), touched.end(), 0.0f);
  std::fill_n(copied.data(), copied.size(), 0.0f);
  with_width(dout.dim(2), [&]<int kWidth>() {
    exec.threads().run(dout.dim(1), [&](int64_t slot, int) {
      reduce_slot<kWidth>(routing, dout, gradients, copied, touched, slot);
    });
  });
}

#define HLITE_INSTANTIATE(T)                                                                      \
  template void pool_rows(const Exec&, const KeyRouting&, Matrix<const float>,                    \
                          Matrix<const float>, View<T, 3>);                                       \
  template void reduce_gradients(const Exec&, const KeyRouting&, View<const T, 3>, Matrix<float>, \
                                 Matrix<float>, std::span<float>);
HLITE_INSTANTIATE(float)
HLITE_INSTANTIATE(bf16)
#undef HLITE_INSTANTIATE

void update_rows(const Exec& exec, const RowStep& step, std::span<const RowGradients> from,
                 const UpdatedRows& rows) {
  const bool sweep = step.sweep && optimizer::moves_without_gradient(step.rule.type);
  // Cut where the longest list is cut evenly; when all rows move, by rows.
  const auto longest = std::max_element(from.begin(), from.end(), [](const auto& a, const auto& b) {
    return a.rows.size() < b.rows.size();
  });
  const auto named = longest == from.end() ? 0 : static_cast<int64_t>(longest->rows.size());
  if (named == 0 && !sweep) return;
  const int64_t work = sweep ? rows.w.dim(0) : named;
  const int64_t tasks =
      std::clamp<int64_t>(work / kGrainRows, 1, kTasksPerThread * exec.threads().threads());
  const auto cut = [&](int64_t task) -> int64_t {
    if (task == 0) return 0;
    if (task == tasks) return rows.w.dim(0);
    if (sweep) return work * task / tasks;
    return longest->rows[static_cast<size_t>(work * task / tasks)];
  };
  with_updates(step, rows, [&]<int kWidth>(const auto& updates) {
    exec.threads().run(tasks, [&](int64_t task, int) {
      update_range<std::decay_t<decltype(updates)>, kWidth>(updates, from, sweep, cut(task),
                                                            cut(task + 1));
    });
  });
}

void update_copied(const Exec& exec, const RowStep& step, Matrix<const float> gradients,
                   std::span<const float> touched, const UpdatedRows& rows) {
  const bool all = step.sweep || !optimizer::moves_without_gradient(step.rule.type);
  HLITE_CHECK(gradients.dim(0) == rows.w.dim(0) &&
                  (all || static_cast<int64_t>(touched.size()) == rows.w.dim(0)),
              "gradients {}, table {}, {} marks", gradients.shape(), rows.w.shape(),
              touched.size());
  if (rows.w.dim(0) == 0) return;
  with_updates(step, rows, [&]<int kWidth>(const auto& updates) {
    exec.threads().parallel_for(rows.w.dim(0), kGrainRows, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        if (all || touched[static_cast<size_t>(i)] != 0) updates.update(i, gradients.row(i));
    });
  });
}

}  // namespace hlite::embedding
