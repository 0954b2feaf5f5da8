// The `solver` and `all_reduce` blocks.
#include <algorithm>
#include <limits>

#include "hugectr_lite/config/config_blocks.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/parse_number.h"

namespace hlite::config {
namespace {

constexpr int64_t kMaxCount = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxGpuId = 65535;
constexpr size_t kMaxRanks = 65536;

// Names that HugeCTR's solver has in other versions, or in its Python interface,
// and what to do here.
struct ForeignKey {
  const char* key;
  const char* instead;
};
constexpr ForeignKey kForeignKeys[] = {
    // JSON of other versions.
    {"dense_model_file",
     "start with --init and a safetensors file, which tools/hugectr_model.py makes of it"},
    {"sparse_model_file",
     "start with --init and a safetensors file, which tools/hugectr_model.py makes of it"},
    {"dense_opt_states_file", "continue a run with --resume"},
    {"sparse_opt_states_file", "continue a run with --resume"},
    {"export_predictions_prefix", "score files with the program predict"},
    // Python: other spellings.
    {"vvgpu", "use gpu"},
    {"lr", "use learning_rate in the optimizer's hparam block"},
    {"warmup_steps", "it belongs in the optimizer's hparam block"},
    {"decay_start", "it belongs in the optimizer's hparam block"},
    {"decay_steps", "it belongs in the optimizer's hparam block"},
    {"decay_power", "it belongs in the optimizer's hparam block"},
    {"end_lr", "it belongs in the optimizer's hparam block"},
    {"repeat_dataset", "use max_iter or num_epochs"},
    {"use_mixed_precision", "use mixed_precision with the loss scale, or precision"},
    {"scaler", "use mixed_precision with the loss scale"},
    {"metrics_spec", "use eval_metrics"},
    {"i64_input_key", "use input_key_type"},
    {"use_algorithm_search", "use algorithm_search"},
    {"use_cuda_graph", "use cuda_graph"},
    {"use_holistic_cuda_graph", "use holistic_cuda_graph"},
    {"use_overlapped_pipeline", "use enable_overlap"},
    {"all_reduce_algo", "use algo in the all_reduce block"},
    {"grouped_all_reduce", "use grouped in the all_reduce block"},
    {"num_iterations_statistics", "it belongs in the embedding's sparse_embedding_hparam"},
    {"is_dlrm", "the layers tell; remove it"},
    {"drop_incomplete_batch", "an incomplete training batch is always dropped"},
    {"perf_logging", "use --metrics"},
    {"gen_loss_summary", "the loss is read only every display iterations"},
    {"kafka_brockers", "models are not streamed"},
    // Python: overlap switches. Here steps overlap wherever their buffers allow it.
    {"async_mlp_wgrad", "use enable_overlap"},
    {"overlap_lr", "use enable_overlap"},
    {"overlap_init_wgrad", "use enable_overlap"},
    {"overlap_ar_a2a", "use enable_overlap"},
    {"eval_overlap", "use enable_overlap"},
    {"train_intra_iteration_overlap", "use enable_overlap"},
    {"train_inter_iteration_overlap", "use enable_overlap"},
    {"eval_intra_iteration_overlap", "use enable_overlap"},
    {"eval_inter_iteration_overlap", "use enable_overlap"},
};

const std::vector<std::pair<std::string, DeviceChoice>> kDevices{
    {"auto", DeviceChoice::kAuto}, {"cpu", DeviceChoice::kCpu}, {"cuda", DeviceChoice::kCuda}};

std::vector<int> parse_gpu_row(const JsonNode& row) {
  if (row.kind() != JsonNode::Kind::kArray || row.elements().empty()) {
    fail_expected(row, "a non-empty list of GPU ids");
  }
  std::vector<int> ids;
  for (const JsonNode& id : row.elements()) {
    if (id.kind() != JsonNode::Kind::kInteger || id.integer() < 0 || id.integer() > kMaxGpuId) {
      fail_expected(id, fmt::format("a GPU id in [0, {}]", kMaxGpuId));
    }
    if (std::find(ids.begin(), ids.end(), id.integer()) != ids.end()) {
      fail_expected(id, "each GPU id once per node");
    }
    ids.push_back(static_cast<int>(id.integer()));
  }
  return ids;
}

// A flat list is one node; else one row for each node.
std::vector<std::vector<int>> parse_gpu(const JsonNode& gpu) {
  if (gpu.kind() != JsonNode::Kind::kArray || gpu.elements().empty()) {
    fail_expected(gpu, "a non-empty list of GPU ids, or of such lists, one for each node");
  }
  std::vector<std::vector<int>> nodes;
  if (gpu.elements().front().kind() != JsonNode::Kind::kArray) {
    nodes.push_back(parse_gpu_row(gpu));
  } else {
    for (const JsonNode& row : gpu.elements()) nodes.push_back(parse_gpu_row(row));
  }
  size_t ranks = 0;
  for (const auto& row : nodes) ranks += row.size();
  if (ranks > kMaxRanks) fail_at(gpu, fmt::format("expected at most {} ranks", kMaxRanks));
  return nodes;
}

void parse_metric(const JsonNode& node, SolverConfig& solver) {
  static const std::string expected =
      fmt::format("\"AUC\", \"AUC:x\" with x in [0, 1], \"AverageLoss\", {}", kMoreMetrics);
  const char* const kExpected = expected.c_str();
  if (node.kind() != JsonNode::Kind::kString) fail_expected(node, kExpected);
  const std::string& metric = node.string();
  const std::string name = metric.substr(0, metric.find(':'));
  if (name == "HitRate" || name == "NDCG" || name == "SMAPE") {
    fail_at(node, fmt::format("\"{}\" is known but not supported; expected {}", name, kExpected));
  }
  if (auto more = eval_metric(metric)) {
    auto& metrics = solver.evaluation.metrics;
    for (const EvalMetric& other : metrics)
      if (other.name == metric) fail_expected(node, "each metric once");
    metrics.push_back(std::move(*more));
    return;
  }
  bool& wanted = name == "AUC" ? solver.metric_auc : solver.metric_average_loss;
  if (metric == "AverageLoss" || metric == "AUC") {
    if (wanted) fail_expected(node, "each metric once");
    wanted = true;
    return;
  }
  if (name != "AUC") fail_expected(node, kExpected);
  const auto target = parse_number<double>(std::string_view(metric).substr(name.size() + 1));
  if (!target || !(*target >= 0 && *target <= 1)) fail_expected(node, kExpected);
  if (wanted) fail_expected(node, "each metric once");
  wanted = true;
  if (*target < 1) solver.auc_target = *target;
}

void parse_metrics(ObjectReader& reader, SolverConfig& solver) {
  const JsonNode* metrics = reader.find("eval_metrics");
  if (metrics == nullptr) return;  // AUC
  if (metrics->kind() != JsonNode::Kind::kArray) fail_expected(*metrics, "a list of metrics");
  solver.metric_auc = false;
  for (const JsonNode& metric : metrics->elements()) parse_metric(metric, solver);
}

void parse_length(ObjectReader& reader, SolverConfig& solver) {
  if (reader.has("max_iter")) solver.max_iter = reader.integer("max_iter", {.min = 1});
  if (const JsonNode* epochs = reader.find("num_epochs")) {
    if (solver.max_iter) fail_at(*epochs, "expected max_iter or num_epochs, found both");
    solver.num_epochs = reader.integer("num_epochs", {1, kMaxCount});
  }
  if (!solver.max_iter && !solver.num_epochs) solver.num_epochs = 1;
}

// What later versions call eval_batches, or say in samples.
constexpr const char* kEvalLengths[] = {"eval_batches", "max_eval_batches", "max_eval_samples"};

// Which of them the config has; null: none.
const char* eval_length(ObjectReader& reader) {
  const char* given = nullptr;
  for (const char* key : kEvalLengths) {
    if (!reader.has(key)) continue;
    if (given)
      fail_at(reader.member(key), fmt::format("expected either {} or {}, found both", given, key));
    given = key;
  }
  return given;
}

// In batches: of samples, as many as hold them.
int64_t parse_eval_batches(ObjectReader& reader, int64_t batchsize_eval) {
  const char* key = eval_length(reader);
  const int64_t length = key ? reader.integer(key, {0, kMaxCount}) : 0;
  if (key != kEvalLengths[2]) return length;
  return (length + batchsize_eval - 1) / batchsize_eval;
}

void parse_batches(ObjectReader& reader, SolverConfig& solver) {
  const int64_t ranks = solver.ranks();
  const auto check_divisible = [&](const char* key, int64_t size) {
    if (size % ranks != 0) {
      fail_expected(reader.member(key), fmt::format("a multiple of the {} ranks in gpu", ranks));
    }
  };
  solver.batchsize = reader.integer("batchsize", {1, kMaxCount});
  check_divisible("batchsize", solver.batchsize);
  solver.batchsize_eval = reader.integer_or("batchsize_eval", solver.batchsize, {1, kMaxCount});
  if (reader.has("batchsize_eval")) check_divisible("batchsize_eval", solver.batchsize_eval);

  solver.eval_interval = reader.integer_or("eval_interval", 0, {.min = 0});
  solver.evaluation.every_epochs = reader.integer_or("eval_every_epochs", 0, {0, kMaxCount});
  if (solver.eval_interval > 0 && solver.evaluation.every_epochs > 0)
    fail_at(reader.member("eval_every_epochs"),
            "expected eval_interval or eval_every_epochs, found both");
  solver.eval_batches = parse_eval_batches(reader, solver.batchsize_eval);
}

// Number formats, which exclude each other: fp16 with a static loss scale, TF32, an own choice.
void parse_precision(ObjectReader& reader, SolverConfig& solver) {
  const JsonNode* mixed = reader.find("mixed_precision");
  if (mixed != nullptr) {
    const bool integral = mixed->is_number() && (mixed->number() == 128 || mixed->number() == 256 ||
                                                 mixed->number() == 512 || mixed->number() == 1024);
    if (!integral) fail_expected(*mixed, "a loss scale of 128, 256, 512 or 1024");
    solver.mixed_precision = static_cast<int64_t>(mixed->number());
  }
  solver.enable_tf32_compute = reader.boolean_or("enable_tf32_compute", false);
  if (mixed != nullptr && solver.enable_tf32_compute) {
    fail_at(reader.member("enable_tf32_compute"),
            "expected mixed_precision or enable_tf32_compute, found both");
  }
  solver.precision = reader.value_or<FloatType>(
      "precision", mixed != nullptr ? FloatType::kFp16 : FloatType::kFloat,
      {{"fp32", FloatType::kFloat}, {"bf16", FloatType::kBf16}, {"fp16", FloatType::kFp16}});
  if (!reader.has("precision")) return;
  const JsonNode& precision = reader.member("precision");
  if (mixed != nullptr && solver.precision == FloatType::kFloat) {
    fail_at(precision, "expected \"bf16\" or \"fp16\" beside mixed_precision, found \"fp32\"");
  }
  if (solver.enable_tf32_compute && solver.precision != FloatType::kFloat) {
    fail_at(precision, fmt::format("expected \"fp32\" beside enable_tf32_compute, found \"{}\"",
                                   float_type_name(solver.precision)));
  }
}

}  // namespace

DeviceChoice device_choice(std::string_view name) {
  for (const auto& [known, device] : kDevices)
    if (known == name) return device;
  raise<ConfigError>("device: expected \"auto\", \"cpu\" or \"cuda\", found \"{}\"", name);
}

int64_t SolverConfig::ranks() const {
  size_t count = 0;
  for (const auto& row : gpu) count += row.size();
  return static_cast<int64_t>(count);
}

int64_t SolverConfig::most_ranks_of_a_node() const {
  size_t most = 0;
  for (const auto& row : gpu) most = std::max(most, row.size());
  return static_cast<int64_t>(most);
}

SolverConfig parse_solver(const JsonNode& node, bool strict) {
  ObjectReader reader(node, strict);
  for (const ForeignKey& foreign : kForeignKeys) reader.unsupported(foreign.key, foreign.instead);

  SolverConfig solver;
  solver.seed = static_cast<uint64_t>(reader.integer_or("seed", 0, {.min = 0}));
  reader.choice("lr_policy", {"fixed"});  // the schedule itself is the optimizer's
  solver.display = reader.integer("display", {.min = 0});
  parse_length(reader, solver);
  solver.snapshot = reader.integer("snapshot", {.min = 0});
  solver.snapshot_prefix = reader.string("snapshot_prefix");

  solver.gpu = parse_gpu(reader.member("gpu"));
  solver.node_first =
      reader.choice_or("device_layout", "LocalFirst", {"LocalFirst", "NodeFirst"}) == "NodeFirst";
  for (const auto& row : solver.gpu) {
    if (solver.node_first && row.size() != solver.gpu.front().size()) {
      fail_at(reader.member("gpu"),
              fmt::format("expected rows of one length for device_layout \"NodeFirst\", found {} "
                          "and {}",
                          solver.gpu.front().size(), row.size()));
    }
  }
  parse_batches(reader, solver);
  parse_metrics(reader, solver);
  parse_watches(reader, solver.evaluates(), solver.evaluation);
  solver.gradient_clip_norm = reader.number_or("gradient_clip_norm", 0, {.min = 0});

  parse_precision(reader, solver);
  solver.wire_precision =
      reader.value_or<FloatType>("wire_precision", FloatType::kFloat,
                                 {{"fp32", FloatType::kFloat}, {"bf16", FloatType::kBf16}});
  solver.shard_optimizer = reader.boolean_or("shard_optimizer", false);
  solver.input = reader.value_or<InputWay>(
      "input", InputWay::kOwn, {{"own", InputWay::kOwn}, {"broadcast", InputWay::kBroadcast}});
  solver.cuda_graph = reader.boolean_or("cuda_graph", true);
  solver.enable_overlap = reader.boolean_or("enable_overlap", false);
  solver.holistic_cuda_graph = reader.boolean_or("holistic_cuda_graph", false);
  solver.algorithm_search = reader.boolean_or("algorithm_search", true);
  solver.int64_keys = reader.choice_or("input_key_type", "I32", {"I32", "I64"}) == "I64";
  solver.device = reader.value_or("device", DeviceChoice::kAuto, kDevices);
  solver.threads = static_cast<int>(reader.integer_or("threads", 0, {0, 4096}));
  solver.benchmark = reader.value_or<Benchmark>(
      "benchmark", Benchmark::kNone,
      {{"dlrm", Benchmark::kDlrm}, {"dlrm_dcnv2", Benchmark::kDlrmDcnv2}});
  reader.finish();
  // Only now: without eval_batches there may be a misspelt one, which finish() has named.
  if (solver.eval_interval > 0 && solver.eval_batches == 0) {
    const char* key = eval_length(reader);
    fail_at(reader.member(key ? key : "eval_interval"),
            fmt::format("expected {} >= 1 as eval_interval is {}, found {}",
                        key ? key : kEvalLengths[0], solver.eval_interval, key ? "0" : "none"));
  }
  return solver;
}

AllReduceConfig parse_all_reduce(const JsonNode& node, bool strict) {
  ObjectReader reader(node, strict);
  AllReduceConfig all_reduce;
  all_reduce.oneshot = reader.choice_or("algo", "Oneshot", {"Oneshot", "NCCL"}) == "Oneshot";
  all_reduce.grouped = reader.boolean_or("grouped", false);
  all_reduce.ordered = reader.boolean_or("ordered", true);
  if (!all_reduce.ordered && all_reduce.oneshot)
    fail_at(reader.member("ordered"), "expected algo NCCL with ordered false, found Oneshot");
  reader.finish();
  return all_reduce;
}

}  // namespace hlite::config
