#include "data_reader/batch_source.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"

namespace hlite::data {
namespace {
constexpr size_t kAlignment = 64;

int64_t padded_bytes(int64_t rows, int64_t columns) {
  HLITE_CHECK(rows >= 0 && columns >= 0, "[{}, {}]", rows, columns);
  constexpr auto kUnit = static_cast<int64_t>(kAlignment);
  return (rows * columns * 4 + kUnit - 1) / kUnit * kUnit;
}

template <typename T>
void zero_rows(const Matrix<T>& m, int64_t begin, int64_t end) {
  std::fill(m.row(begin), m.row(end), T{});
}
}  // namespace

BatchLayout batch_layout(int64_t batch, int64_t label_width, int64_t dense_width,
                         int64_t key_columns) {
  BatchLayout layout;
  layout.dense = padded_bytes(batch, label_width);
  layout.keys = layout.dense + padded_bytes(batch, dense_width);
  layout.bytes = layout.keys + padded_bytes(batch, key_columns);
  return layout;
}

BatchBuffer::BatchBuffer(int64_t batch, int64_t label_width, int64_t dense_width,
                         int64_t key_columns) {
  const BatchLayout layout = batch_layout(batch, label_width, dense_width, key_columns);
  const auto bytes = static_cast<size_t>(layout.bytes);
  memory_ = HostMemory(bytes, "batch buffer");
  batch_.memory = {memory_.data(), bytes};
  std::byte* p = memory_.data();
  batch_.labels = {reinterpret_cast<float*>(p), batch, label_width};
  batch_.dense = {reinterpret_cast<float*>(p + layout.dense), batch, dense_width};
  batch_.keys = {reinterpret_cast<uint32_t*>(p + layout.keys), batch, key_columns};
}

void BatchBuffer::set_size(int64_t size) {
  HLITE_CHECK(size >= 0 && size <= batch_.labels.dim(0), "{} samples of {}", size,
              batch_.labels.dim(0));
  if (size < batch_.size) {
    zero_rows(batch_.labels, size, batch_.size);
    zero_rows(batch_.dense, size, batch_.size);
    zero_rows(batch_.keys, size, batch_.size);
  }
  batch_.size = size;
  batch_.replaced_keys = 0;
}

}  // namespace hlite::data
