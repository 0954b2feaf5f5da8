#include "hugectr_lite/preparation/csv/csv_sample.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "data_reader/parquet/parquet_file.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/in_quotes.h"

namespace hlite::prep {

namespace {

constexpr char kSeparators[] = {',', ';', '\t', '|'};
constexpr std::string_view kCommentMarks = "#|";

// The first line that is not blank, or nothing.
std::string first_row(const LineBlock& head) {
  std::string first;
  head.for_each_row([&](std::string_view line, int64_t) {
    if (!is_blank_line(line)) first = line;
    return first.empty();
  });
  return first;
}

// The marks of comments with which any of the first lines begins, but for the separator: that is a
// row whose first field is empty.
std::vector<std::string> marks_of_lines(const std::string& path, char separator) {
  LineBlock lines;
  std::vector<std::string> marks;
  try {
    InputFile(path).next(lines, kGuessBytes);
  } catch (const DataError&) {
    return marks;  // no text, or no line that ends
  }
  for (const char mark : kCommentMarks) {
    bool begins = false;
    lines.for_each_row([&](std::string_view line, int64_t) {
      begins = begins || line.starts_with(mark);
      return !begins;
    });
    if (begins && mark != separator) marks.emplace_back(1, mark);
  }
  return marks;
}

}  // namespace

CsvSample::CsvSample(const std::string& path) : path_(path) {
  std::optional<CsvSample> best;
  std::string first_line;
  for (const char separator : kSeparators) {
    CsvSample tried(path, separator);
    if (tried.parquet_) {
      *this = std::move(tried);
      return;
    }
    if (first_line.empty()) first_line = first_row(tried.head_);
    if (tried.columns_ < 2) continue;
    if (!best ||
        std::tie(tried.agreeing_, tried.columns_) > std::tie(best->agreeing_, best->columns_))
      best = std::move(tried);
  }
  if (!best && first_line.empty()) {  // a quote that is not closed, or no text: the reader says
    LineBlock head;
    InputFile(path, {.quotes = true, .trim = true}).next(head, kGuessBytes);
  }
  if (!best)
    raise<DataError>(
        "{}: expected rows of two or more columns with one of the separators , ; tab | between "
        "them, found {}",
        path,
        first_line.empty() ? "no row"
                           : in_quotes(first_line) +
                                 "; another separator needs a schema "
                                 "(--schema FILE, with \"separator\": \" \" in it)");
  *this = std::move(*best);
}

CsvSample::CsvSample(const std::string& path, char separator)
    : CsvSample(path, TextForm{.separator = separator, .quotes = true, .trim = true}) {
  if (parquet_) return;
  // A quote in a comment has no other, or pairs up with one of a row: it may take the comment, or
  // rows, out of sight.
  TextForm form = form_;
  form.comments = marks_of_lines(path, separator);
  if (form.comments.empty()) return;
  CsvSample without(path, form);
  if (without.agreeing_ >= agreeing_ && without.comments_ == form.comments)
    *this = std::move(without);
  form_.comments = comments_;
}

CsvSample::CsvSample(const std::string& path, TextForm form)
    : path_(path), form_(std::move(form)), comments_(form_.comments) {
  if (read_head()) count_columns();
}

bool CsvSample::read_head() {
  StoredBytes stored(path_);
  parquet_ = stored.magic() == "PAR1";
  form_.header = parquet_;
  if (parquet_) find_columns_without_text();
  try {
    InputFile(path_, form_).next(head_, kGuessBytes);
    return true;
  } catch (const DataError&) {
    // Without a row that ends: this separator makes a field of it that does not. The preparation
    // reports what is wrong where no separator is better.
    head_ = {};
    if (parquet_) throw;
    return false;
  }
}

void CsvSample::find_columns_without_text() {
  const data::parquet::ParquetFile file(path_);
  for (size_t c = 0; c < file.columns().size(); ++c) {
    const data::parquet::ParquetColumn& column = file.columns()[c];
    if (!column.readable || column.is_list())
      without_text_[c] = column.type + ": no number or text";
    else if (column.all_null)
      without_text_[c] = "no value in any row";
  }
  form_.wanted = [without = without_text_](int64_t index, const std::string&) {
    return !without.contains(static_cast<size_t>(index));
  };
}

void CsvSample::count_columns() {
  std::map<int64_t, int64_t> rows_of;  // by number of columns
  CsvFields fields;
  int64_t rows = 0;
  head_.for_each_row([&](std::string_view line, int64_t) {
    if (split(line, fields)) ++rows_of[std::ssize(fields.fields)];
    return ++rows < kGuessRows;
  });
  for (const auto& [columns, count] : rows_of)
    if (count >= agreeing_) std::tie(columns_, agreeing_) = std::pair(columns, count);
  comments_ = find_comments();
}

std::vector<std::string> CsvSample::find_comments() const {
  std::vector<std::string> found;
  for (const char mark : kCommentMarks) {
    bool comment = false, row = false;
    int64_t lines = 0;
    CsvFields fields;
    head_.for_each_row([&](std::string_view line, int64_t) {
      if (!line.empty() && line[0] == mark) {
        const bool bad = split_csv({form_.separator, true}, line, fields).has_value();
        (bad || std::ssize(fields.fields) < columns_ ? comment : row) = true;
      }
      return ++lines < kGuessRows;
    });
    if (comment && !row) found.emplace_back(1, mark);
  }
  return found;
}

bool CsvSample::is_table() const {
  int64_t rows = 0, alike = 0;
  CsvFields fields;
  head_.for_each_row([&](std::string_view line, int64_t) {
    if (!is_row(line)) return true;
    alike += split(line, fields) && std::ssize(fields.fields) == columns_;
    return ++rows < kGuessRows;
  });
  return 10 * alike >= 9 * rows;
}

bool CsvSample::is_row(std::string_view line) const {
  return !is_blank_line(line) &&
         std::none_of(comments_.begin(), comments_.end(),
                      [&](const std::string& mark) { return line.starts_with(mark); });
}

bool CsvSample::split(std::string_view line, CsvFields& fields) const {
  return is_row(line) && !split_csv({form_.separator, true}, line, fields).has_value();
}

}  // namespace hlite::prep
