// Reads a file of Criteo's click logs (criteo/criteo_record.h) ahead of the consumer, for training
// without a preparation: threads read, parse and decode whole batches into the ring.
//
// Batch p, counted over all epochs, is lines [b B, (b + 1) B) of the file, b = p % batches. The key
// of a token is its hash modulo the rows of its slot's table, and 0 if it is missing: the id of
// `criteo_prep --hash ROWS`. An integer x becomes log(x + 1), as in raw data.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "data_reader/batch_ring.h"
#include "data_reader/text/line_parser.h"
#include "data_reader/text/text_file.h"
#include "hugectr_lite/config/data_config.h"

namespace hlite::data {

class TextReader final : public BatchRing {
 public:
  // See open_source(). Reads the file once, to find the lines.
  TextReader(const config::DataConfig& config, const std::string& path, Split split,
             int64_t batch_size, std::span<const int64_t> slot_rows,
             const SourceOptions& options = {});
  ~TextReader() override { join_threads(); }

  // Host memory for batches of `rows` rows of `row_bytes` bytes each.

 private:
  class Decoder;
  void start_threads() override;
  // False when the reader is to stop.
  bool fill(int64_t position, Decoder& decoder);

  const config::DataConfig config_;
  const std::vector<int64_t> slot_rows_;
  const std::unique_ptr<const LineParser> parser_;
  const TextFile file_;
};

}  // namespace hlite::data
