#include "embedding/embedding_layer.h"

#include <algorithm>

#include "embedding/lookup.h"
#include "embedding/table_init.h"
#include "hugectr_lite/config/slot_sizes.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/log.h"

namespace hlite::embedding {
namespace {

constexpr int64_t kMaxHybridWidth = 1024;

// What decides how a hybrid embedding splits categories and sizes its exchange over many ranks. On
// one rank nothing depends on it, but a value out of range is still a mistake.
void read_hybrid_keys(config::ObjectReader& hparam) {
  hparam.integer_or("num_iterations_statistics", 20, {.min = 1});
  hparam.number_or("max_num_frequent_categories", 1, {.min = 0});
  hparam.number_or("max_num_infrequent_samples", -1, {.min = -1});
  hparam.number_or("p_dup_max", 0.01, {.min = 0, .max = 1});
  hparam.number_or("max_all_reduce_bandwidth", 1.3e11, {.min = 1});
  hparam.number_or("max_all_to_all_bandwidth", 1.9e11, {.min = 1});
  hparam.number_or("efficiency_bandwidth_ratio", 1.0, {.min = 0});
  hparam.choice_or("communication_type", "IB_NVLink",
                   {"IB_NVLink", "IB_NVLink_Hierarchical", "NVLink_SingleNode"});
  hparam.choice_or("hybrid_embedding_type", "Distributed", {"Distributed"});
}

// 0 or "sum", 1 or "mean".
Combiner read_combiner(config::ObjectReader& hparam) {
  const config::JsonNode* node = hparam.find("combiner");
  if (!node) return Combiner::kSum;
  using Kind = config::JsonNode::Kind;
  const bool number =
      node->kind() == Kind::kInteger && (node->integer() == 0 || node->integer() == 1);
  const bool name =
      node->kind() == Kind::kString && (node->string() == "sum" || node->string() == "mean");
  if (!number && !name) config::fail_expected(*node, "0 (sum) or 1 (mean)");
  const bool mean = number ? node->integer() == 1 : node->string() == "mean";
  return mean ? Combiner::kMean : Combiner::kSum;
}

// The index of the sparse input called `name`.
size_t find_input(const config::DataConfig& data, const config::JsonNode& name) {
  std::vector<std::string> known;
  for (size_t i = 0; i < data.sparse.size(); ++i) {
    if (data.sparse[i].top == name.string()) return i;
    known.push_back(data.sparse[i].top);
  }
  config::fail_at(name, fmt::format("expected a sparse input of layers[0] ({}), found \"{}\"",
                                    fmt::join(known, ", "), name.string()));
}

}  // namespace

bool is_embedding_type(const std::string& type) {
  return type == "HybridSparseEmbedding" || type == "LocalizedSlotSparseEmbeddingOneHot";
}

EmbeddingLayer::EmbeddingLayer(const config::JsonNode& node, const config::TrainConfig& config)
    : node_(&node) {
  const config::DataConfig& data = config.data;
  config::ObjectReader reader(node, config.strict);
  type_ = reader.string("type");
  HLITE_CHECK(is_embedding_type(type_), "{} is no embedding", type_);
  const bool hybrid = type_ == "HybridSparseEmbedding";
  top_ = reader.string("top");
  name_ = reader.string_or("name", top_);
  reader.string("bottom");
  input_ = find_input(data, reader.member("bottom"));
  auto hparam = reader.object("sparse_embedding_hparam");
  const int64_t width = hparam.integer(
      "embedding_vec_size", {.min = 1, .max = hybrid ? kMaxHybridWidth : int64_t{1} << 16});

  pooling_ = Pooling(data.key_layout(), read_combiner(hparam));
  for (size_t i = 0; i < input_; ++i) pooling_.first_slot += data.sparse[i].slot_num;
  pooling_.slots = data.sparse[input_].slot_num;
  pooling_.complete = data.sparse[input_].is_fixed_length;
  if (!hybrid && !pooling_.is_one_hot())
    config::fail_at(
        reader.member("bottom"),
        fmt::format("expected a sparse input of one key a slot, as the type says, found "
                    "\"{}\" of up to {}",
                    data.sparse[input_].top, data.sparse[input_].max_nnz));
  if (hybrid) read_hybrid_keys(hparam);
  if (hparam.has("max_vocabulary_size_per_gpu")) hparam.accept("max_vocabulary_size_per_gpu");
  read_sizes(hparam, width, config);
  hparam.finish();

  const config::JsonNode* own = reader.find("optimizer");
  const config::OptimizerConfig optimizer =
      own ? config::parse_optimizer(*own, config.strict) : config.optimizer;
  if (optimizer.update_type == config::UpdateType::kLazyGlobal)
    config::fail_at(
        own ? *own : node,
        "update_type \"LazyGlobal\" is known, but not supported yet; expected Local or Global");
  rule_ = optimizer::update_rule_of(optimizer);
  update_type_ = optimizer.update_type;
  schedule_ = optimizer::lr_schedule_of(optimizer);
  reader.finish();
}

void EmbeddingLayer::read_sizes(config::ObjectReader& hparam, int64_t width,
                                const config::TrainConfig& config) {
  const config::DataConfig& data = config.data;
  const std::vector<int64_t> rows = config::read_slot_sizes(hparam, config.directory);
  const config::JsonNode& sizes = hparam.member("slot_size_array");
  if (std::ssize(rows) != pooling_.slots)
    config::fail_at(sizes, fmt::format("expected {} sizes, one for each slot of \"{}\", found {}",
                                       pooling_.slots, data.sparse[input_].top, rows.size()));
  // The dialect ignores the data layer's sizes for RawAsync and needs them for Raw.
  if (!data.slot_size_array.empty()) {
    const auto first = data.slot_size_array.begin() + pooling_.first_slot;
    const std::vector<int64_t> same(first, first + pooling_.slots);
    if (same != rows) {
      const std::string message =
          fmt::format("expected the same sizes as layers[0].slot_size_array [{}], found [{}]",
                      fmt::join(same, ", "), fmt::join(rows, ", "));
      if (data.format != "RawAsync") config::fail_at(sizes, message);
      log::warning("{}: {}; the embedding's sizes are used", sizes.path(), message);
    }
  }
  const auto least = std::min_element(rows.begin(), rows.end());
  if (data.key_policy.kind == config::KeyPolicy::kOov && data.key_policy.oov_key >= *least)
    config::fail_at(sizes, fmt::format("expected tables of more than {} rows, as layers[0].oov_key "
                                       "is {}, found {} rows for slot {}",
                                       data.key_policy.oov_key, data.key_policy.oov_key, *least,
                                       least - rows.begin()));
  layout_ = TableLayout(rows, width);
}

void EmbeddingLayer::declare(plan::Buffers& buffers, int64_t max_batch) {
  buffers_ = &buffers;
  const int64_t row_bytes = layout_.width * static_cast<int64_t>(sizeof(float));
  table_ = buffers.add(name_ + ".tables", plan::BufferKind::kTable, layout_.total_rows * row_bytes);
  for (int i = 0; i < optimizer::state_count(rule_.type); ++i)
    states_.push_back(buffers.add(name_ + "." + optimizer::state_name(rule_.type, i),
                                  plan::BufferKind::kState, layout_.total_rows * row_bytes));
  output_ =
      buffers.add(top_, plan::BufferKind::kActivation, max_batch * layout_.slots() * row_bytes);
}

Matrix<float> EmbeddingLayer::all_rows(plan::BufferId id) const {
  return {buffers_->data<float>(id), layout_.total_rows, layout_.width};
}

void EmbeddingLayer::emit_forward(plan::Plan& plan, plan::BufferId keys) const {
  const double row_bytes = static_cast<double>(layout_.width) * sizeof(float);
  plan.add(
      {.name = name_ + ".lookup",
       .lane = plan::Lane::kEmbedding,
       .reads = {keys, table_},
       .writes = {output_},
       .run =
           [this, keys](const plan::StepContext& c) {
             const int64_t slots = layout_.slots();
             lookup_forward(
                 c.exec, layout_, pooling_, all_rows(table_), keys_of(keys, c.batch),
                 View<float, 3>(buffers_->data<float>(output_), c.batch, slots, layout_.width));
           },
       .bytes_per_sample = static_cast<double>(pooling_.columns() + layout_.slots()) * row_bytes});
}

void EmbeddingLayer::emit_update(plan::Plan& plan, plan::BufferId keys, plan::BufferId grad,
                                 plan::BufferId rate, plan::BufferId step, int64_t train_batch,
                                 int threads) {
  sparse_update_ = std::make_unique<SparseUpdate>(layout_, pooling_, train_batch, threads);
  std::vector<plan::BufferId> reads = {keys, grad, rate, step, table_}, writes = {table_};
  reads.insert(reads.end(), states_.begin(), states_.end());
  writes.insert(writes.end(), states_.begin(), states_.end());
  const double row_bytes = static_cast<double>(layout_.width) * sizeof(float);
  plan.add({.name = name_ + ".update",
            .lane = plan::Lane::kEmbedding,
            .reads = reads,
            .writes = writes,
            .run =
                [this, keys, grad, rate, step](const plan::StepContext& c) {
                  const int64_t slots = layout_.slots();
                  const auto state = [&](size_t i) {
                    return i < states_.size() ? all_rows(states_[i]) : Matrix<float>();
                  };
                  sparse_update_->update(c.exec, rule_, update_type_, *buffers_->data<float>(rate),
                                         *buffers_->data<int64_t>(step), keys_of(keys, c.batch),
                                         View<const float, 3>(buffers_->data<float>(grad), c.batch,
                                                              slots, layout_.width),
                                         all_rows(table_), state(0), state(1));
                },
            // Gradient read, row (and state) read and written.
            .bytes_per_sample = static_cast<double>(pooling_.columns()) * row_bytes *
                                (3.0 + 2.0 * static_cast<double>(states_.size()))});
}

void EmbeddingLayer::initialize(const Exec& exec, uint64_t seed) const {
  init_tables(exec, seed, name_, layout_, all_rows(table_));
  const float initial = optimizer::initial_state(rule_);
  if (initial == 0) return;  // buffers start out zeroed
  for (const plan::BufferId id : states_) {
    const auto rows = all_rows(id);
    exec.threads().parallel_for(rows.size(), 1 << 16, [&](int64_t begin, int64_t end) {
      std::fill(rows.data() + begin, rows.data() + end, initial);
    });
  }
}

std::vector<EmbeddingLayer::NamedRows> EmbeddingLayer::tables() const {
  std::vector<NamedRows> list;
  for (int64_t s = 0; s < layout_.slots(); ++s)
    list.push_back({fmt::format("{}.table_{}", name_, s), layout_.table(all_rows(table_), s)});
  return list;
}

std::vector<EmbeddingLayer::NamedRows> EmbeddingLayer::states() const {
  std::vector<NamedRows> list;
  for (size_t i = 0; i < states_.size(); ++i)
    for (int64_t s = 0; s < layout_.slots(); ++s)
      list.push_back({fmt::format("{}.table_{}.{}", name_, s,
                                  optimizer::state_name(rule_.type, static_cast<int>(i))),
                      layout_.table(all_rows(states_[i]), s)});
  return list;
}

}  // namespace hlite::embedding
