// RecordFormat: what reads a config::DataFormat. No other code tells formats apart.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data_reader/open_source.h"

namespace hlite::data {

class RecordFormat {
 public:
  virtual ~RecordFormat() = default;
  // Does what open_source() says, except shuffling samples.
  [[nodiscard]] virtual std::unique_ptr<BatchSource> open(const config::DataConfig& config,
                                                          const std::string& path, Split split,
                                                          int64_t batch_size,
                                                          std::span<const int64_t> slot_rows,
                                                          const SourceOptions& options) const = 0;
  // Host memory that such a source takes at most, for batches of `rows` rows of `row_bytes` bytes
  // out of a set of `samples` samples.
  [[nodiscard]] virtual int64_t memory_bytes(const config::DataConfig& config, int64_t rows,
                                             int64_t row_bytes, int64_t samples,
                                             const SourceOptions& options) const = 0;
  // Returns true if that depends on the number of samples.
  [[nodiscard]] virtual bool holds_samples() const { return false; }
  // The files that a source stands for.
  [[nodiscard]] virtual std::vector<std::string> files(const std::string& path) const {
    return {path};
  }
  // Bytes of every record in a file; 0 if they differ, or are unknown.
  [[nodiscard]] virtual int64_t record_bytes(const config::DataConfig&) const { return 0; }
  // Samples in a file, as count_samples() says; -1 if only a source knows.
  [[nodiscard]] virtual int64_t count(const config::DataConfig&, const std::string& /*path*/,
                                      Split) const {
    return -1;
  }
  // Says why files cannot be read on this system; "" if they can.
  [[nodiscard]] virtual std::string why_missing() const { return ""; }
};

const RecordFormat& record_format(const config::DataConfig& config);
// Adds a format. Both arguments must live as long as the process.
void add_format(const config::DataFormat& format, const RecordFormat& records);

}  // namespace hlite::data
