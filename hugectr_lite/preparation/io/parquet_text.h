// Rows of a Parquet file as lines of text: a field a column, nothing for a missing value.
//
// Numbers are written by write_number(), booleans as 1 and 0. Several row groups are written at
// once, each by its own thread. Lines are in the order of the rows.
#pragma once

#include <memory>
#include <vector>

#include "data_reader/parquet/parquet_file.h"
#include "hugectr_lite/preparation/io/input_stream.h"
#include "hugectr_lite/preparation/io/text_form.h"

namespace hlite::prep {

// The columns of a file that its lines have.
std::vector<int> columns_of_lines(const data::parquet::ParquetFile& file, const TextForm& form);

// The file's lines. `threads`: at most so many row groups at once. Throws DataError for a column of
// a type that has no text, unless the form leaves it out.
std::unique_ptr<InputStream> open_parquet_text(std::unique_ptr<StoredBytes> stored,
                                               const TextForm& form, int threads);

}  // namespace hlite::prep
