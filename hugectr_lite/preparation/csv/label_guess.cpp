#include "hugectr_lite/preparation/csv/label_guess.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/in_quotes.h"
#include "hugectr_lite/core/parse_number.h"
#include "hugectr_lite/core/shell_word.h"

namespace hlite::prep {

namespace {

constexpr std::string_view kLabelNames[] = {"click",     "clicked",   "label",  "target", "y",
                                            "converted", "purchased", "bought", "liked",  "churn"};
constexpr std::string_view kPositiveWords[] = {"1", "yes", "y", "true", "t", "positive", "pos"};

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool is_positive_word(const std::string& text) {
  return std::find(std::begin(kPositiveWords), std::end(kPositiveWords), lower(text)) !=
         std::end(kPositiveWords);
}

// Which of two values is label 1.
const std::string& positive_of(const std::pair<const std::string, int64_t>& a,
                               const std::pair<const std::string, int64_t>& b) {
  const auto x = parse_number<double>(a.first), y = parse_number<double>(b.first);
  if (x && y) return *x > *y ? a.first : b.first;
  if (is_positive_word(a.first) != is_positive_word(b.first))
    return is_positive_word(a.first) ? a.first : b.first;
  if (a.first.starts_with('>') != b.first.starts_with('>'))
    return a.first.starts_with('>') ? a.first : b.first;
  return a.second < b.second ? a.first : b.first;
}

std::string shown(const ColumnFacts& facts) {
  if (!facts.has_few_values()) return fmt::format("more than {}", ColumnFacts::kFewValues);
  std::vector<std::string> texts;
  for (const auto& [text, count] : facts.counts()) texts.push_back(in_quotes(text));
  return fmt::format("{}{}{}", facts.counts().size(), texts.empty() ? "" : ": ",
                     fmt::join(texts, ", "));
}

// The two values are those of many labels, and of few features that are no yes and no.
bool looks_like_label(const ColumnFacts& facts) {
  const auto is = [](const std::string& text, double value) {
    const auto number = parse_number<double>(text);
    return number && *number == value;
  };
  const std::string &a = facts.counts().begin()->first, &b = facts.counts().rbegin()->first;
  for (const auto& [low, high] : {std::pair(a, b), std::pair(b, a)})
    if (is(high, 1) && (is(low, 0) || is(low, -1))) return true;
  if (parse_number<double>(a) && parse_number<double>(b)) return false;
  return is_positive_word(a) != is_positive_word(b) || a.starts_with('>') != b.starts_with('>');
}

struct Candidates {
  std::vector<size_t> columns;  // that may be the label, the best guess first
  bool sure = false;
};

Candidates label_columns(const std::vector<ColumnFacts>& columns,
                         std::span<const std::string> names, const std::set<size_t>& no_label) {
  Candidates found;
  std::vector<size_t> alike;
  for (size_t c = columns.size(); c-- > 0;) {
    if (columns[c].counts().size() != 2 || no_label.contains(c)) continue;
    found.columns.push_back(c);
    if (looks_like_label(columns[c])) alike.push_back(c);
  }
  if (found.columns.empty()) return found;
  std::vector<size_t> named;
  for (const std::string_view name : kLabelNames)
    for (const size_t c : found.columns)
      if (!names.empty() && lower(names[c]) == name) named.push_back(c);
  if (!named.empty()) return {named, true};
  size_t last = columns.size() - 1, first = 0;
  while (no_label.contains(last)) --last;
  while (no_label.contains(first)) ++first;
  if (found.columns.front() == last && (alike.empty() || alike.front() == last))
    return {found.columns, true};
  if (alike.size() == 1 && found.columns.size() == 1) return {found.columns, true};
  if (alike == std::vector{first} && found.columns.front() != last) {
    std::rotate(found.columns.begin(), found.columns.end() - 1, found.columns.end());
    return {found.columns, true};
  }
  return found;
}

}  // namespace

std::optional<LabelGuess> guess_label(const std::string& file,
                                      const std::vector<ColumnFacts>& columns,
                                      std::span<const std::string> names,
                                      std::optional<size_t> asked, const std::set<size_t>& no_label,
                                      const std::vector<std::string>& positive) {
  if (asked && positive.empty() && columns[*asked].counts().size() != 2)
    raise<ConfigError>(
        "{}: column {}: expected two values for a label, found {} in the first {} rows; "
        "--positive names those that mean 1{}",
        file, *asked, shown(columns[*asked]), columns[*asked].rows(),
        columns[*asked].has_few_values() && columns[*asked].present() > 0
            ? ", as --positive " + shell_word(columns[*asked].counts().rbegin()->first)
            : "");
  const Candidates found =
      asked ? Candidates{{*asked}, true} : label_columns(columns, names, no_label);
  if (found.columns.empty()) return std::nullopt;
  LabelGuess label;
  label.column = found.columns.front();
  label.sure = found.sure;
  label.others.assign(found.columns.begin() + 1, found.columns.end());
  std::sort(label.others.begin(), label.others.end());
  const ColumnFacts& facts = columns[label.column];
  label.positive = positive;
  if (positive.empty())
    label.positive = {positive_of(*facts.counts().begin(), *std::next(facts.counts().begin()))};
  int64_t rows = 0;
  const auto is_positive = [&](const std::string& text) {
    return std::find(label.positive.begin(), label.positive.end(), text) != label.positive.end();
  };
  for (const auto& [text, count] : facts.counts()) {
    if (is_positive(text))
      rows += count;
    else if (facts.has_few_values())
      label.negative.push_back(text);
  }
  if (rows == 0 && facts.has_few_values())
    raise<ConfigError>("--positive: expected a value of column {} of {}, found {}; it has {}",
                       label.column, file, in_quotes(positive.front()), shown(facts));
  if (facts.has_few_values())
    label.positive_share = static_cast<double>(rows) / static_cast<double>(facts.rows());
  return label;
}

void add_spellings(const CsvSample& other, const std::string& name, LabelGuess& label) {
  size_t column = label.column;
  bool header = !name.empty();
  other.for_each_row([&](const CsvSample::Row& row) {
    if (std::exchange(header, false)) {
      const auto at = std::find(row.fields.begin(), row.fields.end(), name);
      column = static_cast<size_t>(at - row.fields.begin());
      return;
    }
    if (column >= row.fields.size() || !row.fields[column].ends_with('.')) return;
    const std::string text(row.fields[column]), known = text.substr(0, text.size() - 1);
    const auto has = [](const std::vector<std::string>& list, const std::string& value) {
      return std::find(list.begin(), list.end(), value) != list.end();
    };
    for (auto* const list : {&label.positive, &label.negative}) {
      if (has(*list, known) && !has(*list, text)) list->push_back(text);
    }
  });
}

}  // namespace hlite::prep
