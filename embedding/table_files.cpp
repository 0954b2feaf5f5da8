// What a TableStorage keeps in files: rows by table and key, wherever they lie.
#include <algorithm>
#include <cstring>

#include "embedding/row_copies.h"
#include "embedding/table_storage.h"
#include "hugectr_lite/comm/gather_lists.h"
#include "hugectr_lite/core/exec_memory.h"

namespace hlite::embedding {
namespace {

// The uint32 keys of a table's rows.
TensorRef keys_tensor(std::string name, const TableStorage::Keys& keys, int64_t slot) {
  const auto s = static_cast<size_t>(slot);
  return {.name = std::move(name),
          .shape = {std::ssize(keys->keys[s])},
          .get =
              [keys, s](int64_t first, std::span<float> out) {
                if (out.empty()) return;  // memcpy takes no null
                std::memcpy(out.data(), keys->keys[s].data() + first, out.size_bytes());
              },
          // make_room() has seen them.
          .put = [](int64_t, std::span<const float>) {},
          .dtype = DType::kU32};
}

}  // namespace

TensorRef TableStorage::tensor(std::string name, const Part& part, const Keys& keys,
                               int64_t slot) const {
  const auto s = static_cast<size_t>(slot);
  TensorRef ref{
      .name = std::move(name),
      .shape = {keys ? std::ssize(keys->keys[s]) : spec_.layout.rows[s], spec_.layout.width}};
  if (placement_) {
    if (exec_.on_gpu() && ranks_.ranks() == 1)
      return device_tensor(std::move(ref), part, keys, slot);
    ref.get = [this, part, keys, slot](int64_t first, std::span<float> out) {
      get_rows(part, keys.get(), slot, first, out);
    };
    ref.put = [this, part, keys, slot](int64_t first, std::span<const float> in) {
      put_rows(part, keys.get(), slot, first, in);
    };
    return ref;
  }
  float* const rows = spec_.layout.table(matrix(part.own, own_rows()), slot).data();
  if (!exec_.on_gpu()) {
    ref.data = rows;
    return ref;
  }
  ref.get = [this, rows](int64_t first, std::span<float> out) {
    get_bytes(exec_, out.data(), rows + first, out.size_bytes());
  };
  ref.put = [this, rows](int64_t first, std::span<const float> in) {
    put_bytes(exec_, rows + first, in.data(), in.size_bytes());
  };
  return ref;
}

// Of a hashed table on one GPU: rows lie anywhere, and partly written ones keep their other
// elements.
TensorRef TableStorage::device_tensor(TensorRef ref, const Part& part, const Keys& keys,
                                      int64_t slot) const {
  const auto rows_of = [keys, slot, width = spec_.layout.width](int64_t first, size_t count) {
    const int64_t end = first + static_cast<int64_t>(count);
    return std::span(keys->rows[static_cast<size_t>(slot)])
        .subspan(static_cast<size_t>(first / width),
                 static_cast<size_t>((end + width - 1) / width - first / width));
  };
  const int64_t width = spec_.layout.width;
  ref.get = [=, this](int64_t first, std::span<float> out) {
    with_rows(matrix(part.own, own_rows()), rows_of(first, out.size()), false,
              [&](const RowValues& row) {
                std::copy_n(row(0) + first % width, out.size(), out.begin());
              });
  };
  ref.put = [=, this](int64_t first, std::span<const float> in) {
    with_rows(
        matrix(part.own, own_rows()), rows_of(first, in.size()), true,
        [&](const RowValues& row) { std::copy(in.begin(), in.end(), row(0) + first % width); });
  };
  return ref;
}

std::vector<TensorRef> TableStorage::tables(const Keys& keys) const {
  std::vector<TensorRef> list;
  for (int64_t s = 0; s < spec_.layout.slots(); ++s)
    list.push_back(tensor(table_name(spec_.name, s), parts_[0], keys, s));
  for (int64_t s = 0; keys && s < spec_.layout.slots(); ++s)
    list.push_back(keys_tensor(keys_name(spec_.name, s), keys, s));
  return list;
}

std::vector<TensorRef> TableStorage::states(const Keys& keys) const {
  std::vector<TensorRef> list;
  for (size_t i = 1; i < parts_.size(); ++i)
    for (int64_t s = 0; s < spec_.layout.slots(); ++s)
      list.push_back(tensor(state_name(spec_.name, s, spec_.rule.type, static_cast<int>(i) - 1),
                            parts_[i], keys, s));
  return list;
}

// Where row `row` of a slot's table in a file lies. Of a rank that holds it alone does its own row
// say anything.
RowPlace TableStorage::place_of(const FileKeys* keys, int64_t slot, int64_t row) const {
  const auto s = static_cast<size_t>(slot), i = static_cast<size_t>(row);
  RowPlace place = placement_->locate(slot, keys ? keys->keys[s][i] : static_cast<uint32_t>(row));
  if (keys && place.rank == ranks_.rank) place.row = keys->rows[s][i];
  return place;
}

void TableStorage::with_rows(Matrix<float> table, std::span<const uint32_t> rows, bool write,
                             const std::function<void(const RowValues&)>& use) const {
  if (!exec_.on_gpu()) return use([&](size_t i) { return table.row(rows[i]); });
  const int64_t n = std::ssize(rows), width = spec_.layout.width;
  std::vector<float> values(rows.size() * static_cast<size_t>(width));
  const auto row = [&](size_t i) { return values.data() + static_cast<int64_t>(i) * width; };
  if (n == 0) return use(row);
  const size_t bytes = values.size() * sizeof(float);
  const ExecMemory list(exec_, rows.size_bytes(), "rows"), copy(exec_, bytes, "rows");
  const Vector<const uint32_t> on_device(reinterpret_cast<const uint32_t*>(list.data()), n);
  const Matrix<float> staged(reinterpret_cast<float*>(copy.data()), n, width);
  put_bytes(exec_, list.data(), rows.data(), rows.size_bytes());
  kernels::gather_rows(exec_, table, on_device, staged);
  get_bytes(exec_, values.data(), copy.data(), bytes);
  use(row);
  if (!write) return;
  put_bytes(exec_, copy.data(), values.data(), bytes);
  kernels::scatter_rows(exec_, staged, on_device, table);
  exec_.cuda->stream_synchronize(exec_.stream);
}

void TableStorage::for_each_part(
    const FileKeys* keys, int64_t slot, int64_t first, int64_t count,
    const std::function<void(const RowPlace&, const RowPart&, int64_t)>& body) const {
  const int64_t width = spec_.layout.width;
  for (int64_t row = first / width; row * width < first + count; ++row) {
    const RowPart columns{std::max<int64_t>(0, first - row * width),
                          std::min(width, first + count - row * width)};
    body(place_of(keys, slot, row), columns, row * width + columns.begin - first);
  }
}

// Every rank sends rank 0 what it holds of the range, in the order of keys; rank 0 deals it out by
// asking the placement the same questions.
void TableStorage::get_rows(const Part& part, const FileKeys* keys, int64_t slot, int64_t first,
                            std::span<float> out) const {
  const auto n = static_cast<size_t>(ranks_.ranks());
  const auto for_each = [&](const auto& body) {
    for_each_part(keys, slot, first, std::ssize(out), body);
  };
  std::vector<size_t> values(n, 0);  // of each rank
  std::vector<uint32_t> own, copied;
  for_each([&](const RowPlace& place, const RowPart& columns, int64_t) {
    if (place.rank < 0) return copied.push_back(place.row);
    values[static_cast<size_t>(place.rank)] += static_cast<size_t>(columns.end - columns.begin);
    if (place.rank == ranks_.rank) own.push_back(place.row);
  });
  std::vector<float> mine;
  with_rows(matrix(part.own, own_rows()), own, false, [&](const RowValues& row) {
    size_t i = 0;
    for_each([&](const RowPlace& place, const RowPart& columns, int64_t) {
      if (place.rank != ranks_.rank) return;
      const float* const from = row(i++);
      mine.insert(mine.end(), from + columns.begin, from + columns.end);
    });
  });
  const std::vector<float> of_ranks = comm::gather_lists(ranks_, std::move(mine), 0);
  if (ranks_.rank != 0) return;
  std::vector<const float*> next(n, of_ranks.data());
  for (size_t q = 1; q < n; ++q) next[q] = next[q - 1] + values[q - 1];
  with_rows(matrix(part.copied, copied_rows()), copied, false, [&](const RowValues& row) {
    size_t i = 0;
    for_each([&](const RowPlace& place, const RowPart& columns, int64_t at) {
      const int64_t size = columns.end - columns.begin;
      const float* const from =
          place.rank < 0 ? row(i++) + columns.begin : next[static_cast<size_t>(place.rank)];
      if (place.rank >= 0) next[static_cast<size_t>(place.rank)] += size;
      std::copy_n(from, size, out.data() + at);
    });
  });
}

void TableStorage::put_rows(const Part& part, const FileKeys* keys, int64_t slot, int64_t first,
                            std::span<const float> in) const {
  const auto put = [&](int rank, Matrix<float> table) {  // the rows of that rank
    const auto for_each = [&](const auto& body) {
      for_each_part(keys, slot, first, std::ssize(in),
                    [&](const RowPlace& place, const RowPart& columns, int64_t at) {
                      if (place.rank == rank) body(place.row, columns, at);
                    });
    };
    std::vector<uint32_t> rows;
    for_each([&](uint32_t row, const RowPart&, int64_t) { rows.push_back(row); });
    with_rows(table, rows, true, [&](const RowValues& row) {
      size_t i = 0;
      for_each([&](uint32_t, const RowPart& columns, int64_t at) {
        std::copy_n(in.data() + at, columns.end - columns.begin, row(i++) + columns.begin);
      });
    });
  };
  put(ranks_.rank, matrix(part.own, own_rows()));
  put(-1, matrix(part.copied, copied_rows()));
}

}  // namespace hlite::embedding
