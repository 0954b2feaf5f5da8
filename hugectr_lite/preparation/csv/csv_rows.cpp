#include "hugectr_lite/preparation/csv/csv_rows.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/in_quotes.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/preparation/csv/field_parser.h"

namespace hlite::prep {

namespace {

using Problem = ColumnProblem;

// What to write where a line of too few columns has another separator.
std::string other_separator(const CsvSchema& schema, std::string_view line, int64_t needed) {
  for (const char other : {',', ';', '\t', '|'})
    if (other != schema.separator && std::count(line.begin(), line.end(), other) + 1 >= needed)
      return fmt::format(": this line has {} between them, where the training file has {}",
                         in_quotes(std::string_view(&other, 1)),
                         in_quotes(std::string_view(&schema.separator, 1)));
  return {};
}

class CsvLineParser final : public LineParser {
 public:
  // `columns`: of every line; 0: as many as the schema needs, or more. `by`: the column that the
  // part goes by, found in the header.
  CsvLineParser(CsvSchema schema, int64_t columns, TrainingColumns training, const InputPart& part,
                CsvColumn by)
      : schema_(std::move(schema)),
        fields_(schema_),
        columns_(columns),
        training_(std::move(training)),
        part_(part),
        by_(std::move(by)) {
    const auto add = [&](const CsvColumn& column) {
      if (column.index < 0) return;  // a label or the weight, where lines lack it
      names_.emplace_back(static_cast<size_t>(column.index),
                          column.header_name.empty() ? column.name : column.header_name);
    };
    schema_.for_each_input(add);
    if (schema_.labelled) add(schema_.label);
  }

  LineKind parse(int64_t number, std::string_view line, const ColumnArrays& out,
                 int64_t row) const override {
    if ((number == 1 && schema_.header) || is_skipped_line(schema_, line)) return LineKind::kNone;
    if (part_.split && !is_in_part(number, line)) return LineKind::kNone;
    thread_local FieldValues values;
    if (read(line, values)) return LineKind::kBad;
    fields_.put(values, out, row);
    return LineKind::kRow;
  }

  [[nodiscard]] std::optional<std::string> carried(int64_t number,
                                                   std::string_view line) const override {
    if ((number == 1 && schema_.header) || is_skipped_line(schema_, line)) return std::nullopt;
    thread_local CsvFields split;
    if (split_csv(dialect_of(schema_), line, split)) return std::nullopt;
    std::string text;
    for (const CsvColumn& column : schema_.carry) {
      if (&column != &schema_.carry.front()) text += ',';
      append_csv_field(split.fields.at(static_cast<size_t>(column.index)), text);
    }
    return text;
  }

  [[nodiscard]] std::string explain(std::string_view line) const override {
    FieldValues values;
    return read(line, values).value_or("a good line");
  }

 private:
  // A line whose part is not known is one of the training rows, which say what is wrong with it.
  [[nodiscard]] bool is_in_part(int64_t number, std::string_view line) const {
    const RowSplit& split = *part_.split;
    if (split.kind == RowSplit::Kind::kLine)
      return split.part_of_line(part_.file, number) == part_.part;
    thread_local CsvFields fields;
    const auto index = static_cast<size_t>(by_.index);
    std::optional<SplitPart> found;
    if (!split_csv(dialect_of(schema_), line, fields) && index < fields.fields.size())
      found = split.part_of_value(fields.fields[index]);
    return found.value_or(SplitPart::kTrain) == part_.part;
  }

  // Fields that are the names of the columns: the first line of another file, which nothing but
  // text would tell from a row. A name alone may be a category.
  [[nodiscard]] bool has_names(FieldsOfLine fields) const {
    return names_.size() > 1 && std::all_of(names_.begin(), names_.end(), [&](const auto& name) {
             return fields[name.first] == name.second;
           });
  }

  // Splits a line into the fields that the schema counts.
  [[nodiscard]] Problem split(std::string_view line, CsvFields& row) const {
    if (Problem problem = split_csv(dialect_of(schema_), line, row)) return problem;
    const auto found = std::ssize(row.fields);
    if (columns_ > 0 && found != columns_)
      return fmt::format("expected {} columns as in the first line, found {}", columns_, found);
    const int64_t all = training_.count, fewer = all - std::ssize(training_.left_out);
    if (all == 0 || found <= fewer) return std::nullopt;
    if (found != all)
      return fmt::format(
          "expected at most {} columns as in the training file{}, found {}{}", all,
          fewer < all - 1 ? fmt::format(", or {} without label and weight", fewer) : "", found,
          found >= 2 * fewer - 1
              ? ": are these several rows? Each is a line (curl sends them by --data-binary)"
              : "");
    for (const int64_t column : training_.left_out) row.fields.erase(row.fields.begin() + column);
    return std::nullopt;
  }

  // Returns what is wrong with the line, or nothing.
  [[nodiscard]] Problem read(std::string_view line, FieldValues& row) const {
    thread_local CsvFields of_line;
    if (Problem problem = split(line, of_line)) return problem;
    const auto& fields = of_line.fields;
    const auto found = static_cast<int64_t>(fields.size());
    if (found < schema_.columns_needed())
      return fmt::format("expected at least {} columns (as the schema says), found {}{}",
                         schema_.columns_needed(), found,
                         other_separator(schema_, line, schema_.columns_needed()));
    if (has_names(fields))
      return "expected a row, found the names of the columns: leave that line out";
    const auto field = [&](const CsvColumn& column) {
      return fields[static_cast<size_t>(column.index)];
    };
    if (part_.split && by_.index >= found)
      return fmt::format("expected column {}, which splits the rows, found {} columns", by_.index,
                         found);
    if (part_.split && part_.split->kind == RowSplit::Kind::kTime &&
        !time_key(field(by_), part_.split->form))
      return fmt::format("column {} ({}): expected {}, found {}", by_.index, by_.name,
                         part_.split->form == TimeForm::kNumber
                             ? "a number, as the rows before have"
                             : "a date such as 2024-05-31 or 2024-05-31 23:59:59",
                         in_quotes(field(by_)));
    return fields_.read(fields, row);
  }

  CsvSchema schema_;
  FieldParser fields_;
  int64_t columns_;
  TrainingColumns training_;
  InputPart part_;
  CsvColumn by_;
  std::vector<std::pair<size_t, std::string>> names_;  // of columns that are read, by index
};

}  // namespace

CsvSchema resolved_schema(CsvSchema schema, const std::string& file, std::string_view first_line) {
  if (!schema.header) return schema;
  const std::string where = fmt::format("{}:1", file);
  CsvFields header;
  if (const Problem problem = split_csv(dialect_of(schema), first_line, header))
    raise<DataError>("{}: {}", where, *problem);
  if (const std::string other =
          header.fields.size() == 1 ? other_separator(schema, first_line, 2) : std::string();
      !other.empty())
    raise<DataError>("{}: expected the names of the columns, found {}{}", where,
                     in_quotes(first_line), other);
  schema.resolve(header.fields, where);
  if (static_cast<int64_t>(header.fields.size()) < schema.columns_needed())
    raise<DataError>("{}: expected at least {} columns (as the schema says), found {}", where,
                     schema.columns_needed(), header.fields.size());
  return schema;
}

CsvColumn resolved_column(const CsvColumn& column, const CsvSchema& schema, const std::string& file,
                          std::string_view first_line) {
  if (column.header_name.empty()) return column;
  CsvFields header;
  split_csv(dialect_of(schema), first_line, header);
  CsvSchema alone;
  alone.carry = {column};
  alone.resolve(header.fields, file + ":1");
  return alone.carry[0];
}

TextForm text_form_of(const CsvSchema& schema, const std::vector<CsvColumn>& others) {
  std::vector<CsvColumn> columns = others;
  schema.for_each_input([&](const CsvColumn& column) { columns.push_back(column); });
  if (schema.labelled) columns.push_back(schema.label);
  columns.insert(columns.end(), schema.carry.begin(), schema.carry.end());
  return {.separator = schema.separator,
          .header = schema.header,
          .quotes = true,
          .trim = schema.trim,
          .comments = schema.comment,
          .wanted = [columns](int64_t index, const std::string& name) {
            return std::any_of(columns.begin(), columns.end(), [&](const CsvColumn& c) {
              return c.header_name.empty() ? c.index == index : c.header_name == name;
            });
          }};
}

CsvRowParser::CsvRowParser(CsvSchema schema, std::vector<InputPart> parts, TrainingColumns training)
    : schema_(std::move(schema)),
      layout_(row_layout(schema_)),
      parts_(std::move(parts)),
      training_(std::move(training)) {}

TextForm CsvRowParser::text_form() const {
  std::vector<CsvColumn> others;
  for (const InputPart& part : parts_)
    if (part.split && part.split->kind != RowSplit::Kind::kLine) others = {part.split->column};
  return text_form_of(schema_, others);
}

std::string CsvRowParser::carried_columns() const {
  std::string text;
  for (const CsvColumn& column : schema_.carry) {
    if (&column != &schema_.carry.front()) text += ',';
    append_csv_field(column.name, text);
  }
  return text;
}

void CsvRowParser::take_files_without_header(const CsvRowParser& lines) {
  without_header_.emplace(lines.schema_, lines.training_);
}

// Returns true if a field of the line is the name of a column that the schema goes by.
static bool has_name_of_header(const CsvSchema& schema, std::string_view line) {
  CsvFields fields;
  if (split_csv(dialect_of(schema), line, fields)) return true;  // whose problem is said there
  bool found = false;
  const auto look = [&](const CsvColumn& column) {
    found |= !column.header_name.empty() && std::find(fields.fields.begin(), fields.fields.end(),
                                                      column.header_name) != fields.fields.end();
  };
  schema.for_each_input(look);
  if (schema.labelled) look(schema.label);
  return found;
}

std::unique_ptr<const LineParser> CsvRowParser::open(const std::string& file,
                                                     std::string_view first_line) {
  const bool bare = without_header_ && !has_name_of_header(schema_, first_line);
  if (bare)
    log::warning(
        "{}: its first line has no name of the training file's columns: it is read as a row, with "
        "the columns in the order of the training file",
        file);
  const TrainingColumns& training = bare ? without_header_->second : training_;
  CsvSchema schema = bare ? without_header_->first : resolved_schema(schema_, file, first_line);
  CsvFields fields;
  if (columns_ == 0 && !is_skipped_line(schema, first_line) &&
      !split_csv(dialect_of(schema), first_line, fields) &&
      static_cast<int64_t>(fields.fields.size()) >= schema.columns_needed()) {
    columns_ = static_cast<int64_t>(fields.fields.size());
  }
  const InputPart part = opened_ < parts_.size() ? parts_[opened_] : InputPart();
  ++opened_;
  CsvColumn by;
  if (part.split && part.split->kind != RowSplit::Kind::kLine)
    by = resolved_column(part.split->column, schema, file, first_line);
  return std::make_unique<CsvLineParser>(std::move(schema), columns_, training, part,
                                         std::move(by));
}

}  // namespace hlite::prep
