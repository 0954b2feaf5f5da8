// The kinds of tiers: their sizes, and what is expected of them.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "embedding/device_row_cache.h"
#include "embedding/disk_tier.h"
#include "embedding/host_lines.h"
#include "embedding/row_tier.h"
#include "hugectr_lite/core/error.h"

namespace hlite::embedding {

plan::TierBytes RowTier::traffic(size_t memory, int64_t batch, bool ahead) const {
  const StorageTier& of = memories_[memory];
  if (!of.forecast) return {};
  return {.read_per_sample = of.forecast->read_bytes / static_cast<double>(batch),
          .written_per_sample = of.forecast->written_bytes / static_cast<double>(batch),
          .disk = of.disk,
          .ahead = of.disk && ahead};
}

namespace {

// A GPU's memory over the host's. Without a GPU (estimates) it has sizes and serves no step.
class GpuTier final : public RowTier {
 public:
  GpuTier(const Exec& exec, StorageTier memory, const DeviceRowCacheOptions& options)
      : RowTier({std::move(memory)}), exec_(exec) {
    if (exec.on_gpu()) cache_.emplace(options);
  }

  [[nodiscard]] int64_t bytes() const override { return cache_ ? cache_->device_bytes(exec_) : 0; }
  [[nodiscard]] int64_t host_bytes() const override { return cache_ ? cache_->host_bytes() : 0; }
  void attach(const Exec& exec, const UpdatedRows& lines) override { cache_->attach(exec, lines); }
  void admit(const Exec& exec, Matrix<const uint32_t> rows, Matrix<uint32_t> lines, int64_t first,
             int64_t count, bool training) override {
    cache_->admit(exec, rows, rows, lines, first, count, training);
  }
  [[nodiscard]] LineOfRow line_of_row() const override { return cache_->line_of_row(); }
  [[nodiscard]] RowOfLine row_of_line() const override { return cache_->row_of_line(); }
  void check() const override {
    if (cache_) cache_->check();
  }

  [[nodiscard]] const UpdatedRows* all_rows() const override { return &cache_->host_rows(); }
  void read(size_t part, std::span<const uint32_t> rows, void* out) override {
    cache_->flush();
    const WeightRows from = this->part(part);
    const auto bytes = static_cast<size_t>(from.row_bytes());
    for (size_t i = 0; i < rows.size(); ++i)
      std::memcpy(static_cast<std::byte*>(out) + i * bytes, from.row_at(rows[i]), bytes);
  }
  void write(size_t part, std::span<const uint32_t> rows, const void* in) override {
    cache_->flush();
    cache_->forget();
    const WeightRows to = this->part(part);
    const auto bytes = static_cast<size_t>(to.row_bytes());
    for (size_t i = 0; i < rows.size(); ++i)
      std::memcpy(to.row_at(rows[i]), static_cast<const std::byte*>(in) + i * bytes, bytes);
  }
  // Lines of rows that no key has any more are forgotten, too, where no row moves.
  bool close_up(std::span<const uint32_t>, std::span<const uint32_t>,
                std::span<const uint32_t>) override {
    cache_->flush();
    cache_->forget();
    return false;
  }

 protected:
  void count(std::vector<StorageTier>& memories) const override {
    if (cache_) memories.front().moved = cache_->counts();
  }

 private:
  [[nodiscard]] WeightRows part(size_t part) const {
    const UpdatedRows& all = cache_->host_rows();
    return part == 0 ? all.w : WeightRows(part == 1 ? all.state0 : all.state1);
  }

  const Exec exec_;
  std::optional<DeviceRowCache> cache_;
};

// ---- Sizes ----

std::vector<int64_t> part_bytes(const TablesSpec& spec) {
  std::vector<int64_t> bytes = {spec.row_bytes()};
  for (int i = 0; i < optimizer::state_count(spec.rule.type); ++i)
    bytes.push_back(optimizer::state_width(spec.rule.type, i, spec.layout.width) * kFloatBytes);
  return bytes;
}

DeviceRowCacheOptions device_options(const TierSetup& s, int64_t rows, int64_t lines,
                                     int64_t host_rows) {
  DeviceRowCacheOptions options{
      .name = s.spec.name,
      .rows = rows,
      .lines = lines,
      .type = s.spec.table_type,
      .max_lookups = s.place.max_batch * s.spec.layout.columns() * s.place.ranks.ranks(),
      .host_rows = host_rows};
  options.widths[0] = s.spec.layout.width;
  for (int i = 0; i < optimizer::state_count(s.spec.rule.type); ++i)
    options.widths[static_cast<size_t>(i) + 1] =
        optimizer::state_width(s.spec.rule.type, i, s.spec.layout.width);
  return options;
}

RowCacheOptions disk_options(const TierSetup& s, int64_t lines) {
  return {.name = s.spec.name,
          .rows = s.rows,
          .lines = lines,
          .part_bytes = part_bytes(s.spec),
          .first_state = optimizer::initial_state(s.spec.rule),
          .folder = s.place.memory.folder,
          .max_disk_bytes = s.place.memory.max_disk_bytes,
          .batches_in_use = s.place.gpu ? 2 : 1};
}

// Returns how many lines fit into `memory`, at most one for each row. bytes_with(rows, lines):
// bytes there of a rank with so many rows and lines. Memory that is too small for one rank is an
// error on all ranks.
template <typename BytesWith>
int64_t lines_for(const TierSetup& s, const MemoryShare& memory, BytesWith&& bytes_with) {
  const TablesPlace& place = s.place;
  // The rows of two batches: the current and the next one.
  const int64_t max_needed = 2 * place.max_batch * s.spec.layout.columns() * place.ranks.ranks();
  int64_t needed = 0, least = 0, mapped = 0;
  for (int rank = 0; rank < place.ranks.ranks(); ++rank) {
    const int64_t rows = place.placement ? place.placement->rows_of(rank) : s.rows,
                  lines = std::min(rows, max_needed), bytes = bytes_with(rows, lines);
    if (rows == 0 || bytes <= needed) continue;
    needed = bytes;
    least = lines;
    mapped = rows;
  }
  if (memory.bytes >= needed) {
    constexpr int64_t kMany = 1 << 20;  // so that rounding does not count
    const int64_t fixed = bytes_with(s.rows, 0), many = bytes_with(s.rows, kMany) - fixed;
    const double lines =
        static_cast<double>(memory.bytes - fixed) * kMany / static_cast<double>(many);
    return lines < static_cast<double>(s.rows)
               ? std::max(std::min(s.rows, max_needed), static_cast<int64_t>(lines))
               : s.rows;
  }
  raise<ConfigError>(
      "solver.embedding_memory{}: expected at least {:.6f} GB, of which \"{}\" has a share of "
      "{:.3f} on each rank, for the {} rows of two batches and the map of {} rows, found {}",
      memory.key, std::ceil(static_cast<double>(needed) / memory.share * 1e-3 + 1) * 1e-6,
      s.spec.name, memory.share, least, mapped, memory.gigabytes);
}

int64_t lines_on_host(const TierSetup& s, const MemoryShare& memory) {
  const int64_t record = s.spec.stored_row_bytes(),
                fixed = s.place.gpu
                            ? HostLines::bytes(s.spec, s.place.max_batch, s.place.ranks.ranks())
                            : 0;
  return lines_for(s, memory, [&](int64_t rows, int64_t lines) {
    return lines * record + RowCache::memory_bytes(rows, lines, record) + fixed;
  });
}

// The replicated rows are the most frequent ones if the placement is by category. Else they are
// whole tables, whose keys are not among the frequencies by themselves.
std::optional<TierForecast> forecast(const TierSetup& s, int64_t lines, bool disk) {
  const TablesPlace& place = s.place;
  const int64_t replicated = place.placement ? place.placement->replicated_rows() : 0;
  const bool by_category = place.placement && place.placement->model();
  if (!place.keys || (replicated > 0 && !by_category)) return std::nullopt;
  const int64_t spread = s.spec.layout.total_rows - replicated;
  const int ranks = place.ranks.ranks();
  const double share = s.spec.hash_capacity > 0
                           ? 1.0 / ranks
                           : static_cast<double>(s.rows) / static_cast<double>(spread);
  const ResidencyForecast rows = forecast_residency(
      place.keys->frequencies, {.lines = static_cast<double>(lines),
                                .rows_share = share,
                                .replicated_rows = static_cast<double>(replicated),
                                .batch = static_cast<double>(place.train_batch * ranks),
                                .ranks = ranks,
                                .batches = place.keys->run_batches});
  const auto record = static_cast<double>(s.spec.stored_row_bytes());
  // The host has the rows that no batch has trained, too; on a disk they are not.
  return TierForecast{
      .rows = rows,
      .read_bytes = disk ? (rows.missing - rows.first) *
                               static_cast<double>(RowLog::block_bytes(s.spec.stored_row_bytes()))
                         : rows.missing * record,
      .written_bytes = rows.displaced * record};
}

StorageTier over_disk(const TierSetup& s, const char* name, int64_t lines) {
  return {.name = name,
          .others = "the disk " + s.place.memory.folder,
          .disk = true,
          .lines = lines,
          .largest_file = RowLog::largest_file(s.spec.stored_row_bytes(), s.rows - lines),
          .forecast = forecast(s, lines, true)};
}

// ---- Kinds ----

std::unique_ptr<RowTier> make_disk_tier(const TierSetup& s) {
  const int64_t lines = lines_on_host(s, s.place.memory.lines);
  if (s.rows == 0) return nullptr;
  return std::make_unique<DiskTier>(std::vector{over_disk(s, "memory", lines)},
                                    disk_options(s, lines), s.initial_weights);
}

int64_t lines_on_gpu(const TierSetup& s, bool disk) {
  const Exec exec = s.place.exec();
  return lines_for(s, s.place.memory.lines, [&](int64_t rows, int64_t lines) {
    return lines * s.spec.stored_row_bytes() +
           DeviceRowCache::device_bytes(exec, device_options(s, rows, lines, disk ? rows : 0));
  });
}

StorageTier over_host(const TierSetup& s, int64_t lines) {
  return {.name = "memory of the GPU",
          .others = "the host",
          .lines = lines,
          .forecast = forecast(s, lines, false)};
}

// A GPU that can hold all rows needs no cache.
std::unique_ptr<RowTier> gpu_tier(const TierSetup& s, int64_t lines) {
  const Exec exec = s.place.exec();
  if (s.rows == 0 || (exec.on_gpu() && lines == s.rows)) return nullptr;
  return std::make_unique<GpuTier>(exec, over_host(s, lines), device_options(s, s.rows, lines, 0));
}

std::unique_ptr<RowTier> make_gpu_tier(const TierSetup& s) {
  return gpu_tier(s, s.place.gpu ? lines_on_gpu(s, false) : lines_on_host(s, s.place.memory.lines));
}

// Files have all rows or those that were ever written, of all ranks alike: so the rank with the most
// rows decides where those of all of them lie.
bool three_on_disk(const TierSetup& s) {
  if (!s.place.gpu) return true;
  TierSetup largest = s;
  for (int rank = 0; s.place.placement && rank < s.place.ranks.ranks(); ++rank)
    largest.rows = std::max(largest.rows, s.place.placement->rows_of(rank));
  return lines_on_gpu(largest, true) < largest.rows &&
         lines_on_host(largest, s.place.memory.host) < largest.rows;
}

std::unique_ptr<RowTier> make_three_tiers(const TierSetup& s) {
  if (!s.place.gpu) return make_disk_tier(s);
  const bool on_disk = three_on_disk(s);
  const int64_t lines = lines_on_gpu(s, true);
  if (!on_disk) return gpu_tier(s, lines);
  const int64_t in_host = lines_on_host(s, s.place.memory.host);
  if (s.rows == 0) return nullptr;
  return std::make_unique<HostLines>(
      s, std::vector{over_host(s, lines), over_disk(s, "memory of the host", in_host)},
      device_options(s, s.rows, lines, in_host), disk_options(s, in_host));
}

}  // namespace

const TierKind kDiskTier{.keys = "host_gb and disk",
                         .by_key = true,
                         .instead = "",
                         .on_disk = [](const TierSetup&) { return true; },
                         .make = make_disk_tier};
const TierKind kGpuTier{.keys = "gpu_gb",
                        .by_key = true,
                        .instead = "",
                        .on_disk = [](const TierSetup&) { return false; },
                        .make = make_gpu_tier};
const TierKind kThreeTiers{
    .keys = "gpu_gb, host_gb and disk together",
    .by_key = false,
    .instead =
        "without host_gb and disk, all rows are in the memory of the host, which all hash tables "
        "can use",
    .on_disk = three_on_disk,
    .make = make_three_tiers};

}  // namespace hlite::embedding
