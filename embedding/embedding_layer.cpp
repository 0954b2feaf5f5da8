#include "embedding/embedding_layer.h"

#include <algorithm>

#include "embedding/lookup.h"
#include "embedding/table_init.h"
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

// 0 or "sum", 1 or "mean": with one key a slot they are the same.
void read_combiner(config::ObjectReader& hparam) {
  const config::JsonNode* node = hparam.find("combiner");
  if (!node) return;
  using Kind = config::JsonNode::Kind;
  const bool number =
      node->kind() == Kind::kInteger && (node->integer() == 0 || node->integer() == 1);
  const bool name =
      node->kind() == Kind::kString && (node->string() == "sum" || node->string() == "mean");
  if (!number && !name) config::fail_expected(*node, "0 (sum) or 1 (mean)");
}

}  // namespace

bool is_embedding_type(const std::string& type) {
  return type == "HybridSparseEmbedding" || type == "LocalizedSlotSparseEmbeddingOneHot";
}

EmbeddingLayer::EmbeddingLayer(const config::JsonNode& node, bool strict,
                               const config::DataConfig& data,
                               const config::OptimizerConfig& fallback)
    : node_(&node) {
  config::ObjectReader reader(node, strict);
  type_ = reader.string("type");
  HLITE_CHECK(is_embedding_type(type_), "{} is no embedding", type_);
  const bool hybrid = type_ == "HybridSparseEmbedding";
  top_ = reader.string("top");
  name_ = reader.string_or("name", top_);
  const std::string bottom = reader.string("bottom");
  const auto& inputs = data.sparse;
  const auto input =
      std::find_if(inputs.begin(), inputs.end(), [&](const auto& s) { return s.top == bottom; });
  if (input == inputs.end()) {
    std::vector<std::string> known;
    for (const auto& s : inputs) known.push_back(s.top);
    config::fail_at(reader.member("bottom"),
                    fmt::format("expected a sparse input of layers[0] ({}), found \"{}\"",
                                fmt::join(known, ", "), bottom));
  }
  if (inputs.size() != 1 || !data.key_layout().is_one_hot())
    config::fail_at(
        reader.member("bottom"),
        "expected the only sparse input, of one key a slot: others are not trained yet");
  auto hparam = reader.object("sparse_embedding_hparam");
  const int64_t width = hparam.integer(
      "embedding_vec_size", {.min = 1, .max = hybrid ? kMaxHybridWidth : int64_t{1} << 16});
  read_combiner(hparam);
  if (hybrid) read_hybrid_keys(hparam);
  if (hparam.has("max_vocabulary_size_per_gpu")) hparam.accept("max_vocabulary_size_per_gpu");
  const std::vector<int64_t> rows =
      hparam.integers("slot_size_array", {.min = 1, .max = (int64_t{1} << 32) - 1});
  const config::JsonNode& sizes = hparam.member("slot_size_array");
  if (static_cast<int64_t>(rows.size()) != input->slot_num)
    config::fail_expected(
        sizes, fmt::format("{} sizes, one for each slot of \"{}\"", input->slot_num, bottom));
  // The dialect ignores the data layer's sizes for RawAsync and needs them for Raw.
  if (!data.slot_size_array.empty() && data.slot_size_array != rows) {
    const std::string message =
        fmt::format("expected the same sizes as layers[0].slot_size_array [{}], found [{}]",
                    fmt::join(data.slot_size_array, ", "), fmt::join(rows, ", "));
    if (data.format == "Raw") config::fail_at(sizes, message);
    log::warning("{}: {}; the embedding's sizes are used", sizes.path(), message);
  }
  hparam.finish();
  layout_ = TableLayout(rows, width);
  const config::JsonNode* own = reader.find("optimizer");
  const config::OptimizerConfig optimizer = own ? config::parse_optimizer(*own, strict) : fallback;
  if (optimizer.update_type == config::UpdateType::kLazyGlobal)
    config::fail_at(
        own ? *own : node,
        "update_type \"LazyGlobal\" is known, but not supported yet; expected Local or Global");
  rule_ = optimizer::update_rule_of(optimizer);
  update_type_ = optimizer.update_type;
  schedule_ = optimizer::lr_schedule_of(optimizer);
  reader.finish();
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

int64_t EmbeddingLayer::workspace_bytes(const TableLayout& layout, int64_t train_batch,
                                        int threads) {
  return (layout.slots() + threads) * train_batch * static_cast<int64_t>(sizeof(uint64_t));
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
                 c.exec, layout_, all_rows(table_),
                 Matrix<const uint32_t>(buffers_->data<uint32_t>(keys), c.batch, slots),
                 View<float, 3>(buffers_->data<float>(output_), c.batch, slots, layout_.width));
           },
       .bytes_per_sample = static_cast<double>(layout_.slots()) * 2 * row_bytes});
}

void EmbeddingLayer::emit_update(plan::Plan& plan, plan::BufferId keys, plan::BufferId grad,
                                 plan::BufferId rate, plan::BufferId step, int64_t train_batch,
                                 int threads) {
  sparse_update_ = std::make_unique<SparseUpdate>(layout_, train_batch, threads);
  std::vector<plan::BufferId> reads = {keys, grad, rate, step, table_}, writes = {table_};
  reads.insert(reads.end(), states_.begin(), states_.end());
  writes.insert(writes.end(), states_.begin(), states_.end());
  const double row_bytes = static_cast<double>(layout_.width) * sizeof(float);
  plan.add(
      {.name = name_ + ".update",
       .lane = plan::Lane::kEmbedding,
       .reads = reads,
       .writes = writes,
       .run =
           [this, keys, grad, rate, step](const plan::StepContext& c) {
             const int64_t slots = layout_.slots();
             const auto state = [&](size_t i) {
               return i < states_.size() ? all_rows(states_[i]) : Matrix<float>();
             };
             sparse_update_->update(
                 c.exec, rule_, update_type_, *buffers_->data<float>(rate),
                 *buffers_->data<int64_t>(step),
                 Matrix<const uint32_t>(buffers_->data<uint32_t>(keys), c.batch, slots),
                 View<const float, 3>(buffers_->data<float>(grad), c.batch, slots, layout_.width),
                 all_rows(table_), state(0), state(1));
           },
       // Gradient read, row (and state) read and written.
       .bytes_per_sample = static_cast<double>(layout_.slots()) * row_bytes *
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
