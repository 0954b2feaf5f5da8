#include "hugectr_lite/preparation/csv/kind_guess.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

#include "hugectr_lite/core/in_quotes.h"

namespace hlite::prep {

namespace {

// Fewer rows with a value each may do so by chance.
constexpr int64_t kMinRowsForIds = 100;
constexpr double kMostlyNumbers = 0.9;
constexpr double kNarrow = 0.15;   // deviation over range
constexpr double kTwoDigits = 99;  // the largest such number
constexpr double kNearlyAll = 0.9;

constexpr std::string_view kIdWords[] = {"id",  "ids", "uid", "uuid", "code", "zipcode", "postcode",
                                         "zip", "sku", "key", "hash", "isbn", "token"};
constexpr std::string_view kQuantityWords[] = {
    "age",   "amount",  "balance",     "bytes",    "cost",   "count",    "counts",
    "day",   "days",    "distance",    "duration", "fee",    "height",   "hour",
    "hours", "income",  "impressions", "length",   "likes",  "minute",   "minutes",
    "month", "months",  "percent",     "plays",    "price",  "quantity", "rating",
    "ratio", "revenue", "salary",      "score",    "second", "seconds",  "size",
    "sum",   "time",    "timestamp",   "total",    "views",  "visits",   "volume",
    "wage",  "weight",  "week",        "weeks",    "width",  "year",     "years"};
// "num_items", "n_clicks".
constexpr std::string_view kCountWords[] = {"n", "num"};

// "user_id", "userId" and "User ID" are the words user and id.
std::vector<std::string> words_of(const std::string& name) {
  std::vector<std::string> words;
  bool goes_on = false, lower = false;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (!std::isalnum(byte)) {
      goes_on = false;
      continue;
    }
    if (!goes_on || (lower && std::isupper(byte))) words.emplace_back();
    words.back() += static_cast<char>(std::tolower(byte));
    goes_on = true;
    lower = std::islower(byte) != 0;
  }
  return words;
}

template <size_t N>
bool has(const std::string_view (&list)[N], std::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

bool names_an_id(const std::string& name) {
  const std::vector<std::string> words = words_of(name);
  return !words.empty() && has(kIdWords, words.back());
}

bool names_a_quantity(const std::string& name) {
  const std::vector<std::string> words = words_of(name);
  return (words.size() > 1 && has(kCountWords, words.front())) ||
         std::any_of(words.begin(), words.end(),
                     [](const std::string& word) { return has(kQuantityWords, word); });
}

// Why a column is no feature; "": it is one.
std::string reason_to_leave_out(const ColumnFacts& facts, const std::string& name, bool header) {
  if (facts.counts_up() && (facts.rows() >= kMinRowsForIds || (header && name.empty())))
    return "counts the rows";
  if (facts.rows() >= kMinRowsForIds && facts.all_differ() &&
      (!is_mostly_numbers(facts) || names_an_id(name)))
    return "another value in every row";
  return {};
}

KindGuess of_written_numbers(const ColumnFacts& facts, const std::string& option) {
  return {
      ColumnKind::kUnclear,
      fmt::format("{} of {} values are numbers as {} in line {}, which is read as a text: write "
                  "such numbers as 1234.5 in the file, or --categorical {} if they are names",
                  facts.written(), facts.present(), in_quotes(facts.first_written()),
                  facts.first_written_line(), option)};
}

KindGuess of_texts(const ColumnFacts& facts) {
  KindGuess guess;
  if (facts.present() == 0)
    guess.note = "no value in these rows";
  else if (facts.distinct() == 1 && facts.present() == facts.rows() && facts.rows() > 1)
    guess.note = "the same value in all of these rows";
  else if (facts.first_text_line() > 0 && is_mostly_numbers(facts))
    guess.note = fmt::format(
        "numbers but for {} of {} values, as {} in line {}; where that means no value, add it to "
        "\"missing\" and put the column under \"dense\"",
        facts.present() - facts.numbers(), facts.present(), in_quotes(facts.first_text()),
        facts.first_text_line());
  return guess;
}

KindGuess of_whole_numbers(const ColumnFacts& facts, const std::string& name,
                           const std::string& option) {
  const double range = facts.max() - facts.min();
  const auto distinct = static_cast<double>(facts.distinct());
  const bool from_first = facts.min() <= 1 && distinct >= kNearlyAll * (range + 1);
  if (names_a_quantity(name) || (facts.max() <= kTwoDigits && !from_first))
    return {.kind = ColumnKind::kNumber};
  if (facts.deviation() < kNarrow * range)
    return {.kind = ColumnKind::kNumber, .note = {}, .by_spread = true};
  return {ColumnKind::kUnclear,
          fmt::format("{} distinct whole numbers from {} to {}: --categorical {} if they are ids, "
                      "--dense {} if they are quantities",
                      facts.distinct(), facts.min(), facts.max(), option, option)};
}

}  // namespace

bool is_mostly_numbers(const ColumnFacts& facts) {
  return facts.numbers() > 0 && !facts.is_coded() &&
         static_cast<double>(facts.numbers()) >=
             kMostlyNumbers * static_cast<double>(facts.present());
}

KindGuess guess_kind(const ColumnFacts& facts, const std::string& name, bool header,
                     const std::string& option) {
  if (!facts.has_few_values() && facts.written() > 0 &&
      static_cast<double>(facts.written() + facts.numbers()) >=
          kMostlyNumbers * static_cast<double>(facts.present()))
    return of_written_numbers(facts, option);
  if (std::string reason = reason_to_leave_out(facts, name, header); !reason.empty())
    return {ColumnKind::kLeftOut, std::move(reason)};
  if (!facts.is_numeric() || facts.has_few_values() || names_an_id(name)) return of_texts(facts);
  if (facts.type() != CategoryType::kInteger || !facts.never_negative())
    return {.kind = ColumnKind::kNumber};
  return of_whole_numbers(facts, name, option);
}

}  // namespace hlite::prep
