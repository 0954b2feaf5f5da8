#include "data_reader/norm_reader.h"

#include <algorithm>

#include "data_reader/manifest_fit.h"
#include "data_reader/record_format.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/stopwatch.h"

namespace hlite::data {
namespace {

// Samples decoded between two checks for a stop request.
constexpr int64_t kPieceRows = 4096;
}  // namespace

NormReader::NormReader(const config::DataConfig& config, const std::string& source,
                       std::vector<std::string> files, Split split, int64_t batch_size,
                       std::span<const int64_t> slot_rows, const SourceOptions& options)
    : BatchRing(config, batch_size, options),
      stream_(config, source, std::move(files), slot_rows,
              options.sink ? *options.sink : refusing_sink()) {
  HLITE_CHECK(!options.shuffle && !options.shuffle_samples,
              "Norm records vary in size and cannot be shuffled");
  set_samples(config, split, source, stream_.samples());
  make_slots(options.resident ? batches_per_epoch() : kSlots);
}

void NormReader::start_threads() {
  start_thread([this] { fill_in_order([this](int64_t position) { return fill(position); }); });
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

namespace {

class NormRecords final : public RecordFormat {
 public:
  [[nodiscard]] std::unique_ptr<BatchSource> open(const config::DataConfig& config,
                                                  const std::string& path, Split split,
                                                  int64_t batch_size,
                                                  std::span<const int64_t> slot_rows,
                                                  const SourceOptions& options) const override {
    require_fit(path, config, slot_rows);
    return std::make_unique<NormReader>(config, path, files(path), split, batch_size, slot_rows,
                                        options);
  }
  [[nodiscard]] int64_t memory_bytes(const config::DataConfig&, int64_t rows, int64_t row_bytes,
                                     int64_t /*samples*/, const SourceOptions&) const override {
    return NormReader::kSlots * rows * row_bytes;
  }
  [[nodiscard]] std::vector<std::string> files(const std::string& path) const override {
    return read_file_list(path);
  }
};

}  // namespace

const RecordFormat& norm_records() {
  static const NormRecords records;
  return records;
}

}  // namespace hlite::data
