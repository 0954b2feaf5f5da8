// The records of a list of Norm files (norm_format.h) as one sequence of samples, read from front
// to back in large blocks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data_reader/batch_source.h"
#include "data_reader/norm_decoder.h"
#include "data_reader/norm_format.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/core/file.h"

namespace hlite::data {

class NormStream {
 public:
  // Opens every file of the list once. Throws DataError when one cannot be read, is no Norm file,
  // or its header is not what the config says.
  NormStream(const config::DataConfig& config, const std::string& list,
             std::span<const int64_t> slot_rows);

  // Of all files, as their headers say.
  [[nodiscard]] int64_t samples() const { return samples_; }
  // The sample that decode() begins with.
  [[nodiscard]] int64_t position() const { return position_; }
  [[nodiscard]] int64_t bytes_read() const { return bytes_read_; }

  // Goes to a sample in [0, samples()]. Whole files are passed over by their headers, records
  // within a file by their sizes; what lies before the position is read again from its file's
  // start. False when `stop` has become true on the way.
  bool seek(int64_t sample, const std::atomic<bool>* stop = nullptr);
  // Decodes `count` samples into rows [row, row + count) of the batch (see NormDecoder::decode).
  // Throws DataError also when a file ends before or goes on behind its last record.
  void decode(int64_t count, HostBatch& batch, int64_t row);

 private:
  struct File {
    std::string path;
    NormHeader header;
    int64_t first_sample = 0;
  };
  void check_header(const config::DataConfig& config, const File& file) const;
  static void check_end(const File& file, int64_t bytes_behind_the_records);
  // Opens the file that holds sample position_ if it is not open.
  void open_current();
  // The bytes from the next record on: as many as a record can have, or all that are left.
  std::span<const std::byte> window();
  void passed(int64_t bytes);
  [[nodiscard]] NormPlace place() const;

  NormDecoder decoder_;
  std::vector<File> files_;
  int64_t samples_ = 0, position_ = 0, bytes_read_ = 0;

  // The open file; position_ is in it.
  size_t current_ = 0;
  std::unique_ptr<ReadFile> file_;
  int64_t record_ = 0, record_byte_ = 0;  // of the next record
  int64_t read_until_ = 0;                // bytes of the file in or before the buffer
  std::vector<std::byte> buffer_;
  size_t begin_ = 0, end_ = 0;  // of what is not yet decoded
};

}  // namespace hlite::data
