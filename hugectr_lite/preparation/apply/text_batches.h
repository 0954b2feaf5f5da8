// Lines of text to batches of a model, in the order of the lines.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "data_reader/batch_source.h"
#include "data_reader/raw_format.h"
#include "hugectr_lite/config/data_config.h"
#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/preparation/apply/preparation.h"
#include "hugectr_lite/preparation/io/input_file.h"

namespace hlite::prep {

class TextBatches {
 public:
  // `path`: plain, gzip or zstd; "-": standard input. `batch`: samples of a full batch;
  // `slot_rows`: rows of each slot's table. Throws DataError when the preparation's rows are not
  // those that `config` describes, FileError.
  TextBatches(const Preparation& preparation, const std::string& path,
              const config::DataConfig& config, std::span<const int64_t> slot_rows, int64_t batch,
              ThreadPool& pool);

  // The next batch, valid until the next call; of size 0 at the end. Throws DataError
  // "<file>:<line>: ..." for a malformed line, or for a category without an id where the config's
  // key_policy refuses such; FileError.
  const data::HostBatch& next();
  // Returns the columns that the preparation carries, of the rows of the last batch, as CSV text;
  // empty if it carries none.
  [[nodiscard]] std::span<const std::string> carried() const { return handed_out_; }
  // Unknown values of the lines read so far, a few more than those handed out.
  [[nodiscard]] const data::UnknownValues& unknown() const { return unknown_; }

 private:
  struct ParsedBlock {
    LineBlock lines;
    ParsedRows rows;
    EncodedRows records;
    data::UnknownValues unknown;
    std::vector<std::string> carried;
  };
  void fill();
  void check(const ParsedBlock& block) const;

  const Preparation& preparation_;
  const data::RawFormat format_;
  const std::string path_;
  InputFile file_;
  ThreadPool& pool_;
  BlockParser parser_;
  std::unique_ptr<const LineParser> lines_;  // once the first line is known
  std::vector<ParsedBlock> blocks_;          // one a thread
  std::vector<data::RawDecoder> decoders_;   // one a thread
  std::vector<std::byte> records_;           // encoded, not handed out from taken_ on
  size_t taken_ = 0;
  const bool carries_;
  std::vector<std::string> carried_, handed_out_;  // of the records from taken_ on; of the batch
  int64_t samples_ = 0;                            // handed out
  data::UnknownValues unknown_;
  bool end_ = false;
  data::BatchBuffer buffer_;
};

}  // namespace hlite::prep
