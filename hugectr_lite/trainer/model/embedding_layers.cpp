#include "hugectr_lite/trainer/model/embedding_layers.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/layer_registry.h"

namespace hlite::trainer {

using embedding::EmbeddingLayer;

size_t count_embeddings(const config::TrainConfig& config) {
  size_t n = 0;
  while (n < config.layers.size() &&
         embedding::is_embedding_type(config.layers[n]->find("type")->string()))
    ++n;
  for (size_t i = n; i < config.layers.size(); ++i)
    if (embedding::is_embedding_type(config.layers[i]->find("type")->string())) {
      // The layer before it may be an embedding whose type has a slip.
      for (size_t before = n; before < i; ++before)
        network::make_layers(*config.layers[before], config.strict);
      config::fail_at(*config.layers[i],
                      "expected embedding layers directly after the data layer, found one after a "
                      "dense layer");
    }
  return n;
}

std::vector<int64_t> slot_rows_of(const config::TrainConfig& config,
                                  const EmbeddingLayers& embeddings) {
  std::vector<int64_t> rows(config.data.key_layout().hotness.size(), 0);
  for (const auto& e : embeddings)
    for (const embedding::LookedUpSlot& of : e->data_slots()) {
      int64_t& of_slot = rows[static_cast<size_t>(of.slot)];
      of_slot = of_slot == 0 ? of.rows : std::min(of_slot, of.rows);
    }
  for (size_t i = 0; i < config.data.sparse.size(); ++i)
    if (std::none_of(embeddings.begin(), embeddings.end(), [i](const auto& e) {
          return std::any_of(e->tops().begin(), e->tops().end(),
                             [i](const embedding::EmbeddingTop& top) { return top.input == i; });
        }))
      config::fail_at(
          *config.root.find("layers"),
          fmt::format("expected an embedding layer on the sparse input \"{}\", found none",
                      config.data.sparse[i].top));
  return rows;
}

EmbeddingLayers embedding_layers(const config::TrainConfig& config) {
  EmbeddingLayers layers;
  for (size_t i = 0; i < count_embeddings(config); ++i)
    layers.push_back(std::make_unique<EmbeddingLayer>(*config.layers[i], config));
  return layers;
}

}  // namespace hlite::trainer
