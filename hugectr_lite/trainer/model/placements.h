// Decides, before a run starts, which rank holds which row of the embedding tables. Every rank
// (every process under mpirun) decides by itself and must come to the same: from the config, the
// manifest and the data alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "embedding/embedding_layer.h"
#include "embedding/row_placement.h"
#include "hugectr_lite/comm/topology.h"
#include "hugectr_lite/config/train_config.h"

namespace hlite::trainer {

struct LayerPlacement {
  std::shared_ptr<const embedding::RowPlacement> placement;
  double exchanged_share = 1;  // of the lookups: those to rows that are not copied
  double rows_per_lookup = 0;  // embedding::TablesPlace; 0: not known
  std::shared_ptr<const embedding::ExpectedKeys> keys = nullptr;  // likewise; null: not known
  std::string explanation;                                        // one line
};

// One for each embedding layer of the config; none on one rank.
//
//   LocalizedSlot...       as the layer's `sharding` says
//   Hybrid...              category_model.h, from the counts in the training data's manifest where
//                          it has them, else from the first num_iterations_statistics batches.
//                          Without `read_data`, and of data that are followed, no category is
//                          frequent.
std::vector<LayerPlacement> make_placements(const config::TrainConfig& config,
                                            const comm::Topology& topology, bool read_data);

// The same for one rank too, without data: from the counts in the training data's manifest if it
// exists and has them, else with the key distribution of Criteo's data, or a uniform one.
enum class AssumedKeys { kCountedElseCriteo, kCriteo, kUniform };
struct ExpectedPlacements {
  std::vector<LayerPlacement> placements;
  std::string source;  // of what is known about keys
};
// `replicate`: allows replicated rows, if the layer uses them.
ExpectedPlacements expect_placements(const config::TrainConfig& config,
                                     const comm::Topology& topology, AssumedKeys keys,
                                     bool replicate = true);

// The config's ranks, node by node.
comm::Topology topology_of(const config::SolverConfig& solver);

}  // namespace hlite::trainer
