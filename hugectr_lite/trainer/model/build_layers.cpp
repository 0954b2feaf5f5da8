#include "hugectr_lite/trainer/model/build_layers.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/network/layer_registry.h"

namespace hlite::trainer {
namespace {

using embedding::EmbeddingLayer;

[[noreturn]] void fail_name(const config::JsonNode& node, const std::string& name,
                            const config::JsonNode& other) {
  config::fail_at(node, fmt::format("expected a name of its own, found \"{}\", the name of {} too",
                                    name, other.path()));
}

std::unique_ptr<EmbeddingLayer> build_embedding(const config::TrainConfig& config, size_t index,
                                                const LayerSetup& setup) {
  auto layer = std::make_unique<EmbeddingLayer>(*config.layers[index], config);
  embedding::TablesPlace place = setup.place;
  if (!setup.placements.empty()) {
    const LayerPlacement& of = setup.placements.at(index);
    place.placement = of.placement;
    place.exchange.exchanged_share = of.exchanged_share;
    place.rows_per_lookup = of.rows_per_lookup;
  }
  layer->spread(std::move(place), setup.seed);
  return layer;
}

void check_names(const std::vector<std::unique_ptr<EmbeddingLayer>>& embeddings) {
  for (size_t i = 0; i < embeddings.size(); ++i)
    for (size_t before = 0; before < i; ++before)
      if (embeddings[before]->name() == embeddings[i]->name())
        fail_name(embeddings[i]->node(), embeddings[i]->name(), embeddings[before]->node());
}

// layers[1] is missing, of an unknown type or a dense layer.
[[noreturn]] void fail_without_embedding(const config::TrainConfig& config) {
  const std::string wanted =
      "an embedding layer (HybridSparseEmbedding, LocalizedSlotSparseEmbeddingOneHot or ...Hash)";
  if (config.layers.empty())
    config::fail_at(*config.root.find("layers"),
                    fmt::format("expected {} behind the Data layer, found none", wanted));
  network::make_layers(*config.layers[0], config.strict);  // has the words for an unknown type
  config::fail_expected(*config.layers[0]->find("type"), wanted);
}

}  // namespace

ModelLayers build_layers(const config::TrainConfig& config, const LayerSetup& setup) {
  const size_t count = count_embeddings(config);
  if (count == 0) fail_without_embedding(config);
  ModelLayers built;
  std::vector<network::NetworkInput> inputs;
  const config::JsonNode* data =
      config.root.find("layers") ? &config.root.find("layers")->elements()[0] : nullptr;
  inputs.push_back({config.data.label_top, {config.data.label_dim}, false, data});
  inputs.push_back({config.data.dense_top, {config.data.dense_width()}, false, data});
  for (size_t i = 0; i < count; ++i) {
    auto layer = build_embedding(config, i, setup);
    for (const auto& input : inputs)
      if (input.name == layer->top())
        config::fail_at(*layer->node().find("top"),
                        fmt::format("tensor \"{}\" is made twice", layer->top()));
    inputs.push_back({layer->top(),
                      {layer->layout().slots(), layer->layout().width},
                      true,
                      &layer->node(),
                      setup.place.type});
    built.embeddings.push_back(std::move(layer));
  }
  check_names(built.embeddings);
  built.slot_rows = slot_rows_of(config, built.embeddings);
  const std::vector<const config::JsonNode*> dense(
      config.layers.begin() + static_cast<std::ptrdiff_t>(count), config.layers.end());
  built.network = std::make_unique<network::Network>(dense, config.strict, std::move(inputs));
  for (const auto& e : built.embeddings)
    for (const auto& entry : built.network->layers())
      if (entry.layer->name() == e->name())
        fail_name(entry.layer->node(), entry.layer->name(), e->node());
  return built;
}

}  // namespace hlite::trainer
