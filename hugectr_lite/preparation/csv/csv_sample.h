// The first rows of a CSV file of which nothing is known: its separator, comments and fields.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "hugectr_lite/preparation/csv/csv_record.h"
#include "hugectr_lite/preparation/io/input_file.h"

namespace hlite::prep {

// A guess (csv_guess.h) looks at so many rows of a file, and at so many bytes of them.
inline constexpr int64_t kGuessRows = 10'000;
inline constexpr size_t kGuessBytes = size_t{4} << 20;

class CsvSample {
 public:
  // Finds the separator: the one of , ; tab | that gives most rows the same number of columns, two
  // or more, and among equals the one that gives more columns. Throws DataError if there is no row
  // or no such separator; FileError.
  explicit CsvSample(const std::string& path);
  // For a file with the separator of another one.
  CsvSample(const std::string& path, char separator);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] char separator() const { return form_.separator; }
  // How the rows are read, or made of a Parquet file.
  [[nodiscard]] const TextForm& form() const { return form_; }
  // Nine of ten rows have as many columns, which text that is no table has not.
  [[nodiscard]] bool is_table() const;
  [[nodiscard]] bool is_parquet() const { return parquet_; }  // whose text has a header
  // Columns of a Parquet file that no text is made of, by number, and why; their fields are empty.
  [[nodiscard]] const std::map<size_t, std::string>& without_text() const { return without_text_; }
  [[nodiscard]] int64_t columns() const { return columns_; }  // of most rows
  // Characters, of | and #, with which lines begin that are comments: they have fewer columns than
  // the rows, and no row begins so.
  [[nodiscard]] const std::vector<std::string>& comments() const { return comments_; }

  struct Row {
    int64_t line = 0;
    std::vector<std::string_view> fields;  // valid until the next row
  };
  // Calls visit(row) for the first kGuessRows rows that have columns() columns. Blank lines and
  // comments are no rows.
  template <typename Visit>
  void for_each_row(Visit&& visit) const {
    int64_t rows = 0;
    CsvFields fields;
    head_.for_each_row([&](std::string_view line, int64_t number) {
      if (!split(line, fields) || std::ssize(fields.fields) != columns_) return true;
      visit(Row{number, fields.fields});
      return ++rows < kGuessRows;
    });
  }

 private:
  CsvSample(const std::string& path, TextForm form);
  // False if it misses a closing quote, or has quotes that this separator makes no sense of.
  bool read_head();
  void find_columns_without_text();
  void count_columns();
  // The marks with which lines begin that are comments, of those with which any line does.
  [[nodiscard]] std::vector<std::string> find_comments() const;
  // False for a blank line and a comment.
  [[nodiscard]] bool is_row(std::string_view line) const;
  // False for those and for a bad row.
  bool split(std::string_view line, CsvFields& fields) const;

  std::string path_;
  TextForm form_{.quotes = true, .trim = true};
  bool parquet_ = false;
  std::map<size_t, std::string> without_text_;
  LineBlock head_;
  int64_t columns_ = 0, agreeing_ = 0;  // rows that have so many
  std::vector<std::string> comments_;
};

}  // namespace hlite::prep
