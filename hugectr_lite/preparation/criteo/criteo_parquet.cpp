#include "hugectr_lite/preparation/criteo/criteo_parquet.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "data_reader/criteo/criteo_record.h"
#include "data_reader/criteo/criteo_values.h"
#include "hugectr_lite/core/in_quotes.h"
#include "hugectr_lite/preparation/io/parquet_text.h"

namespace hlite::prep {
namespace {

using criteo::ConvertedValues;
using data::parquet::ParquetColumn;
using data::parquet::ParquetFile;
using data::parquet::Piece;
using data::parquet::Text;
using data::parquet::ValueType;

static_assert(criteo::kValuesBeyond <= data::ColumnArrays::kRowsBeyond);

class CriteoColumn final : public ColumnParser {
 public:
  // Column 0 is the label.
  CriteoColumn(int column, const ParquetColumn& type, uint32_t key_range)
      : column_(column), type_(type.values), max_defined_(type.max_defined), range_(key_range) {}

  void begin_group() override { dictionary_ = nullptr; }

  void parse(const Piece& piece, int64_t row, std::byte* out, ParsedColumn& found) override {
    uint32_t* const to = reinterpret_cast<uint32_t*>(out) + row;
    empty_.clear();
    bad_.clear();
    convert(piece, to, found);
    const bool all = piece.values == piece.levels;
    if (!all) spread(piece, to);
    if (!all && is_token()) {
      found.missing.resize(static_cast<size_t>(found.rows));
      uint8_t* const missing = found.missing.data() + row;
      for (int64_t i = 0; i < piece.levels; ++i) missing[i] = piece.definition[i] != max_defined_;
    }
    const bool null_label = !all && column_ == 0;
    if (null_label || !empty_.empty() || !bad_.empty()) report(piece, row, found);
  }

 private:
  [[nodiscard]] bool is_token() const { return column_ >= criteo::kFirstKey; }

  // The values that are there, one after the other.
  void convert(const Piece& piece, uint32_t* to, ParsedColumn& found) {
    switch (type_) {
      case ValueType::kBool:
        return convert_numbers<bool>(piece, to, found);
      case ValueType::kInt32:
        return convert_numbers<int32_t>(piece, to, found);
      case ValueType::kUint32:
        return convert_numbers<uint32_t>(piece, to, found);
      case ValueType::kInt64:
        return convert_numbers<int64_t>(piece, to, found);
      case ValueType::kUint64:
        return convert_numbers<uint64_t>(piece, to, found);
      default:
        if (piece.indices != nullptr) return convert_indices(piece, to, found);
        return convert_texts(static_cast<const Text*>(piece.data), piece.values, to, found);
    }
  }

  template <typename T>
  void convert_numbers(const Piece& piece, uint32_t* to, ParsedColumn& found) {
    const auto* from = static_cast<const T*>(piece.data);
    ConvertedValues done;
    if (column_ == 0) {
      done = criteo::labels_of_numbers(from, piece.values, to);
    } else if (!is_token()) {
      done = criteo::integers_of_numbers(from, piece.values, to);
    } else if constexpr (!std::is_same_v<T, bool>) {
      done = criteo::tokens_of_numbers(from, piece.values, range_, to);
    }
    if (done.good) {
      found.field_bytes += done.characters;
      return;
    }
    for (int64_t i = 0; i < piece.values; ++i) convert_number(from[i], i, to[i], found);
  }

  template <typename T>
  void convert_number(T x, int64_t value, uint32_t& to, ParsedColumn& found) {
    if (!is_token()) return convert_field(fmt::format("{}", +x), value, to, found);
    const auto bits = static_cast<uint32_t>(x);
    if (sizeof(T) > 4 && static_cast<T>(bits) != x)
      bad_.push_back({value, true, fmt::format("a number of 32 bits, found {}", x)});
    convert_field(fmt::format("{:x}", bits), value, to, found);
  }

  // One value, as a field of a line.
  void convert_field(std::string_view text, int64_t value, uint32_t& to, ParsedColumn& found) {
    to = 0;
    const auto size = static_cast<int64_t>(text.size());
    found.field_bytes += size;
    if (size >= found.longest_row) {
      bad_.push_back(
          {value, true,
           fmt::format("a row of at most {} bytes, found a longer one", found.longest_row)});
      return;
    }
    if (text.find('\n') != std::string_view::npos || text.find('\t') != std::string_view::npos) {
      bad_.push_back(
          {value, true,
           fmt::format("a text without line feed and \"\\x09\", found {}", in_quotes(text))});
      return;
    }
    if (column_ == criteo::kColumns - 1 && text.ends_with('\r')) text.remove_suffix(1);
    if (!criteo::parse_field(column_, text, to)) {
      bad_.push_back({value, false, criteo::explain_field(column_, text)});
    } else if (is_token()) {
      to = range_(to);
      if (text.empty()) empty_.push_back(value);
    }
  }

  static std::string_view view_of(const Text& text) { return {text.data, text.size}; }

  void convert_texts(const Text* from, int64_t count, uint32_t* to, ParsedColumn& found) {
    if (is_token()) {
      const ConvertedValues done = criteo::tokens_of_texts(from, count, range_, to);
      if (done.good && !done.any_empty) {
        found.field_bytes += done.characters;
        return;
      }
    }
    for (int64_t i = 0; i < count; ++i) convert_field(view_of(from[i]), i, to[i], found);
  }

  void convert_indices(const Piece& piece, uint32_t* to, ParsedColumn& found) {
    if (piece.dictionary != dictionary_ || piece.dictionary_size != std::ssize(sizes_))
      take_dictionary(piece);
    const int32_t* const indices = piece.indices;
    const uint32_t* const values = values_.data();
    if (same_size_ >= 0) {
      for (int64_t i = 0; i < piece.values; ++i) to[i] = values[indices[i]];
      found.field_bytes += piece.values * same_size_;
      return;
    }
    for (int64_t i = 0; i < piece.values; ++i) {
      const uint32_t size = sizes_[static_cast<size_t>(indices[i])];
      to[i] = values[indices[i]];
      if (size == kByItself)
        convert_field(view_of(piece.dictionary[indices[i]]), i, to[i], found);
      else
        found.field_bytes += size;
    }
  }

  void take_dictionary(const Piece& piece) {
    const auto count = static_cast<size_t>(piece.dictionary_size);
    dictionary_ = piece.dictionary;
    values_.resize(count + criteo::kValuesBeyond);
    sizes_.resize(count);
    ParsedColumn found;
    empty_.clear();
    bad_.clear();
    convert_texts(piece.dictionary, piece.dictionary_size, values_.data(), found);
    same_size_ = count > 0 ? piece.dictionary[0].size : 0;
    for (size_t i = 0; i < count; ++i) {
      sizes_[i] = piece.dictionary[i].size;
      if (sizes_[i] != same_size_) same_size_ = kDifferent;
    }
    // These are looked at again wherever they occur.
    for (const int64_t i : empty_) sizes_[static_cast<size_t>(i)] = kByItself;
    for (const BadValue& bad : bad_) sizes_[static_cast<size_t>(bad.value)] = kByItself;
    if (!empty_.empty() || !bad_.empty()) same_size_ = kDifferent;
    empty_.clear();
    bad_.clear();
  }

  // Moves the values to their rows; nulls become 0.
  void spread(const Piece& piece, uint32_t* to) const {
    int64_t value = piece.values;
    for (int64_t i = piece.levels; i-- > 0;) {
      const bool there = piece.definition[i] == max_defined_;
      value -= there;
      to[i] = there ? to[value] : 0;
    }
  }

  // From values to rows.
  void report(const Piece& piece, int64_t row, ParsedColumn& found) {
    auto empty = empty_.begin();
    auto bad = bad_.begin();
    int64_t value = 0;
    for (int64_t i = 0; i < piece.levels; ++i) {
      if (piece.values < piece.levels && piece.definition[i] != max_defined_) {
        if (column_ == 0) found.add_bad({row + i, false, criteo::explain_field(0, "")});
        continue;
      }
      if (empty != empty_.end() && *empty == value) {
        found.set_missing(row + i);
        ++empty;
      }
      for (; bad != bad_.end() && bad->value == value; ++bad)
        found.add_bad({row + i, bad->fatal, std::move(bad->reason)});
      ++value;
    }
  }

  // By its number among those that are there.
  struct BadValue {
    int64_t value;
    bool fatal;
    std::string reason;
  };
  static constexpr uint32_t kByItself = UINT32_MAX;
  static constexpr int64_t kDifferent = -1;

  const int column_;
  const ValueType type_;
  const int16_t max_defined_;
  const criteo::KeyRange range_;
  // Members for the piece:
  std::vector<int64_t> empty_;  // values that are tokens without characters
  std::vector<BadValue> bad_;
  // Members for the dictionary:
  const Text* dictionary_ = nullptr;
  std::vector<uint32_t> values_;
  std::vector<uint32_t> sizes_;  // kByItself: empty, or not of the format
  int64_t same_size_ = kDifferent;
};

bool is_readable(const ParquetColumn& column, int of_rows) {
  if (!column.readable || column.is_list()) return false;
  if (column.values == ValueType::kText || column.is_integer()) return true;
  return column.values == ValueType::kBool && of_rows < criteo::kFirstKey;
}

}  // namespace

std::vector<FileColumn> criteo_columns_of(const ParquetFile& file, const TextForm& form,
                                          uint32_t key_range) {
  const std::vector<int> found = columns_of_lines(file, form);
  std::vector<FileColumn> columns;
  if (found.size() != criteo::kColumns) return {};
  for (int c = 0; c < criteo::kColumns; ++c) {
    const int index = found[static_cast<size_t>(c)];
    const ParquetColumn& type = file.columns()[static_cast<size_t>(index)];
    if (!is_readable(type, c)) return {};
    columns.push_back({index, std::make_unique<CriteoColumn>(c, type, key_range)});
  }
  return columns;
}

}  // namespace hlite::prep
