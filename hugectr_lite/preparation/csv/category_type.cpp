#include "hugectr_lite/preparation/csv/category_type.h"

#include <algorithm>
#include <cmath>

#include "hugectr_lite/core/number_text.h"
#include "hugectr_lite/core/parse_number.h"

namespace hlite::prep {

namespace {

constexpr std::string_view kMissingSpellings[] = {"?",   "NA",   "N/A",  "<NA>", "NaN",
                                                  "nan", "NULL", "null", "None", "\\N"};

bool is_signed_digits(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Digits with leading zeros, or "-0". Whole numbers of any length are exact so.
std::string_view without_zeros(std::string_view digits, std::string& buffer) {
  const bool negative = digits.starts_with('-');
  const size_t first = digits.find_first_not_of('0', negative ? 1 : 0);
  if (first == std::string_view::npos) return "0";
  buffer.assign(negative ? "-" : "");
  buffer += digits.substr(first);
  return buffer;
}

}  // namespace

const std::vector<std::pair<std::string, CategoryType>>& category_types() {
  static const std::vector<std::pair<std::string, CategoryType>> types{
      {"text", CategoryType::kText},
      {"integer", CategoryType::kInteger},
      {"boolean", CategoryType::kBoolean},
      {"number", CategoryType::kNumber}};
  return types;
}

const std::string& type_name(CategoryType type) {
  return category_types()[static_cast<size_t>(type)].first;
}

bool is_missing_spelling(std::string_view text) {
  return std::find(std::begin(kMissingSpellings), std::end(kMissingSpellings), text) !=
         std::end(kMissingSpellings);
}

std::optional<bool> parse_boolean_word(std::string_view text) {
  if (text.size() != 4 && text.size() != 5) return std::nullopt;
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  return std::nullopt;
}

std::optional<std::string_view> typed_token(CategoryType type, std::string_view field) {
  thread_local std::string buffer;
  if (type != CategoryType::kBoolean) {
    if (is_plain_integer(field)) return field;
    if (is_signed_digits(field)) return without_zeros(field, buffer);
  }
  if (const std::optional<bool> word = parse_boolean_word(field)) {
    if (type == CategoryType::kBoolean) return *word ? "true" : "false";
    return *word ? "1" : "0";
  }
  const std::optional<double> x = parse_number<double>(field);
  if (!x || !std::isfinite(*x)) {
    if (is_missing_spelling(field)) return std::string_view();
    return std::nullopt;
  }
  if (type == CategoryType::kBoolean) {
    if (*x != 0 && *x != 1) return std::nullopt;
    return *x == 1 ? "true" : "false";
  }
  if (type == CategoryType::kInteger && std::trunc(*x) != *x) return std::nullopt;
  buffer.resize(static_cast<size_t>(kNumberBytes));
  buffer.resize(static_cast<size_t>(write_number(*x, buffer.data()) - buffer.data()));
  return buffer;
}

}  // namespace hlite::prep
