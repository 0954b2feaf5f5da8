#include "data_reader/async_reader.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/core/memory.h"

namespace hlite::data {
namespace {
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int64_t kPieceBytes = int64_t{256} << 10;  // bytes decoded between two looks at the reads
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
}  // namespace

int64_t raw_sample_count(const config::DataConfig& config, Split split, const std::string& path,
                         int64_t file_bytes) {
  const RawFormat format = RawFormat::from(config);
  if (file_bytes % format.record_bytes() != 0)
    raise<DataError>("{}: {} bytes is no multiple of the record size {}", path, file_bytes,
                     format.describe_record());
  const int64_t held = file_bytes / format.record_bytes();
  if (held == 0) raise<DataError>("{}: expected at least one sample, found an empty file", path);
  const auto& wanted = split == Split::kTrain ? config.num_samples : config.eval_num_samples;
  if (!wanted) return held;
  if (config.format == "Raw" && held < *wanted)
    raise<DataError>("{}: expected {} samples ({}), found {} ({} bytes, record size {})", path,
                     *wanted, split == Split::kTrain ? "num_samples" : "eval_num_samples", held,
                     file_bytes, format.describe_record());
  return std::min(held, *wanted);
}

AsyncReader::AsyncReader(const config::DataConfig& config, const std::string& path, Split split,
                         int64_t batch_size, std::span<const int64_t> slot_rows,
                         const SourceOptions& options, const ReadQueueFactory& open)
    : path_(path),
      format_(RawFormat::from(config)),
      options_(options),
      batch_size_(batch_size),
      file_bytes_(ReadFile(path).size()),
      samples_(std::min(raw_sample_count(config, split, path, file_bytes_), options.max_samples)),
      end_(0, format_.label_dim, config.dense_width(), format_.keys.columns),
      taken_(options.start_batch) {
  HLITE_CHECK(batch_size >= 1 && batch_size % options.shard.count == 0 &&
                  options.start_batch >= 0 && samples_ >= 1 &&
                  !(options.resident && options.repeat),
              "batch size {}, {} shards, start {}, {} samples", batch_size, options.shard.count,
              options.start_batch, samples_);
  const int64_t rows = batch_size / options.shard.count;
  plan_ =
      plan_reader(config, rows, batches_per_epoch(), options.resident, available_memory_bytes());
  if (split == Split::kTrain && options.repeat && !plan_.remark.empty())
    log::info("{}: {}", path, plan_.remark);
  order_ = std::make_unique<BatchOrder>(batches_per_epoch(), options.shuffle, options.seed);
  end_position_ = options.repeat ? kNever : batches_per_epoch();

  const int64_t T = plan_.threads;
  for (int64_t s = 0; s < T * plan_.batches_per_thread; ++s)
    slots_.emplace_back(rows, format_.label_dim, config.dense_width(), format_.keys.columns);
  ready_position_.assign(slots_.size(), -1);
  bool told = false;
  for (int64_t t = 0; t < T; ++t) {
    const ReadQueueOptions queue_options{plan_.shape.depth, plan_.shape.alignment};
    auto queue = open ? open(path, queue_options) : open_read_queue(path, queue_options);
    if (const int64_t now = queue->file_size(); now != file_bytes_)
      raise<DataError>("{}: changed while it was opened: {} bytes, then {}", path, file_bytes_,
                       now);
    if (const std::string why = queue->buffered_because(); !why.empty() && !told) {
      log::info("{}: reading it through the page cache: {}", path, why);
      told = true;
    }
    auto& w = *workers_.emplace_back(std::make_unique<Worker>());
    w.io = std::make_unique<RangeReader>(path, std::move(queue), file_bytes_, plan_.shape,
                                         plan_.buffers_per_thread, rows * format_.record_bytes());
    w.decoder = std::make_unique<RawDecoder>(path, format_, slot_rows, config.key_policy);
    for (int64_t r = plan_.buffers_per_thread; r-- > 0;) w.idle_ranges.push_back(r);
    w.jobs.reserve(w.idle_ranges.size());
    // The first position of this thread.
    w.next_position = taken_ + ((t - taken_) % T + T) % T;
  }
  try {
    for (auto& w : workers_) w->thread = std::thread([this, &w = *w] { work(w); });
  } catch (...) {
    stop_threads();
    throw;
  }
}

AsyncReader::~AsyncReader() { stop_threads(); }

void AsyncReader::stop_threads() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    wake_all();
  }
  for (auto& w : workers_)
    if (w->thread.joinable()) w->thread.join();
}

void AsyncReader::wake_all() {
  for (auto& w : workers_)
    if (!w->finished) w->io->queue().wake();
}

BatchBuffer& AsyncReader::slot(int64_t position) {
  return slots_[static_cast<size_t>(position) % slots_.size()];
}

AsyncReader::Gate AsyncReader::gate() const {
  const std::lock_guard lock(mutex_);
  return {taken_, end_position_, stop_};
}

void AsyncReader::work(Worker& worker) {
  try {
    for (;;) {
      const Gate now = gate();
      if (now.stop) break;
      start_jobs(worker, now);
      // Jobs behind an error are nobody's business any more.
      if (worker.jobs.empty() ? worker.next_position >= now.end
                              : worker.jobs.front().position >= now.end)
        break;
      const bool arrived = !worker.jobs.empty() && worker.io->finished(worker.jobs.front().range);
      worker.io->poll(arrived ? milliseconds(0) : ReadQueue::kForever);
      bytes_read_ += worker.io->bytes_read() - worker.counted_bytes;
      worker.counted_bytes = worker.io->bytes_read();
      if (arrived) decode(worker);
    }
  } catch (...) {
    fail(worker.jobs.empty() ? worker.next_position : worker.jobs.front().position,
         std::current_exception());
  }
  {
    const std::lock_guard lock(mutex_);
    worker.finished = true;
  }
  worker.io.reset();
}

void AsyncReader::start_jobs(Worker& worker, const Gate& now) {
  const auto slots = static_cast<int64_t>(slots_.size());
  int64_t& p = worker.next_position;
  // A slot's first batch finds it free; a later one when the batch after the slot's last has been
  // handed out.
  while (!worker.idle_ranges.empty() && p < now.end &&
         (p - options_.start_batch < slots || p - now.taken < slots - 1)) {
    try {
      start_job(worker, p, worker.idle_ranges.back());
    } catch (...) {
      return fail(p, std::current_exception());  // the jobs before it go on
    }
    worker.idle_ranges.pop_back();
    p += plan_.threads;
  }
}

void AsyncReader::start_job(Worker& worker, int64_t position, int64_t range) {
  const bool epoch_begins = position % batches_per_epoch() == 0 && position > options_.start_batch;
  if (epoch_begins && worker.io->has_grown() && !told_growth_.exchange(true))
    log::warning("{}: has grown since it was opened with {} bytes; what was added is not read",
                 path_, file_bytes_);
  const BatchRows rows =
      rows_of_batch(order_->batch_at(position), samples_, batch_size_, options_.shard);
  BatchBuffer& to = slot(position);
  to.set_size(rows.size);
  to.batch().first_sample = rows.first_sample;
  const int64_t record = format_.record_bytes();
  worker.io->start(range, rows.first_sample * record, rows.size * record);
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
  decode_nanoseconds_ += (Clock::now() - start) / std::chrono::nanoseconds(1);
  if (job.decoded < batch.size) return;
  worker.io->release(job.range);
  worker.idle_ranges.push_back(job.range);
  {
    const std::lock_guard lock(mutex_);
    ready_position_[static_cast<size_t>(job.position) % slots_.size()] = job.position;
  }
  ready_.notify_one();
  worker.jobs.erase(worker.jobs.begin());
}

void AsyncReader::fail(int64_t position, std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    if (position < end_position_) {
      end_position_ = position;
      error_ = std::move(error);
    }
    wake_all();
  }
  ready_.notify_one();
}

const HostBatch& AsyncReader::next() {
  std::unique_lock lock(mutex_);
  const int64_t p = taken_;
  const auto is_ready = [&] {
    return ready_position_[static_cast<size_t>(p) % slots_.size()] == p;
  };
  if (!is_ready() && p < end_position_) {
    const auto start = Clock::now();
    ready_.wait(lock, [&] { return is_ready() || p >= end_position_; });
    wait_seconds_ += std::chrono::duration<double>(Clock::now() - start).count();
  }
  if (!is_ready()) {
    if (error_) std::rethrow_exception(error_);
    return end_.batch();
  }
  taken_ = p + 1;
  // The slot of the batch before this one is free now.
  if (p > options_.start_batch) {
    Worker& w = *workers_[static_cast<size_t>((p - 1) % plan_.threads)];
    if (!w.finished) w.io->queue().wake();
  }
  lock.unlock();
  const HostBatch& batch = slot(p).batch();
  replaced_keys_ += batch.replaced_keys;
  return batch;
}

int64_t AsyncReader::position() const {
  const std::lock_guard lock(mutex_);
  return taken_;
}

std::vector<std::span<std::byte>> AsyncReader::memory() const {
  std::vector<std::span<std::byte>> all;
  for (const BatchBuffer& b : slots_) all.push_back(b.memory());
  return all;
}

}  // namespace hlite::data
