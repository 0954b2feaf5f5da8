// A TableStorage keeps rows in files by table and key, wherever they lie.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "embedding/row_copies.h"
#include "embedding/table_storage.h"
#include "hugectr_lite/comm/gather_lists.h"
#include "hugectr_lite/core/exec_memory.h"
#include "hugectr_lite/core/float_loops.h"

namespace hlite::embedding {
namespace {

DType dtype_of(FloatType type) {
  if (type == FloatType::kBf16) return DType::kBf16;
  return type == FloatType::kFp16 ? DType::kF16 : DType::kF32;
}

// The uint32 keys of a table's rows.
TensorRef keys_tensor(std::string name, const TableStorage::Keys& keys, int64_t table) {
  const auto t = static_cast<size_t>(table);
  return {.name = std::move(name),
          .shape = {std::ssize(keys->keys[t])},
          .get =
              [keys, t](int64_t first, std::span<float> out) {
                if (out.empty()) return;  // memcpy takes no null
                std::memcpy(out.data(), keys->keys[t].data() + first, out.size_bytes());
              },
          // make_room() has seen them.
          .put = [](int64_t, std::span<const float>) {},
          .dtype = DType::kU32};
}

// Calls body(piece) for pieces of a list of rows, which are copied to the host.
template <typename Body>
void for_pieces(std::span<const uint32_t> rows, Body&& body) {
  constexpr size_t kPiece = 1 << 16;
  for (size_t first = 0; first < rows.size(); first += kPiece)
    body(rows.subspan(first, std::min(kPiece, rows.size() - first)));
}

constexpr int kNowhere = -2;  // in the place of a rank: the row of a file that is left out

std::vector<uint32_t> all_rows(int64_t count) {
  std::vector<uint32_t> rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), 0u);
  return rows;
}

}  // namespace

TensorRef TableStorage::tensor(std::string name, const Part& part, const Keys& keys,
                               int64_t table) const {
  const auto t = static_cast<size_t>(table);
  TensorRef ref{
      .name = std::move(name),
      .shape = {keys ? std::ssize(keys->keys[t]) : spec_.layout.table_rows[t], part.width},
      .dtype = dtype_of(part.type),
      .grows = !keys};
  if (placement_ || keys || holds_lines()) {
    if (own_on_gpu() && ranks_.ranks() == 1 && !(keys && keys->leaves_out))
      return device_tensor(std::move(ref), part, keys, table);
    ref.part = [this, part, keys, table](int64_t first, int64_t count) {
      return own_part(part, keys.get(), table, first, count);
    };
    ref.join = [this, part, keys, table](int64_t first, std::span<const float> parts,
                                         std::span<float> out) {
      join_parts(part, keys.get(), table, first, parts, out);
    };
    comm::gather_parts(ranks_, ref);
    ref.put = [this, part, keys, table](int64_t first, std::span<const float> in) {
      put_rows(part, keys.get(), table, first, in);
    };
    return ref;
  }
  const WeightRows own = rows_of(part, &Part::own);
  if (part.type != FloatType::kFloat) {
    with_float_type(part.type, [&]<typename W>() {
      W* const elements = spec_.layout.table(own.as<W>(), table).data();
      ref.get = [elements](int64_t first, std::span<float> out) {
        widen(elements + first, std::ssize(out), out.data());
      };
      ref.put = [elements](int64_t first, std::span<const float> in) {
        narrow(in.data(), std::ssize(in), elements + first);
      };
    });
    return ref;
  }
  float* const rows = spec_.layout.table(own.as<float>(), table).data();
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

// Makes the tensor of a hashed table on one GPU: rows lie anywhere, and partly written ones keep
// their other elements.
TensorRef TableStorage::device_tensor(TensorRef ref, const Part& part, const Keys& keys,
                                      int64_t table) const {
  const auto listed = [keys, table, width = part.width](int64_t first, size_t count) {
    const int64_t end = first + static_cast<int64_t>(count);
    return std::span(keys->rows[static_cast<size_t>(table)])
        .subspan(static_cast<size_t>(first / width),
                 static_cast<size_t>((end + width - 1) / width - first / width));
  };
  const int64_t width = part.width;
  ref.get = [=, this](int64_t first, std::span<float> out) {
    with_own_rows(part, listed(first, out.size()), false, [&](const RowValues& row) {
      std::copy_n(row(0) + first % width, out.size(), out.begin());
    });
  };
  ref.put = [=, this](int64_t first, std::span<const float> in) {
    with_own_rows(part, listed(first, in.size()), true, [&](const RowValues& row) {
      std::copy(in.begin(), in.end(), row(0) + first % width);
    });
  };
  return ref;
}

// The numbers of the rows on their ranks.
TensorRef TableStorage::numbers_tensor(std::string name, const Keys& keys, int64_t table) const {
  const auto t = static_cast<size_t>(table);
  TensorRef ref{
      .name = std::move(name), .shape = {std::ssize(keys->keys[t])}, .dtype = DType::kU32};
  ref.part = [this, keys, table, t](int64_t first, int64_t count) {
    std::vector<float> own;
    for (int64_t i = first; i < first + count; ++i)
      if (place_of(keys.get(), table, i).rank == ranks_.rank)
        own.push_back(std::bit_cast<float>(keys->rows[t][static_cast<size_t>(i)]));
    return own;
  };
  Part words = parts_[0];  // none are replicated
  words.width = 1;
  ref.join = [this, words, keys, table](int64_t first, std::span<const float> parts,
                                        std::span<float> out) {
    join_parts(words, keys.get(), table, first, parts, out);
  };
  comm::gather_parts(ranks_, ref);
  ref.put = [](int64_t, std::span<const float>) {};  // reserve() has seen them
  return ref;
}

std::vector<TensorRef> TableStorage::tables(const Keys& keys) const {
  std::vector<TensorRef> list;
  for (int64_t t = 0; t < spec_.layout.tables(); ++t)
    list.push_back(tensor(table_name(spec_.name, t), parts_[0], keys, t));
  for (int64_t t = 0; keys && t < spec_.layout.tables(); ++t)
    list.push_back(keys_tensor(keys_name(spec_.name, t), keys, t));
  return list;
}

std::vector<TensorRef> TableStorage::states(const Keys& keys) const {
  std::vector<TensorRef> list;
  for (size_t i = 1; i < parts_.size(); ++i)
    for (int64_t t = 0; t < spec_.layout.tables(); ++t)
      list.push_back(tensor(state_name(spec_.name, t, spec_.rule.type, static_cast<int>(i) - 1),
                            parts_[i], keys, t));
  for (int64_t t = 0; uses_ && t < spec_.layout.tables(); ++t) {
    list.push_back(tensor(uses_name(spec_.name, t), *uses_, keys, t));
    list.back().dtype = DType::kU32;
  }
  // The gradients of a row are summed in pieces that depend on how many come before the row's; and
  // those of all rows in the order of rows.
  const bool ordered = exec_.on_gpu() || spec_.whole_gradients;
  for (int64_t t = 0; spec_.hash_capacity > 0 && ordered && t < spec_.layout.tables(); ++t)
    list.push_back(numbers_tensor(rows_name(spec_.name, t), keys, t));
  return list;
}

std::vector<RowUse> TableStorage::uses_of(int64_t count) const {
  if (exec_.on_gpu()) exec_.cuda->device_synchronize();  // runs are on other streams
  std::vector<RowUse> uses(static_cast<size_t>(count));
  if (uses_) get_bytes(exec_, uses.data(), this->uses(), uses.size() * sizeof(RowUse));
  return uses;
}

void TableStorage::set_uses(const std::vector<RowUse>& uses) const {
  if (!uses.empty()) put_bytes(exec_, this->uses(), uses.data(), uses.size() * sizeof(RowUse));
}

std::vector<float> TableStorage::row_norms(int64_t count) const {
  std::vector<float> norms;
  norms.reserve(static_cast<size_t>(count));
  for_pieces(all_rows(count), [&](std::span<const uint32_t> rows) {
    with_own_rows(parts_[0], rows, false, [&](const RowValues& row) {
      for (size_t i = 0; i < rows.size(); ++i) {
        double squares = 0;
        for (int64_t j = 0; j < spec_.layout.width; ++j)
          squares += static_cast<double>(row(i)[j]) * static_cast<double>(row(i)[j]);
        norms.push_back(static_cast<float>(std::sqrt(squares)));
      }
    });
  });
  return norms;
}

// A row goes to a place before it, so no row is overwritten before it has moved.
void TableStorage::close_up(const RowMoves& moves, const std::vector<uint32_t>& evicted) const {
  if (exec_.on_gpu()) exec_.cuda->device_synchronize();
  const auto move = [&](const Part& part) {
    std::vector<float> values;
    size_t done = 0;
    for_pieces(moves.from, [&](std::span<const uint32_t> from) {
      const auto width = static_cast<size_t>(part.width);
      values.resize(from.size() * width);
      with_own_rows(part, from, false, [&](const RowValues& row) {
        for (size_t i = 0; i < from.size(); ++i)
          std::copy_n(row(i), width, values.data() + i * width);
      });
      with_own_rows(part, std::span(moves.to).subspan(done, from.size()), true,
                    [&](const RowValues& row) {
                      for (size_t i = 0; i < from.size(); ++i)
                        std::copy_n(values.data() + i * width, width, row(i));
                    });
      done += from.size();
    });
  };
  for (const Part& part : parts_)
    if (!cache_) move(part);
  if (cache_) cache_->close_up(moves.from, moves.to, evicted);
  move(*uses_);
}

// The place of row `row` of a table in a file. The row number is meaningful on the rank that holds
// the row alone.
RowPlace TableStorage::place_of(const FileKeys* keys, int64_t table, int64_t row) const {
  const auto t = static_cast<size_t>(table), i = static_cast<size_t>(row);
  const uint32_t key = keys ? keys->keys[t][i] : static_cast<uint32_t>(row);
  if (!placement_) return {0, static_cast<uint32_t>(spec_.layout.table_offset[t] + key)};
  RowPlace place = placement_->locate(table, key);
  if (placement_->hashed() && place.rank == ranks_.rank) {
    place.row = keys->rows[t][i];
    if (place.row == kNoRow) place.rank = kNowhere;
  }
  return place;
}

void TableStorage::with_own_rows(const Part& part, std::span<const uint32_t> rows, bool write,
                                 const std::function<void(const RowValues&)>& use) const {
  if (is_uses(part)) return with_rows(own_rows_of(part), exec_.on_gpu(), rows, write, use);
  if (device_cache_) {
    device_cache_->flush();
    if (write) device_cache_->forget();
  }
  if (!cache_) return with_rows(own_rows_of(part), own_on_gpu(), rows, write, use);
  // A GPU's lines have been flushed to those of the host.
  const int64_t n = std::ssize(rows);
  std::vector<std::byte> records(static_cast<size_t>(n * part.width * float_type_bytes(part.type)));
  cache_->read(part.index, rows, records.data());
  std::vector<uint32_t> all(rows.size());
  std::iota(all.begin(), all.end(), 0u);
  with_rows({records.data(), n, part.width, part.type}, false, all, write, use);
  if (write) cache_->write(part.index, rows, records.data());
}

void TableStorage::with_rows(const WeightRows& table, bool on_gpu, std::span<const uint32_t> rows,
                             bool write, const std::function<void(const RowValues&)>& use) const {
  if (on_gpu) return with_device_rows(table.as<float>(), rows, write, use);
  with_float_type(table.type(), [&]<typename W>() {
    const Matrix<W> stored = table.as<W>();
    if constexpr (std::is_same_v<W, float>) {
      use([&](size_t i) { return stored.row(rows[i]); });
    } else {
      const int64_t width = table.dim(1);
      std::vector<float> values(rows.size() * static_cast<size_t>(width));
      const auto row = [&](size_t i) { return values.data() + static_cast<int64_t>(i) * width; };
      for (size_t i = 0; i < rows.size(); ++i) widen(stored.row(rows[i]), width, row(i));
      use(row);
      for (size_t i = 0; write && i < rows.size(); ++i) narrow(row(i), width, stored.row(rows[i]));
    }
  });
}

void TableStorage::with_device_rows(Matrix<float> table, std::span<const uint32_t> rows, bool write,
                                    const std::function<void(const RowValues&)>& use) const {
  const int64_t n = std::ssize(rows), width = table.dim(1);
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
    int64_t width, const FileKeys* keys, int64_t table, int64_t first, int64_t count,
    const std::function<void(const RowPlace&, const RowColumns&, int64_t)>& body) const {
  for (int64_t row = first / width; row * width < first + count; ++row) {
    const RowColumns columns{std::max<int64_t>(0, first - row * width),
                             std::min(width, first + count - row * width)};
    body(place_of(keys, table, row), columns, row * width + columns.begin - first);
  }
}

// Returns what this rank holds of the range, in the order of keys. join_parts() deals it out by
// asking the placement the same questions.
std::vector<float> TableStorage::own_part(const Part& part, const FileKeys* keys, int64_t table,
                                          int64_t first, int64_t count) const {
  const auto for_each_own = [&](const auto& body) {
    for_each_part(part.width, keys, table, first, count,
                  [&](const RowPlace& place, const RowColumns& columns, int64_t) {
                    if (place.rank == ranks_.rank) body(place.row, columns);
                  });
  };
  std::vector<uint32_t> own;
  for_each_own([&](uint32_t row, const RowColumns&) { own.push_back(row); });
  std::vector<float> mine;
  with_own_rows(part, own, false, [&](const RowValues& row) {
    size_t i = 0;
    for_each_own([&](uint32_t, const RowColumns& columns) {
      const float* const from = row(i++);
      mine.insert(mine.end(), from + columns.begin, from + columns.end);
    });
  });
  return mine;
}

void TableStorage::join_parts(const Part& part, const FileKeys* keys, int64_t table, int64_t first,
                              std::span<const float> parts, std::span<float> out) const {
  const auto n = static_cast<size_t>(ranks_.ranks());
  const auto for_each = [&](const auto& body) {
    for_each_part(part.width, keys, table, first, std::ssize(out), body);
  };
  std::vector<size_t> values(n, 0);  // of each rank
  std::vector<uint32_t> replicated;
  for_each([&](const RowPlace& place, const RowColumns& columns, int64_t) {
    if (place.rank < 0) return replicated.push_back(place.row);
    values[static_cast<size_t>(place.rank)] += static_cast<size_t>(columns.end - columns.begin);
  });
  std::vector<const float*> next(n, parts.data());
  for (size_t q = 1; q < n; ++q) next[q] = next[q - 1] + values[q - 1];
  with_rows(rows_of(part, &Part::replicated), exec_.on_gpu(), replicated, false,
            [&](const RowValues& row) {
              size_t i = 0;
              for_each([&](const RowPlace& place, const RowColumns& columns, int64_t at) {
                const int64_t size = columns.end - columns.begin;
                const float* const from = place.rank < 0 ? row(i++) + columns.begin
                                                         : next[static_cast<size_t>(place.rank)];
                if (place.rank >= 0) next[static_cast<size_t>(place.rank)] += size;
                std::copy_n(from, size, out.data() + at);
              });
            });
}

void TableStorage::put_rows(const Part& part, const FileKeys* keys, int64_t table, int64_t first,
                            std::span<const float> in) const {
  const auto put = [&](int rank) {  // the rows of that rank
    const auto for_each = [&](const auto& body) {
      for_each_part(part.width, keys, table, first, std::ssize(in),
                    [&](const RowPlace& place, const RowColumns& columns, int64_t at) {
                      if (place.rank == rank) body(place.row, columns, at);
                    });
    };
    std::vector<uint32_t> rows;
    for_each([&](uint32_t row, const RowColumns&, int64_t) { rows.push_back(row); });
    const auto fill = [&](const RowValues& row) {
      size_t i = 0;
      for_each([&](uint32_t, const RowColumns& columns, int64_t at) {
        std::copy_n(in.data() + at, columns.end - columns.begin, row(i++) + columns.begin);
      });
    };
    if (rank < 0)
      with_rows(rows_of(part, &Part::replicated), exec_.on_gpu(), rows, true, fill);
    else
      with_own_rows(part, rows, true, fill);
  };
  put(ranks_.rank);
  put(-1);
}

}  // namespace hlite::embedding
