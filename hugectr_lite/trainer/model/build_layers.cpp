#include "hugectr_lite/trainer/model/build_layers.h"

#include "hugectr_lite/core/error.h"

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
  const LayerPlacement* placement =
      setup.placements.empty() ? nullptr : &setup.placements.at(index);
  layer->spread({.ranks = setup.ranks,
                 .placement = placement ? placement->placement : nullptr,
                 .rows_per_lookup = placement ? placement->rows_per_lookup : 0.0,
                 .max_batch = setup.max_batch,
                 .train_batch = setup.train_batch,
                 .threads = setup.threads,
                 .gpu = setup.gpu,
                 .type = setup.type},
                placement ? placement->exchanged_share : 1.0, setup.seed);
  return layer;
}

// One embedding layer for each sparse input: then every key belongs to one table. Returns the rows
// of all slots.
std::vector<int64_t> wire_sparse_inputs(
    const config::TrainConfig& config,
    const std::vector<std::unique_ptr<EmbeddingLayer>>& embeddings) {
  const auto& sparse = config.data.sparse;
  std::vector<const EmbeddingLayer*> of_input(sparse.size(), nullptr);
  for (size_t i = 0; i < embeddings.size(); ++i) {
    const auto& e = *embeddings[i];
    for (size_t before = 0; before < i; ++before)
      if (embeddings[before]->name() == e.name())
        fail_name(e.node(), e.name(), embeddings[before]->node());
    if (const auto* other = of_input[e.input()])
      config::fail_at(*e.node().find("bottom"),
                      fmt::format("a second embedding layer on one sparse input is known, but not "
                                  "supported yet; \"{}\" is that of {} already: expected one of "
                                  "their vector sizes together ({}), whose vectors a Reshape with "
                                  "that leading_dim and a Slice cut apart",
                                  sparse[e.input()].top, other->node().path(),
                                  other->layout().width + e.layout().width));
    of_input[e.input()] = &e;
  }
  std::vector<int64_t> slot_rows;
  for (size_t i = 0; i < sparse.size(); ++i) {
    if (of_input[i] == nullptr)
      config::fail_at(
          *config.root.find("layers"),
          fmt::format("expected an embedding layer on the sparse input \"{}\", found none",
                      sparse[i].top));
    const auto& rows = of_input[i]->layout().rows;
    slot_rows.insert(slot_rows.end(), rows.begin(), rows.end());
  }
  return slot_rows;
}

}  // namespace

ModelLayers build_layers(const config::TrainConfig& config, const LayerSetup& setup) {
  const size_t count = count_embeddings(config);
  if (count == 0)
    throw ConfigError(
        fmt::format("{}: layers[1]: expected an embedding layer (HybridSparseEmbedding, "
                    "LocalizedSlotSparseEmbeddingOneHot or ...Hash), found none",
                    config.root.where()));
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
                      setup.type});
    built.embeddings.push_back(std::move(layer));
  }
  built.slot_rows = wire_sparse_inputs(config, built.embeddings);
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
