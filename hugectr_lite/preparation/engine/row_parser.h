// Text to columns: what a format brings to the preparation engine (prep_engine.h), which reads the
// files, cuts them into lines, runs the threads and keeps the columns. Its numbering stage turns
// keys into ids.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data_reader/parquet/parquet_file.h"
#include "data_reader/text/line_parser.h"
#include "hugectr_lite/preparation/engine/column_parser.h"
#include "hugectr_lite/preparation/io/text_form.h"

namespace hlite::prep {

using data::ColumnArrays;
using data::KeepLine;
using data::LineKind;
using data::LineParser;
using data::ParsedFront;
using data::RowLayout;

class RowParser {
 public:
  virtual ~RowParser() = default;
  [[nodiscard]] virtual const RowLayout& layout() const = 0;
  // The name of a slot's column in messages and manifests.
  [[nodiscard]] virtual std::string slot_name(int slot) const = 0;
  // Names of the columns that are copied next to a row's score, as CSV text; empty: none.
  [[nodiscard]] virtual std::string carried_columns() const { return {}; }
  // The form that the lines of a file that is no text should have.
  [[nodiscard]] virtual TextForm text_form() const { return {}; }
  // Parsers of the columns of a Parquet file, those of the layout in its order; empty: its rows are
  // parsed as lines.
  [[nodiscard]] virtual std::vector<FileColumn> open_columns(
      const data::parquet::ParquetFile& /*file*/) const {
    return {};
  }
  // A file begins: called for the files in their order, in a resumed run for those that were begun
  // before, too. `first_line` is without its line feed; line 1 is given to parse() all the same.
  // Throws DataError "<file>:1: ..." for a header that does not fit.
  [[nodiscard]] virtual std::unique_ptr<const LineParser> open(const std::string& file,
                                                               std::string_view first_line) = 0;
};

}  // namespace hlite::prep
