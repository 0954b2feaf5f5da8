#include "hugectr_lite/preparation/csv/csv_guess.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "data_reader/parquet/parquet_file.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/in_quotes.h"
#include "hugectr_lite/core/parse_number.h"
#include "hugectr_lite/core/shell_word.h"
#include "hugectr_lite/core/utf8.h"
#include "hugectr_lite/preparation/csv/column_facts.h"
#include "hugectr_lite/preparation/csv/csv_sample.h"
#include "hugectr_lite/preparation/csv/date_format.h"
#include "hugectr_lite/preparation/csv/header_guess.h"
#include "hugectr_lite/preparation/csv/kind_guess.h"
#include "hugectr_lite/preparation/csv/label_guess.h"

namespace hlite::prep {

namespace {

constexpr double kSkewed = 3;
constexpr size_t kColumnsShown = 20;

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

// The columns of a file: their facts and how to name them.
class Columns {
 public:
  Columns(const CsvSample& sample, const CsvGuessOptions& options) : sample_(sample) {
    if (sample.is_parquet() && options.header == false)
      raise<ConfigError>(
          "--header: expected yes, as the columns of {} (Parquet) have names, found no",
          sample.path());
    header_ = find_header(options);
    if (facts_.empty() || facts_[0].rows() == 0)
      raise<DataError>("{}: expected at least one row, found none", sample.path());
  }

  [[nodiscard]] bool header() const { return header_; }
  // It cannot be told whether the first line, which is taken for a row, has names.
  [[nodiscard]] bool is_header_unclear() const { return header_unclear_; }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] const std::vector<ColumnFacts>& facts() const { return facts_; }
  [[nodiscard]] size_t count() const { return facts_.size(); }
  // What a schema calls the column: a name of the header, if it is the only one, or its number.
  [[nodiscard]] std::string place(size_t c) const {
    return is_named(c) ? quoted(names_[c]) : fmt::format("{}", c);
  }
  // What a person is shown.
  [[nodiscard]] std::string shown(size_t c) const {
    return is_named(c) ? names_[c] : fmt::format("{}", c);
  }
  // Of a category. Texts of a Parquet file are texts, whatever they look like.
  [[nodiscard]] CategoryType type(size_t c) const {
    if (sample_.is_parquet()) {
      const data::parquet::ParquetFile file(sample_.path());
      const auto index = file.find(names_[c]);
      if (index &&
          file.columns()[static_cast<size_t>(*index)].values == data::parquet::ValueType::kText)
        return CategoryType::kText;
    }
    return facts_[c].type();
  }
  [[nodiscard]] bool is_named(size_t c) const {
    return header_ && !names_[c].empty() && is_utf8(names_[c]) &&
           std::count(names_.begin(), names_.end(), names_[c]) == 1;
  }
  // Why the rows of the sample have no values of the column; null: they have.
  [[nodiscard]] const std::string* why_empty(size_t c) const {
    const auto found = sample_.without_text().find(c);
    return found == sample_.without_text().end() ? nullptr : &found->second;
  }
  // The column that an option names.
  [[nodiscard]] size_t find(const char* option, const std::string& text) const {
    const size_t c = find_place(option, text);
    if (const std::string* why = why_empty(c))
      raise<ConfigError>("{}: expected a column of numbers or texts, found {} ({})", option,
                         in_quotes(text), *why);
    return c;
  }

 private:
  [[nodiscard]] size_t find_place(const char* option, const std::string& text) const {
    if (header_) {
      const auto at = std::find(names_.begin(), names_.end(), text);
      if (at != names_.end()) return static_cast<size_t>(at - names_.begin());
    }
    if (const auto number = parse_number<size_t>(text); number && *number < count()) return *number;
    if (!header_)
      raise<ConfigError>(
          "{}: expected the number of a column, 0 to {}, as {} has no header, found {}", option,
          count() - 1, sample_.path(), in_quotes(text));
    std::vector<std::string> known;
    for (size_t c = 0; c < std::min(count(), kColumnsShown); ++c)
      known.push_back(in_quotes(names_[c]));
    raise<ConfigError>("{}: expected a column of {} ({}{}), found {}", option, sample_.path(),
                       fmt::join(known, ", "), count() > kColumnsShown ? ", ..." : "",
                       in_quotes(text));
  }

  // Facts of the rows from number `first` on.
  void gather(int64_t first) {
    facts_.assign(static_cast<size_t>(sample_.columns()), {});
    int64_t row = 0;
    sample_.for_each_row([&](const CsvSample::Row& found) {
      if (row++ < first) {
        names_.assign(found.fields.begin(), found.fields.end());
        first_line_ = found.line;
        return;
      }
      for (size_t c = 0; c < facts_.size(); ++c) facts_[c].add(found.fields[c], found.line);
    });
  }

  bool find_header(const CsvGuessOptions& options) {
    gather(1);
    if (sample_.is_parquet() ||
        (options.header ? *options.header : looks_like_names(options.label))) {
      if (first_line_ > 1)
        raise<DataError>(
            "{}: expected the names of the columns in the first line, found them in line {}: "
            "remove the lines before it",
            sample_.path(), first_line_);
      return true;
    }
    gather(0);
    names_.clear();
    return false;
  }

  // The first row, over the facts of the others. `label`: see CsvGuessOptions.
  [[nodiscard]] bool looks_like_names(const std::string& label) {
    const auto number = parse_number<size_t>(label);
    if (!label.empty() && !(number && *number < names_.size()) &&
        std::find(names_.begin(), names_.end(), label) != names_.end())
      return true;
    const FirstLine line = guess_first_line(names_, facts_);
    header_unclear_ = line == FirstLine::kUnclear;
    return line == FirstLine::kNames;
  }

  const CsvSample& sample_;
  bool header_ = false, header_unclear_ = false;
  std::vector<std::string> names_;  // the first row
  int64_t first_line_ = 1;
  std::vector<ColumnFacts> facts_;
};

// The kinds of all columns but the label.
struct Features {
  std::vector<size_t> dense, logarithms, categorical;     // logarithms: of dense
  std::vector<std::string> left_out, notes;               // for a person
  std::vector<std::string> by_spread;                     // whole numbers, and how many
  std::vector<std::pair<size_t, std::string>> questions;  // columns, and what to write
  [[nodiscard]] bool is_logarithm(size_t c) const {
    return std::find(logarithms.begin(), logarithms.end(), c) != logarithms.end();
  }
};

// What a person has said of a column.
enum class Asked { kLeftOut, kCategory, kNumber };

// A date in one of the usual writings: its format.
std::string date_format_of(const std::string& text) {
  for (const char* format : {"%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M",
                             "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S.%f",
                             "%Y-%m-%d %H:%M:%S.%f+00:00", "%Y/%m/%d", "%d.%m.%Y"})
    if (DateFormat(format).parse(text)) return format;
  return {};
}

void add_number(const Columns& columns, size_t c, Features& features) {
  const ColumnFacts& facts = columns.facts()[c];
  features.dense.push_back(c);
  if (facts.never_negative() && facts.skewness() > kSkewed) features.logarithms.push_back(c);
}

void add_note(const std::string& column, const std::string& note, Features& features) {
  if (!note.empty()) features.notes.push_back(column + ": " + note);
}

void add_guessed(const Columns& columns, size_t c, Features& features) {
  const ColumnFacts& facts = columns.facts()[c];
  const std::string shown = columns.shown(c);
  const std::string* why_empty = columns.why_empty(c);
  const KindGuess guess = why_empty ? KindGuess{ColumnKind::kLeftOut, *why_empty}
                                    : guess_kind(facts, columns.header() ? columns.names()[c] : "",
                                                 columns.header(), shell_word(shown));
  if (guess.kind == ColumnKind::kLeftOut)
    features.left_out.push_back(fmt::format("{} ({})", shown, guess.note));
  else
    add_note(shown, guess.kind == ColumnKind::kUnclear ? "" : guess.note, features);
  if (guess.kind == ColumnKind::kNumber) add_number(columns, c, features);
  if (guess.by_spread)
    features.by_spread.push_back(fmt::format("{} ({})", shown, facts.distinct()));
  if (guess.kind == ColumnKind::kCategory) features.categorical.push_back(c);
  if (guess.kind == ColumnKind::kUnclear) features.questions.emplace_back(c, guess.note);
  if (const std::string format = date_format_of(facts.first_text());
      !format.empty() && guess.kind != ColumnKind::kUnclear)
    add_note(shown,
             fmt::format("{} in line {} is a date, which a model knows as a text alone; for parts "
                         "of it put {{\"column\": {}, \"date\": {{\"format\": \"{}\", \"parts\": "
                         "[\"month\", \"weekday\"]}}}} under \"categorical\"",
                         in_quotes(facts.first_text()), facts.first_text_line(), columns.place(c),
                         format),
             features);
}

void add_asked(const Columns& columns, size_t c, Asked asked, Features& features) {
  const ColumnFacts& facts = columns.facts()[c];
  const std::string shown = columns.shown(c);
  if (asked == Asked::kLeftOut) features.left_out.push_back(shown + " (splits the rows)");
  if (asked == Asked::kCategory) features.categorical.push_back(c);
  if (asked != Asked::kNumber) return;
  if (!is_mostly_numbers(facts) && facts.present() > 0)
    raise<ConfigError>("--dense: expected a column of numbers, found {}, which has {} in line {}",
                       in_quotes(shown), in_quotes(facts.first_text()), facts.first_text_line());
  add_number(columns, c, features);
}

Features features_of(const Columns& columns, size_t label,
                     const std::map<size_t, Asked>& asked_of) {
  Features features;
  for (size_t c = 0; c < columns.count(); ++c) {
    if (c == label) continue;
    if (const auto found = asked_of.find(c); found != asked_of.end())
      add_asked(columns, c, found->second, features);
    else
      add_guessed(columns, c, features);
  }
  if (!features.by_spread.empty())
    features.notes.push_back(
        fmt::format("distinct whole numbers, taken as numbers by how they spread: {}; "
                    "--categorical COLUMN if they are ids",
                    fmt::join(features.by_spread, ", ")));
  if (features.categorical.empty() && !features.dense.empty()) {
    const size_t few =
        *std::min_element(features.dense.begin(), features.dense.end(), [&](size_t a, size_t b) {
          return columns.facts()[a].distinct() < columns.facts()[b].distinct();
        });
    features.categorical.push_back(few);
    features.notes.push_back(columns.shown(few) +
                             ": a category as well, since models have at least one");
  }
  return features;
}

std::string list_of_columns(const Columns& columns, const std::vector<size_t>& list,
                            const Features& features) {
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(list.size(), kColumnsShown); ++i)
    shown.push_back(columns.shown(list[i]) +
                    (&list == &features.dense && features.is_logarithm(list[i]) ? " (log1p)" : ""));
  if (list.size() > kColumnsShown)
    shown.push_back(fmt::format("and {} more", list.size() - kColumnsShown));
  return fmt::format("{}", fmt::join(shown, ", "));
}

std::string list_of_texts(const std::vector<std::string>& texts) {
  std::vector<std::string> parts;
  for (const std::string& text : texts) parts.push_back(quoted(text));
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

std::string schema_text(const Columns& columns, char separator, const LabelGuess& label,
                        const Features& features, const std::set<std::string>& missing,
                        const std::set<std::string>& comments) {
  std::string text =
      fmt::format("{{\n  \"separator\": {}, \"header\": {}, \"trim\": true, \"missing\": {},\n",
                  quoted(std::string(1, separator)), columns.header(),
                  list_of_texts({missing.begin(), missing.end()}));
  if (!comments.empty())
    text += fmt::format("  \"comment\": {},\n", list_of_texts({comments.begin(), comments.end()}));
  text += fmt::format("  \"label\": {{\"column\": {}, \"positive\": {}, \"negative\": {}}},\n",
                      columns.place(label.column), list_of_texts(label.positive),
                      list_of_texts(label.negative));
  std::vector<std::string> dense, categorical;
  for (const size_t c : features.dense)
    dense.push_back(fmt::format("    {{\"column\": {}, \"transform\": \"{}standardize\"}}",
                                columns.place(c), features.is_logarithm(c) ? "log1p_" : ""));
  for (const size_t c : features.categorical)
    categorical.push_back(fmt::format("    {{\"column\": {}, \"type\": \"{}\"}}", columns.place(c),
                                      type_name(columns.type(c))));
  text += fmt::format("  \"dense\": [\n{}\n  ],\n", fmt::join(dense, ",\n"));
  return text + fmt::format("  \"categorical\": [\n{}\n  ]\n}}\n", fmt::join(categorical, ",\n"));
}

std::string separator_name(char separator) {
  return separator == '\t' ? "tab" : fmt::format("\"{}\"", separator);
}

std::string texts(const std::vector<std::string>& list) {
  std::vector<std::string> parts;
  for (const std::string& text : list) parts.push_back(in_quotes(text));
  return fmt::format("{}", fmt::join(parts, " "));
}

// What is found out about a table.
struct Findings {
  const CsvSample& sample;
  Columns columns;
  std::optional<LabelGuess> label;  // none, where no column has two values
  Features features;
  std::set<std::string> comments, missing;

  Findings(const CsvSample& of, const std::vector<std::string>& others,
           const CsvGuessOptions& options)
      : sample(of), columns(of, options), comments(of.comments().begin(), of.comments().end()) {
    std::optional<size_t> asked;
    if (!options.label.empty()) asked = columns.find("--label", options.label);
    std::map<size_t, Asked> kinds;
    std::set<size_t> no_label;
    const auto ask = [&](const char* option, const std::vector<std::string>& list, Asked kind) {
      for (const std::string& text : list) {
        const size_t c = columns.find(option, text);
        if (asked == c || !(kinds.emplace(c, kind).second || kinds.at(c) == kind))
          raise<ConfigError>("{}: expected a column that no other option names, found {}", option,
                             in_quotes(text));
        no_label.insert(c);
      }
    };
    ask("--split-time, --split-group", options.left_out, Asked::kLeftOut);
    ask("--categorical", options.categorical, Asked::kCategory);
    ask("--dense", options.dense, Asked::kNumber);
    label = guess_label(sample.path(), columns.facts(),
                        columns.header() ? columns.names() : std::vector<std::string>(), asked,
                        no_label, options.positive);
    features = features_of(columns, label ? label->column : columns.count(), kinds);
    for (size_t c = 0; c < columns.count(); ++c)
      if (!label || c != label->column)
        for (const auto& [text, count] : columns.facts()[c].missing()) missing.insert(text);
    for (const std::string& path : others) {
      if (is_read_once(path)) continue;
      const CsvSample other(path, sample.separator());
      comments.insert(other.comments().begin(), other.comments().end());
      if (!label) continue;
      const bool named = columns.is_named(label->column);
      add_spellings(other, named ? columns.names()[label->column] : "", *label);
    }
  }

  [[nodiscard]] std::string shape() const {
    return fmt::format("{} columns, {}, separator {}; guessed from {} rows", columns.count(),
                       columns.header() ? "the first line has their names" : "no header",
                       sample.is_parquet() ? "none (Parquet)" : separator_name(sample.separator()),
                       columns.facts()[0].rows());
  }
  [[nodiscard]] std::vector<std::string> summary() const;
  // What is unclear, and what to write.
  [[nodiscard]] std::vector<std::string> questions() const;
};

std::vector<std::string> Findings::questions() const {
  std::vector<std::string> list;
  if (label && !label->sure) {
    std::vector<size_t> two = label->others;
    two.push_back(label->column);
    std::sort(two.begin(), two.end());
    std::vector<std::string> choices;
    for (const size_t c : two) {
      std::vector<std::string> values;
      for (const auto& [text, count] : columns.facts()[c].counts()) values.push_back(text);
      choices.push_back(
          fmt::format("--label {} (of {})", shell_word(columns.shown(c)), texts(values)));
    }
    list.push_back(fmt::format("the label, one of {} columns of two values: {}", two.size(),
                               fmt::join(choices, ", ")));
  }
  for (const auto& [c, question] : features.questions)
    list.push_back(columns.shown(c) + ": " + question);
  return list;
}

std::vector<std::string> Findings::summary() const {
  std::vector<std::string> lines;
  const auto line = [&](const char* what, const std::string& text) {
    if (!text.empty()) lines.push_back(fmt::format("{:<12} {}", what, text));
  };
  line("label",
       !label ? "none, as no column has two values"
              : fmt::format(
                    "{}: 1 is {}{}, 0 is {}", columns.shown(label->column), texts(label->positive),
                    label->positive_share
                        ? fmt::format(" ({:.1f} % of these rows)", 100 * *label->positive_share)
                        : "",
                    label->negative.empty() ? "all else" : texts(label->negative)));
  line("numbers", list_of_columns(columns, features.dense, features));
  line("categories", list_of_columns(columns, features.categorical, features));
  line("missing", missing.empty() ? "" : texts({missing.begin(), missing.end()}));
  line("comments", comments.empty()
                       ? ""
                       : "lines that begin with " + texts({comments.begin(), comments.end()}));
  line("left out", fmt::format("{}", fmt::join(features.left_out, ", ")));
  for (const std::string& question : questions()) line("unclear", question);
  if (label && label->sure && !label->others.empty())
    line("note", fmt::format("other columns of two values: {}; --label NAME chooses one",
                             list_of_columns(columns, label->others, features)));
  for (const std::string& note : features.notes) line("note", note);
  if (columns.is_header_unclear())
    line(
        "note",
        "the first line is taken for a row; if it has the names of the columns, pass --header yes");
  return lines;
}

// Of a label by --positive: the last column of a few numbers, as stars are.
std::string example_of_label(const Columns& columns, const std::string& command) {
  constexpr size_t kMostStars = 10;
  for (size_t c = columns.count(); c-- > 0 && !command.empty();) {
    const ColumnFacts& facts = columns.facts()[c];
    if (!facts.is_numeric() || facts.counts().size() < 3 || facts.counts().size() > kMostStars)
      continue;
    return fmt::format("\nfor instance: {} --label {} --positive {}", command,
                       shell_word(columns.shown(c)), shell_word(facts.counts().rbegin()->first));
  }
  return {};
}

// Throws ConfigError with all that is unclear and the command that says it.
void ask(const Findings& found, const std::string& command) {
  const std::vector<std::string> questions = found.questions();
  if (questions.empty()) return;
  std::string text;
  for (const std::string& question : questions) text += "\n  " + question;
  if (!command.empty()) {
    text += "\nfor instance: " + command;
    if (found.label && !found.label->sure)
      text += " --label " + shell_word(found.columns.shown(found.label->column));
    if (!found.features.questions.empty()) text += " --categorical";
    for (const auto& [c, question] : found.features.questions)
      text += " " + shell_word(found.columns.shown(c));
  }
  raise<ConfigError>("{}: expected columns that say by name or values what they are, found:{}",
                     found.sample.path(), text);
}

}  // namespace

CsvGuess guess_schema(const std::string& train, const std::vector<std::string>& others,
                      const CsvGuessOptions& options) {
  const CsvSample sample(train);
  const Findings found(sample, others, options);
  const auto& [of, columns, label, features, comments, missing] = found;
  if (!label)
    raise<ConfigError>(
        "{}: expected a column of two values for a label, found none in the first {} rows; --label "
        "names the column, --positive the values that mean 1{}{}",
        train, columns.facts()[0].rows(),
        columns.facts()[0].rows() == 1 ? " (there is one line alone: the names of the columns?)"
        : columns.is_header_unclear()
            ? ", --header yes that the first line has the names of the columns"
            : "",
        example_of_label(columns, options.command));
  ask(found, options.command);
  if (features.categorical.empty())
    raise<DataError>(
        "{}: expected a column other than the label that can be a feature, found none{}", train,
        features.left_out.empty()
            ? ""
            : fmt::format(" (left out: {})", fmt::join(features.left_out, ", ")));
  for (const std::vector<std::string>& list : {label->positive, label->negative})
    for (const std::string& text : list)
      if (!is_utf8(text))
        raise<DataError>("{}: column {}: expected labels in UTF-8, found {}", train, label->column,
                         in_quotes(text));
  CsvGuess guess{
      .schema = schema_text(columns, sample.separator(), *label, features, missing, comments),
      .summary = {fmt::format("{}: {}", train, found.shape())}};
  for (const std::string& line : found.summary()) guess.summary.push_back("  " + line);
  return guess;
}

TableGuess guess_table(const CsvSample& sample) {
  const Findings found(sample, {}, {});
  const Columns& columns = found.columns;
  TableGuess table{.header = columns.header(),
                   .columns = {},
                   .label = found.label.value_or(LabelGuess()),
                   .missing = found.missing,
                   .shape = found.shape(),
                   .summary = found.summary()};
  for (size_t c = 0; c < columns.count(); ++c)
    table.columns.push_back(
        {columns.is_named(c) ? columns.names()[c] : fmt::format("column {}", c)});
  for (const size_t c : found.features.categorical) table.columns[c].role = ColumnRole::kCategory;
  for (const size_t c : found.features.dense) table.columns[c].role = ColumnRole::kNumber;
  for (const auto& [c, question] : found.features.questions)
    table.columns[c].role =
        columns.facts()[c].is_numeric() ? ColumnRole::kNumber : ColumnRole::kCategory;
  if (found.label) table.columns[found.label->column].role = ColumnRole::kLabel;
  return table;
}

}  // namespace hlite::prep
