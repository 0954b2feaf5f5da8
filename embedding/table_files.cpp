#include "embedding/table_files.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "embedding/slots_ref.h"
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
TensorRef keys_tensor(std::string name, const TableFiles::Keys& keys, int64_t table) {
  const auto t = static_cast<size_t>(table);
  return {.name = std::move(name),
          .shape = {std::ssize(keys->keys[t])},
          .get =
              [keys, t](int64_t first, std::span<float> out) {
                if (out.empty()) return;  // memcpy takes no null
                std::memcpy(out.data(), keys->keys[t].data() + first, out.size_bytes());
              },
          // EmbeddingTables::reserve() has read them.
          .put = [](int64_t, std::span<const float>) {},
          .dtype = DType::kU32};
}

constexpr int kNowhere = -2;  // in the place of a rank: the row of a file that is left out

}  // namespace

TensorRef TableFiles::tensor(std::string name, const Part& part, const Keys& keys,
                             int64_t table) const {
  const auto t = static_cast<size_t>(table);
  TensorRef ref{
      .name = std::move(name),
      .shape = {keys ? std::ssize(keys->keys[t]) : spec_.layout.table_rows[t], part.width},
      .dtype = dtype_of(part.type),
      .grows = !keys};
  if (storage_.placement() || keys || !rows_.in_buffers()) {
    if (rows_.on_gpu() && storage_.ranks().ranks() == 1 && !(keys && keys->leaves_out))
      return device_tensor(std::move(ref), part, keys, table);
    ref.part = [this, part, keys, table](int64_t first, int64_t count) {
      return own_part(part, keys.get(), table, first, count);
    };
    ref.join = [this, part, keys, table](int64_t first, std::span<const float> parts,
                                         std::span<float> out) {
      join_parts(part, keys.get(), table, first, parts, out);
    };
    comm::gather_parts(storage_.ranks(), ref);
    ref.put = [this, part, keys, table](int64_t first, std::span<const float> in) {
      put_rows(part, keys.get(), table, first, in);
    };
    return ref;
  }
  const WeightRows own = rows_.array(part, &Part::own);
  if (part.type != FloatType::kFloat) {
    with_float_type(part.type, [&]<typename W>() {
      W* const elements = spec_.layout.table(own.as<W>(), table).data();
      ref.get = [this, elements](int64_t first, std::span<float> out) {
        std::vector<W> copy;
        const W* from = elements + first;
        if (rows_.exec().on_gpu()) {
          copy.resize(out.size());
          get_bytes(rows_.exec(), copy.data(), from, out.size() * sizeof(W));
          from = copy.data();
        }
        widen(from, std::ssize(out), out.data());
      };
      ref.put = [this, elements](int64_t first, std::span<const float> in) {
        if (!rows_.exec().on_gpu()) return narrow(in.data(), std::ssize(in), elements + first);
        std::vector<W> copy(in.size());
        narrow(in.data(), std::ssize(in), copy.data());
        put_bytes(rows_.exec(), elements + first, copy.data(), in.size() * sizeof(W));
      };
    });
    return ref;
  }
  float* const rows = spec_.layout.table(own.as<float>(), table).data();
  if (!rows_.exec().on_gpu()) {
    ref.data = rows;
    return ref;
  }
  ref.get = [this, rows](int64_t first, std::span<float> out) {
    get_bytes(rows_.exec(), out.data(), rows + first, out.size_bytes());
  };
  ref.put = [this, rows](int64_t first, std::span<const float> in) {
    put_bytes(rows_.exec(), rows + first, in.data(), in.size_bytes());
  };
  return ref;
}

// Makes the tensor of a hashed table on one GPU: rows lie anywhere, and partly written ones keep
// their other elements.
TensorRef TableFiles::device_tensor(TensorRef ref, const Part& part, const Keys& keys,
                                    int64_t table) const {
  const auto listed = [keys, table, width = part.width](int64_t first, size_t count) {
    const int64_t end = first + static_cast<int64_t>(count);
    return std::span(keys->rows[static_cast<size_t>(table)])
        .subspan(static_cast<size_t>(first / width),
                 static_cast<size_t>((end + width - 1) / width - first / width));
  };
  const int64_t width = part.width;
  ref.get = [=, this](int64_t first, std::span<float> out) {
    rows_.with_own(part, listed(first, out.size()), false, [&](const StoredRows::Values& row) {
      std::copy_n(row(0) + first % width, out.size(), out.begin());
    });
  };
  ref.put = [=, this](int64_t first, std::span<const float> in) {
    rows_.with_own(part, listed(first, in.size()), true, [&](const StoredRows::Values& row) {
      std::copy(in.begin(), in.end(), row(0) + first % width);
    });
  };
  return ref;
}

// The numbers of the rows on their ranks.
TensorRef TableFiles::numbers_tensor(std::string name, const Keys& keys, int64_t table) const {
  const auto t = static_cast<size_t>(table);
  TensorRef ref{
      .name = std::move(name), .shape = {std::ssize(keys->keys[t])}, .dtype = DType::kU32};
  ref.part = [this, keys, table, t](int64_t first, int64_t count) {
    std::vector<float> own;
    for (int64_t i = first; i < first + count; ++i)
      if (place_of(keys.get(), table, i).rank == storage_.ranks().rank)
        own.push_back(std::bit_cast<float>(keys->rows[t][static_cast<size_t>(i)]));
    return own;
  };
  Part words = rows_.parts()[0];  // none are replicated
  words.width = 1;
  ref.join = [this, words, keys, table](int64_t first, std::span<const float> parts,
                                        std::span<float> out) {
    join_parts(words, keys.get(), table, first, parts, out);
  };
  comm::gather_parts(storage_.ranks(), ref);
  ref.put = [](int64_t, std::span<const float>) {};  // reserve() has read them
  return ref;
}

std::vector<TensorRef> TableFiles::tables(const Keys& keys) const {
  std::vector<TensorRef> list;
  for (int64_t t = 0; t < spec_.layout.tables(); ++t)
    list.push_back(tensor(table_name(spec_.name, t), rows_.parts()[0], keys, t));
  for (int64_t t = 0; keys && t < spec_.layout.tables(); ++t)
    list.push_back(keys_tensor(keys_name(spec_.name, t), keys, t));
  return list;
}

std::vector<TensorRef> TableFiles::states(const Keys& keys) const {
  std::vector<TensorRef> list;
  for (size_t i = 1; i < rows_.parts().size(); ++i)
    for (int64_t t = 0; t < spec_.layout.tables(); ++t)
      list.push_back(tensor(state_name(spec_.name, t, spec_.rule.type, static_cast<int>(i) - 1),
                            rows_.parts()[i], keys, t));
  for (int64_t t = 0; rows_.uses_part() && t < spec_.layout.tables(); ++t) {
    list.push_back(tensor(uses_name(spec_.name, t), *rows_.uses_part(), keys, t));
    list.back().dtype = DType::kU32;
  }
  // The gradients of a row are summed in pieces that depend on how many come before the row's; and
  // those of all rows in the order of rows.
  const bool ordered = rows_.exec().on_gpu() || spec_.whole_gradients;
  for (int64_t t = 0; spec_.hash_capacity > 0 && ordered && t < spec_.layout.tables(); ++t)
    list.push_back(numbers_tensor(rows_name(spec_.name, t), keys, t));
  return list;
}

// The place of row `row` of a table in a file. The row number is meaningful on the rank that holds
// the row alone.
RowPlace TableFiles::place_of(const FileKeys* keys, int64_t table, int64_t row) const {
  const auto t = static_cast<size_t>(table), i = static_cast<size_t>(row);
  const uint32_t key = keys ? keys->keys[t][i] : static_cast<uint32_t>(row);
  if (!storage_.placement()) return {0, static_cast<uint32_t>(spec_.layout.table_offset[t] + key)};
  RowPlace place = storage_.placement()->locate(table, key);
  if (storage_.placement()->hashed() && place.rank == storage_.ranks().rank) {
    place.row = keys->rows[t][i];
    if (place.row == kNoRow) place.rank = kNowhere;
  }
  return place;
}

void TableFiles::for_each_part(
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
std::vector<float> TableFiles::own_part(const Part& part, const FileKeys* keys, int64_t table,
                                        int64_t first, int64_t count) const {
  const auto for_each_own = [&](const auto& body) {
    for_each_part(part.width, keys, table, first, count,
                  [&](const RowPlace& place, const RowColumns& columns, int64_t) {
                    if (place.rank == storage_.ranks().rank) body(place.row, columns);
                  });
  };
  std::vector<uint32_t> own;
  for_each_own([&](uint32_t row, const RowColumns&) { own.push_back(row); });
  std::vector<float> mine;
  rows_.with_own(part, own, false, [&](const StoredRows::Values& row) {
    size_t i = 0;
    for_each_own([&](uint32_t, const RowColumns& columns) {
      const float* const from = row(i++);
      mine.insert(mine.end(), from + columns.begin, from + columns.end);
    });
  });
  return mine;
}

void TableFiles::join_parts(const Part& part, const FileKeys* keys, int64_t table, int64_t first,
                            std::span<const float> parts, std::span<float> out) const {
  const auto n = static_cast<size_t>(storage_.ranks().ranks());
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
  rows_.with_replicated(part, replicated, false, [&](const StoredRows::Values& row) {
    size_t i = 0;
    for_each([&](const RowPlace& place, const RowColumns& columns, int64_t at) {
      const int64_t size = columns.end - columns.begin;
      const float* const from =
          place.rank < 0 ? row(i++) + columns.begin : next[static_cast<size_t>(place.rank)];
      if (place.rank >= 0) next[static_cast<size_t>(place.rank)] += size;
      std::copy_n(from, size, out.data() + at);
    });
  });
}

void TableFiles::put_rows(const Part& part, const FileKeys* keys, int64_t table, int64_t first,
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
    const auto fill = [&](const StoredRows::Values& row) {
      size_t i = 0;
      for_each([&](uint32_t, const RowColumns& columns, int64_t at) {
        std::copy_n(in.data() + at, columns.end - columns.begin, row(i++) + columns.begin);
      });
    };
    if (rank < 0)
      rows_.with_replicated(part, rows, true, fill);
    else
      rows_.with_own(part, rows, true, fill);
  };
  put(storage_.ranks().rank);
  put(-1);
}

}  // namespace hlite::embedding
