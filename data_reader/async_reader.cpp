#include "data_reader/async_reader.h"

#include <algorithm>
#include <chrono>

#include "data_reader/manifest_fit.h"
#include "data_reader/no_samples.h"
#include "data_reader/record_format.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/core/stopwatch.h"

namespace hlite::data {
namespace {
using std::chrono::milliseconds;

constexpr int64_t kPieceBytes = int64_t{256} << 10;  // bytes decoded between two looks at the reads
}  // namespace

int64_t raw_sample_count(const config::DataConfig& config, Split split, const std::string& path,
                         int64_t file_bytes) {
  const RawFormat format = RawFormat::from(config);
  if (file_bytes % format.record_bytes() != 0)
    raise<DataError>("{}: {} bytes is no multiple of the record size {}", path, file_bytes,
                     format.describe_record());
  const int64_t held = file_bytes / format.record_bytes();
  if (held == 0)
    raise<NoSamplesError>("{}: expected at least one sample, found an empty file", path);
  const auto& wanted = config.samples_of(split);
  if (!wanted) return held;
  if (!config.format->lenient && held < *wanted)
    raise<DataError>("{}: expected {} samples ({}), found {} ({} bytes, record size {})", path,
                     *wanted, config.samples_key(split), held, file_bytes,
                     format.describe_record());
  return std::min(held, *wanted);
}

AsyncReader::AsyncReader(const config::DataConfig& config, const std::string& path, Split split,
                         int64_t batch_size, std::span<const int64_t> slot_rows,
                         const SourceOptions& options, const IoQueueFactory& open)
    : BatchRing(config, batch_size, options),
      path_(path),
      format_(RawFormat::from(config)),
      file_bytes_(ReadFile(path).size()) {
  set_samples(std::min(raw_sample_count(config, split, path, file_bytes_), options.max_samples));
  plan_ =
      plan_reader(config, rows(), batches_per_epoch(), options.resident, available_memory_bytes());
  if (split == Split::kTrain && options.repeat && !plan_.remark.empty())
    log::info("{}: {}", path, plan_.remark);
  order_ = std::make_unique<BatchOrder>(batches_per_epoch(), options.shuffle, options.seed);
  const int64_t T = plan_.threads, first = options.start_batch;
  make_slots(T * plan_.batches_per_thread);
  bool reported = false;
  for (int64_t t = 0; t < T; ++t) {
    const IoQueueOptions queue_options{plan_.shape.depth, plan_.shape.alignment};
    auto queue = open ? open(path, queue_options)
                 : file_bytes_ <= SynchronousQueue::kSmallFile
                     ? std::make_unique<SynchronousQueue>(path, queue_options)
                     : open_io_queue(path, queue_options);
    if (const int64_t now = queue->file_size(); now != file_bytes_)
      raise<DataError>("{}: changed while it was opened: {} bytes, then {}", path, file_bytes_,
                       now);
    if (const std::string why = queue->buffered_because(); !why.empty() && !reported) {
      log::info("{}: reading it through the page cache: {}", path, why);
      reported = true;
    }
    auto& w = *workers_.emplace_back(std::make_unique<Worker>());
    w.io = std::make_unique<RangeReader>(path, std::move(queue), file_bytes_, plan_.shape,
                                         plan_.buffers_per_thread, rows() * format_.record_bytes());
    w.decoder = std::make_unique<RawDecoder>(path, format_, slot_rows, config.key_policy,
                                             options.sink ? *options.sink : refusing_sink());
    for (int64_t r = plan_.buffers_per_thread; r-- > 0;) w.idle_ranges.push_back(r);
    w.jobs.reserve(w.idle_ranges.size());
    // The first position of this thread.
    w.next_position = first + ((t - first) % T + T) % T;
  }
}

void AsyncReader::start_threads() {
  for (auto& w : workers_) start_thread([this, &w = *w] { work(w); });
}

AsyncReader::~AsyncReader() {
  stop();
  wake_all();
  join_threads();
}

void AsyncReader::wake(Worker& worker) {
  const std::lock_guard lock(workers_mutex_);
  if (!worker.finished) worker.io->queue().wake();
}

void AsyncReader::wake_all() {
  for (auto& w : workers_) wake(*w);
}

void AsyncReader::give_up(int64_t position) {
  fail(position, std::current_exception());
  wake_all();
}

void AsyncReader::work(Worker& worker) {
  try {
    for (;;) {
      const Gate now = gate();
      if (now.stop) break;
      start_jobs(worker, now);
      // Jobs after an error are dropped.
      if (worker.jobs.empty() ? worker.next_position >= now.end
                              : worker.jobs.front().position >= now.end)
        break;
      const bool arrived = !worker.jobs.empty() && worker.io->finished(worker.jobs.front().range);
      worker.io->poll(arrived ? milliseconds(0) : IoQueue::kForever);
      add_bytes_read(worker.io->bytes_read() - worker.counted_bytes);
      worker.counted_bytes = worker.io->bytes_read();
      if (arrived) decode(worker);
    }
  } catch (...) {
    give_up(worker.jobs.empty() ? worker.next_position : worker.jobs.front().position);
  }
  {
    const std::lock_guard lock(workers_mutex_);
    worker.finished = true;
  }
  worker.io.reset();
}

void AsyncReader::start_jobs(Worker& worker, const Gate& now) {
  int64_t& p = worker.next_position;
  while (!worker.idle_ranges.empty() && p < now.end && is_free(p, now)) {
    try {
      start_job(worker, p, worker.idle_ranges.back());
    } catch (...) {
      return give_up(p);  // the jobs before it go on
    }
    worker.idle_ranges.pop_back();
    p += plan_.threads;
  }
}

void AsyncReader::start_job(Worker& worker, int64_t position, int64_t range) {
  const bool epoch_begins = position % batches_per_epoch() == 0 && position > options().start_batch;
  if (epoch_begins && worker.io->has_grown() && !reported_growth_.exchange(true))
    log::warning("{}: has grown since it was opened with {} bytes; what was added is not read",
                 path_, file_bytes_);
  const HostBatch& batch = begin_batch(position, order_->batch_at(position));
  const int64_t record = format_.record_bytes();
  worker.io->start(range, batch.first_sample * record, batch.size * record);
  worker.jobs.push_back({position, range, 0});
}

void AsyncReader::decode(Worker& worker) {
  Job& job = worker.jobs.front();
  HostBatch& batch = slot(job.position).batch();
  const auto bytes = worker.io->bytes(job.range);
  const auto start = Clock::now();
  const int64_t record = format_.record_bytes();
  const int64_t n = std::min(std::max<int64_t>(1, kPieceBytes / record), batch.size - job.decoded);
  batch.replaced_keys += worker.decoder->decode(
      bytes.subspan(static_cast<size_t>(job.decoded * record), static_cast<size_t>(n * record)),
      batch.first_sample + job.decoded, n, batch, job.decoded);
  job.decoded += n;
  add_decoding(Clock::now() - start);
  if (job.decoded < batch.size) return;
  worker.io->release(job.range);
  worker.idle_ranges.push_back(job.range);
  set_ready(job.position);
  worker.jobs.erase(worker.jobs.begin());
}

const HostBatch& AsyncReader::next() {
  const HostBatch& batch = BatchRing::next();
  // The slot of the batch before this one is free now.
  if (const int64_t freed = position() - 2; freed >= options().start_batch)
    wake(*workers_[static_cast<size_t>(freed % plan_.threads)]);
  return batch;
}

namespace {

class RawRecords final : public RecordFormat {
 public:
  [[nodiscard]] std::unique_ptr<BatchSource> open(const config::DataConfig& config,
                                                  const std::string& path, Split split,
                                                  int64_t batch_size,
                                                  std::span<const int64_t> slot_rows,
                                                  const SourceOptions& options) const override {
    require_fit(path, config, slot_rows);
    return std::make_unique<AsyncReader>(config, path, split, batch_size, slot_rows, options);
  }
  [[nodiscard]] int64_t memory_bytes(const config::DataConfig& config, int64_t rows,
                                     int64_t /*row_bytes*/, int64_t /*samples*/,
                                     const SourceOptions&) const override {
    return plan_reader(config, rows, std::numeric_limits<int64_t>::max(), false,
                       available_memory_bytes())
        .bytes;
  }
  [[nodiscard]] int64_t record_bytes(const config::DataConfig& config) const override {
    return RawFormat::from(config).record_bytes();
  }
  [[nodiscard]] int64_t count(const config::DataConfig& config, const std::string& path,
                              Split split) const override {
    return raw_sample_count(config, split, path, ReadFile(path).size());
  }
};

}  // namespace

const RecordFormat& raw_records() {
  static const RawRecords records;
  return records;
}

}  // namespace hlite::data
