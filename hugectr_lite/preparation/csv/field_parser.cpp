#include "hugectr_lite/preparation/csv/field_parser.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "data_reader/history_check.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/in_quotes.h"
#include "hugectr_lite/core/parse_number.h"
#include "hugectr_lite/preparation/engine/saved_vocabulary.h"

namespace hlite::prep {

namespace {

using Problem = ColumnProblem;

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

// The number or truth value of a label; NaN: it is another text.
double number_of_label(std::string_view text) {
  if (const auto x = parse_number<double>(text)) return *x;
  const std::optional<bool> word = parse_boolean_word(text);
  return word ? *word : kNoNumber;
}

std::vector<double> numbers_of_labels(const std::vector<std::string>& texts) {
  std::vector<double> numbers;
  for (const std::string& text : texts) numbers.push_back(number_of_label(text));
  return numbers;
}

// Appends the keys of a slot. `found` becomes the number of values of a list.
Problem read_keys(const CategoryColumn& category, FieldsOfLine fields, std::vector<uint64_t>& keys,
                  int64_t& found) {
  if (!category.is_fitted()) {
    double x = 0;
    Problem problem = read_number(category.number, fields, x);
    keys.push_back(ordered_bits(x));
    return problem;
  }
  const size_t first = keys.size();
  Problem problem = for_each_token(
      category, fields, [&](std::string_view token) { keys.push_back(token_key(token)); }, &found);
  if (keys.size() == first && !category.is_history()) keys.push_back(0);
  keys.resize(first + static_cast<size_t>(category.max_values()), data::kAbsentKey);
  return problem;
}

}  // namespace

data::RowLayout row_layout(const CsvSchema& schema) {
  return {.dense = static_cast<int>(schema.dense.size()),
          .slots = static_cast<int>(schema.categorical.size()),
          .dense_bytes = sizeof(double),
          .key_bytes = sizeof(uint64_t),
          .slot_tables = schema.slot_tables(),
          .real_label = schema.real_label,
          .labels = static_cast<int>(schema.texts.size()),
          .weighted = schema.weighted,
          .keys = KeyLayout(schema.hotness())};
}

FieldParser::LabelNumbers::LabelNumbers(const LabelTexts& of)
    : positive(numbers_of_labels(of.positive)), negative(numbers_of_labels(of.negative)) {
  for (const auto& [texts, numbers] :
       {std::pair(&of.positive, &positive), std::pair(&of.negative, &negative)})
    for (size_t i = 0; i < texts->size(); ++i)
      plain = plain && (std::isnan((*numbers)[i]) || is_plain_integer((*texts)[i]));
}

FieldParser::FieldParser(const CsvSchema& schema)
    : schema_(schema), label_numbers_(schema.texts.begin(), schema.texts.end()) {}

Problem FieldParser::read(FieldsOfLine fields, FieldValues& row) const {
  if (Problem problem = schema_.real_label ? read_real_label(fields, row.label)
                                           : read_label(fields, 0, row.label))
    return problem;
  row.dense.clear();
  for (size_t l = 1; l < schema_.texts.size(); ++l) {
    uint32_t label = 0;
    if (Problem problem = read_label(fields, l, label)) return problem;
    row.dense.push_back(label);
  }
  if (schema_.weighted)
    if (Problem problem = read_weight(fields, row.dense.emplace_back())) return problem;
  for (const CsvSchema::Dense& dense : schema_.features())
    if (Problem problem = read_dense(dense, fields, row.dense.emplace_back())) return problem;
  row.keys.clear();
  const CategoryColumn* first = nullptr;  // of the history that the column is of
  int64_t found = 0, found_first = 0;
  for (const CategoryColumn& category : schema_.categorical) {
    if (Problem problem = read_keys(category, fields, row.keys, found)) return problem;
    if (!category.is_history()) continue;
    if (!first || first->list->history != category.list->history) {
      first = &category;
      found_first = found;
    } else if (found != found_first) {
      const auto name = [](const CsvColumn& c) {
        return fmt::format("column {} ({})", c.index, c.name);
      };
      return data::HistoryCheck::uneven(name(first->column), found_first, name(category.column),
                                        found);
    }
  }
  return std::nullopt;
}

void FieldParser::put(const FieldValues& values, const data::ColumnArrays& out, int64_t row) const {
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
}

Problem FieldParser::read_weight(FieldsOfLine fields, double& weight) const {
  weight = 1;
  if (!schema_.labelled) return std::nullopt;
  const CsvColumn& column = schema_.dense[schema_.no_features() - 1].number.column;
  const std::string_view value = fields[static_cast<size_t>(column.index)];
  weight = parse_number<double>(value).value_or(kNoNumber);
  if (weight >= 0 && std::isfinite(static_cast<float>(weight))) return std::nullopt;
  return fmt::format("column {} (weight): expected a finite number >= 0, found {}", column.index,
                     in_quotes(value));
}

Problem FieldParser::read_real_label(FieldsOfLine fields, uint32_t& label) const {
  label = 0;
  if (!schema_.labelled) return std::nullopt;
  const std::string_view value = fields[static_cast<size_t>(schema_.label.index)];
  const auto real = static_cast<float>(parse_number<double>(value).value_or(kNoNumber));
  label = std::bit_cast<uint32_t>(real);
  if (std::isfinite(real)) return std::nullopt;
  return fmt::format("column {} (label): expected a finite number, found {}", schema_.label.index,
                     in_quotes(value));
}

Problem FieldParser::read_label(FieldsOfLine fields, size_t l, uint32_t& label) const {
  label = 0;
  if (!schema_.labelled) return std::nullopt;
  const CsvColumn& column = l == 0 ? schema_.label : schema_.dense[l - 1].number.column;
  const LabelTexts& texts = schema_.texts[l];
  const LabelNumbers& numbers = label_numbers_[l];
  const std::string_view value = fields[static_cast<size_t>(column.index)];
  const auto in = [](const auto& values, const auto& one) {
    return std::find(values.begin(), values.end(), one) != values.end();
  };
  label = in(texts.positive, value) ? 1 : 0;
  if (label == 1 || in(texts.negative, value)) return std::nullopt;
  // "1.0" and "True" are "1".
  const double number =
      numbers.plain && is_plain_integer(value) ? kNoNumber : number_of_label(value);
  label = in(numbers.positive, number) ? 1 : 0;
  if (label == 1 || in(numbers.negative, number)) return std::nullopt;
  if (texts.negative.empty() && !is_missing(column, value)) return std::nullopt;
  return fmt::format("column {} (label): expected {}, found {}", column.index,
                     texts.negative.empty() ? "a value" : "a value the schema names",
                     in_quotes(value)) +
         advice("add it to \"positive\" or \"negative\"");
}

// The number, its logarithm taken if the schema wants it.
Problem FieldParser::read_dense(const CsvSchema::Dense& dense, FieldsOfLine fields,
                                double& x) const {
  if (Problem problem = read_number(dense.number, fields, x))
    return *problem + advice("add it to \"missing\", or move the column to \"categorical\"");
  const CsvColumn& column = dense.number.column;
  if (dense.transform != DenseTransform::kLog1p &&
      dense.transform != DenseTransform::kLog1pStandardize) {
    // Files hold float32, and the square of such a number is a finite double, as the deviation
    // needs it.
    constexpr double kMost = std::numeric_limits<float>::max();
    if (!(std::abs(x) > kMost)) return std::nullopt;
    return fmt::format("column {} ({}): expected a number between {:.4g} and {:.4g}, found {}",
                       column.index, column.name, -kMost, kMost,
                       in_quotes(fields[static_cast<size_t>(column.index)])) +
           "; \"clip\" in its block cuts such numbers, \"missing\" takes this one for none";
  }
  if (x <= -1) {
    return fmt::format("column {} ({}): expected a number above -1 for {}, found {}", column.index,
                       column.name, transform_name(dense.transform),
                       in_quotes(fields[static_cast<size_t>(column.index)])) +
           advice("give the column the transform standardize");
  }
  x = std::log1p(x);
  return std::nullopt;
}

// Where a guessed schema is wrong.
std::string FieldParser::advice(const char* what) const {
  if (schema_.guessed_file.empty()) return {};
  return fmt::format(
      "; the schema was guessed from the first rows, which have none: {} in {}, and pass that "
      "with --schema",
      what, schema_.guessed_file);
}

}  // namespace hlite::prep
