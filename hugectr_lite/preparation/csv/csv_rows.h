// Lines of CSV files to rows of the preparation engine (field_parser.h), as a schema says.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hugectr_lite/preparation/csv/csv_record.h"
#include "hugectr_lite/preparation/csv/csv_schema.h"
#include "hugectr_lite/preparation/csv/row_split.h"
#include "hugectr_lite/preparation/engine/row_parser.h"

namespace hlite::prep {

// Returns true for a blank line and for a comment.
inline bool is_skipped_line(const CsvSchema& schema, std::string_view line) {
  return is_blank_line(line) ||
         std::any_of(schema.comment.begin(), schema.comment.end(),
                     [&](const std::string& text) { return line.starts_with(text); });
}

inline CsvDialect dialect_of(const CsvSchema& schema) {
  return {.separator = schema.separator, .trim = schema.trim};
}

// `schema` with the columns of the file that begins with this line. Throws DataError
// "<file>:1: ..." for a header that does not fit.
CsvSchema resolved_schema(CsvSchema schema, const std::string& file, std::string_view first_line);

// A column that the schema need not have, in the same file.
CsvColumn resolved_column(const CsvColumn& column, const CsvSchema& schema, const std::string& file,
                          std::string_view first_line);

// Of the columns that the schema names, and `others`.
TextForm text_form_of(const CsvSchema& schema, const std::vector<CsvColumn>& others = {});

// The columns of the training file, for lines that come without a file and its header.
struct TrainingColumns {
  int64_t count = 0;  // 0: not known
  // Those that the schema counts as absent: a line of `count` columns has them all the same, and
  // they are passed over. The last one first.
  std::vector<int64_t> left_out = {};
};

class CsvRowParser final : public RowParser {
 public:
  // `parts`: of the n-th file that is opened; none: all files have all of their rows. `training`:
  // lines have no more columns than these.
  explicit CsvRowParser(CsvSchema schema, std::vector<InputPart> parts = {},
                        TrainingColumns training = {});
  [[nodiscard]] const RowLayout& layout() const override { return layout_; }
  [[nodiscard]] std::string slot_name(int slot) const override {
    return schema_.categorical[static_cast<size_t>(slot)].name;
  }
  [[nodiscard]] std::string carried_columns() const override;
  [[nodiscard]] TextForm text_form() const override;
  // From now on a file whose first line has none of the names that the schema goes by has no header:
  // it is read as `lines`, which knows the columns by number, would read it.
  void take_files_without_header(const CsvRowParser& lines);
  // All lines of all files must have as many columns as the first line of the first file (unless it
  // is blank).
  [[nodiscard]] std::unique_ptr<const LineParser> open(const std::string& file,
                                                       std::string_view first_line) override;

 private:
  CsvSchema schema_;
  RowLayout layout_;
  std::vector<InputPart> parts_;
  TrainingColumns training_;
  std::optional<std::pair<CsvSchema, TrainingColumns>> without_header_;
  size_t opened_ = 0;    // files
  int64_t columns_ = 0;  // 0: not known
};

}  // namespace hlite::prep
