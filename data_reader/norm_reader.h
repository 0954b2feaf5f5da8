// Reads a list of Norm files ahead of the consumer: a thread reads, checks and decodes whole
// batches into the ring.
//
// Batch p, counted over all epochs, is samples [b B, (b + 1) B) of the files one after another, b =
// p % batches. Records have no fixed size, so batches keep this order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data_reader/batch_ring.h"
#include "data_reader/norm_decoder.h"
#include "data_reader/open_source.h"
#include "hugectr_lite/config/data_config.h"

namespace hlite::data {

class NormReader final : public BatchRing {
 public:
  static constexpr int64_t kSlots = 4;

  // See open_source(); `source` is for messages. Throws DataError also when the files hold fewer
  // samples than the config's num_samples.
  NormReader(const config::DataConfig& config, const std::string& source,
             std::vector<std::string> files, Split split, int64_t batch_size,
             std::span<const int64_t> slot_rows, const SourceOptions& options = {});
  ~NormReader() override { join_threads(); }

 private:
  void start_threads() override;
  // False when the reader is to stop.
  bool fill(int64_t position);

  NormStream stream_;  // the thread's
};

}  // namespace hlite::data
