// Reads Parquet files ahead of the consumer.
//
// Batch p, counted over all epochs, is rows [b B, (b + 1) B) of the files one after another, b = p
// % batches. Threads decode row groups ahead, each a column at a time, so that one large row group
// keeps all of them busy; then they put batches together, each its shard's rows. What a batch holds
// does not depend on which thread did what, nor on how rows are cut into groups and files.
//
//   group:  [columns left] -> (threads decode them) -> [decoded] -> batches -> [dropped]
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data_reader/batch_ring.h"
#include "data_reader/open_source.h"
#include "data_reader/parquet/column_decoder.h"
#include "data_reader/parquet/parquet_set.h"
#include "hugectr_lite/config/data_config.h"

namespace hlite::data::parquet {

class ParquetReader final : public BatchRing {
 public:
  // See open_source(); `path`: parquet_set.h. Throws DataError also when the files hold fewer
  // samples than the config's num_samples.
  ParquetReader(const config::DataConfig& config, const std::string& path, Split split,
                int64_t batch_size, std::span<const int64_t> slot_rows,
                const SourceOptions& options = {});
  ~ParquetReader() override;

 private:
  // A row group of an epoch: number epoch * groups + index.
  struct Group {
    std::vector<DecodedColumn> columns;
    int64_t rows = 0;                // in use
    int64_t next = 0, finished = 0;  // columns begun, and decoded
    int64_t bad_row = -1;            // of the columns, once all are decoded
    std::string problem;
    [[nodiscard]] bool decoded() const { return finished == static_cast<int64_t>(columns.size()); }
  };
  // A part of a batch.
  struct Span {
    int64_t first_row = 0, rows = 0;         // of the epoch, this shard's
    int64_t first_group = 0, end_group = 0;  // numbers; empty without rows
  };
  using Lock = std::unique_lock<std::mutex>;

  void start_threads() override;
  void work();
  [[nodiscard]] Span span_of(int64_t position) const;
  [[nodiscard]] int64_t group_bytes(int64_t number) const;
  bool begin_group();
  bool decode_one(Lock& lock);
  bool assemble_one(Lock& lock, bool wait);
  void assemble(int64_t position, const Span& span,
                std::span<const std::pair<int64_t, const Group*>> groups);
  void copy_rows(const Group& group, int64_t first, int64_t rows, HostBatch& batch,
                 int64_t row) const;
  void find_problem(const ParquetSet::Group& place, Group& group) const;
  void drop_used();

  const ParquetSet set_;
  const ColumnDecoder decoder_;
  const int64_t thread_count_;
  int64_t groups_in_use_ = 0;  // of an epoch
  int64_t budget_ = 0;         // bytes of groups that are decoded ahead of need

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, Group> groups_;  // by number
  int64_t held_bytes_ = 0;           // of groups_
  int64_t planned_ = 0;              // the next batch whose groups have not all been begun
  int64_t planned_group_ = 0;        // groups before this one have, or are not needed
  int64_t next_ = 0;                 // the next batch to put together
  std::set<int64_t> assembling_;     // batches that threads are at
};

}  // namespace hlite::data::parquet
