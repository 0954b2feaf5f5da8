// Options that decide how a hybrid embedding splits categories and exchanges rows.
#pragma once

#include <cstdint>

#include "embedding/frequency.h"
#include "hugectr_lite/config/block.h"
#include "hugectr_lite/config/train_config.h"

namespace hlite::embedding {

struct HybridOptions : CopyCosts {
  int64_t statistics_batches = 20;  // num_iterations_statistics
  double max_frequent = 1;          // max_num_frequent_categories, in multiples of most_batch
  int64_t most_batch = 0;           // the larger of batchsize and batchsize_eval
  // max_num_infrequent_samples: lookups of a batch that go to infrequent categories at most; -1:
  // all.
  double max_infrequent_lookups = -1;
  int64_t exchange_capacity = 0;  // (ours) rows from one rank to another; 0: as statistics say

  // The most categories that may be frequent.
  [[nodiscard]] int64_t most_frequent(int64_t categories) const;
};

// The keys of a hybrid layer's sparse_embedding_hparam.
void declare(config::Block& s, HybridOptions& options);
// Throws ConfigError for a communication type that the topology cannot have.
void check_communication(const config::JsonNode& hparam, const HybridOptions& options,
                         const config::SolverConfig& solver);

}  // namespace hlite::embedding
