// The files that the encoded rows of a split go to, in its format, one after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "hugectr_lite/preparation/engine/output_options.h"
#include "hugectr_lite/preparation/engine/row_encoder.h"
#include "hugectr_lite/preparation/engine/split_writer.h"
#include "hugectr_lite/preparation/io/output_file.h"

namespace hlite::prep {

class SplitFiles {
 public:
  virtual ~SplitFiles() = default;
  // Rows from `row` on that one call of write() may hold: those of one file.
  [[nodiscard]] virtual int64_t rows_in_file(int64_t row) const = 0;
  // The rows that follow those of the calls before.
  virtual void write(const EncodedRows& rows) = 0;
  // After the last row. Everything is durable afterwards.
  // What the entry counts of rows and labels is not set.
  virtual WrittenSplit finish() = 0;
};

// The name of a file of the raw format.
std::string raw_name(const std::string& role);
// The split whose rows `file` has, as they are in the raw format. Rows and positives are not set.
WrittenSplit raw_split(const std::string& role, std::unique_ptr<OutputFile> file);

// Makes the files for `rows` rows in all, under the folder of `options`.
std::unique_ptr<SplitFiles> make_split_files(const std::string& role, int64_t rows,
                                             const OutputOptions& options, const RowShape& shape);

}  // namespace hlite::prep
