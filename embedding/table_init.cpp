#include "embedding/table_init.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hugectr_lite/core/fill.h"
#include "hugectr_lite/core/random.h"

namespace hlite::embedding {
namespace {
// Values a task: 2 MiB, a huge page.
constexpr int64_t kValuesPerTask = int64_t{1} << 19;

float bound_of(int64_t table_rows) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(table_rows)));
}
}  // namespace

void init_table_rows(const Exec& exec, uint64_t seed, std::string_view name, int64_t table_rows,
                     int64_t first_row, Matrix<float> rows) {
  HLITE_CHECK(first_row >= 0 && first_row + rows.dim(0) <= table_rows,
              "{}: rows {} to {} of a table of {}", name, first_row, first_row + rows.dim(0),
              table_rows);
  const uint64_t stream = random::stream_of(name);
  const auto first = static_cast<uint64_t>(first_row * rows.dim(1));
  const float bound = bound_of(table_rows);
  const int64_t values = rows.size();
  if (exec.on_gpu())
    return hlite::kernels::fill_uniform(exec, {rows.data(), values}, seed, stream, first, -bound,
                                        bound);
  exec.threads().run((values + kValuesPerTask - 1) / kValuesPerTask, [&](int64_t task, int) {
    const int64_t begin = task * kValuesPerTask;
    const int64_t n = std::min(kValuesPerTask, values - begin);
    random::fill_uniform(rows.data() + begin, n, seed, stream, first + static_cast<uint64_t>(begin),
                         -bound, bound);
  });
}

void init_normal_rows(const Exec& exec, uint64_t seed, std::string_view name, float stddev,
                      int64_t first_row, Matrix<float> rows) {
  const uint64_t stream = random::stream_of(name);
  const auto first = static_cast<uint64_t>(first_row * rows.dim(1));
  exec.threads().parallel_for(rows.size(), kValuesPerTask, [&](int64_t begin, int64_t end) {
    random::fill_normal(rows.data() + begin, end - begin, seed, stream,
                        first + static_cast<uint64_t>(begin), stddev);
  });
}

void init_tables(const Exec& exec, uint64_t seed, std::string_view layer, const SlotLayout& layout,
                 Matrix<float> tables) {
  HLITE_CHECK(tables.dim(0) == layout.total_rows && tables.dim(1) == layout.width,
              "{}: tables {}, expected [{},{}]", layer, tables.shape(), layout.total_rows,
              layout.width);
  for (int64_t t = 0; t < layout.tables(); ++t) {
    const Matrix<float> rows = layout.table(tables, t);
    init_table_rows(exec, seed, fmt::format("{}.table_{}", layer, t), rows.dim(0), 0, rows);
  }
}

void fill_values(const Exec& exec, Vector<float> values, float value) {
  if (exec.on_gpu()) return hlite::kernels::fill(exec, values, value);
  exec.threads().parallel_for(values.size(), 1 << 16, [&](int64_t begin, int64_t end) {
    std::fill(values.data() + begin, values.data() + end, value);
  });
}

TableRowInit::TableRowInit(uint64_t seed, std::string_view layer, const SlotLayout& layout,
                           float stddev, FloatType type)
    : TableRowInit(seed, layer, layout.table_rows, layout.width, type) {
  stddev_ = stddev;
}

TableRowInit::TableRowInit(uint64_t seed, std::string_view layer, std::span<const int64_t> rows,
                           int64_t width, FloatType type)
    : seed_(seed), width_(width), type_(type) {
  for (size_t t = 0; t < rows.size(); ++t)
    streams_.push_back(
        {random::stream_of(fmt::format("{}.table_{}", layer, t)), bound_of(rows[t])});
}

void TableRowInit::fill(int64_t of, uint32_t key, float* row) const {
  const TableStream& table = streams_[static_cast<size_t>(of)];
  const uint64_t first = static_cast<uint64_t>(key) * static_cast<uint64_t>(width_);
  if (stddev_ > 0)
    random::fill_normal(row, width_, seed_, table.stream, first, stddev_);
  else
    random::fill_uniform(row, width_, seed_, table.stream, first, -table.bound, table.bound);
  if (type_ != FloatType::kFloat)
    std::transform(row, row + width_, row, [this](float x) { return rounded_to(type_, x); });
}

}  // namespace hlite::embedding
