// LineParser: lines of a text format to columns, for preparation (preparation/engine/prep_engine.h) and
// training (text_reader.h) alike.
//
// A row becomes a label, `dense` numbers and `slots` keys. A key stands for a category: the
// category itself where it is a 32-bit number, a 64-bit hash of it elsewhere. Each lies in a column
// of its own: column 0 the label (int32, 0 or 1; or float32), then the dense columns, then the key
// columns. The column of a slot with several keys has them side by side in each row; kAbsentKey
// fills up those of a row that has fewer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hugectr_lite/core/key_layout.h"
#include "hugectr_lite/core/thread_pool.h"

namespace hlite::data {

// Stands in place of a 64-bit key, and is no category's.
inline constexpr uint64_t kAbsentKey = ~uint64_t{0};

struct RowLayout {
  int dense = 0;
  int slots = 0;
  int dense_bytes = 4;  // 4: the 32-bit word that the files will hold; 8: double
  int key_bytes = 4;    // 4: uint32, 8: uint64
  // The table of each slot (slot_tables.h): slots of a table share a vocabulary.
  std::vector<int64_t> slot_tables = {};
  bool real_label = false;  // the label is a float32, else 0 or 1
  int labels = 1;           // the first dense columns are all labels but the first,
  bool weighted = false;    // and then the weight of the row
  int shortest_row = 1;     // bytes of the shortest line that can be a row, line feed included
  KeyLayout keys = {};      // of slots with several keys, of 8 bytes; no slots: each has one key
  [[nodiscard]] int columns() const { return 1 + dense + slots; }
  [[nodiscard]] int first_key() const { return 1 + dense; }
  [[nodiscard]] int hotness(int slot) const {
    return keys.slots() == 0 ? 1 : static_cast<int>(keys.hotness[static_cast<size_t>(slot)]);
  }
  // Bytes of a column in a row.
  [[nodiscard]] int bytes(int column) const {
    return column == 0            ? 4
           : column < first_key() ? dense_bytes
                                  : key_bytes * hotness(column - first_key());
  }
  // Number of the array that a column begins with (ColumnArrays); columns() gives all of them.
  [[nodiscard]] int first_array(int column) const {
    if (column <= first_key() || keys.slots() == 0) return column;
    const auto slot = static_cast<size_t>(column - first_key());
    return first_key() +
           static_cast<int>(slot < keys.hotness.size() ? keys.first_column[slot] : keys.columns);
  }
  [[nodiscard]] int arrays() const { return first_array(columns()); }
};

// Takes the rows of a block of lines: an array of one element a row for each column, or for each
// key of a slot with several, side by side in one piece of memory.
class ColumnArrays {
 public:
  // Elements after the last row of each array that a parser may write.
  static constexpr int64_t kRowsBeyond = 64;
  // `stride`: bytes from one array to the next. `missing`: a counter for each slot. `layout.keys`
  // must outlive it.
  ColumnArrays(const RowLayout& layout, std::byte* base, size_t stride, int64_t* missing)
      : missing_(missing),
        base_(base),
        stride_(stride),
        first_key_(layout.first_key()),
        first_column_(layout.keys.slots() == 0 ? nullptr : layout.keys.first_column.data()) {}
  [[nodiscard]] uint32_t* label() const { return column<uint32_t>(0); }
  template <typename T>
  [[nodiscard]] T* dense(int k) const {
    return column<T>(1 + k);
  }
  // [rows, hotness]
  template <typename T>
  [[nodiscard]] T* key(int slot) const {
    return column<T>(first_key_ + (first_column_ ? static_cast<int>(first_column_[slot]) : slot));
  }
  // So many rows have no category for this slot: for the manifest's statistics.
  void count_missing(int slot, int64_t rows = 1) const { missing_[slot] += rows; }

 private:
  template <typename T>
  [[nodiscard]] T* column(int c) const {
    return reinterpret_cast<T*>(base_ + static_cast<size_t>(c) * stride_);
  }
  int64_t* missing_;
  std::byte* base_;
  size_t stride_;
  int first_key_;
  const int64_t* first_column_;  // RowLayout::keys; null: each slot has one key
};

enum class LineKind {
  kRow,   // a row was written
  kNone,  // nothing to see: a header, a blank line
  kBad,   // not of the format; explain() says why
};

// Returns true for the lines, by number, that belong to the sample.
using KeepLine = FunctionRef<bool(int64_t number)>;

// Lines at the front of a text that were parsed: so many bytes, rows of them.
struct ParsedFront {
  size_t bytes = 0;
  int64_t lines = 0, rows = 0;
};

// The lines of one file. Several threads call it at once.
class LineParser {
 public:
  virtual ~LineParser() = default;
  // Parses line `number` (from 1), without its line feed, into element `row` of the arrays; they
  // are unspecified there, and no missing value is counted, unless it returns kRow.
  virtual LineKind parse(int64_t number, std::string_view line, const ColumnArrays& out,
                         int64_t row) const = 0;
  // Parses lines from the front of `text`, whole rows of which the first has this number, into
  // elements `row` and following, for formats that are faster at many lines than at one. Stops
  // where it pleases: before a bad line in any case.
  virtual ParsedFront parse_front(int64_t, std::string_view, const ColumnArrays&, int64_t,
                                  const KeepLine&) const {
    return {};
  }
  // Returns the columns that RowParser::carried_columns() names, as CSV text, for a line that is a
  // row; else "".
  [[nodiscard]] virtual std::optional<std::string> carried(int64_t /*number*/,
                                                           std::string_view /*line*/) const {
    return std::nullopt;
  }
  // Why the line is bad: "column 3 (integer 2): expected ..., found ...", without the place.
  [[nodiscard]] virtual std::string explain(std::string_view line) const = 0;
};

}  // namespace hlite::data
