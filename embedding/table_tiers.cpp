// The tiers that the rows of a TableStorage lie in: the caches, their sizes, and what is expected
// of them.
#include <algorithm>
#include <cmath>

#include "embedding/host_lines.h"
#include "embedding/table_storage.h"
#include "hugectr_lite/core/error.h"

namespace hlite::embedding {

// The replicated rows are the most frequent ones if the placement is by category. Else they are
// whole tables, whose keys are not among the frequencies by themselves.
std::optional<TierForecast> TableStorage::forecast(const TablesPlace& place, int64_t lines,
                                                   bool disk) const {
  const bool by_category = placement_ && placement_->model();
  if (!place.keys || (replicated_rows() > 0 && !by_category)) return std::nullopt;
  const int64_t spread = spec_.layout.total_rows - replicated_rows();
  const double share = spec_.hash_capacity > 0
                           ? 1.0 / ranks_.ranks()
                           : static_cast<double>(own_rows()) / static_cast<double>(spread);
  const ResidencyForecast rows = forecast_residency(
      place.keys->frequencies, {.lines = static_cast<double>(lines),
                                .rows_share = share,
                                .replicated_rows = static_cast<double>(replicated_rows()),
                                .batch = static_cast<double>(place.train_batch * ranks_.ranks()),
                                .ranks = ranks_.ranks(),
                                .batches = place.keys->run_batches});
  const auto record = static_cast<double>(spec_.stored_row_bytes());
  // The host has the rows that no batch has trained, too; on a disk they are not.
  return TierForecast{
      .rows = rows,
      .read_bytes = disk ? (rows.missing - rows.first) *
                               static_cast<double>(RowLog::block_bytes(spec_.stored_row_bytes()))
                         : rows.missing * record,
      .written_bytes = rows.displaced * record};
}

static plan::TierBytes bytes_of_samples(const std::optional<TierForecast>& of, int64_t batch,
                                        bool disk, bool ahead) {
  if (!of) return {};
  return {.read_per_sample = of->read_bytes / static_cast<double>(batch),
          .written_per_sample = of->written_bytes / static_cast<double>(batch),
          .disk = disk,
          .ahead = disk && ahead};
}

plan::TierBytes TableStorage::tier_bytes(int64_t batch, bool ahead) const {
  return bytes_of_samples(forecast_, batch, beyond_memory_ && !device_cache_, ahead);
}
plan::TierBytes TableStorage::host_tier_bytes(int64_t batch) const {
  return bytes_of_samples(host_forecast_, batch, /*disk=*/true, /*ahead=*/true);
}

std::vector<StorageTier> TableStorage::tiers(bool counted) const {
  std::vector<StorageTier> list;
  const int64_t record = spec_.stored_row_bytes();
  const auto add = [&](bool disk, int64_t lines, const std::optional<TierForecast>& expected) {
    list.push_back({.disk = disk,
                    .lines = lines,
                    .largest_file = disk ? RowLog::largest_file(record, own_rows() - lines) : 0,
                    .forecast = expected});
  };
  if (lines_ > 0) add(beyond_memory_ && !device_cache_, lines_, forecast_);
  if (three_tiers()) add(true, host_lines_, host_forecast_);
  if (!counted) return list;
  if (device_cache_) {
    RowCacheCounts& moved = list.front().moved = device_cache_->counts();
    moved.read_bytes = moved.fetched * record;
    moved.written_bytes = moved.written * record;
  }
  if (cache_) {
    RowCacheCounts& moved = list.back().moved = cache_->counts();
    moved.read_bytes = cache_->log().read_bytes();
    moved.written_bytes = cache_->log().written_bytes();
  }
  return list;
}

std::vector<int64_t> TableStorage::part_bytes() const {
  std::vector<int64_t> bytes = {spec_.row_bytes()};
  for (int i = 0; i < optimizer::state_count(spec_.rule.type); ++i)
    bytes.push_back(optimizer::state_width(spec_.rule.type, i, spec_.layout.width) * kFloatBytes);
  return bytes;
}

// Rows of a GPU are float.
DeviceRowCacheOptions TableStorage::device_cache_options(const TablesPlace& place) const {
  DeviceRowCacheOptions options{
      .name = spec_.name,
      .rows = own_rows(),
      .lines = lines_,
      .max_lookups = place.max_batch * spec_.layout.columns() * ranks_.ranks(),
      .host_rows = host_lines_};
  const std::vector<int64_t> bytes = part_bytes();
  for (size_t i = 0; i < bytes.size(); ++i) options.widths[i] = bytes[i] / kFloatBytes;
  return options;
}

void TableStorage::make_caches(const TablesPlace& place) {
  const bool gpu = exec_.on_gpu(), disk = !place.memory.folder.empty();
  beyond_memory_ = disk && !gpu;
  const int64_t lines = lines_for(place, place.memory.lines, gpu);
  // A GPU that can hold all rows needs no cache, and a host none over a disk.
  if (own_rows() == 0 || (gpu && lines == own_rows())) return;
  lines_ = lines;
  if (gpu && place.memory.host.key) {
    HLITE_CHECK(ranks_.ranks() == 1 && spec_.hash_capacity == 0, "{}: three tiers", spec_.name);
    const int64_t in_host = lines_for(place, place.memory.host, /*gpu=*/false);
    beyond_memory_ = in_host < own_rows();
    if (beyond_memory_) host_lines_ = in_host;
  }
  if (gpu) device_cache_ = std::make_unique<DeviceRowCache>(device_cache_options(place));
  if (beyond_memory_) make_host_cache(place, gpu ? host_lines_ : lines_);
  forecast_ = forecast(place, lines_, beyond_memory_ && !gpu);
  if (gpu && beyond_memory_) host_forecast_ = forecast(place, host_lines_, /*disk=*/true);
}

void TableStorage::make_host_cache(const TablesPlace& place, int64_t lines) {
  if (!init_)
    init_ = std::make_unique<TableRowInit>(spec_.seed, spec_.name, spec_.layout, spec_.init_stddev,
                                           spec_.table_type);
  const RowCacheOptions options{.name = spec_.name,
                                .rows = own_rows(),
                                .lines = lines,
                                .part_bytes = part_bytes(),
                                .first_state = optimizer::initial_state(spec_.rule),
                                .folder = place.memory.folder,
                                .max_disk_bytes = place.memory.max_disk_bytes,
                                .batches_in_use = exec_.on_gpu() ? 2 : 1};
  cache_ = std::make_unique<RowCache>(
      options, [this](uint32_t row, std::byte* weights) { initial_weights(row, weights); });
}

// Bytes that a rank's rows take in a memory: `lines` lines and their maps.
int64_t TableStorage::bytes_with(const TablesPlace& place, int64_t rows, int64_t lines,
                                 bool gpu) const {
  const int64_t record = spec_.stored_row_bytes();
  if (!gpu)
    return lines * record + RowCache::memory_bytes(rows, lines, record) +
           (exec_.on_gpu() ? HostLines::bytes(spec_.layout, place.max_batch) : 0);
  DeviceRowCacheOptions options = device_cache_options(place);
  options.rows = rows;
  options.lines = lines;
  if (place.memory.host.key) options.host_rows = rows;
  return lines * record + DeviceRowCache::device_bytes(exec_, options);
}

// Lines of the cache that fit in memory, at most a line a row. What is too little for one rank is
// an error on all.
int64_t TableStorage::lines_for(const TablesPlace& place, const MemoryShare& memory,
                                bool gpu) const {
  // The rows of two batches: the current and the next one.
  const int64_t max_needed = 2 * place.max_batch * spec_.layout.columns() * place.ranks.ranks();
  int64_t needed = 0, least = 0, mapped = 0;
  for (int rank = 0; rank < ranks_.ranks(); ++rank) {
    const int64_t rows = placement_ ? placement_->rows_of(rank) : own_rows(),
                  lines = std::min(rows, max_needed), bytes = bytes_with(place, rows, lines, gpu);
    if (rows == 0 || bytes <= needed) continue;
    needed = bytes;
    least = lines;
    mapped = rows;
  }
  if (memory.bytes >= needed) {
    constexpr int64_t kMany = 1 << 20;  // so that rounding does not count
    const int64_t fixed = bytes_with(place, own_rows(), 0, gpu),
                  many = bytes_with(place, own_rows(), kMany, gpu) - fixed;
    const double lines =
        static_cast<double>(memory.bytes - fixed) * kMany / static_cast<double>(many);
    return lines < static_cast<double>(own_rows())
               ? std::max(std::min(own_rows(), max_needed), static_cast<int64_t>(lines))
               : own_rows();
  }
  raise<ConfigError>(
      "solver.embedding_memory{}: expected at least {:.6f} GB, of which \"{}\" has a share of "
      "{:.3f} on each rank, for the {} rows of two batches and the map of {} rows, found {}",
      memory.key, std::ceil(static_cast<double>(needed) / memory.share * 1e-3 + 1) * 1e-6,
      spec_.name, memory.share, least, mapped, memory.gigabytes);
}

int64_t TableStorage::cache_bytes() const {
  if (device_cache_) return device_cache_->device_bytes(exec_);
  return cache_ ? RowCache::memory_bytes(own_rows(), lines_, spec_.stored_row_bytes()) : 0;
}
int64_t TableStorage::host_bytes() const {
  if (!device_cache_) return 0;
  return device_cache_->host_bytes() +
         (cache_ ? RowCache::memory_bytes(own_rows(), host_lines_, spec_.stored_row_bytes()) : 0);
}

void TableStorage::admit(const Exec& exec, Matrix<const uint32_t> rows, Matrix<uint32_t> lines,
                         int64_t first, int64_t count, bool training,
                         Matrix<const uint32_t> host_lines) const {
  HLITE_CHECK(device_cache_ || rows.data() == lines.data(), "{}: rows and lines", spec_.name);
  HLITE_CHECK(three_tiers() == (host_lines.data() != nullptr), "{}: host lines", spec_.name);
  if (device_cache_)
    device_cache_->admit(exec, rows, cache_ ? host_lines : rows, lines, first, count, training);
  else
    cache_->admit(exec, lines, first, count, training);
}

void TableStorage::check() const {
  if (device_cache_) device_cache_->check();
}

void TableStorage::start_cache() const {
  if (device_cache_) device_cache_->attach(exec_, own());
  if (cache_) cache_->attach(device_cache_ ? device_cache_->host_rows() : own());
}

}  // namespace hlite::embedding
