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
constexpr const char* kGpus = "a non-empty list of GPU ids, or of such lists, one for each node";

// Names that HugeCTR's solver has in other versions, or in its Python interface,
// and what to do here.
struct ForeignKey {
  const char* key;
  const char* instead;
};
constexpr ForeignKey kForeignKeys[] = {
    // JSON of other versions.
    {"dense_opt_states_file", "continue a run with --resume"},
    {"sparse_opt_states_file", "continue a run with --resume"},
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
    {"drop_incomplete_batch",
     "the incomplete last batch of an epoch is trained on like the others"},
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

// Files that HugeCTR starts from. One that is not there makes no difference to it.
constexpr const char* kModelFiles =
    "HugeCTR's weights to start from, without effect if there is no such file. One that is there "
    "is refused: `tools/hugectr_model.py` makes a safetensors file of it for `--init`.";

std::string metric_names() {
  return fmt::format(R"("AUC", "AUC:x" with x in [0, 1], "AverageLoss", {} with an integer k >= 1)",
                     metrics::names_text(metrics::any));
}

const Choices<DeviceChoice> kDevices{
    {"auto", DeviceChoice::kAuto}, {"cpu", DeviceChoice::kCpu}, {"cuda", DeviceChoice::kCuda}};

std::vector<int> parse_gpu_row(const JsonNode& row) {
  if (row.kind() != JsonNode::Kind::kArray || row.elements().empty())
    fail_expected(row, "a non-empty list of GPU ids");
  std::vector<int> ids;
  for (const JsonNode& id : row.elements()) {
    if (id.kind() != JsonNode::Kind::kInteger || id.integer() < 0 || id.integer() > kMaxGpuId)
      fail_expected(id, fmt::format("a GPU id in [0, {}]", kMaxGpuId));
    if (std::find(ids.begin(), ids.end(), id.integer()) != ids.end())
      fail_expected(id, "each GPU id once per node");
    ids.push_back(static_cast<int>(id.integer()));
  }
  return ids;
}

// A flat list is one node; else one row for each node.
std::vector<std::vector<int>> parse_gpu(const JsonNode& gpu) {
  if (gpu.kind() != JsonNode::Kind::kArray || gpu.elements().empty()) fail_expected(gpu, kGpus);
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
  if (node.kind() != JsonNode::Kind::kString) fail_expected(node, metric_names());
  const std::string& metric = node.string();
  const std::string name = metric.substr(0, metric.find(':'));
  if (name == "HitRate" || name == "NDCG" || name == "SMAPE")
    fail_at(node,
            fmt::format("\"{}\" is known but not supported; expected {}", name, metric_names()));
  if (auto more = metrics::find(metric)) {
    auto& known = solver.evaluation.metrics;
    for (const metrics::Metric& other : known)
      if (other.name == metric) fail_expected(node, "each metric once");
    known.push_back(std::move(*more));
    return;
  }
  bool& wanted = name == "AUC" ? solver.metric_auc : solver.metric_average_loss;
  if (metric == "AverageLoss" || metric == "AUC") {
    if (wanted) fail_expected(node, "each metric once");
    wanted = true;
    return;
  }
  if (name != "AUC") fail_expected(node, metric_names());
  const auto target = parse_number<double>(std::string_view(metric).substr(name.size() + 1));
  if (!target || !(*target >= 0 && *target <= 1)) fail_expected(node, metric_names());
  if (wanted) fail_expected(node, "each metric once");
  wanted = true;
  if (*target < 1) solver.auc_target = *target;
}

void parse_metrics(const JsonNode& metrics, SolverConfig& solver) {
  if (metrics.kind() != JsonNode::Kind::kArray) fail_expected(metrics, "a list of metrics");
  solver.metric_auc = false;
  for (const JsonNode& metric : metrics.elements()) parse_metric(metric, solver);
}

// Keys for the length of training and the intervals of events.
void declare_lengths(Block& s, SolverConfig& solver) {
  s.integer("max_iter", &solver.max_iter, {.min = 1},
            "Iterations to train. Give this or `num_epochs`.");
  s.integer("num_epochs", &solver.num_epochs, {1, kMaxCount},
            "Epochs to train. Give this or `max_iter`.", otherwise("`1`, without `max_iter`"));
  if (solver.max_iter && solver.num_epochs)
    s.refuse("num_epochs", "expected max_iter or num_epochs, found both");
  if (!solver.max_iter && !solver.num_epochs) solver.num_epochs = 1;
  s.integer("display", &solver.display, {.min = 0},
            "Iterations between progress lines; 0 disables them.");
  s.integer("snapshot", &solver.snapshot, {.min = 0},
            "Iterations between checkpoints; 0 disables them.");
  s.text("snapshot_prefix", &solver.snapshot_prefix,
         "Path prefix of checkpoints: each is a directory named after this and the iteration.");
  s.integer("keep_checkpoints", &solver.keep_checkpoints, {0, kMaxCount},
            "Extension: once a checkpoint of `snapshot` is complete, removes the older ones of "
            "this run but for the newest so many. The one that the run was resumed from stays. 0 "
            "keeps all.");
  s.choice("on_save_error", &solver.on_save_error,
           {{"end", OnSaveError::kEnd}, {"continue", OnSaveError::kContinue}},
           "Extension: what happens when a checkpoint of `snapshot` cannot be written. `end` ends "
           "the run with the error. `continue` warns and trains on; older checkpoints stay. "
           "`--save` always ends with the error.");
}

void declare_ranks(Block& s, SolverConfig& solver) {
  constexpr const char* kIds =
      R"("type":"array","minItems":1,"items":{"type":"integer","minimum":0})";
  s.value(
      "gpu",
      {fmt::format("{}; each a GPU id in [0, {}]", kGpus, kMaxGpuId),
       fmt::format(R"("anyOf":[{{{0}}},{{"type":"array","minItems":1,"items":{{{0}}}}}])", kIds)},
      "The ranks. A list of GPU ids is one node; a list of lists is one node per list. On the "
      "CPU each entry is a rank.",
      otherwise("`[0]`"), [&](const JsonNode& node) { solver.gpu = parse_gpu(node); });
  s.choice("device_layout", &solver.node_first, {{"LocalFirst", false}, {"NodeFirst", true}},
           "How ranks are numbered over nodes of equal size: node by node "
           "(`LocalFirst`), or one rank of each node in turn.");
  for (const auto& row : solver.gpu)
    if (solver.node_first && row.size() != solver.gpu.front().size())
      s.refuse("gpu", fmt::format("expected rows of one length for device_layout \"NodeFirst\", "
                                  "found {} and {}",
                                  solver.gpu.front().size(), row.size()));
}

// Names that later versions have for eval_batches, or that count samples.
constexpr const char *kEvalBatches = "eval_batches", *kMaxEvalBatches = "max_eval_batches",
                     *kMaxEvalSamples = "max_eval_samples";

// Returns the key that says how long an evaluation is; null if there is none.
const char* declare_batches(Block& s, SolverConfig& solver) {
  const auto declare_size = [&](const char* key, int64_t* size, const char* meaning,
                                const Need& need) {
    const int64_t ranks = std::max<int64_t>(1, solver.ranks());
    if (s.integer(key, size, {1, kMaxCount}, meaning, need) && *size % ranks != 0)
      s.expected(key, fmt::format("a multiple of the {} ranks in gpu", ranks));
  };
  declare_size("batchsize", &solver.batchsize,
               "Samples per iteration, over all ranks. A multiple of the number of ranks.",
               kRequired);
  solver.batchsize_eval = solver.batchsize;
  declare_size("batchsize_eval", &solver.batchsize_eval,
               "Samples per batch of an evaluation, over all ranks.", otherwise("`batchsize`"));
  s.integer("eval_interval", &solver.eval_interval, {.min = 0},
            "Iterations between evaluations; 0 disables them.");
  s.integer("eval_start", &solver.eval_start, {.min = 0},
            "Extension: leaves out the evaluations of `eval_interval` before this iteration.");
  s.integer("eval_every_epochs", &solver.evaluation.every_epochs, {0, kMaxCount},
            "Extension: evaluates every N epochs, instead of `eval_interval`; 0 disables it.");
  if (solver.eval_interval > 0 && solver.evaluation.every_epochs > 0)
    s.refuse("eval_every_epochs", "expected eval_interval or eval_every_epochs, found both");

  std::optional<int64_t> batches, max_batches, max_samples;
  s.integer(kEvalBatches, &batches, {0, kMaxCount},
            "Batches per evaluation; required with `eval_interval`. With `eval_every_epochs`, 0 "
            "means the whole evaluation set.",
            otherwise("`0`"));
  s.integer(kMaxEvalBatches, &max_batches, {0, kMaxCount},
            "The name of `eval_batches` in later versions.");
  s.integer(kMaxEvalSamples, &max_samples, {0, kMaxCount},
            "Samples per evaluation, instead of `eval_batches`: as many batches as hold them.");
  const char* given = nullptr;
  for (const char* key : {kEvalBatches, kMaxEvalBatches, kMaxEvalSamples}) {
    if (s.has(key) && given)
      s.refuse(key, fmt::format("expected either {} or {}, found both", given, key));
    if (s.has(key)) given = key;
  }
  const int64_t batch = std::max<int64_t>(1, solver.batchsize_eval);
  solver.eval_batches =
      max_samples ? (*max_samples + batch - 1) / batch : batches.value_or(max_batches.value_or(0));
  return given;
}

// "AUC:x" in later versions.
void declare_auc_threshold(Block& s, SolverConfig& solver) {
  std::optional<double> threshold;
  s.number("auc_threshold", &threshold, {.min = 0, .max = 1},
           "Stops training when the AUC of an evaluation reaches it, as `AUC:x` of `eval_metrics` "
           "does. 1 means never.",
           otherwise("none"));
  if (!threshold) return;
  if (solver.auc_target)
    s.refuse("auc_threshold", "expected auc_threshold or \"AUC:x\" in eval_metrics, found both");
  if (!solver.metric_auc)
    s.refuse("auc_threshold", "\"AUC\" in eval_metrics is required with auc_threshold");
  if (*threshold < 1) solver.auc_target = threshold;
}

// Number formats, which exclude each other: fp16 with a static loss scale, TF32, an own choice.
void declare_precision(Block& s, SolverConfig& solver) {
  s.value(
      "mixed_precision", {"a loss scale of 128, 256, 512 or 1024", R"("enum":[128,256,512,1024])"},
      "Trains in fp16 with this loss scale; on the CPU in bf16.", {}, [&](const JsonNode& node) {
        for (const int64_t scale : {128, 256, 512, 1024})
          if (node.is_number() && node.number() == static_cast<double>(scale))
            solver.mixed_precision = scale;
        if (!solver.mixed_precision) fail_expected(node, "a loss scale of 128, 256, 512 or 1024");
      });
  s.boolean("enable_tf32_compute", &solver.enable_tf32_compute,
            "Uses TF32 for matrix products on a GPU. Excludes `mixed_precision`.");
  if (solver.mixed_precision && solver.enable_tf32_compute)
    s.refuse("enable_tf32_compute", "expected mixed_precision or enable_tf32_compute, found both");
  if (solver.mixed_precision) solver.precision = FloatType::kFp16;
  const bool given = s.choice(
      "precision", &solver.precision,
      {{"fp32", FloatType::kFloat}, {"bf16", FloatType::kBf16}, {"fp16", FloatType::kFp16}},
      "Extension: number format of activations and their gradients. `fp16` needs a GPU.",
      otherwise("`\"fp32\"`, or `\"fp16\"` with `mixed_precision`"));
  if (given && solver.mixed_precision && solver.precision == FloatType::kFloat)
    s.refuse("precision", "expected \"bf16\" or \"fp16\" with mixed_precision, found \"fp32\"");
  if (given && solver.enable_tf32_compute && solver.precision != FloatType::kFloat)
    s.refuse("precision", fmt::format("expected \"fp32\" with enable_tf32_compute, found \"{}\"",
                                      float_type_name(solver.precision)));
}

void declare_tables(Block& s, SolverConfig& solver) {
  s.choice(
      "table_precision", &solver.table_precision,
      {{"fp32", FloatType::kFloat}, {"bf16", FloatType::kBf16}, {"fp16", FloatType::kFp16}},
      "Extension: number format of the rows of embedding tables. With 16 bits, rows take half the "
      "memory; sums, updates and optimizer states stay in float, and an update rounds a row "
      "stochastically, by draws that repeat.");
}

void declare_memory(Block& s, SolverConfig& solver) {
  EmbeddingMemoryConfig memory;
  std::optional<Block> of = s.object_or(
      "embedding_memory", "auto", &memory.automatic,
      "Extension: trains tables that are larger than memory. On the CPU the rows that fit in "
      "`host_gb` are in memory and the others on a disk. On GPUs all rows are in the memory of the "
      "host, and those that fit in `gpu_gb` in the GPU's; with `host_gb` and `disk` too, "
      "those that do not fit in the memory of the host are on the disk. A row moves with its "
      "optimizer states when a batch needs it, so the results are those of training in memory, bit "
      "for bit. "
      "`\"auto\"` "
      "takes what the machine has, and keeps all rows in memory if they fit.");
  if (memory.automatic) solver.embedding_memory = memory;
  if (!of) return;
  of->number("gpu_gb", &memory.gpu_gb, {.min = 0, .without_min = true},
             "On GPUs: memory of each for rows, their optimizer states and what finds them, in GB "
             "(10^9 bytes). It must hold the distinct rows of two batches.");
  of->number("host_gb", &memory.host_gb, {.min = 0, .without_min = true},
             "Memory of a process for the same, if the other rows are on a disk; on a GPU it is "
             "page-locked.");
  of->text("disk", &memory.disk,
           "Folder of a local disk for the other rows. The files have no names and end with the "
           "process.");
  of->number("disk_gb", &memory.disk_gb, {.min = 0},
             "Maximum size in GB of the file of each embedding layer and rank; 0: no limit but the "
             "disk's.");
  if (const JsonNode* const node = of->node()) {
    const bool host = node->find("host_gb"), disk = node->find("disk");
    if (host != disk)
      of->refuse("", fmt::format("expected host_gb and disk together, found no {}",
                                 host ? "disk" : "host_gb"));
    else if (!host && !node->find("gpu_gb"))
      of->refuse("", "expected gpu_gb, or host_gb and disk, found neither");
    solver.embedding_memory = memory;
  }
}

void declare_execution(Block& s, SolverConfig& solver) {
  s.choice("device", &solver.device, kDevices,
           "Extension: `auto` uses GPUs if there are any that can train the config, else the CPU.");
  s.integer("threads", &solver.threads, {0, 4096},
            "Extension: CPU threads of all ranks together; 0 uses all that the process may use.");
  s.boolean("cuda_graph", &solver.cuda_graph, "Runs each iteration as one CUDA graph.");
  s.boolean("holistic_cuda_graph", &solver.holistic_cuda_graph,
            "Accepted, without effect: a graph holds the whole iteration in any case.");
  s.boolean("enable_overlap", &solver.enable_overlap,
            "On the CPU, gives communication and embeddings threads of their own.");
  s.boolean("algorithm_search", &solver.algorithm_search,
            "Measures cuBLASLt's algorithms once per machine and keeps the fastest.");
  s.choice("input_key_type", &solver.int64_keys, {{"I32", false}, {"I64", true}},
           "Type of the keys in Norm files.");
  s.choice("wire_precision", &solver.wire_precision,
           {{"fp32", FloatType::kFloat}, {"bf16", FloatType::kBf16}},
           "Extension: number format of rows, their gradients and dense "
           "gradients when they are sent between ranks.");
  s.boolean("shard_optimizer", &solver.shard_optimizer,
            "Extension: shards the dense optimizer over ranks (ZeRO-1).");
  s.choice("input", &solver.input, {{"own", InputWay::kOwn}, {"broadcast", InputWay::kBroadcast}},
           "Extension: how ranks learn which rows others request. With `own`, "
           "ranks exchange request lists. With `broadcast`, every rank gets "
           "the keys of the whole batch and makes the lists itself: the same "
           "bits, with more to send and to sort.");
  s.choice("benchmark", &solver.benchmark,
           {{"dlrm", Benchmark::kDlrm},
            {"dlrm_dcnv2", Benchmark::kDlrmDcnv2},
            {"dlrmv4", Benchmark::kDlrmv4}},
           "Extension: the MLPerf benchmark whose rules `--mllog` follows.");
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

int64_t SolverConfig::max_ranks_of_a_node() const {
  size_t most = 0;
  for (const auto& row : gpu) most = std::max(most, row.size());
  return static_cast<int64_t>(most);
}

void declare(Block& s, SolverConfig& solver) {
  s.integer("seed", &solver.seed, {.min = 0},
            "Seed for initialization, shuffling and dropout. 0 picks one and prints it.");
  bool fixed = true;
  s.choice("lr_policy", &fixed, {{"fixed", true}},
           "The only policy; the schedule is set in the optimizer block.");
  declare_lengths(s, solver);
  declare_ranks(s, solver);
  const char* eval_length = declare_batches(s, solver);
  std::string further;
  for (const metrics::Rule& rule : metrics::rules())
    further += fmt::format("{} `{}` ({})", further.empty() ? "" : ",", rule.name, rule.about);
  s.value(
      "eval_metrics",
      {fmt::format("a list of metrics; each {}", metric_names()),
       fmt::format(
           R"("type":"array","items":{{"type":"string","pattern":"^(AUC(:.+)?|AverageLoss|{})$"}})",
           metrics::names_pattern(metrics::any))},
      fmt::format("Metrics of an evaluation. `AUC:x` stops training when AUC reaches x. "
                  "Extensions:{}. {} are taken per group and need `eval_group_slot`.",
                  further, metrics::names_text(metrics::grouped, "`", "and"))
          .c_str(),
      otherwise("`[\"AUC\"]`"), [&](const JsonNode& node) { parse_metrics(node, solver); });
  declare_auc_threshold(s, solver);
  declare(s, solver.evaluation, solver.evaluates());
  s.text("export_predictions_prefix", &solver.export_predictions_prefix,
         "After each evaluation, writes its predictions to the text file `<prefix>prediction` and "
         "its labels to `<prefix>label`, a line for each sample in the order of the set; the next "
         "evaluation replaces them. "
         "Predictions are probabilities, or with `MSELoss` values, as `predict` writes them.",
         otherwise("none are written"));
  if (!solver.export_predictions_prefix.empty() && !solver.evaluates())
    s.refuse("export_predictions_prefix", "eval_interval or eval_every_epochs is required with it");
  for (const char* key : kModelFileKeys) {
    std::vector<std::string> files;
    s.strings(key, &files, kModelFiles, otherwise("none"));
  }
  s.number("gradient_clip_norm", &solver.gradient_clip_norm, {.min = 0},
           "Extension: maximum global L2 norm of the gradients that `gradient_clip_scope` names; 0 "
           "disables clipping.");
  s.choice("gradient_clip_scope", &solver.gradient_clip_all, {{"all", true}, {"dense", false}},
           "Extension: what `gradient_clip_norm` takes the norm of and clips: all gradients, or "
           "those of the network, and tables are updated as without it.");
  declare_precision(s, solver);
  declare_execution(s, solver);
  declare_tables(s, solver);
  declare_memory(s, solver);
  for (const ForeignKey& foreign : kForeignKeys) s.unsupported(foreign.key, foreign.instead);
  s.finish();  // which names a misspelt eval_batches
  s.check([&] {
    if (solver.eval_interval > 0 && solver.eval_batches == 0)
      fail_at(s.at(eval_length ? eval_length : "eval_interval"),
              fmt::format("expected {} >= 1 as eval_interval is {}, found {}",
                          eval_length ? eval_length : kEvalBatches, solver.eval_interval,
                          eval_length ? "0" : "none"));
  });
}

void declare(Block& s, AllReduceConfig& all_reduce) {
  all_reduce.oneshot = true;
  s.choice("algo", &all_reduce.oneshot, {{"Oneshot", true}, {"NCCL", false}},
           "Between CPU ranks: one pass, or reduce-scatter and all-gather.");
  s.boolean("grouped", &all_reduce.grouped,
            "Sends dense gradients and those of replicated rows together.");
  s.boolean("ordered", &all_reduce.ordered,
            "Extension: sums in the order of ranks, which is bitwise reproducible. `false`, with "
            "`NCCL`: on GPUs `ncclAllReduce` sums, in an order of its own.");
  if (!all_reduce.ordered && all_reduce.oneshot)
    s.refuse("ordered", "expected algo NCCL with ordered false, found Oneshot");
}

}  // namespace hlite::config
