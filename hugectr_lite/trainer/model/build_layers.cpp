#include "hugectr_lite/trainer/model/build_layers.h"
#include "hugectr_lite/trainer/model/embedding_layers.h"

#include <algorithm>
#include <cmath>

#include "hugectr_lite/comm/mpi_plugin.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/network/layer_registry.h"

namespace hlite::trainer {
namespace {

using embedding::EmbeddingLayer;

[[noreturn]] void fail_name(const config::JsonNode& node, const std::string& name,
                            const config::JsonNode& other) {
  config::fail_at(node, fmt::format("expected a name of its own, found \"{}\", the name of {} too",
                                    name, other.path()));
}

bool on_gpus(const LayerSetup& setup) { return setup.place.gpu || setup.steps_of_gpu; }

// Rows of a layer's tables in a file.
int64_t rows_in(const checkpoint::SafetensorsReader& weights, const EmbeddingLayer& layer) {
  int64_t rows = 0;
  for (int64_t t = 0; t < layer.layout().tables(); ++t)
    if (const auto* table = weights.find(embedding::table_name(layer.name(), t));
        table && !table->shape.empty())
      rows += table->shape[0];
  return rows;
}

void shard_layer(EmbeddingLayer& layer, size_t index, const LayerSetup& setup,
                 const embedding::RowMemory& memory) {
  embedding::TablesPlace place = setup.place;
  place.memory = memory;
  if (setup.weights) place.file_rows = rows_in(*setup.weights, layer);
  if (!setup.tiers.keys.empty()) place.keys = setup.tiers.keys.at(index);
  if (!setup.placements.empty()) {
    const LayerPlacement& of = setup.placements.at(index);
    place.placement = of.placement;
    place.exchange.exchanged_share = of.exchanged_share;
    place.rows_per_lookup = of.rows_per_lookup;
    if (of.keys) place.keys = of.keys;
  }
  layer.shard(std::move(place), setup.seed);
}

void check_memory(const config::TrainConfig& config, const config::EmbeddingMemoryConfig& memory,
                  const std::vector<std::unique_ptr<EmbeddingLayer>>& layers, bool gpu,
                  const embedding::TierKind& kind) {
  if (memory.automatic) return;
  const config::JsonNode& node = *config.root.find("solver")->find("embedding_memory");
  if (gpu && memory.gpu_gb == 0) config::fail_at(node, "gpu_gb is required for training on a GPU");
  if (!gpu && memory.disk.empty())
    config::fail_at(node, "host_gb and disk are required for training on the CPU");
  for (const auto& layer : layers)
    if (layer->trains_by_key() && !kind.by_key)
      config::fail_at(node, fmt::format("expected hash tables in fp32, without admission, eviction "
                                        "and when_full, for {}, found others in \"{}\"; {}",
                                        kind.keys, layer->name(), kind.instead));
}

// Each layer's part of a rank's memory: by the bytes of its rows. One with next to none of them
// stays whole in memory, as its part would not hold the rows of two batches.
std::vector<embedding::RowMemory> share_memory(
    const config::TrainConfig& config, const LayerSetup& setup,
    const std::vector<std::unique_ptr<EmbeddingLayer>>& layers) {
  std::vector<embedding::RowMemory> shares(layers.size());
  const auto chosen = row_memory(config, setup.tiers);
  if (!chosen) return shares;
  const config::EmbeddingMemoryConfig& memory = *chosen;
  const bool gpu = on_gpus(setup);
  const embedding::TierKind& kind = embedding::tier_kind(gpu, !memory.disk.empty());
  check_memory(config, memory, layers, gpu, kind);
  const auto bytes = [](const EmbeddingLayer& layer) {
    const int64_t rows = layer.hashed() ? layer.hash_capacity() : layer.layout().total_rows;
    return static_cast<double>(rows * layer.row_bytes());
  };
  double all = 0;
  for (const auto& layer : layers) all += bytes(*layer);
  constexpr double kMaxGigabytes = 1e9;  // fits an int64_t in bytes
  constexpr double kNextToNone = 1e-3;
  // Each rank has a GPU of its own, and those of a process share its host.
  const int64_t of_process =
      comm::under_mpirun() ? config.solver.max_ranks_of_a_node() : setup.place.ranks.ranks();
  for (size_t i = 0; i < layers.size(); ++i) {
    if (bytes(*layers[i]) < kNextToNone * all) continue;
    embedding::RowMemory& of = shares[i];
    of.kind = &kind;
    const auto share = [&](const char* automatic, const char* key, double gigabytes,
                           int64_t sharing) {
      const double part = bytes(*layers[i]) / all / static_cast<double>(sharing);
      return embedding::MemoryShare{
          .key = memory.automatic ? automatic : key,
          .gigabytes = gigabytes,
          .share = part,
          .bytes = std::llround(std::min(gigabytes * part, kMaxGigabytes) * 1e9)};
    };
    const auto host = share(" \"auto\", host_gb", ".host_gb", memory.host_gb, of_process);
    of.lines = gpu ? share(" \"auto\", gpu_gb", ".gpu_gb", memory.gpu_gb, 1) : host;
    of.host = host;
    if (memory.disk.empty()) continue;
    of.folder = config.resolve(memory.disk);
    of.max_disk_bytes = std::llround(std::min(memory.disk_gb, kMaxGigabytes) * 1e9);
  }
  return shares;
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
                    fmt::format("expected {} after the Data layer, found none", wanted));
  network::make_layers(*config.layers[0], config.strict);  // has the words for an unknown type
  config::fail_expected(*config.layers[0]->find("type"), wanted);
}

// The loss and what the solver evaluates must fit the labels and their weights.
void check_labels(const config::TrainConfig& config, const network::Network& network) {
  const config::JsonNode& data = *config.root.find("layers")->elements()[0].find("label");
  if (config.data.real_label && !network.predicts_values())
    config::fail_at(*data.find("real"),
                    "expected false, as cross-entropy takes labels in [0, 1] (only MSELoss takes "
                    "others), found true");
  const config::JsonNode* const solver = config.root.find("solver");
  const config::EvaluationConfig& evaluation = config.solver.evaluation;
  const bool values = network.predicts_values();
  for (const metrics::Metric& metric : evaluation.metrics) {
    if (config.data.sample_weight && metrics::is_grouped(metric))
      config::fail_at(*solver->find("eval_metrics"),
                      fmt::format("expected metrics without groups, as samples have weights "
                                  "(sample_weight), found {}",
                                  metric.name));
    if (metric.rule->of_values && !values)
      config::fail_at(*solver->find("eval_metrics"),
                      fmt::format("expected metrics of probabilities, as only MSELoss predicts "
                                  "values, found {}",
                                  metric.name));
  }
  if (!values || solver == nullptr) return;
  const auto expect = [](const std::string& name, const config::JsonNode& node,
                         const std::string& found) {
    const auto metric = metrics::find(name);
    if (name == config::kAverageLoss || (metric && metric->rule->of_values)) return;
    config::fail_at(node, fmt::format("expected \"AverageLoss\", {}, as MSELoss predicts values, "
                                      "which have no classes, found {}",
                                      metrics::names_text(metrics::of_values), found));
  };
  if (const config::JsonNode* list = solver->find("eval_metrics"))
    for (const config::JsonNode& metric : list->elements())
      expect(metric.string(), metric, metric.string());
  for (const auto& [key, watch] :
       {std::pair("lr_plateau", evaluation.plateau ? &evaluation.plateau->watch : nullptr),
        std::pair("early_stop", evaluation.early_stop ? &*evaluation.early_stop : nullptr)})
    if (watch != nullptr)
      expect(watch->monitor, *solver->find(key),
             fmt::format("\"monitor\": \"{}\"", watch->monitor));
}

// Heads must be as wide as a GPU has room for.
void check_heads(const network::Network& network) {
  for (const auto& entry : network.layers())
    if (const network::HeadWidth& heads = entry.shape.heads; heads.columns > heads.most_on_gpu)
      config::fail_at(entry.layer->node(),
                      fmt::format("expected heads of at most {} columns in \"{}\" on a GPU, found "
                                  "{}; run with --device cpu",
                                  heads.most_on_gpu, entry.layer->name(), heads.columns));
}

// What a history's tensors know it by; one that names no lengths is one all the same.
std::string lengths_name(const config::TrainConfig& config, size_t input) {
  const config::SparseInputConfig& sparse = config.data.sparse[input];
  return sparse.lengths.empty() ? sparse.top + ".lengths" : sparse.lengths;
}

// The embedding layers and the tensors that they make.
void parse_embeddings(const config::TrainConfig& config, size_t count, FloatType type,
                      config::Problems& problems, ModelLayers& parsed,
                      std::vector<network::NetworkInput>& inputs) {
  for (size_t i = 0; i < count; ++i) {
    const config::JsonNode& node = *config.layers[i];
    const config::JsonNode* top = node.find("top");
    std::vector<std::string> names;
    if (top) config::Problems().collect([&] { names = config::to_strings(*top); });
    std::vector<network::Dims> dims;  // empty: not known
    problems.collect([&] {
      auto layer = std::make_unique<EmbeddingLayer>(node, config);
      if (config.data_is_valid)
        for (const embedding::EmbeddingTop& made : layer->tops()) {
          dims.push_back({made.rows, made.width});
          if (made.combiner == embedding::Combiner::kConcat)
            dims.back().lengths = lengths_name(config, made.input);
        }
      parsed.embeddings.push_back(std::move(layer));
    });
    parsed.first_top.push_back(inputs.size());
    for (size_t t = 0; t < names.size(); ++t) {
      for (const auto& input : inputs)
        if (input.name == names[t] && !names[t].empty())
          problems.add(*top, fmt::format("tensor \"{}\" is made twice", names[t]));
      inputs.push_back({.name = names[t],
                        .dims = dims.empty() ? network::Dims() : dims.at(t),
                        .needs_grad = true,
                        .source = &node,
                        .type = type,
                        .is_known = !dims.empty(),
                        .may_be_packed = names.size() > 1});
    }
  }
}

// Tensors of how many keys a sample has in a history.
void add_lengths(const config::TrainConfig& config, const config::JsonNode* data,
                 config::Problems& problems, ModelLayers& parsed,
                 std::vector<network::NetworkInput>& inputs) {
  for (size_t i = 0; i < config.data.sparse.size(); ++i) {
    const config::SparseInputConfig& sparse = config.data.sparse[i];
    if (sparse.lengths.empty() || (i > 0 && sparse.continues(config.data.sparse[i - 1]))) continue;
    const config::JsonNode& node =
        config.data_is_valid ? *data->find("sparse")->elements()[i].find("lengths") : *data;
    const auto is_taken = [&](const auto& other) { return other == sparse.lengths; };
    if (std::ranges::any_of(inputs, is_taken, &network::NetworkInput::name) ||
        std::ranges::any_of(config.data.sparse, is_taken, &config::SparseInputConfig::top))
      problems.add(node, fmt::format("tensor \"{}\" is made twice", sparse.lengths));
    parsed.histories.push_back(i);
    inputs.push_back(
        {.name = sparse.lengths, .dims = network::lengths_dims(sparse.lengths), .source = &node});
  }
}

// Adds what is wrong to `problems`; without any, the layers are complete but for their tables.
ModelLayers parse_layers(const config::TrainConfig& config, FloatType type,
                         config::Problems& problems) {
  size_t count = 0;
  ModelLayers parsed;
  const bool found = problems.collect([&] {
    count = count_embeddings(config);
    if (count == 0) fail_without_embedding(config);
  });
  if (!found) return parsed;
  const config::JsonNode* layers = config.root.find("layers");
  const config::JsonNode* data = layers ? &layers->elements()[0] : nullptr;
  std::vector<network::NetworkInput> inputs = {{.name = config.data.label_top,
                                                .dims = {config.data.label_dim},
                                                .source = data,
                                                .is_label = true,
                                                .has_weight = config.data.sample_weight,
                                                .is_known = config.data_is_valid},
                                               {.name = config.data.dense_top,
                                                .dims = {config.data.dense_width()},
                                                .source = data,
                                                .is_known = config.data_is_valid}};
  add_lengths(config, data, problems, parsed, inputs);
  parse_embeddings(config, count, type, problems, parsed, inputs);
  problems.collect([&] { check_names(parsed.embeddings); });
  if (problems.empty())
    problems.collect([&] { parsed.slot_rows = slot_rows_of(config, parsed.embeddings); });
  const std::vector<const config::JsonNode*> dense(
      config.layers.begin() + static_cast<std::ptrdiff_t>(count), config.layers.end());
  problems.collect([&] {
    parsed.network = std::make_unique<network::Network>(dense, config.strict, std::move(inputs));
    for (const auto& e : parsed.embeddings)
      for (const auto& entry : parsed.network->layers())
        if (entry.layer->name() == e->name())
          fail_name(entry.layer->node(), entry.layer->name(), e->node());
  });
  if (parsed.network && config.data_is_valid && problems.empty())
    problems.collect([&] { check_labels(config, *parsed.network); });
  return parsed;
}

}  // namespace

plan::BufferId ModelLayers::vector_gradients(size_t embedding) const {
  const EmbeddingLayer& layer = *embeddings[embedding];
  const plan::BufferId gradient = network->input_grad(first_top[embedding]);
  return layer.tops().size() == 1 || gradient == plan::kNoBuffer ? gradient
                                                                 : layer.output_gradient();
}

bool ModelLayers::finds_gradient_overflow(size_t embedding) const {
  for (size_t t = 0; t < embeddings[embedding]->tops().size(); ++t)
    if (!network->finds_gradient_overflow(first_top[embedding] + t)) return false;
  return true;
}

std::optional<config::EmbeddingMemoryConfig> row_memory(const config::TrainConfig& config,
                                                        const RowTiers& tiers) {
  if (tiers.in_memory) return std::nullopt;
  const auto& memory = config.solver.embedding_memory;
  return memory && memory->automatic ? tiers.memory : memory;
}

ModelLayers build_layers(const config::TrainConfig& config, const LayerSetup& setup) {
  config::Problems problems;
  ModelLayers built = parse_layers(config, setup.place.type, problems);
  problems.raise();
  if (on_gpus(setup)) check_heads(*built.network);
  const auto memory = share_memory(config, setup, built.embeddings);
  for (size_t i = 0; i < built.embeddings.size(); ++i)
    shard_layer(*built.embeddings[i], i, setup, memory[i]);
  return built;
}

void require_valid(const config::TrainConfig& config) {
  config::Problems problems = config.problems;
  ModelLayers parsed;
  if (problems.empty() || !config.layers.empty())
    parsed = parse_layers(config, config.solver.precision, problems);
  problems.raise();
  if (parsed.network)
    for (const std::string& warning : parsed.network->warnings()) log::warning("{}", warning);
}

}  // namespace hlite::trainer
