#include "data_reader/parquet/column_decoder.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "data_reader/record_issue.h"
#include "hugectr_lite/core/error.h"

namespace hlite::data::parquet {
namespace {
constexpr int64_t kPieceLevels = 16384;  // values at a time, which stay in the cache
}  // namespace

// A column on its way.
struct ColumnDecoder::Job {
  int64_t column;
  const ParquetColumn& type;
  int64_t width, rows;
  DecodedColumn& out;
  int64_t row = 0;                    // the next one; of lists, the one that is being read
  int64_t keys = -1;                  // of the list that is being read; -1: none was begun
  std::vector<uint64_t> latest = {};  // [width] of a history: the list's last keys, in a ring
  int64_t next = 0;                   // place of the next key there
  [[nodiscard]] bool bad() const { return out.bad_row >= 0; }
  [[nodiscard]] bool done() const { return bad() || row == rows; }
  void fail(int64_t at, std::string problem) const {
    out.bad_row = at;
    out.problem = std::move(problem);
  }
};

ColumnDecoder::ColumnDecoder(const config::DataConfig& config, std::span<const int64_t> slot_rows)
    : labels_(LabelRule::from(config)),
      dense_dim_(config.dense_dim),
      layout_(config.key_layout()),
      key_check_(layout_, slot_rows, config.key_policy, config.global_keys),
      histories_(config) {
  for (const auto& sparse : config.sparse)
    fixed_length_.insert(fixed_length_.end(), sparse.hotness.size(), sparse.is_fixed_length);
}

DecodedColumn ColumnDecoder::decode(const ParquetFile& file, int group, int index, int64_t column,
                                    int64_t rows) const {
  DecodedColumn out;
  Job job{.column = column,
          .type = file.columns()[static_cast<size_t>(index)],
          .width = width(column),
          .rows = rows,
          .out = out};
  if (is_slot(column) && histories_.is_history(slot(column))) {
    job.latest.resize(static_cast<size_t>(job.width));
    out.lengths.reserve(static_cast<size_t>(rows));
  }
  out.words = std::make_unique_for_overwrite<uint32_t[]>(static_cast<size_t>(rows * job.width));
  try {
    ColumnCursor cursor = file.open_column(group, index);
    while (!job.done()) {
      const Piece piece = cursor.next(kPieceLevels);
      if (piece.levels == 0) {
        if (job.type.is_list() && job.keys >= 0) finish_list(job);
        break;
      }
      take(job, piece);
    }
    if (!job.done())
      job.fail(job.row, fmt::format("expected {} rows, found {}",
                                    file.groups()[static_cast<size_t>(group)].rows, job.row));
  } catch (const DataError& error) {
    // Nothing that was decoded before a damaged page is said to be good.
    out.bad_row = 0;
    out.problem = error.what();
    return out;
  }
  if (job.bad())
    out.problem =
        fmt::format("{}, row {}: {}", file.place(group, index),
                    file.groups()[static_cast<size_t>(group)].first_row + out.bad_row, out.problem);
  return out;
}

void ColumnDecoder::take(Job& job, const Piece& piece) const {
  const auto with_type = [&](auto use) {
    switch (job.type.values) {
      case ValueType::kBool:
        return use(static_cast<const bool*>(piece.data));
      case ValueType::kInt32:
        return use(static_cast<const int32_t*>(piece.data));
      case ValueType::kUint32:
        return use(static_cast<const uint32_t*>(piece.data));
      case ValueType::kInt64:
        return use(static_cast<const int64_t*>(piece.data));
      case ValueType::kUint64:
        return use(static_cast<const uint64_t*>(piece.data));
      case ValueType::kFloat:
        return use(static_cast<const float*>(piece.data));
      case ValueType::kDouble:
        return use(static_cast<const double*>(piece.data));
      default:
        HLITE_CHECK(false, "a column of {}", job.type.type);
    }
  };
  if (job.type.is_list())
    return with_type([&]<typename T>(const T*) {
      if constexpr (std::is_integral_v<T>) take_lists<T>(job, piece);
    });
  // Up to the first one that is missing.
  int64_t count = std::min(piece.levels, job.rows - job.row);
  if (piece.definition != nullptr)
    count = std::find_if(piece.definition, piece.definition + count,
                         [&](int16_t level) { return level != job.type.max_defined; }) -
            piece.definition;
  const bool missing = count < std::min(piece.levels, job.rows - job.row);
  if (count > piece.values)
    return job.fail(job.row,
                    fmt::format("expected {} values in a page, found {}", count, piece.values));
  with_type([&]<typename T>(const T* values) {
    if (!is_slot(job.column)) return take_numbers(job, values, count);
    if constexpr (std::is_integral_v<T>) take_keys(job, values, count);
  });
  if (missing && !job.bad()) job.fail(job.row, "expected a value, found none (null)");
}

template <typename T>
void ColumnDecoder::take_numbers(Job& job, const T* values, int64_t count) const {
  uint32_t* out = job.out.words.get() + job.row;
  const bool label = job.column < labels_.width();
  for (int64_t i = 0; i < count; ++i)
    out[i] = std::bit_cast<uint32_t>(static_cast<float>(values[i]));
  for (int64_t i = 0; i < count; ++i) {
    const auto x = std::bit_cast<float>(out[i]);
    if (label ? labels_.allows(job.column, x) : std::isfinite(x)) continue;
    const std::string expected =
        !label ? "a finite number"
        : labels_.is_weight(job.column)
            ? "a sample weight that is finite and >= 0"
            : (labels_.real ? "a label that is finite" : "a label in [0, 1]");
    return job.fail(job.row + i, fmt::format("expected {}, found {}", expected, values[i]));
  }
  job.row += count;
}

// Returns true if the key is in its table, or was replaced.
template <typename T>
bool ColumnDecoder::put_key(Job& job, T value, uint32_t* out, int64_t row) const {
  const int64_t slot_number = slot(job.column);
  const int64_t column = layout_.first_column[static_cast<size_t>(slot_number)];
  const uint64_t key = key_check_.local_key(column, static_cast<uint64_t>(value));
  if (key <= key_check_.last_key(column)) {
    *out = static_cast<uint32_t>(key);
    return true;
  }
  if (key_check_.replaces()) {
    *out = key_check_.replacement(column);
    job.out.replaced.push_back(row);
    return true;
  }
  const int64_t first = key_check_.first_key(column);
  const int64_t last = first + int64_t{key_check_.last_key(column)};
  job.fail(
      row,
      first == 0
          ? fmt::format("expected a key in [0, {}], as the table of slot {} has {} rows, found {}",
                        last, slot_number, last + 1, value)
          : fmt::format(
                "expected a key in [{}, {}], the rows of slot {}'s table among all, found {}",
                first, last, slot_number, value));
  return false;
}

template <typename T>
void ColumnDecoder::take_keys(Job& job, const T* values, int64_t count) const {
  const int64_t column = layout_.first_column[static_cast<size_t>(slot(job.column))];
  const auto offset = static_cast<uint64_t>(key_check_.first_key(column));
  const uint64_t last = key_check_.last_key(column);
  uint32_t* out = job.out.words.get() + job.row * job.width;
  if (job.width == 1) {
    uint64_t outside = 0;
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t key = static_cast<uint64_t>(values[i]) - offset;
      out[i] = static_cast<uint32_t>(key);
      outside |= static_cast<uint64_t>(key > last);
    }
    if (outside == 0) {
      job.row += count;
      return;
    }
  }
  for (int64_t i = 0; i < count; ++i, out += job.width) {
    if (!put_key(job, values[i], out, job.row)) return;
    std::fill(out + 1, out + job.width, kNoKey);
    ++job.row;
  }
}

void ColumnDecoder::finish_list(Job& job) const {
  const auto slot_number = static_cast<size_t>(slot(job.column));
  if (fixed_length_[slot_number] && job.keys != job.width)
    return job.fail(job.row,
                    fmt::format("expected {} keys (nnz_per_slot, is_fixed_length), found {}",
                                job.width, job.keys));
  if (!job.latest.empty()) {
    if (!put_latest(job)) return;
    job.out.lengths.push_back(job.keys);
  }
  uint32_t* out = job.out.words.get() + job.row * job.width;
  std::fill(out + std::min(job.keys, job.width), out + job.width, kNoKey);
  ++job.row;
  job.keys = -1;
}

// Of a longer list the keys before the latest are not looked at.
bool ColumnDecoder::put_latest(Job& job) const {
  uint32_t* out = job.out.words.get() + job.row * job.width;
  int64_t at = job.keys > job.width ? job.next : 0;
  for (int64_t i = 0; i < std::min(job.keys, job.width); ++i) {
    const uint64_t key = job.latest[static_cast<size_t>(at)];
    if (!(job.type.values == ValueType::kUint64
              ? put_key(job, key, out + i, job.row)
              : put_key(job, static_cast<int64_t>(key), out + i, job.row)))
      return false;
    if (++at == job.width) at = 0;
  }
  return true;
}

std::optional<ColumnDecoder::Uneven> ColumnDecoder::find_uneven(
    std::span<const DecodedColumn> columns) const {
  std::optional<Uneven> found;
  for (int64_t s = 0; s < layout_.slots(); ++s) {
    const int64_t a = first_slot() + histories_.partner(s), b = first_slot() + s;
    if (a == b) continue;
    const auto& of_a = columns[static_cast<size_t>(a)].lengths;
    const auto& of_b = columns[static_cast<size_t>(b)].lengths;
    const auto end = of_a.begin() + static_cast<ptrdiff_t>(std::min(of_a.size(), of_b.size()));
    const auto at = std::mismatch(of_a.begin(), end, of_b.begin()).first;
    if (const int64_t row = at - of_a.begin(); at != end && (!found || row < found->row))
      found = {row, a, b};
  }
  return found;
}

template <typename T>
void ColumnDecoder::take_lists(Job& job, const Piece& piece) const {
  const T* value = static_cast<const T*>(piece.data);
  const T* const end = value + piece.values;
  for (int64_t i = 0; i < piece.levels; ++i) {
    if (piece.repetition[i] == 0) {
      if (job.keys >= 0) finish_list(job);
      if (job.done()) return;
      job.keys = job.next = 0;
    } else if (job.keys < 0) {
      return job.fail(job.row, "expected the beginning of a list, found its middle");
    }
    const int16_t defined = piece.definition[i];
    if (defined == job.type.empty_list) continue;
    if (defined != job.type.max_defined)
      return job.fail(job.row, defined < job.type.empty_list
                                   ? "expected a list, found none (null)"
                                   : "expected a key, found none (null) in the list");
    if (value == end)
      return job.fail(job.row, fmt::format("expected more than {} values in a page", piece.values));
    if (!job.latest.empty()) {
      job.latest[static_cast<size_t>(job.next)] = static_cast<uint64_t>(*value++);
      if (++job.next == job.width) job.next = 0;
      ++job.keys;
      continue;
    }
    if (job.keys == job.width)
      return job.fail(
          job.row,
          fmt::format("expected 0 to {} keys (max_nnz or nnz_per_slot of the config), found more",
                      job.width));
    if (!put_key(job, *value++, job.out.words.get() + job.row * job.width + job.keys, job.row))
      return;
    ++job.keys;
  }
}

}  // namespace hlite::data::parquet
