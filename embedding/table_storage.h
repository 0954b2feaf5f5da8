// TableStorage: the rows and optimizer states that one rank holds of a layer's tables, in buffers
// of a plan, on the CPU or a GPU, and their initial values.
//
// Rows are the rank's own or, on several ranks, replicated: the same on every rank. If memory
// cannot hold all own rows, the buffers hold some of them (RowCache on the CPU, DeviceRowCache on a
// GPU, or both of them in three tiers), and steps admit those they need.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "embedding/device_row_cache.h"
#include "embedding/residency_forecast.h"
#include "embedding/row_cache.h"
#include "embedding/row_placement.h"
#include "embedding/row_rounding.h"
#include "embedding/stored_rows.h"
#include "embedding/table_init.h"
#include "embedding/tables_place.h"
#include "embedding/tables_spec.h"
#include "embedding/updated_rows.h"
#include "embedding/vocabulary_rules.h"
#include "hugectr_lite/comm/rank_context.h"
#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/plan/plan.h"

namespace hlite::embedding {

// A memory that holds a part of the rows.
struct StorageTier {
  bool disk = false;         // the others lie on a disk, or all of them in the host's memory
  int64_t lines = 0;         // rows that it holds
  int64_t largest_file = 0;  // most bytes of the file on the disk
  std::optional<TierForecast> forecast = {};  // expected of a training batch; nullopt: not known
  RowCacheCounts moved = {};
};

class TableStorage {
 public:
  // place.placement: null where this rank holds all rows, in the order of the layout. `spec` must
  // outlive it. Throws ConfigError where place.memory is less than two batches need.
  TableStorage(const TablesSpec& spec, const TablesPlace& place);

  // Names the buffers of rows and states.
  void declare(plan::Buffers& buffers);
  // The buffers that a step reads of the own or the replicated rows: of weights, or of states too.
  [[nodiscard]] plan::BufferId own_weights() const { return rows_.parts()[0].own; }
  [[nodiscard]] plan::BufferId replicated_weights() const { return rows_.parts()[0].replicated; }
  [[nodiscard]] std::vector<plan::BufferId> own_buffers() const {
    return rows_.buffers(&StoredRows::Part::own);
  }
  [[nodiscard]] std::vector<plan::BufferId> replicated_buffers() const {
    return rows_.buffers(&StoredRows::Part::replicated);
  }
  // The rows by their numbers, in any tier.
  [[nodiscard]] const StoredRows& rows() const { return rows_; }

  // Bytes that the cache takes in addition to the buffers: on their device, and on a GPU's host.
  [[nodiscard]] int64_t cache_bytes() const;
  [[nodiscard]] int64_t host_bytes() const;
  [[nodiscard]] const comm::RankContext& ranks() const { return ranks_; }
  // Null where this rank holds all rows in order.
  [[nodiscard]] const RowPlacement* placement() const { return placement_.get(); }
  [[nodiscard]] int64_t own_rows() const;
  // Those in memory: all, or the lines of the cache.
  [[nodiscard]] int64_t held_rows() const { return lines_ > 0 ? lines_ : own_rows(); }
  // Returns true if the tables may be larger than the memory of their ranks; the same on all ranks.
  [[nodiscard]] bool beyond_memory() const { return beyond_memory_; }
  // True if own() holds lines of a cache: then admit() must run before rows are used.
  [[nodiscard]] bool holds_lines() const { return lines_ > 0; }
  // lines[b, c] = the line that holds own row rows[b, c] from now on, first <= c < first + count;
  // numbers beyond the rows stay as they are. `training`: the lines are going to change. On the CPU
  // the two matrices are one; on a GPU they may be. host_lines: of the rows, in three tiers.
  // REQUIRES holds_lines().
  void admit(const Exec& exec, Matrix<const uint32_t> rows, Matrix<uint32_t> lines, int64_t first,
             int64_t count, bool training, Matrix<const uint32_t> host_lines = {}) const;
  // DeviceRowCache::recall().
  void recall(const Exec& exec, Vector<const uint32_t> rows) const {
    device_cache_->recall(exec, rows);
  }
  // On a GPU that holds lines: where the rows are that were admitted last.
  [[nodiscard]] LineOfRow line_of_row() const {
    return device_cache_ ? device_cache_->line_of_row() : LineOfRow{};
  }
  // True if sparse updates must sort by row, not by line: on a GPU the sums depend on that order.
  [[nodiscard]] bool sorts_rows() const { return device_cache_ && !spec_.atomic_update; }
  // The lines in the host's memory where rows are on a disk; else null.
  [[nodiscard]] RowCache* cache() const { return cache_.get(); }
  // Returns true for a GPU's memory over the host's over a disk: then HostLines must give rows host
  // lines before admit().
  [[nodiscard]] bool three_tiers() const { return cache_ && device_cache_; }
  // The memories that hold a part of the rows, the fastest first; none if own() holds all.
  // `counted`: with counters, which synchronizes the device.
  [[nodiscard]] std::vector<StorageTier> tiers(bool counted = false) const;
  // Their forecasts as steps say them, per sample of this rank's batch: for the first tier and, in
  // three, for the second. `ahead`: the keys of the next batch are known.
  [[nodiscard]] plan::TierBytes tier_bytes(int64_t batch, bool ahead) const;
  [[nodiscard]] plan::TierBytes host_tier_bytes(int64_t batch) const;
  // Throws DeviceError when an admission on a GPU has failed; waits for it.
  void check() const;
  [[nodiscard]] int64_t replicated_rows() const {
    return placement_ ? placement_->replicated_rows() : 0;
  }
  // REQUIRES allocated buffers.
  [[nodiscard]] UpdatedRows own() const {
    return rounded(rows_.arrays(&StoredRows::Part::own), own_rounding_);
  }
  [[nodiscard]] UpdatedRows replicated() const {
    return rounded(rows_.arrays(&StoredRows::Part::replicated), replicated_rounding_);
  }
  // All own rows, where no cache or a GPU's alone holds lines of them: on the device or the host.
  [[nodiscard]] UpdatedRows all_own() const {
    return device_cache_ ? device_cache_->host_rows() : own();
  }

  // Sets the initial values of all rows and states. Synchronizes.
  void initialize(const Exec& exec) const;
  // Sets, for hashed tables, the function that returns the key of an own row. Must be called before
  // any row is used.
  using KeyOfRow = std::function<TableRow(uint32_t row)>;
  void set_key_of_row(KeyOfRow key_of) { key_of_ = std::move(key_of); }
  // Empties all lines and marks all rows on a disk as untouched. REQUIRES holds_lines() and
  // allocated buffers.
  void start_cache() const;
  // Keys of the own rows in the cache or on the disk that have been trained, by table, ascending.
  // REQUIRES tables that are not hashed.
  [[nodiscard]] std::vector<std::vector<uint32_t>> touched_keys() const;
  // Writes, for hashed tables on the CPU, the initial values that a full table would have for the
  // key, as a vector or as row `row` with its states.
  void initial_values(int64_t table, uint32_t key, float* vector) const {
    init_->fill(table, key, vector);
  }
  void initial_values(int64_t table, uint32_t key, int64_t row) const;

 private:
  void initialize_normal(const Exec& host) const;
  void initialize_rows(const Exec& host, const Exec& exec, int rank, const WeightRows& rows) const;
  [[nodiscard]] TableRow table_row(uint32_t own_row) const;
  // Returns the table row that lies in row `row` of the own rows in memory.
  [[nodiscard]] TableRow held_row(int64_t row) const;
  // These need to know whose memory it is: a GPU's, or the host's.
  [[nodiscard]] int64_t lines_for(const TablesPlace& place, const MemoryShare& memory,
                                  bool gpu) const;
  [[nodiscard]] int64_t bytes_with(const TablesPlace& place, int64_t rows, int64_t lines,
                                   bool gpu) const;
  [[nodiscard]] std::vector<int64_t> part_bytes() const;
  [[nodiscard]] DeviceRowCacheOptions device_cache_options(const TablesPlace& place) const;
  // Writes the initial weights of an own row. REQUIRES init_.
  void initial_weights(uint32_t own_row, std::byte* weights) const;
  void make_caches(const TablesPlace& place);
  void make_host_cache(const TablesPlace& place, int64_t lines);
  [[nodiscard]] std::optional<TierForecast> forecast(const TablesPlace& place, int64_t lines,
                                                     bool disk) const;
  [[nodiscard]] static UpdatedRows rounded(UpdatedRows rows,
                                           const std::unique_ptr<const RowRounding>& rounding) {
    rows.rounding = rounding.get();
    return rows;
  }

  const TablesSpec& spec_;
  const std::shared_ptr<const RowPlacement> placement_;
  const comm::RankContext ranks_;
  const Exec exec_;
  const plan::Buffers* buffers_ = nullptr;
  std::unique_ptr<TableRowInit> init_;  // set for hashed tables or a cache
  bool beyond_memory_ = false;
  int64_t lines_ = 0, host_lines_ = 0;  // host_lines_: in three tiers
  std::optional<TierForecast> forecast_, host_forecast_;
  std::unique_ptr<RowCache> cache_;
  std::unique_ptr<DeviceRowCache> device_cache_;
  StoredRows rows_{exec_, cache_, device_cache_};
  KeyOfRow key_of_;  // null if the tables are not hashed
  // Set for tables of 16 bits; else null.
  std::unique_ptr<const RowRounding> own_rounding_, replicated_rounding_;
};

}  // namespace hlite::embedding
