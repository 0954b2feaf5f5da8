#include "hugectr_lite/preparation/csv/split_plan.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/in_quotes.h"
#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/core/output_place.h"
#include "hugectr_lite/core/parse_number.h"
#include "hugectr_lite/preparation/csv/csv_rows.h"
#include "hugectr_lite/preparation/csv/key_order.h"
#include "hugectr_lite/preparation/engine/prep_options.h"
#include "hugectr_lite/preparation/io/output_file.h"

namespace hlite::prep {

namespace {

constexpr double kDefaultShare = 0.1;
constexpr int64_t kMaxFolds = 1000;

CsvColumn named_column(const CsvSchema& schema, const std::string& text) {
  CsvColumn column;
  column.name = text;
  if (const auto number = parse_number<int64_t>(text); number && *number >= 0)
    column.index = *number;
  else if (schema.header)
    column.header_name = text;
  else
    raise<ConfigError>(
        "--split-time, --split-group: expected the number of a column, as the files have no "
        "header, found {}",
        in_quotes(text));
  return column;
}

// Calls visit(file, line number, text of the column) for the rows of all files. The text is empty
// where there is no column, and null for a bad row. Throws DataError if all rows lack the column.
template <typename Visit>
void for_each_row(const std::vector<std::string>& files, const CsvSchema& schema,
                  const CsvColumn* column, size_t block_bytes, Visit&& visit) {
  std::vector<CsvColumn> others;
  if (column) others.push_back(*column);
  CsvFields fields;
  int64_t rows = 0, found = 0;
  for (size_t f = 0; f < files.size(); ++f) {
    InputFile file(files[f], text_form_of(schema, others));
    LineBlock block;
    CsvColumn here;
    while (file.next(block, block_bytes)) {
      if (InterruptGuard::requested()) throw Interrupted();
      if (column && block.first_line == 1)
        here = resolved_column(*column, schema, file.name(), block.front());
      block.for_each_row([&](std::string_view row, int64_t line) {
        if ((line == 1 && schema.header) || is_skipped_line(schema, row)) return true;
        ++rows;
        if (!column) {
          visit(f, line, std::optional<std::string_view>(std::string_view()));
        } else {
          const bool bad = split_csv(dialect_of(schema), row, fields).has_value() ||
                           here.index >= std::ssize(fields.fields);
          found += !bad;
          visit(f, line,
                bad ? std::optional<std::string_view>()
                    : std::optional(fields.fields[static_cast<size_t>(here.index)]));
        }
        return true;
      });
    }
  }
  if (column && found == 0)
    raise<DataError>(
        "--split-time, --split-group {}: expected that column in the rows of {}, found none in {} "
        "rows",
        column->name, files[0], rows);
}

void count(SplitPlan& plan, SplitPart part) {
  ++(part == SplitPart::kTrain ? plan.train : part == SplitPart::kVal ? plan.val : plan.test);
}

// Writes the keys of all times, and sets the form and the keys from which on rows are in a split.
void plan_times(const std::vector<std::string>& train, const CsvSchema& schema,
                const std::string& folder, size_t block_bytes, SplitPlan& plan) {
  RowSplit& split = plan.split;
  make_folder(folder);
  const std::string path = temporary_file(folder + "/.times");
  struct Remove {
    const std::string& path;
    ~Remove() { ::unlink(path.c_str()); }
  } remove{path};
  WriteFile file(path);
  std::vector<uint64_t> keys;
  const auto flush = [&] {
    file.write(std::as_bytes(std::span(keys)));
    keys.clear();
  };
  std::optional<TimeForm> form;
  std::string first_text;
  for_each_row(train, schema, &split.column, block_bytes,
               [&](size_t, int64_t, std::optional<std::string_view> text) {
                 ++plan.rows;
                 if (!text) return;
                 if (first_text.empty()) first_text = *text;
                 if (!form) form = time_form(*text);
                 if (!form) return;
                 const auto key = time_key(*text, *form);
                 if (key) keys.push_back(*key);
                 if (keys.size() == 1 << 16) flush();
               });
  flush();
  file.close();
  if (!form)
    raise<DataError>(
        "--split-time {}: expected numbers, or dates such as 2024-05-31 or 2024-05-31 23:59:59, "
        "found {} and no row with one of these",
        split.column.name, in_quotes(first_text));
  split.form = *form;
  const KeyOrder order(path);
  const KeyOrder::Cut none{.from = std::numeric_limits<uint64_t>::max(), .rows = 0};
  const auto last = [&](double share) { return share > 0 ? order.last_rows(share) : none; };
  const KeyOrder::Cut test = last(split.test);
  KeyOrder::Cut both = last(split.val + split.test);
  if (split.val > 0 && both.rows == test.rows && test.rows < order.rows())
    both = order.one_key_more(test);
  split.test_from = test.from;
  split.val_from = both.from;
  plan.test = test.rows;
  plan.val = both.rows - test.rows;
  plan.train = order.rows() - both.rows;
}

void plan_lines_or_groups(const std::vector<std::string>& train, const CsvSchema& schema,
                          size_t block_bytes, SplitPlan& plan) {
  const RowSplit& split = plan.split;
  const bool by_group = split.kind == RowSplit::Kind::kGroup;
  plan.rows_of_folds.assign(static_cast<size_t>(split.folds), 0);
  for_each_row(train, schema, by_group ? &split.column : nullptr, block_bytes,
               [&](size_t file, int64_t line, std::optional<std::string_view> text) {
                 ++plan.rows;
                 if (!text) return;
                 if (split.folds > 0) {
                   const int64_t fold =
                       by_group ? split.fold_of_group(*text) : split.fold_of_line(file, line);
                   ++plan.rows_of_folds[static_cast<size_t>(fold)];
                 } else {
                   count(plan,
                         by_group ? *split.part_of_value(*text) : split.part_of_line(file, line));
                 }
               });
}

void check_rows(const SplitPlan& plan, const SplitOptions& options) {
  const RowSplit& split = plan.split;
  const std::string what =
      split.kind == RowSplit::Kind::kGroup  ? fmt::format(" in groups by {}", split.column.name)
      : split.kind == RowSplit::Kind::kTime ? fmt::format(" in the order of {}", split.column.name)
                                            : std::string();
  if (split.folds > 0) {
    const auto empty = std::count(plan.rows_of_folds.begin(), plan.rows_of_folds.end(), 0);
    if (plan.rows < split.folds || empty > 0)
      raise<DataError>(
          "--folds {}: expected at least one row in every fold, found {} rows{} and {} "
          "folds without one",
          split.folds, plan.rows, what, empty);
    return;
  }
  const auto expect = [&](const char* name, const char* option, double share, int64_t rows) {
    if (rows == 0)
      raise<DataError>("{} {}: expected at least one row in {}, found none of {} rows{}", option,
                       share, name, plan.rows, what);
  };
  if (split.val > 0) expect("val", "--val-share", split.val, plan.val);
  if (split.test > 0) expect("test", "--test-share", split.test, plan.test);
  expect("train", options.test_share > 0 ? "--test-share" : "--val-share",
         options.test_share > 0 ? split.test : split.val, plan.train);
}

}  // namespace

void check_split(const SplitOptions& o) {
  const double val = o.val_share.value_or(0);
  if (!o.time_column.empty() && !o.group_column.empty())
    raise<ConfigError>("expected --split-time or --split-group, found both");
  if (val + o.test_share >= 1)
    raise<ConfigError>("--val-share, --test-share: expected less than 1 together, found {}",
                       val + o.test_share);
  if (!o.splits() && (!o.time_column.empty() || !o.group_column.empty()))
    raise<ConfigError>(
        "--split-time, --split-group: expected a --val-share or --test-share above 0, found 0");
  if (o.folds == 0) return;
  if (o.folds < 2 || o.folds > kMaxFolds)
    raise<ConfigError>("--folds: expected 2 to {} folds, found {}", kMaxFolds, o.folds);
  if (o.val_share || o.test_share > 0)
    raise<ConfigError>(
        "--folds: expected no --val-share and --test-share, as every fold is the validation set "
        "once, found one");
  if (!o.time_column.empty())
    raise<ConfigError>("--folds: expected --split-group or none, found --split-time");
}

SplitPlan plan_split(const std::vector<std::string>& train, const CsvSchema& schema,
                     const SplitOptions& options, uint64_t seed, const std::string& folder,
                     size_t block_bytes) {
  SplitPlan plan;
  RowSplit& split = plan.split;
  split.seed = seed;
  split.folds = options.folds;
  split.test = options.test_share;
  if (options.takes_val() && options.folds == 0)
    split.val = options.val_share.value_or(kDefaultShare);
  if (!options.time_column.empty() || !options.group_column.empty()) {
    const bool by_time = !options.time_column.empty();
    split.kind = by_time ? RowSplit::Kind::kTime : RowSplit::Kind::kGroup;
    split.column = named_column(schema, by_time ? options.time_column : options.group_column);
  }
  if (split.kind == RowSplit::Kind::kTime)
    plan_times(train, schema, folder, block_bytes, plan);
  else
    plan_lines_or_groups(train, schema, block_bytes, plan);
  if (!options.default_share || plan.rows >= kRowsToSplit) check_rows(plan, options);
  return plan;
}

}  // namespace hlite::prep
