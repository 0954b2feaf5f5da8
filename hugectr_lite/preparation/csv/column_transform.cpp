#include "hugectr_lite/preparation/csv/column_transform.h"

#include <fmt/ranges.h>

#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/in_quotes.h"
#include "hugectr_lite/core/mix.h"
#include "hugectr_lite/core/parse_number.h"
#include "hugectr_lite/preparation/csv/csv_record.h"
#include "hugectr_lite/preparation/engine/saved_vocabulary.h"

namespace hlite::prep {

namespace {

constexpr double kMissingNumber = std::numeric_limits<double>::quiet_NaN();
constexpr uint64_t kSignBit = uint64_t{1} << 63;

// The date of a column; nothing where it is missing.
ColumnProblem read_date(const CsvColumn& column, const DateRule& rule, FieldsOfLine fields,
                        std::optional<DateTime>& date) {
  const std::string_view text = fields[static_cast<size_t>(column.index)];
  date.reset();
  if (is_missing(column, text)) return std::nullopt;
  date = rule.format.parse(text);
  if (date || rule.malformed_is_missing) return std::nullopt;
  return fmt::format("column {} ({}): expected a date as {}, found {}", column.index, column.name,
                     in_quotes(rule.format.text()), in_quotes(text));
}

double seconds_of(const DateTime& date) {
  return static_cast<double>(date.seconds()) + date.fraction;
}

ColumnProblem read_age(const NumberColumn& number, FieldsOfLine fields, double& x) {
  const DateAge& age = *number.age;
  std::optional<DateTime> date, other;
  if (ColumnProblem problem = read_date(number.column, age.date, fields, date)) return problem;
  if (age.other)
    if (ColumnProblem problem = read_date(*age.other, age.other_date, fields, other))
      return problem;
  if (!date || (age.other && !other)) return std::nullopt;
  x = (seconds_of(*date) - (other ? seconds_of(*other) : age.since)) / (age.hours ? 3600 : 86400);
  return std::nullopt;
}

void add(std::string& text, const std::string& more) {
  if (!more.empty()) text += (text.empty() ? "" : " ") + more;
}

std::string describe_missing(const CsvColumn& column) {
  std::string text;
  for (const std::string& value : column.own_missing) add(text, in_quotes(value));
  return text.empty() ? text : "missing " + text;
}

}  // namespace

ColumnProblem read_number(const NumberColumn& number, FieldsOfLine fields, double& x) {
  const std::string_view text = fields[static_cast<size_t>(number.column.index)];
  x = kMissingNumber;
  if (number.age) {
    if (ColumnProblem problem = read_age(number, fields, x)) return problem;
  } else {
    if (is_missing(number.column, text)) return std::nullopt;
    x = parse_number<double>(text).value_or(kMissingNumber);
    if (!std::isfinite(x))
      return fmt::format("column {} ({}): expected a finite number, found {}", number.column.index,
                         number.column.name, in_quotes(text));
    if (is_missing_number(number.column, x)) x = kMissingNumber;
  }
  if (number.clip && !std::isnan(x)) x = std::clamp(x, number.clip->low, number.clip->high);
  return std::nullopt;
}

Buckets::Buckets(std::vector<double> ascending_edges) : edges_(std::move(ascending_edges)) {
  tokens_.clear();
  double low = -std::numeric_limits<double>::infinity();
  for (const double edge : edges_) {
    tokens_.push_back(fmt::format("[{}, {})", low, edge));
    low = edge;
  }
  tokens_.push_back(fmt::format("[{}, inf)", low));
}

namespace {

// The tokens of one cross after the other are joined here.
ColumnProblem read_cross(const CategoryColumn& cross, FieldsOfLine fields,
                         std::string_view& token) {
  thread_local std::string text;
  text.clear();
  bool missing = false;
  for (const CategoryColumn& category : cross.of) {
    if (ColumnProblem problem = read_token(category, fields, token)) return problem;
    missing = missing || token.empty();
    if (&category != &cross.of.front()) text += '&';
    for (const char c : token) {
      if (c == '&' || c == '\\') text += '\\';
      text += c;
    }
  }
  if (cross.hash > 0)
    text = fmt::format("#{}", hashed_id(token_key(text), static_cast<uint64_t>(cross.hash)));
  token = missing ? std::string_view() : text;
  return std::nullopt;
}

}  // namespace

ColumnProblem read_typed_token(const CategoryColumn& category, std::string_view& token) {
  const std::optional<std::string_view> found = typed_token(*category.type, token);
  if (!found)
    return fmt::format(
        "column {} ({}): expected {} {}, the type of the column, found {}; \"type\": \"text\" in "
        "its block takes any text",
        category.column.index, category.column.name,
        *category.type == CategoryType::kInteger ? "an" : "a", type_name(*category.type),
        in_quotes(token));
  token = *found;
  if (!category.column.missing_numbers.empty())
    if (const auto x = parse_number<double>(token); x && is_missing_number(category.column, *x))
      token = {};
  return std::nullopt;
}

ColumnProblem read_derived_token(const CategoryColumn& category, FieldsOfLine fields,
                                 std::string_view& token) {
  token = {};
  if (category.kind == CategoryColumn::Kind::kCross) return read_cross(category, fields, token);
  if (category.kind == CategoryColumn::Kind::kDatePart) {
    thread_local std::string text;
    std::optional<DateTime> date;
    ColumnProblem problem = read_date(category.column, category.date, fields, date);
    if (date) token = text = std::to_string(part_of(*date, category.part));
    return problem;
  }
  double x = 0;
  if (ColumnProblem problem = read_number(category.number, fields, x)) return problem;
  if (!std::isnan(x)) token = category.buckets->token(x);
  return std::nullopt;
}

ColumnProblem for_each_of_list(const CategoryColumn& category, FieldsOfLine fields,
                               FunctionRef<void(std::string_view)> visit, int64_t* all) {
  const ValueList& list = *category.list;
  const CsvColumn& column = category.column;
  std::string_view rest = fields[static_cast<size_t>(column.index)];
  thread_local std::vector<std::string_view> values;
  values.clear();
  for (bool more = !is_missing(column, rest); more;) {
    const size_t end = rest.find(list.separator);
    std::string_view value = rest.substr(0, end);
    more = end != std::string_view::npos;
    if (more) rest.remove_prefix(end + list.separator.size());
    if (list.trim) value = trimmed(value);
    if (!is_missing(column, value)) values.push_back(value);
  }
  const int64_t found = std::ssize(values);
  if (all) *all = found;
  if (found > list.max_values) {
    if (!list.truncates)
      return fmt::format(
          "column {} ({}): expected at most {} values with {} between them, found {}; "
          "\"max_values\": {} in its block takes them all, \"truncate\": true the first {}, "
          "\"keep\": \"last\" the last",
          column.index, column.name, list.max_values, in_quotes(list.separator), found, found,
          list.max_values);
    if (list.latest) values.erase(values.begin(), values.end() - list.max_values);
    values.resize(static_cast<size_t>(list.max_values));
  }
  for (std::string_view value : values) {
    if (!category.is_text())
      if (ColumnProblem problem = read_typed_token(category, value)) return problem;
    if (!value.empty()) visit(value);
  }
  return std::nullopt;
}

uint64_t ordered_bits(double x) {
  if (std::isnan(x)) return 0;
  const auto bits = std::bit_cast<uint64_t>(x + 0.0);  // -0 is 0
  return bits >> 63 ? ~bits : bits | kSignBit;
}

double number_of_bits(uint64_t bits) {
  if (bits == 0) return kMissingNumber;
  return std::bit_cast<double>(bits & kSignBit ? bits & ~kSignBit : ~bits);
}

namespace {

std::string describe_date(const CsvColumn& column, const DateRule& rule) {
  std::string text = describe_missing(column);
  add(text, "date " + in_quotes(rule.format.text()));
  if (rule.malformed_is_missing) add(text, "or missing");
  return text;
}

std::string describe_age(const NumberColumn& number) {
  const DateAge& age = *number.age;
  return fmt::format("{} of {} since {}", age.hours ? "hours" : "days",
                     describe_date(number.column, age.date),
                     age.other ? fmt::format("{} {}", in_quotes(age.other->name),
                                             describe_date(*age.other, age.other_date))
                               : fmt::format("{}", age.since));
}

}  // namespace

std::string describe_transform(const NumberColumn& number) {
  std::string text = number.age ? describe_age(number) : describe_missing(number.column);
  if (number.clip) add(text, fmt::format("clip {} {}", number.clip->low, number.clip->high));
  return text;
}

std::string describe_transform(const CategoryColumn& category) {
  if (category.kind == CategoryColumn::Kind::kField) {
    std::string text = describe_missing(category.column);
    if (!category.is_text()) add(text, type_name(*category.type));
    if (category.list)
      add(text, fmt::format("{} {} values between {}",
                            category.list->latest      ? "the last"
                            : category.list->truncates ? "the first"
                                                       : "at most",
                            category.list->max_values, in_quotes(category.list->separator)));
    if (category.list && !category.list->history.empty())
      add(text, "history " + in_quotes(category.list->history));
    return text;
  }
  if (category.kind == CategoryColumn::Kind::kCross) {
    std::string text = "cross";
    for (const CategoryColumn& one : category.of)
      add(text, fmt::format("({})", one.name + (describe_transform(one).empty() ? "" : " ") +
                                        describe_transform(one)));
    if (category.hash > 0) add(text, fmt::format("hash {}", category.hash));
    return text;
  }
  if (category.kind == CategoryColumn::Kind::kDatePart)
    return part_name(category.part) + " of " + describe_date(category.column, category.date);
  std::string text = describe_transform(category.number);
  if (category.quantiles > 0) add(text, fmt::format("{} quantiles", category.quantiles));
  add(text, fmt::format("buckets {}", fmt::join(category.buckets->edges(), " ")));
  return text;
}

}  // namespace hlite::prep
