// Which rows of the training files go to which split, when csv_prep splits them itself.
//
// Every pass over the files asks for one part (csv_rows.h), so each row is in exactly one of them,
// and nothing is kept in memory. What a row's part depends on is fixed before the first pass
// (split_plan.h): seed, file and line, or the text of one column.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hugectr_lite/preparation/csv/csv_schema.h"
#include "hugectr_lite/preparation/csv/time_key.h"

namespace hlite::prep {

// As the command line asks for it.
struct SplitOptions {
  std::optional<double> val_share = {};  // of the rows; unset: a tenth if takes_val()
  double test_share = 0;
  std::string time_column = {};   // by name or number: the last rows go to val, those after to test
  std::string group_column = {};  // the rows of a value stay together
  int64_t folds = 0;              // 0: none
  int64_t fold = 0;               // the one that is val, of csv_prep()
  bool default_share = false;     // a tenth of the rows goes to val where there are many

  [[nodiscard]] bool splits() const { return test_share > 0 || takes_val(); }
  // Some training rows go to val.
  [[nodiscard]] bool takes_val() const {
    if (val_share) return *val_share > 0;
    return default_share || folds > 0 ||
           (test_share == 0 && (!time_column.empty() || !group_column.empty()));
  }
};

enum class SplitPart { kTrain, kVal, kTest };

class RowSplit {
 public:
  enum class Kind { kLine, kGroup, kTime };

  Kind kind = Kind::kLine;
  CsvColumn column;  // of kGroup and kTime
  uint64_t seed = 0;
  double val = 0, test = 0;     // shares, of kLine and kGroup
  int64_t folds = 0, fold = 0;  // rows of this fold of so many are val; 0: shares
  TimeForm form = TimeForm::kNumber;
  uint64_t val_from = 0, test_from = 0;  // keys of kTime from which on rows are val and test

  // The fold of a row, or of its group: among any `folds` successive lines that begin at a multiple
  // of it, each is of another fold.
  [[nodiscard]] int64_t fold_of_line(size_t file, int64_t line) const;
  [[nodiscard]] int64_t fold_of_group(std::string_view value) const;
  // Of kLine.
  [[nodiscard]] SplitPart part_of_line(size_t file, int64_t line) const;
  // Of the others, by the column's text. Nothing for one that is no time of the form.
  [[nodiscard]] std::optional<SplitPart> part_of_value(std::string_view value) const;

 private:
  [[nodiscard]] SplitPart part_of_draw(uint32_t draw) const;
};

// The rows that an input of a preparation takes from its file.
struct InputPart {
  const RowSplit* split = nullptr;  // null: all
  SplitPart part = SplitPart::kTrain;
  size_t file = 0;  // number among the training files
};

}  // namespace hlite::prep
