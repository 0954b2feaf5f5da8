#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "data_reader/criteo/criteo_record.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/parse_number.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/preparation/csv/csv_record.h"
#include "hugectr_lite/preparation/inspect/rows.h"
#include "hugectr_lite/preparation/io/input_file.h"

namespace hlite::prep {
namespace {

constexpr size_t kBlockBytes = 1 << 20;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// A token of up to eight hexadecimal digits is its number, any other text a hash of it (FNV-1a),
// which has bits above 2^32.
uint64_t key_of(std::string_view token, bool hexadecimal) {
  if (token.empty()) return kMissingKey;
  if (hexadecimal && token.size() <= 8)
    if (const auto value = parse_number<uint32_t>(token, 16)) return *value;
  return random::stream_of(token) >> 1 | uint64_t{1} << 62;
}

// A table or, without a guess, Criteo's text.
class TextRows final : public RowStream {
 public:
  TextRows(std::string path, TextForm form, std::optional<TableGuess> guess,
           std::vector<std::string> comments, int64_t wanted)
      : path_(std::move(path)),
        form_(std::move(form)),
        dialect_{.separator = form_.separator, .trim = form_.trim},
        guess_(std::move(guess)),
        comments_(std::move(comments)),
        wanted_(wanted),
        input_(path_, form_) {
    schema_.local_keys = false;
    if (guess_)
      for (const auto& [name, role] : guess_->columns) add_column(role, name);
    else
      set_criteo_columns();
  }

  [[nodiscard]] int64_t rows_in_file() const override { return ended_ ? row_ : -1; }
  [[nodiscard]] std::string part() const override {
    return ended_ ? "all" : fmt::format("the first {}", row_);
  }

  bool next(RowChunk& chunk) override {
    while (!ended_ && row_ < wanted_) {
      if (!input_.next(block_, kBlockBytes)) {
        ended_ = true;
        break;
      }
      chunk.resize(std::min(block_.lines, wanted_ - row_), schema_);
      chunk.first = row_;
      chunk.follows = row_ > 0;
      const int64_t rows = parse_block(chunk);
      chunk.resize(rows, schema_);
      row_ += rows;
      if (rows > 0) return true;
    }
    return false;
  }

 private:
  void add_column(ColumnRole role, const std::string& name) {
    roles_.push_back(role);
    if (role == ColumnRole::kLabel) schema_.label = name;
    if (role == ColumnRole::kNumber) schema_.numbers.push_back(name);
    if (role != ColumnRole::kCategory) return;
    schema_.slot_of.push_back(static_cast<int>(schema_.slots.size()));
    schema_.slots.push_back(name);
  }

  void set_criteo_columns() {
    add_column(ColumnRole::kLabel, "label");
    for (int k = 1; k <= criteo::kDense; ++k)
      add_column(ColumnRole::kNumber, fmt::format("I{}", k));
    for (int s = 1; s <= criteo::kSlots; ++s)
      add_column(ColumnRole::kCategory, fmt::format("C{}", s));
  }

  [[nodiscard]] bool is_skipped(std::string_view line, int64_t number) const {
    if (!guess_) return line.empty();
    return (guess_->header && number == 1) || is_blank_line(line) ||
           std::any_of(comments_.begin(), comments_.end(),
                       [&](const std::string& mark) { return line.starts_with(mark); });
  }

  [[nodiscard]] double label_of(std::string_view text) const {
    if (!guess_) return text == "1" ? 1 : text == "0" ? 0 : kNone;
    const auto has = [&](const std::vector<std::string>& list) {
      return std::find(list.begin(), list.end(), text) != list.end();
    };
    return has(guess_->label.positive) ? 1 : has(guess_->label.negative) ? 0 : kNone;
  }

  [[nodiscard]] double number_of(std::string_view text) const {
    if (guess_) return parse_number<double>(text).value_or(kNone);
    const auto value = parse_number<int32_t>(text);
    return value ? static_cast<double>(*value) : kNone;
  }

  [[nodiscard]] uint64_t token_of(std::string_view text) const {
    if (guess_ && guess_->missing.contains(std::string(text))) return kMissingKey;
    return key_of(text, !guess_);
  }

  // Returns how many rows of the block were good.
  int64_t parse_block(RowChunk& chunk) {
    int64_t row = 0;
    block_.for_each_row([&](std::string_view line, int64_t number) {
      if (row == chunk.rows) return false;
      if (is_skipped(line, number)) return true;
      const std::string problem = parse_line(line, row, chunk);
      if (problem.empty())
        ++row;
      else if (bad_rows_++ == 0)
        first_bad_row_ = fmt::format("{}:{}: {}", path_, number, problem);
      return true;
    });
    return row;
  }

  std::string parse_line(std::string_view line, int64_t row, RowChunk& chunk) {
    if (const auto problem = split_csv(dialect_, line, fields_)) return *problem;
    const auto& fields = fields_.fields;
    if (fields.size() != roles_.size()) {
      return fmt::format("expected {} columns, found {}", roles_.size(), fields.size());
    }
    double* numbers = chunk.numbers.data() + static_cast<size_t>(row) * schema_.numbers.size();
    uint64_t* keys = chunk.keys.data() + static_cast<size_t>(row) * schema_.slot_of.size();
    bool good = true;  // as a line of Criteo's
    for (size_t c = 0; c < roles_.size(); ++c) {
      const std::string_view text = fields[c];
      if (roles_[c] == ColumnRole::kLabel) {
        chunk.labels[static_cast<size_t>(row)] = label_of(text);
        good &= !std::isnan(chunk.labels[static_cast<size_t>(row)]);
      } else if (roles_[c] == ColumnRole::kNumber) {
        *numbers = number_of(text);
        good &= text.empty() || !std::isnan(*numbers);
        ++numbers;
      } else if (roles_[c] == ColumnRole::kCategory) {
        *keys = token_of(text);
        good &= text.empty() || *keys <= UINT32_MAX;
        ++keys;
      }
    }
    return guess_ || good ? "" : criteo::explain(line);
  }

  std::string path_;
  TextForm form_;
  CsvDialect dialect_;
  CsvFields fields_;
  std::optional<TableGuess> guess_;
  std::vector<std::string> comments_;
  int64_t wanted_, row_ = 0;
  std::vector<ColumnRole> roles_;
  InputFile input_;
  LineBlock block_;
  bool ended_ = false;
};

}  // namespace

void add_remarks(const TableGuess& guess, std::vector<std::string>& remarks) {
  remarks.emplace_back("csv_prep without a schema takes it for a table with");
  for (const std::string& line : guess.summary) remarks.push_back("  " + line);
}

std::unique_ptr<RowStream> criteo_rows(const std::string& path, int64_t wanted) {
  return std::make_unique<TextRows>(path, TextForm{.separator = '\t'}, std::nullopt,
                                    std::vector<std::string>(), wanted);
}

std::unique_ptr<RowStream> table_rows(const CsvSample& sample, TableGuess guess, int64_t wanted) {
  return std::make_unique<TextRows>(sample.path(), sample.form(), std::move(guess),
                                    sample.comments(), wanted);
}

}  // namespace hlite::prep
