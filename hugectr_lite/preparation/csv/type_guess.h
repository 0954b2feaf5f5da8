// The types of categorical columns (category_type.h) that a schema does not say.
#pragma once

#include <string>

#include "hugectr_lite/config/json_node.h"
#include "hugectr_lite/preparation/csv/csv_schema.h"

namespace hlite::prep {

// Adds "type" to every block of `node`, the JSON of `schema`, that reads the values of a categorical
// column and has none: what its values are in the first rows of `file` (ColumnFacts::type()), and
// text for a column of texts in a Parquet file. Blocks of one vocabulary get one type, text where
// they differ; lists get none. Throws DataError, FileError for a file that cannot be read so far.
void add_types(config::JsonNode& node, const CsvSchema& schema, const std::string& file);

// Adds the types of another schema to the blocks that have the same place and none of their own.
void add_types_of(const config::JsonNode& other, config::JsonNode& node);

}  // namespace hlite::prep
