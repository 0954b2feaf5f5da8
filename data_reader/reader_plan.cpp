#include "data_reader/reader_plan.h"

#include <algorithm>

#include "data_reader/raw_format.h"
#include "hugectr_lite/core/error.h"

namespace hlite::data {

ReaderPlan plan_reader(const config::DataConfig& config, int64_t rows, int64_t batches,
                       bool resident, int64_t available) {
  HLITE_CHECK(rows >= 1 && batches >= 1, "{} batches of {}", batches, rows);
  const RawFormat format = RawFormat::from(config);
  const int64_t file_bytes = rows * format.record_bytes();
  const int64_t slot_bytes =
      4 * rows * (format.label_width() + config.dense_width() + format.keys.columns);

  ReaderPlan plan;
  int64_t threads = config.num_workers.value_or(2), each = 4;
  if (const auto& p = config.async_param) {
    threads = p->num_threads;
    each = p->num_batches_per_thread;
    plan.shape = {p->io_block_size, p->io_depth, p->io_alignment};
  }
  const int64_t buffer_bytes = RangeReader::buffer_bytes(plan.shape, file_bytes);
  // Buffers for the reads in flight, and one that is being decoded.
  const auto buffers = [&](int64_t k) {
    return std::min(k, 1 + (plan.shape.depth * plan.shape.block + file_bytes - 1) / file_bytes);
  };
  const auto bytes = [&](int64_t t, int64_t k) {
    return t * (k * slot_bytes + buffers(k) * buffer_bytes);
  };
  int64_t t = std::min(threads, batches), k;
  if (resident) {
    k = (batches + t - 1) / t;
  } else {
    k = std::clamp<int64_t>(batches / t, 1, each);
    std::string because = fmt::format("the epoch has {}", batches);
    const int64_t budget = available / 8;
    while (t * k > 2 && bytes(t, k) > budget) {
      --(k > 1 ? k : t);
      because = fmt::format("an eighth of the available memory is {} MB", budget / 1'000'000);
    }
    if (config.async_param && t * k < threads * each)
      plan.remark = fmt::format(
          "reading {} x {} batches ahead instead of {} x {} (num_threads x "
          "num_batches_per_thread): {}",
          t, k, threads, each, because);
    if (t * k < 2) k = 2;  // one in use, one being read
  }
  plan.threads = t;
  plan.batches_per_thread = k;
  plan.buffers_per_thread = buffers(k);
  plan.bytes = bytes(t, k);
  return plan;
}

}  // namespace hlite::data
