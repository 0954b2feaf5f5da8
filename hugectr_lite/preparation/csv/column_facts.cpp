#include "hugectr_lite/preparation/csv/column_facts.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "hugectr_lite/core/number_text.h"
#include "hugectr_lite/core/parse_number.h"
#include "hugectr_lite/preparation/csv/csv_record.h"
#include "hugectr_lite/preparation/engine/saved_vocabulary.h"

namespace hlite::prep {

namespace {

// "007" and "-01", but neither "0" nor "0.5".
bool has_leading_zero(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9';
}

// Takes a currency sign or per cent from either end.
std::string_view without_unit(std::string_view text) {
  for (const std::string_view unit : {"$", "€", "£", "%"}) {
    if (text.starts_with(unit)) text.remove_prefix(unit.size());
    if (text.ends_with(unit)) text.remove_suffix(unit.size());
  }
  return trimmed(text);
}

// A number as people write it, which parse_number() does not take: with groups of three digits, a
// decimal comma or a unit.
bool is_written_number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const std::string_view bare = without_unit(text);
  if (bare.empty() || !is_digits(bare.substr(0, 1)) || !is_digits(bare.substr(bare.size() - 1)))
    return false;
  if (parse_number<double>(bare)) return bare != text;
  const size_t comma = bare.find_first_of(",'");
  if (comma == std::string_view::npos) return false;
  const std::string_view end = bare.substr(comma + 1);
  if (is_digits(bare.substr(0, comma)) && is_digits(end))
    return bare[comma] == ',' || end.size() == 3;
  std::string_view rest = bare.substr(comma);
  while (rest.size() >= 4 && rest[0] == bare[comma] && is_digits(rest.substr(1, 3)))
    rest.remove_prefix(4);
  return comma <= 3 && is_digits(bare.substr(0, comma)) &&
         (rest.empty() || (rest[0] == '.' && is_digits(rest.substr(1))));
}

}  // namespace

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

void ColumnFacts::add(std::string_view field, int64_t line) {
  ++rows_;
  if (is_missing_spelling(field)) ++missing_[std::string(field)];
  if (field.empty() || is_missing_spelling(field)) return;
  ++present_;
  hashes_.push_back(token_key(field));
  if (counts_.size() <= kFewValues) ++counts_[std::string(field)];
  const std::optional<double> number = parse_number<double>(field);
  if (number && std::isfinite(*number)) {
    coded_ = coded_ || has_leading_zero(field);
    digits_ = digits_ || is_digits(field);
    add_number(*number);
    add_spelling(field, *number);
  } else if (parse_boolean_word(field)) {
    ++words_;
  }
  if (!(number && std::isfinite(*number)) && first_text_line_ == 0) {
    first_text_ = field;
    first_text_line_ = line;
  }
  if (!number && is_written_number(field) && written_++ == 0) {
    first_written_ = field;
    first_written_line_ = line;
  }
}

void ColumnFacts::add_spelling(std::string_view field, double x) {
  char digits[kNumberBytes];
  const auto size = static_cast<size_t>(write_number(x, digits) - digits);
  whole_ = whole_ && std::trunc(x) == x;
  bits_ = bits_ && (x == 0 || x == 1);
  const std::string_view shortest(digits, size);
  shortest_ = shortest_ && (field == shortest || field == std::string(shortest) + ".0");
  const size_t exponent = field.find_first_of("eE"), point = field.find('.');
  hexadecimal_ =
      hexadecimal_ || (exponent != std::string_view::npos && point == std::string_view::npos &&
                       field[exponent + 1] != '+' && field[exponent + 1] != '-');
  const int64_t decimals =
      point == std::string_view::npos ? 0 : static_cast<int64_t>(field.size() - point - 1);
  decimals_ = decimals_ == -1 || decimals_ == decimals ? decimals : -2;
}

CategoryType ColumnFacts::type() const {
  if (present_ == 0 || words_ + numbers_ != present_ || coded_ || hexadecimal_)
    return CategoryType::kText;
  if (words_ > 0) return bits_ ? CategoryType::kBoolean : CategoryType::kText;
  if (whole_) return CategoryType::kInteger;
  return shortest_ || decimals_ >= 0 ? CategoryType::kNumber : CategoryType::kText;
}

// Welford's update, with the third power (Pébay, "Formulas for robust, one-pass parallel
// computation of covariances and arbitrary-order statistical moments", 2008).
void ColumnFacts::add_number(double x) {
  counts_up_ = counts_up_ && (numbers_ == 0 ? x == std::floor(x) : x == last_ + 1);
  min_ = numbers_ == 0 ? x : std::min(min_, x);
  max_ = numbers_ == 0 ? x : std::max(max_, x);
  last_ = x;
  const auto before = static_cast<double>(numbers_++);
  const auto n = before + 1;
  const double delta = x - mean_, step = delta / n;
  mean_ += step;
  cubes_ += delta * step * step * before * (n - 2) - 3 * step * squares_;
  squares_ += delta * step * before;
}

double ColumnFacts::deviation() const {
  return numbers_ > 0 ? std::sqrt(squares_ / static_cast<double>(numbers_)) : 0;
}

double ColumnFacts::skewness() const {
  if (!(squares_ > 0)) return 0;
  return std::sqrt(static_cast<double>(numbers_)) * cubes_ / std::pow(squares_, 1.5);
}

int64_t ColumnFacts::distinct() const {
  std::vector<uint64_t> sorted = hashes_;
  std::sort(sorted.begin(), sorted.end());
  return std::unique(sorted.begin(), sorted.end()) - sorted.begin();
}

}  // namespace hlite::prep
