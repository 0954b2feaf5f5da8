// TablesPlace: where the tables of a layer lie, and what they have to do there.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "embedding/key_frequencies.h"
#include "embedding/row_placement.h"
#include "hugectr_lite/comm/rank_context.h"
#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/float_type.h"

namespace hlite::embedding {

struct ExchangeOptions {
  comm::Route route = comm::Route::kFlat;
  // Share of the lookups that go to rows which are not copied, for the first capacity.
  double exchanged_share = 1;
  int64_t capacity = 0;  // rows; 0: as statistics and the placement make likely
};

// The part of a memory that one rank has for the rows of one layer.
struct MemoryShare {
  // The key that says so, as it follows "solver.embedding_memory" in messages: ".host_gb",
  // ".gpu_gb" or "auto"'s.
  const char* key = nullptr;
  double gigabytes = 0;  // the key's value, per process or GPU
  double share = 0;      // this layer's share of it on this rank
  int64_t bytes = 0;     // the same in bytes: rows, states and maps
};

struct TierKind;

// The tiers of solver.embedding_memory that rows lie in.
struct RowMemory {
  const TierKind* kind = nullptr;  // row_tier.h; null: memory holds all rows
  MemoryShare lines = {};          // of the memory that the buffers lie in
  MemoryShare host = {};           // for a GPU whose host has a disk for the rest
  std::string folder = {};         // on the disk
  int64_t max_disk_bytes = 0;      // 0: the free space
};

// The keys that a run is expected to look up.
struct ExpectedKeys {
  KeyFrequencies frequencies;
  double run_batches = 0;  // batches that the run trains on; 0: without end
};

struct TablesPlace {
  comm::RankContext ranks = {};
  // Set on several ranks for tables that are not hashed; the same on all ranks.
  std::shared_ptr<const RowPlacement> placement = nullptr;
  ExchangeOptions exchange = {};
  // True if TablesIo::all_keys is there, and request lists are made from it.
  bool gathers_keys = false;
  // True if the lists of a batch may be made while the batch before it is worked on.
  bool keys_ahead = false;
  // Distinct rows expected among a rank's lookups of a batch, for each of them: of rows that are
  // not copied, where some are. 0: not known; then the bytes that steps say they move are those of
  // all.
  double rows_per_lookup = 0;
  int64_t max_batch = 0, train_batch = 0;  // samples of one rank
  int threads = 1;                         // of the CPU, at most
  const cuda::Backend* gpu = nullptr;      // where they lie; null: on the CPU
  FloatType type = FloatType::kFloat;      // of the output and its gradient
  // The type that rows and their gradients travel in: float or bf16, rounded to nearest, ties to
  // even; so is what a rank has from itself.
  FloatType wire = FloatType::kFloat;
  RowMemory memory = {};
  std::shared_ptr<const ExpectedKeys> keys = nullptr;  // null: not known
  // Of hash tables that are only read: the rows of their file. Nullopt: rows as the config says.
  std::optional<int64_t> file_rows = {};

  // Rows read for each sample of a batch, as far as that is known.
  [[nodiscard]] double rows_of_sample(const SlotLayout& layout) const {
    return static_cast<double>(layout.columns()) * (rows_per_lookup > 0 ? rows_per_lookup : 1);
  }
  [[nodiscard]] Exec exec() const {
    return gpu ? Exec{.device = Device::kCuda, .cuda = gpu} : Exec{};
  }
};

}  // namespace hlite::embedding
