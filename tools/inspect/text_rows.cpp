#include <algorithm>
#include <limits>
#include <set>

#include "data_reader/criteo/criteo_record.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/parse_number.h"
#include "hugectr_lite/core/random.h"
#include "tools/csv/csv_record.h"
#include "tools/inspect/rows.h"
#include "tools/io/input_file.h"

namespace hlite::tools {
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

double number_of(std::string_view text) { return parse_number<double>(text).value_or(kNone); }

enum class Role { kLabel, kNumber, kToken };

class TextRows final : public RowStream {
 public:
  TextRows(const FileFacts& file, int64_t wanted, TextForm form)
      : path_(file.path),
        form_(std::move(form)),
        dialect_{.separator = file.delimiter, .trim = file.kind != FileKind::kCriteoTsv},
        criteo_(file.kind == FileKind::kCriteoTsv),
        wanted_(wanted) {
    schema_.local_keys = false;
    form_.separator = dialect_.separator;
    form_.quotes = !criteo_;
    form_.trim = dialect_.trim;
    if (criteo_) {
      set_criteo_columns();
    } else {
      infer_columns();
    }
    input_ = std::make_unique<InputFile>(path_, form_);
  }

  [[nodiscard]] int64_t rows_in_file() const override { return ended_ ? row_ : -1; }
  [[nodiscard]] std::string part() const override {
    return ended_ ? "all" : fmt::format("the first {}", row_);
  }

  bool next(RowChunk& chunk) override {
    while (!ended_ && row_ < wanted_) {
      if (!input_->next(block_, kBlockBytes)) {
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
  void set_criteo_columns() {
    roles_.push_back(Role::kLabel);
    schema_.label = "label";
    for (int k = 0; k < criteo::kDense; ++k) {
      roles_.push_back(Role::kNumber);
      schema_.numbers.push_back(fmt::format("I{}", k + 1));
    }
    for (int s = 0; s < criteo::kSlots; ++s) {
      roles_.push_back(Role::kToken);
      schema_.slots.push_back(fmt::format("C{}", s + 1));
      schema_.slot_of.push_back(s);
    }
  }

  void infer_columns() {
    constexpr int64_t kLines = 1000;
    constexpr size_t kFewValues = 20;
    InputFile input(path_, form_);
    std::vector<std::vector<std::string>> lines;
    while (std::ssize(lines) < kLines && input.next(block_, kBlockBytes)) {
      block_.for_each_row([&](std::string_view line, int64_t) {
        if (!split_csv(dialect_, line, fields_))
          lines.emplace_back(fields_.fields.begin(), fields_.fields.end());
        return std::ssize(lines) < kLines;
      });
    }
    const size_t columns = lines.empty() ? 0 : lines[0].size();
    std::vector<bool> numeric(columns, true), binary(columns, true), headed(columns, false);
    std::vector<std::set<std::string>> values(columns);
    for (size_t i = 0; i < lines.size(); ++i) {
      for (size_t c = 0; c < std::min(columns, lines[i].size()); ++c) {
        const std::string& text = lines[i][c];
        const bool number = text.empty() || parse_number<double>(text);
        if (i == 0) {
          headed[c] = !number;
          continue;
        }
        numeric[c] = numeric[c] && number;
        binary[c] = binary[c] && (text == "0" || text == "1");
        values[c].insert(text);
      }
    }
    // A header names a column of numbers with something that is none.
    for (size_t c = 0; c < columns; ++c)
      header_ = header_ || (headed[c] && numeric[c] && lines.size() > 1);
    const int label = find_label(binary, lines);
    for (size_t c = 0; c < columns; ++c) {
      const std::string name = header_ ? lines[0][c] : fmt::format("column {}", c);
      const bool number = numeric[c] && values[c].size() > kFewValues;
      if (static_cast<int>(c) == label) {
        roles_.push_back(Role::kLabel);
        schema_.label = name;
      } else if (number) {
        roles_.push_back(Role::kNumber);
        schema_.numbers.push_back(name);
      } else {
        roles_.push_back(Role::kToken);
        schema_.slot_of.push_back(static_cast<int>(schema_.slots.size()));
        schema_.slots.push_back(name);
      }
    }
  }

  [[nodiscard]] int find_label(const std::vector<bool>& binary,
                               const std::vector<std::vector<std::string>>& lines) const {
    if (lines.size() < 2) return -1;
    if (header_) {
      for (size_t c = 0; c < binary.size(); ++c) {
        std::string name = lines[0][c];
        std::transform(name.begin(), name.end(), name.begin(),
                       [](unsigned char ch) { return static_cast<char>(std::tolower(ch)); });
        for (const char* known : {"label", "target", "click", "clicked", "y", "class"})
          if (binary[c] && name == known) return static_cast<int>(c);
      }
    }
    if (!binary.empty() && binary.front()) return 0;
    return !binary.empty() && binary.back() ? static_cast<int>(binary.size()) - 1 : -1;
  }

  // Returns how many rows of the block were good.
  int64_t parse_block(RowChunk& chunk) {
    int64_t row = 0;
    block_.for_each_row([&](std::string_view line, int64_t number) {
      if (row == chunk.rows) return false;
      if ((header_ && number == 1) || line.empty()) return true;
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
    uint32_t record[criteo::kColumns];
    if (criteo_ && !criteo::parse(line, 0, record)) return criteo::explain(line);
    if (const auto problem = split_csv(dialect_, line, fields_)) return *problem;
    const auto& fields = fields_.fields;
    if (fields.size() != roles_.size()) {
      return fmt::format("expected {} columns, found {}", roles_.size(), fields.size());
    }
    double* numbers = chunk.numbers.data() + static_cast<size_t>(row) * schema_.numbers.size();
    uint64_t* keys = chunk.keys.data() + static_cast<size_t>(row) * schema_.slot_of.size();
    for (size_t c = 0; c < roles_.size(); ++c) {
      switch (roles_[c]) {
        case Role::kLabel:
          chunk.labels[static_cast<size_t>(row)] = number_of(fields[c]);
          break;
        case Role::kNumber:
          *numbers++ = number_of(fields[c]);
          break;
        case Role::kToken:
          *keys++ = key_of(fields[c], criteo_);
          break;
      }
    }
    return "";
  }

  std::string path_;
  TextForm form_;
  CsvDialect dialect_;
  CsvFields fields_;
  bool criteo_, header_ = false;
  int64_t wanted_, row_ = 0;
  std::vector<Role> roles_;
  std::unique_ptr<InputFile> input_;
  LineBlock block_;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<RowStream> text_rows(const FileFacts& file, int64_t wanted, const TextForm& form) {
  return std::make_unique<TextRows>(file, wanted, form);
}

}  // namespace hlite::tools
