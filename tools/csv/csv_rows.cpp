#include "tools/csv/csv_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/in_quotes.h"
#include "hugectr_lite/core/parse_number.h"
#include "tools/prep/saved_vocabulary.h"

namespace hlite::tools {

namespace {

using Problem = ColumnProblem;

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

// A line's values, before they go to the columns.
struct CsvRow {
  uint32_t label = 0;  // 0 or 1, or the bits of a float
  std::vector<double> dense;
  std::vector<uint64_t> keys;  // CategoryColumn::max_values() of each slot
  CsvFields fields;
};

class CsvLineParser final : public LineParser {
 public:
  // `columns`: of every line; 0: as many as the schema needs, or more. `by`: the column that the
  // part goes by, found in the header.
  CsvLineParser(CsvSchema schema, int64_t columns, const InputPart& part, CsvColumn by)
      : schema_(std::move(schema)), columns_(columns), part_(part), by_(std::move(by)) {}

  LineKind parse(int64_t number, std::string_view line, const ColumnArrays& out,
                 int64_t row) const override {
    if ((number == 1 && schema_.header) || is_skipped_line(schema_, line)) return LineKind::kNone;
    if (part_.split && !is_in_part(number, line)) return LineKind::kNone;
    thread_local CsvRow values;
    if (read(line, values)) return LineKind::kBad;
    out.label()[row] = values.label;
    for (size_t k = 0; k < values.dense.size(); ++k)
      out.dense<double>(static_cast<int>(k))[row] = values.dense[k];
    const uint64_t* keys = values.keys.data();
    for (size_t k = 0; k < schema_.categorical.size(); ++k) {
      const int slot = static_cast<int>(k);
      const int64_t n = schema_.categorical[k].max_values();
      std::copy_n(keys, n, out.key<uint64_t>(slot) + row * n);
      if (*keys == 0) out.count_missing(slot);
      keys += n;
    }
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
    CsvRow values;
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

  // Returns what is wrong with the line, or nothing.
  [[nodiscard]] Problem read(std::string_view line, CsvRow& row) const {
    if (Problem problem = split_csv(dialect_of(schema_), line, row.fields)) return problem;
    const auto& fields = row.fields.fields;
    const auto found = static_cast<int64_t>(fields.size());
    if (columns_ > 0 && found != columns_)
      return fmt::format("expected {} columns as in the first line, found {}", columns_, found);
    if (found < schema_.columns_needed())
      return fmt::format("expected at least {} columns (as the schema says), found {}",
                         schema_.columns_needed(), found);
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
    if (Problem problem = read_label(row.fields, row.label)) return problem;
    row.dense.clear();
    if (schema_.weighted)
      if (Problem problem = read_weight(row.fields, row.dense.emplace_back())) return problem;
    for (const CsvSchema::Dense& dense : schema_.features())
      if (Problem problem = read_dense(dense, fields, row.dense.emplace_back())) return problem;
    row.keys.clear();
    for (const CategoryColumn& category : schema_.categorical)
      if (Problem problem = read_keys(category, fields, row.keys)) return problem;
    return std::nullopt;
  }

  [[nodiscard]] Problem read_weight(const CsvFields& fields, double& weight) const {
    weight = 1;
    if (!schema_.labelled) return std::nullopt;
    const CsvColumn& column = schema_.dense.front().number.column;
    const std::string_view value = fields.fields[static_cast<size_t>(column.index)];
    weight = parse_number<double>(value).value_or(kNoNumber);
    if (weight >= 0 && std::isfinite(static_cast<float>(weight))) return std::nullopt;
    return fmt::format("column {} (weight): expected a finite number >= 0, found {}", column.index,
                       in_quotes(value));
  }

  [[nodiscard]] Problem read_label(const CsvFields& fields, uint32_t& label) const {
    label = 0;
    if (!schema_.labelled) return std::nullopt;
    const std::string_view value = fields.fields[static_cast<size_t>(schema_.label.index)];
    if (schema_.real_label) {
      const auto real = static_cast<float>(parse_number<double>(value).value_or(kNoNumber));
      label = std::bit_cast<uint32_t>(real);
      if (std::isfinite(real)) return std::nullopt;
      return fmt::format("column {} (label): expected a finite number, found {}",
                         schema_.label.index, in_quotes(value));
    }
    const auto in = [&](const std::vector<std::string>& values) {
      return std::find(values.begin(), values.end(), value) != values.end();
    };
    label = in(schema_.positive) ? 1 : 0;
    if (label == 1 || in(schema_.negative)) return std::nullopt;
    if (schema_.negative.empty() && !is_missing(schema_.label, value)) return std::nullopt;
    return fmt::format("column {} (label): expected {}, found {}", schema_.label.index,
                       schema_.negative.empty() ? "a value" : "a value the schema names",
                       in_quotes(value)) +
           advice("add it to \"positive\" or \"negative\"");
  }

  // Appends the keys of a slot.
  [[nodiscard]] static Problem read_keys(const CategoryColumn& category, FieldsOfLine fields,
                                         std::vector<uint64_t>& keys) {
    if (!category.is_fitted()) {
      double x = 0;
      Problem problem = read_number(category.number, fields, x);
      keys.push_back(ordered_bits(x));
      return problem;
    }
    const size_t first = keys.size();
    Problem problem = for_each_token(
        category, fields, [&](std::string_view token) { keys.push_back(token_key(token)); });
    if (keys.size() == first) keys.push_back(0);
    keys.resize(first + static_cast<size_t>(category.max_values()), data::kAbsentKey);
    return problem;
  }

  // The number, its logarithm taken if the schema wants it.
  [[nodiscard]] Problem read_dense(const CsvSchema::Dense& dense, FieldsOfLine fields,
                                   double& x) const {
    if (Problem problem = read_number(dense.number, fields, x))
      return *problem + advice("add it to \"missing\", or move the column to \"categorical\"");
    if (dense.transform != DenseTransform::kLog1p &&
        dense.transform != DenseTransform::kLog1pStandardize)
      return std::nullopt;
    if (x <= -1) {
      const CsvColumn& column = dense.number.column;
      return fmt::format("column {} ({}): expected a number above -1 for {}, found {}",
                         column.index, column.name, transform_name(dense.transform),
                         in_quotes(fields[static_cast<size_t>(column.index)])) +
             advice("give the column the transform standardize");
    }
    x = std::log1p(x);
    return std::nullopt;
  }

  // Where a guessed schema is wrong.
  [[nodiscard]] std::string advice(const char* what) const {
    if (schema_.guessed_file.empty()) return {};
    return fmt::format(
        "; the schema was guessed from the first rows, which have none: {} in {}, and pass that "
        "with --schema",
        what, schema_.guessed_file);
  }

  CsvSchema schema_;
  int64_t columns_;
  InputPart part_;
  CsvColumn by_;
};

}  // namespace

CsvSchema resolved_schema(CsvSchema schema, const std::string& file, std::string_view first_line) {
  if (!schema.header) return schema;
  const std::string where = fmt::format("{}:1", file);
  CsvFields header;
  if (const Problem problem = split_csv(dialect_of(schema), first_line, header))
    raise<DataError>("{}: {}", where, *problem);
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
          .wanted = [columns](int64_t index, const std::string& name) {
            return std::any_of(columns.begin(), columns.end(), [&](const CsvColumn& c) {
              return c.header_name.empty() ? c.index == index : c.header_name == name;
            });
          }};
}

CsvRowParser::CsvRowParser(CsvSchema schema, std::vector<InputPart> parts)
    : schema_(std::move(schema)),
      layout_{.dense = static_cast<int>(schema_.dense.size()),
              .slots = static_cast<int>(schema_.categorical.size()),
              .dense_bytes = sizeof(double),
              .key_bytes = sizeof(uint64_t),
              .slot_tables = schema_.slot_tables(),
              .real_label = schema_.real_label,
              .weighted = schema_.weighted,
              .keys = KeyLayout(schema_.hotness())},
      parts_(std::move(parts)) {}

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

std::unique_ptr<const LineParser> CsvRowParser::open(const std::string& file,
                                                     std::string_view first_line) {
  CsvSchema schema = resolved_schema(schema_, file, first_line);
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
  return std::make_unique<CsvLineParser>(std::move(schema), columns_, part, std::move(by));
}

}  // namespace hlite::tools
