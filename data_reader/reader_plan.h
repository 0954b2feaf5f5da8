// A plan of how much a reader reads ahead, and in what portions.
#pragma once

#include <cstdint>
#include <string>

#include "data_reader/open_source.h"
#include "data_reader/range_reader.h"
#include "hugectr_lite/config/data_config.h"

namespace hlite::data {

// async_param (without one: 2 threads, 4 batches each, 16 reads of 512 KiB), cut down to what the
// epoch has and to an eighth of the memory that is available, but never below two batches. A
// resident source has a slot for every batch.
struct ReaderPlan {
  int64_t threads = 0, batches_per_thread = 0;
  int64_t buffers_per_thread = 0;  // batches of a thread whose bytes are in flight
  ReadShape shape;
  int64_t bytes = 0;   // of memory
  std::string remark;  // why it is less than async_param says; empty when it is not
};

// Plans for batches of `rows` rows (of the shard) and `batches` batches to be read, or read again
// and again, when `available` bytes of memory can be had.
ReaderPlan plan_reader(const config::DataConfig& config, int64_t rows, int64_t batches,
                       bool resident, int64_t available);

}  // namespace hlite::data
