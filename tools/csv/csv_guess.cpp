#include "tools/csv/csv_guess.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "data_reader/parquet/parquet_file.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/in_quotes.h"
#include "hugectr_lite/core/parse_number.h"
#include "hugectr_lite/core/utf8.h"
#include "tools/csv/column_facts.h"
#include "tools/csv/csv_sample.h"
#include "tools/csv/label_guess.h"

namespace hlite::tools {

namespace {

constexpr double kSkewed = 3;
// Fewer rows with a value each may do so by chance.
constexpr int64_t kMinRowsForIds = 100;
constexpr double kMostlyNumbers = 0.9;
constexpr size_t kColumnsShown = 20;

bool is_number(std::string_view text) { return parse_number<double>(text).has_value(); }

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

// "id", "user_id", "userId" and the like.
bool names_an_id(const std::string& name) {
  if (name.size() < 2) return false;
  const std::string_view end = std::string_view(name).substr(name.size() - 2);
  if (end != "id" && end != "Id" && end != "ID") return false;
  if (name.size() == 2) return true;
  const auto before = static_cast<unsigned char>(name[name.size() - 3]);
  return !std::isalnum(before) || (end != "id" && std::islower(before));
}

// The columns of a file: their facts and how to name them.
class Columns {
 public:
  Columns(const CsvSample& sample, const std::string& label) : sample_(sample) {
    header_ = find_header(label);
    if (facts_.empty() || facts_[0].rows() == 0)
      raise<DataError>("{}: expected at least one row, found none", sample.path());
  }

  [[nodiscard]] bool header() const { return header_; }
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
  // The column that an option names.
  [[nodiscard]] size_t find(const char* option, const std::string& text) const {
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

 private:
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

  bool find_header(const std::string& label) {
    gather(1);
    if (sample_.is_parquet() || looks_like_names(label)) {
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

  // The first row, over the facts of the others.
  [[nodiscard]] bool looks_like_names(const std::string& label) const {
    if (names_.empty() || facts_[0].rows() == 0) return false;
    if (!label.empty() && !is_number(label) &&
        std::find(names_.begin(), names_.end(), label) != names_.end())
      return true;
    for (size_t c = 0; c < names_.size(); ++c)  // pandas leaves its index without a name
      if (is_number(names_[c]) || is_missing_spelling(names_[c]) || (names_[c].empty() && c > 0))
        return false;
    bool evidence = false;
    for (size_t c = 0; c < names_.size(); ++c) {
      const ColumnFacts& facts = facts_[c];
      const bool repeats = facts.has_few_values() && 2 * facts.distinct() <= facts.present();
      if (repeats && facts.counts().contains(names_[c])) return false;
      evidence = evidence || repeats || facts.is_numeric();
    }
    return evidence;
  }

  const CsvSample& sample_;
  bool header_ = false;
  std::vector<std::string> names_;  // the first row
  int64_t first_line_ = 1;
  std::vector<ColumnFacts> facts_;
};

// The kinds of all columns but the label.
struct Features {
  std::vector<size_t> dense, logarithms, categorical;  // logarithms: of dense
  std::vector<std::string> left_out, notes;            // for a person
  [[nodiscard]] bool is_logarithm(size_t c) const {
    return std::find(logarithms.begin(), logarithms.end(), c) != logarithms.end();
  }
};

// Numbers with a few other texts, which may be spellings of a missing value.
bool is_mostly_numbers(const ColumnFacts& facts) {
  return facts.numbers() > 0 && !facts.is_coded() &&
         static_cast<double>(facts.numbers()) >=
             kMostlyNumbers * static_cast<double>(facts.present());
}

// Why a column is no feature; "": it is one.
std::string reason_to_leave_out(const Columns& columns, size_t c) {
  const ColumnFacts& facts = columns.facts()[c];
  const std::string name = columns.header() ? columns.names()[c] : "";
  if (facts.counts_up() && (facts.rows() >= kMinRowsForIds || (columns.header() && name.empty())))
    return "counts the rows";
  if (facts.rows() >= kMinRowsForIds && facts.all_differ() &&
      (!is_mostly_numbers(facts) || names_an_id(name)))
    return "another value in every row";
  return {};
}

void add_feature(const Columns& columns, size_t c, Features& features) {
  const ColumnFacts& facts = columns.facts()[c];
  const std::string shown = columns.shown(c);
  if (facts.is_numeric() && !facts.has_few_values() &&
      !(columns.header() && names_an_id(columns.names()[c]))) {
    features.dense.push_back(c);
    if (facts.never_negative() && facts.skewness() > kSkewed) features.logarithms.push_back(c);
    return;
  }
  features.categorical.push_back(c);
  if (facts.present() == 0)
    features.notes.push_back(shown + ": no value in these rows");
  else if (facts.distinct() == 1 && facts.present() == facts.rows() && facts.rows() > 1)
    features.notes.push_back(shown + ": the same value in all of these rows");
  else if (facts.first_text_line() > 0 && is_mostly_numbers(facts))
    features.notes.push_back(fmt::format(
        "{}: numbers but for {} of {} values, as {} in line {}; where that means no value, add it "
        "to \"missing\" and put the column under \"dense\"",
        shown, facts.present() - facts.numbers(), facts.present(), in_quotes(facts.first_text()),
        facts.first_text_line()));
}

Features features_of(const Columns& columns, size_t label, const std::set<size_t>& left_out) {
  Features features;
  for (size_t c = 0; c < columns.count(); ++c) {
    if (c == label) continue;
    if (left_out.contains(c)) {
      features.left_out.push_back(columns.shown(c) + " (splits the rows)");
    } else if (const std::string reason = reason_to_leave_out(columns, c); !reason.empty()) {
      features.left_out.push_back(fmt::format("{} ({})", columns.shown(c), reason));
    } else {
      add_feature(columns, c, features);
    }
  }
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

}  // namespace

CsvGuess guess_schema(const std::string& train, const std::vector<std::string>& others,
                      const CsvGuessOptions& options) {
  const CsvSample sample(train);
  const Columns columns(sample, options.label);
  std::optional<size_t> asked;
  if (!options.label.empty()) asked = columns.find("--label", options.label);
  LabelGuess label = guess_label(train, columns.facts(), asked, options.positive);
  std::set<size_t> left_out;
  for (const std::string& column : options.left_out)
    left_out.insert(columns.find("--split-time, --split-group", column));
  const Features features = features_of(columns, label.column, left_out);
  if (features.categorical.empty())
    raise<DataError>(
        "{}: expected a column other than the label that can be a feature, found none{}", train,
        features.left_out.empty()
            ? ""
            : fmt::format(" (left out: {})", fmt::join(features.left_out, ", ")));

  std::set<std::string> comments(sample.comments().begin(), sample.comments().end()), missing;
  for (size_t c = 0; c < columns.count(); ++c)
    if (c != label.column)
      for (const auto& [text, count] : columns.facts()[c].missing()) missing.insert(text);
  for (const std::string& path : others) {
    if (path == "-") continue;
    const CsvSample other(path, sample.separator());
    comments.insert(other.comments().begin(), other.comments().end());
    add_spellings(other, columns.is_named(label.column) ? columns.names()[label.column] : "",
                  label);
  }
  for (const std::vector<std::string>& list : {label.positive, label.negative})
    for (const std::string& text : list)
      if (!is_utf8(text))
        raise<DataError>("{}: column {}: expected labels in UTF-8, found {}", train, label.column,
                         in_quotes(text));

  CsvGuess guess;
  guess.schema = schema_text(columns, sample.separator(), label, features, missing, comments);
  const auto line = [&](const char* what, const std::string& text) {
    if (!text.empty()) guess.summary.push_back(fmt::format("  {:<12} {}", what, text));
  };
  guess.summary.push_back(
      fmt::format("{}: {} columns, {}, separator {}; guessed from {} rows", train, columns.count(),
                  columns.header() ? "the first line has their names" : "no header",
                  sample.is_parquet() ? "none (Parquet)" : separator_name(sample.separator()),
                  columns.facts()[0].rows()));
  line("label",
       fmt::format("{}: 1 is {}{}, 0 is {}", columns.shown(label.column), texts(label.positive),
                   label.positive_share
                       ? fmt::format(" ({:.1f} % of these rows)", 100 * *label.positive_share)
                       : "",
                   label.negative.empty() ? "all else" : texts(label.negative)));
  line("numbers", list_of_columns(columns, features.dense, features));
  line("categories", list_of_columns(columns, features.categorical, features));
  line("missing", missing.empty() ? "" : texts({missing.begin(), missing.end()}));
  line("comments", comments.empty()
                       ? ""
                       : "lines that begin with " + texts({comments.begin(), comments.end()}));
  line("left out", fmt::format("{}", fmt::join(features.left_out, ", ")));
  for (const std::string& note : features.notes) line("note", note);
  return guess;
}

}  // namespace hlite::tools
