// Opens the data that a config names, whatever its format.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>

#include "data_reader/batch_source.h"
#include "hugectr_lite/config/data_config.h"

namespace hlite::data {

class IssueSink;
using config::Split;

// Which rows of each batch a rank needs: [index * B / count, (index + 1) * B / count) of a batch of
// B samples; of a partial batch those of them that it has, maybe none. B is divisible by count.
struct Shard {
  int64_t index = 0, count = 1;
};

struct SourceOptions {
  int64_t start_batch = 0;       // batches handed out before, by the run that this one resumes
  uint64_t seed = 0;             // of the shuffle
  bool shuffle = false;          // the order of batches
  bool shuffle_samples = false;  // the order of samples: the set is then kept in memory
  bool repeat = true;            // start over at the end; else next() then gives batches of size 0
  // One pass, in which every batch gets memory of its own: all that were handed out stay valid
  // while the source lives. REQUIRES !repeat.
  bool resident = false;
  int64_t max_samples = std::numeric_limits<int64_t>::max();  // use the first ones of the file
  Shard shard = {};
  // Takes values outside of their ranges, from one thread at a time if the config says one thread.
  // Null: the data is refused. (Parquet files are refused in any case.)
  IssueSink* sink = nullptr;
};

// The rows of one batch that a source delivers.
struct BatchRows {
  int64_t first_sample = 0;  // of the file
  int64_t size = 0;
};
// Returns the rows of batch number `batch` of the file, with `samples` samples in use, `batch_size`
// a batch.
BatchRows rows_of_batch(int64_t batch, int64_t samples, int64_t batch_size, const Shard& shard);

// The source of the config's format. `path`: the resolved source or eval_source. `batch_size`: of
// all shards together, as are the source's batch_size() and samples(); its batches hold the shard's
// rows. `slot_rows`: rows of each slot's table. Throws DataError or FileError when the data cannot
// be used.
std::unique_ptr<BatchSource> open_source(const config::DataConfig& config, const std::string& path,
                                         Split split, int64_t batch_size,
                                         std::span<const int64_t> slot_rows,
                                         const SourceOptions& options = {});

// Samples in the file that such a source would read. Throws as open_source().
int64_t count_samples(const config::DataConfig& config, const std::string& path, Split split,
                      std::span<const int64_t> slot_rows);

// Host memory that such a source takes at most, for batches of `rows` rows (of the shard) out of a
// set of `samples` samples.
int64_t source_memory_bytes(const config::DataConfig& config, int64_t rows, int64_t samples,
                            const SourceOptions& options = {});

}  // namespace hlite::data
