// The blocks of a schema that say how a feature is made of columns of the file.
#pragma once

#include <string>
#include <vector>

#include "hugectr_lite/config/block.h"
#include "hugectr_lite/preparation/csv/column_transform.h"

namespace hlite::prep {

// What holds for all columns of a schema.
struct ColumnRules {
  bool header = false;               // columns may be given by name
  bool trim = false;                 // blanks around fields are dropped
  std::vector<std::string> missing;  // of all columns
  std::vector<CsvColumn> labels;     // no feature is read from them
};

// Declares the keys "column", "name" and, with `rules` that say so, "missing" of a column.
void declare_column(config::Block& s, CsvColumn& column, bool header);
// Declares the same of a column that is not the label's.
void declare_other_column(config::Block& s, CsvColumn& column, const ColumnRules& rules);
void declare_number(config::Block& s, NumberColumn& number, const ColumnRules& rules);
// Adds the slots of a block, one but for several parts of a date, after those that it may cross.
void declare_categories(config::Block& s, std::vector<CategoryColumn>& categories,
                        const ColumnRules& rules);

}  // namespace hlite::prep
