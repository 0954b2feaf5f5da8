#include "data_reader/norm_reader.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/stopwatch.h"

namespace hlite::data {
namespace {

constexpr int64_t kSlots = 4;
// Samples between two looks at whether to stop.
constexpr int64_t kPieceRows = 4096;

int64_t samples_in_use(const config::DataConfig& config, Split split, const std::string& list,
                       int64_t held, int64_t most) {
  const auto& wanted = config.samples_of(split);
  if (wanted && held < *wanted)
    raise<DataError>("{}: expected {} samples ({}), found {} in its files", list, *wanted,
                     config.samples_key(split), held);
  return std::min(wanted.value_or(held), most);
}
}  // namespace

NormReader::NormReader(const config::DataConfig& config, const std::string& list, Split split,
                       int64_t batch_size, std::span<const int64_t> slot_rows,
                       const SourceOptions& options)
    : BatchRing(config, batch_size, options), stream_(config, list, slot_rows) {
  HLITE_CHECK(!options.shuffle && !options.shuffle_samples, "records of no fixed size, shuffled");
  set_samples(samples_in_use(config, split, list, stream_.samples(), options.max_samples));
  make_slots(options.resident ? batches_per_epoch() : kSlots);
}

NormReader::~NormReader() {
  stop();
  if (thread_.joinable()) thread_.join();
}

void NormReader::start_threads() {
  thread_ = std::thread([this] { read_ahead(); });
}

bool NormReader::fill(int64_t position) {
  HostBatch& batch = begin_batch(position, position % batches_per_epoch());
  if (!stream_.seek(batch.first_sample, &stopped())) return false;
  const int64_t read_before = bytes_read();
  const auto start = Clock::now();
  for (int64_t done = 0; done < batch.size; done += kPieceRows) {
    if (stopped()) return false;
    stream_.decode(std::min(kPieceRows, batch.size - done), batch, done);
  }
  add_bytes_read(stream_.bytes_read() - read_before);
  add_decoding(Clock::now() - start);
  return true;
}

void NormReader::read_ahead() {
  int64_t position = options().start_batch;
  try {
    for (; wait_until_free(position) && fill(position); ++position) set_ready(position);
  } catch (...) {
    fail(position, std::current_exception());
  }
}

}  // namespace hlite::data
