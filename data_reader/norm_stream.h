// The samples of a list of Norm files (norm_format.h), decoded as a config says.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "data_reader/batch_source.h"
#include "data_reader/norm_decoder.h"
#include "data_reader/norm_files.h"
#include "hugectr_lite/config/data_config.h"

namespace hlite::data {

class NormStream {
 public:
  // Opens every file of the list once. Throws DataError when one cannot be read, is no Norm file,
  // or its header is not what the config says. `sink` is told of values outside of their ranges.
  NormStream(const config::DataConfig& config, const std::string& list,
             std::span<const int64_t> slot_rows, IssueSink& sink = refusing_sink());

  // Of all files, as their headers say.
  [[nodiscard]] int64_t samples() const { return files_.records(); }
  // The sample that decode() begins with.
  [[nodiscard]] int64_t position() const { return files_.position(); }
  [[nodiscard]] int64_t bytes_read() const { return files_.bytes_read(); }

  // Goes to a sample in [0, samples()]. Whole files are passed over by their headers, records
  // within a file by their sizes; what lies before the position is read again from its file's
  // start. False when `stop` has become true on the way.
  bool seek(int64_t sample, const std::atomic<bool>* stop = nullptr);
  // Decodes `count` samples into rows [row, row + count) of the batch (see NormDecoder::decode).
  // Throws DataError also when a file ends before or goes on behind its last record.
  void decode(int64_t count, HostBatch& batch, int64_t row);

 private:
  NormDecoder decoder_;
  NormFiles files_;
};

}  // namespace hlite::data
