// TablesPlace: where the tables of a layer lie, and what they have to do there.
#pragma once

#include <cstdint>
#include <memory>

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

struct TablesPlace {
  comm::RankContext ranks = {};
  // On several ranks, where rows do not come as keys come; the same on all of them.
  std::shared_ptr<const RowPlacement> placement = nullptr;
  ExchangeOptions exchange = {};
  // Whether TablesIo::all_keys is there, and lists of wanted rows are made from it.
  bool gathers_keys = false;
  // Distinct rows expected among a rank's lookups of a batch, for each of them: of rows that are
  // not copied, where some are. 0: not known; then the bytes that steps say they move are those of
  // all.
  double rows_per_lookup = 0;
  int64_t max_batch = 0, train_batch = 0;  // samples of one rank
  int threads = 1;                         // of the CPU, at most
  const cuda::Backend* gpu = nullptr;      // where they lie; null: on the CPU
  FloatType type = FloatType::kFloat;      // of the output and its gradient
  // What rows and their gradients travel in: float or bf16, rounded to nearest, ties to even; so is
  // what a rank has from itself.
  FloatType wire = FloatType::kFloat;

  [[nodiscard]] Exec exec() const {
    return gpu ? Exec{.device = Device::kCuda, .cuda = gpu} : Exec{};
  }
};

}  // namespace hlite::embedding
