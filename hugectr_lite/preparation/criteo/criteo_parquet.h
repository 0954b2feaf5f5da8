// Columns of Parquet files as those of Criteo's rows (data_reader/criteo/criteo_values.h).
#pragma once

#include <cstdint>
#include <vector>

#include "data_reader/parquet/parquet_file.h"
#include "hugectr_lite/preparation/engine/column_parser.h"
#include "hugectr_lite/preparation/io/text_form.h"

namespace hlite::prep {

// The label, integers and tokens of a file, found as those of `form` are. Keys are taken modulo
// key_range; 0: not at all. Empty if the file has other columns than integers and texts, or not 40:
// what comes of them is the business of lines.
std::vector<FileColumn> criteo_columns_of(const data::parquet::ParquetFile& file,
                                          const TextForm& form, uint32_t key_range);

}  // namespace hlite::prep
