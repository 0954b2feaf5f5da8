// Prepared rows to the files of one split (train, val, test), by all threads, in bounded memory.
//
//   raw             <role>.bin, one record a row (data_reader/raw_format.h):
//                     int32 label, int32 dense[], uint32 key[slots], or
//                     float32 label, float32 dense[], uint32 key[slots] where the source has floats
//   multi-hot raw   <role>.bin: int32 label, float32 dense[], uint32 key[sum of hotness], slot
//                   after slot
//   norm            <role>_list.txt, the file list, and <role>_norm/00000.norm... of at most
//                   norm_rows_per_file rows each (data_reader/norm_format.h); keys local to the
//                   slot
//
// Where a format wants float32 and the source has an integer x, it is log(x + 1); multi-hot raw and
// Norm do, because readers take floats as they are.
//
// Rows are cut into chunks; threads encode the chunks of one window while the chunks of the window
// before it are written in order. The bytes depend on rows and options only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data_reader/manifest.h"
#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/preparation/engine/output_options.h"
#include "hugectr_lite/preparation/engine/row_source.h"
#include "hugectr_lite/preparation/io/output_file.h"

namespace hlite::prep {

// The files of a split: durable under temporary names, or gone with this object.
struct WrittenSplit {
  data::ManifestFile file;
  std::vector<std::unique_ptr<OutputFile>> outputs;  // finished; the file list comes last
  // Gives every file its name.
  void commit();
};

// Writes all rows of `rows`, shuffled when the options say so and `role` is "train". `slot_sizes`:
// rows of each table. No rows give empty files. Throws FileError, ConfigError as describe_output().
WrittenSplit write_split(const RowSource& rows, const std::string& role,
                         std::span<const int64_t> slot_sizes, const OutputOptions& options,
                         const SplitResources& resources, ThreadPool& pool);

// Gives the files of all splits their names and writes manifest.json with the splits' entries.
// Removes the results of an earlier preparation, its manifest first, and writes the new manifest
// last: a manifest that exists always describes the files in its folder.
void publish(const std::string& folder, data::Manifest& manifest, std::span<WrittenSplit> splits);

}  // namespace hlite::prep
