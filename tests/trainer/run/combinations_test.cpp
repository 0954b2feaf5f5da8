// Every pair of options trains, or is refused before training by an error that names a key: a
// covering array of all options, a few iterations a row, on one rank and on two.
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "data_reader/norm_format.h"
#include "hugectr_lite/trainer/keys/config_keys.h"
#include "hugectr_lite/trainer/run/check.h"
#include "hugectr_lite/trainer/run/session.h"
#include "tests/data_reader/norm_file.h"
#include "tests/support/catch.h"
#include "tests/support/covering_array.h"
#include "tests/support/cuda_backends.h"
#include "tests/support/errors.h"
#include "tests/support/metrics_events.h"
#include "tests/support/stream_order.h"
#include "tests/support/temporary_directory.h"

namespace hlite::test {
namespace {

// ---- The options ----

struct OptionChoice {
  std::string name;
  std::vector<std::string> changes = {};  // as of --set; <optimizer> stands for its hparam block
  double tolerance = 0;  // of losses on other ranks, where more than rounding of float differs
};
struct RunOption {
  std::string name;
  std::vector<OptionChoice> choices;
};

std::string of_tables(const std::string& change) {
  return "layers.emb.sparse_embedding_hparam." + change;
}
std::vector<std::string> with(std::vector<std::string> list, const std::string& more) {
  list.push_back(more);
  return list;
}

constexpr double kBf16 = 0.03;
constexpr const char* kRates =
    R"("learning_rate":0.01,"warmup_steps":2,"decay_start":2,"decay_steps":2,"end_lr":0.001)";

// `path`: "optimizer" or that of the tables.
std::vector<OptionChoice> optimizers(const std::string& path) {
  const std::pair<const char*, std::string> kinds[] = {
      {"SGD", R"("sgd_hparam":{)"},
      {"MomentumSGD", R"("momentum_sgd_hparam":{"momentum_factor":0.9,)"},
      {"Nesterov", R"("nesterov_hparam":{"momentum_factor":0.9,)"},
      {"Adam",
       R"("adam_hparam":{"beta1":0.9,"beta2":0.99,"epsilon":1e-6,"corrected_epsilon":true,)"},
      {"AdamW", R"("adamw_hparam":{"weight_decay":0.01,)"},
      {"AdaGrad", R"("adagrad_hparam":{"initial_accumulator":0.1,)"},
      {"RowWiseAdaGrad", R"("row_wise_adagrad_hparam":{"initial_accumulator":0.1,)"},
      {"RowWiseAdam", R"("row_wise_adam_hparam":{"beta1":0.9,"beta2":0.99,"epsilon":1e-6,)"},
      {"Ftrl", R"("ftrl_hparam":{"beta":1,"lambda1":0.001,"lambda2":0.001,)"}};
  std::vector<OptionChoice> choices;
  const auto add = [&](const std::string& name, const char* type, const std::string& hparam,
                       const char* update) {
    choices.push_back({name,
                       {fmt::format(R"({}={{"type":"{}","update_type":"{}",{}{}}}}})", path, type,
                                    update, hparam, kRates)}});
  };
  for (const auto& [type, hparam] : kinds) {
    if (path == "optimizer") {
      add(type, type, hparam, "Local");
      continue;
    }
    add(fmt::format("{} Local", type), type, hparam, "Local");
    if (type != std::string("Nesterov") && type != std::string("Ftrl") &&
        type != std::string("AdamW"))
      add(fmt::format("{} Global", type), type, hparam, "Global");
  }
  return choices;
}

// Layers between [B,dense], [B,S,V] and the logits "z", as members of the list.
const std::map<std::string, std::string> kNetworks = {
    {"Interaction",
     R"({"name":"b","type":"FusedInnerProduct","bottom":"dense","top":"b","fc_param":{"num_output":4}},
      {"name":"i","type":"Interaction","bottom":["b","emb"],"top":"x"},
      {"name":"d","type":"Dropout","bottom":"x","top":"h","rate":0.2})"},
    {"MultiCross", R"({"name":"r","type":"Reshape","bottom":"emb","top":"r","leading_dim":12},
      {"name":"c","type":"Concat","bottom":["r","dense"],"top":"x"},
      {"name":"m","type":"MultiCross","bottom":"x","top":"h","mc_param":{"num_layers":2}})"},
    {"FmOrder2", R"({"name":"r","type":"Reshape","bottom":"emb","top":"r","leading_dim":12},
      {"name":"f","type":"FmOrder2","bottom":"r","top":"f","out_dim":4},
      {"name":"c","type":"Concat","bottom":["f","dense"],"top":"x"},
      {"name":"a","type":"ReLU","bottom":"x","top":"h"})"},
    {"BatchNorm", R"({"name":"r","type":"Reshape","bottom":"emb","top":"r","leading_dim":12},
      {"name":"c","type":"Concat","bottom":["r","dense"],"top":"x"},
      {"name":"n","type":"BatchNorm","bottom":"x","top":"h","bn_param":{"factor":0.1,"eps":1e-3}})"},
    {"MLP", R"({"name":"r","type":"Reshape","bottom":"emb","top":"r","leading_dim":12},
      {"name":"c","type":"Concat","bottom":["r","dense"],"top":"x"},
      {"name":"p","type":"MLP","bottom":"x","top":"p","mlp_param":{"num_outputs":[8,6],"activation":"Gelu"}},
      {"name":"l","type":"LayerNorm","bottom":"p","top":"l","ln_param":{"eps":1e-5}},
      {"name":"e","type":"PReLU_Dice","bottom":"l","top":"h","prelu_dice_param":{"alpha":0.2,"epsilon":0.05,"trained":true}})"}};

// Those of the CPU, or of GPUs.
std::vector<RunOption> run_options(bool on_gpus) {
  std::vector<OptionChoice> networks, table_rules = optimizers("layers.emb.optimizer");
  for (const auto& [name, layers] : kNetworks) networks.push_back({name});
  const auto type = [](const char* name) { return fmt::format("layers.emb.type={}", name); };
  const char* const tier =
      on_gpus ? R"({"gpu_gb":0.01})" : R"({"host_gb":0.1,"disk":".","disk_gb":1})";
  // clang-format off
  std::vector<RunOption> options = {
      {"network", networks},
      {"loss",
       {{"BCE"}, {"pos_weight", {"layers.loss.pos_weight=2", "layers.loss.base_score=0.2"}},
        {"MSE", {"layers.loss.type=MSELoss", "layers.data.label.real=true", "layers.loss.base_score=0.4", "layers.loss.score_scale=2"}},
        {"tasks", {"layers.loss.type=MultiCrossEntropyLoss", "layers.loss.target_weight=[0.5,1]", "layers.data.label.label_dim=2", "layers.z.fc_param.num_output=2"}}}},
      {"dense penalty", {{"none"}, {"L2", {"layers.loss.regularizer=L2", "layers.loss.lambda=0.01"}}}},
      {"optimizer", optimizers("optimizer")},
      {"decay",
       {{"polynomial", {"optimizer.<optimizer>.decay_power=1"}}, {"cosine", {"optimizer.<optimizer>.decay=cosine"}},
        {"exponential", {"optimizer.<optimizer>.decay=exponential", "optimizer.<optimizer>.decay_rate=0.5"}}}},
      {"table optimizer", table_rules},
      {"embedding",
       {{"Hybrid"}, {"OneHot", {type("LocalizedSlotSparseEmbeddingOneHot")}},
        {"Localized", {type("LocalizedSlotSparseEmbeddingHash")}},
        {"Distributed", {type("DistributedSlotSparseEmbeddingHash"), of_tables("max_vocabulary_size_per_gpu=345")}}}},
      {"sharding",
       {{"default"}, {"frequency", {of_tables("sharding=frequency")}}, {"slot", {of_tables("sharding=slot")}},
        {"row", {of_tables("sharding=row")}}, {"replicate", {of_tables("sharding=replicate")}},
        {"auto", {of_tables("sharding=auto"), of_tables(R"(sharding_param={"replicate_below_mb":0.0005})")}}}},
      {"combiner", {{"sum"}, {"mean", {of_tables("combiner=1")}}}},
      {"keys of a slot",
       {{"one"}, {"two", {"layers.data.sparse[0].nnz_per_slot=2"}},
        {"up to two", {"layers.data.sparse[0].nnz_per_slot=2", "layers.data.sparse[0].is_fixed_length=false"}}}},
      {"slot_tables", {{"own"}, {"shared", {of_tables("slot_size_array=[40,30,30]"), of_tables("slot_tables=[0,1,1]")}}}},
      {"init_stddev", {{"uniform"}, {"normal", {of_tables("init_stddev=0.1")}}}},
      {"regularizer",
       {{"none"}, {"L1", {of_tables("regularizer=L1"), of_tables("lambda=0.01")}},
        {"L2", {of_tables("regularizer=L2"), of_tables("lambda=0.01")}}}},
      {"admission",
       {{"all"}, {"count", {of_tables(R"(admission={"type":"count","threshold":2})")}},
        {"probability", {of_tables(R"(admission={"type":"probability","probability":0.5})")}}}},
      {"eviction",
       {{"none"}, {"age", {of_tables(R"(eviction={"interval":2,"steps_to_live":1})")}},
        {"count", {of_tables(R"(eviction={"interval":1,"min_count":2,"count_decay":0.5})")}},
        {"norm", {of_tables(R"(eviction={"interval":1,"min_l2_norm":0.1})")}}}},
      {"when_full", {{"error"}, {"evict", {of_tables("when_full=evict")}}, {"default", {of_tables("when_full=default")}}}},
      {"default_vector", {{"initial"}, {"zeros", {of_tables("default_vector=zeros")}}}},
      {"exchange_capacity", {{"derived"}, {"1", {of_tables("exchange_capacity=1")}}}},
      {"communication_type",
       {{"IB_NVLink"},
        {"NVLink", {of_tables("communication_type=NVLink_SingleNode"), of_tables("max_num_frequent_categories=10")}}}},
      {"gradient_clip_norm",
       {{"none"}, {"0.1", {"solver.gradient_clip_norm=0.1"}},
        {"of dense", {"solver.gradient_clip_norm=0.1", "solver.gradient_clip_scope=dense"}}}},
      {"precision",
       {{"fp32"}, {"bf16", {"solver.precision=bf16"}, kBf16}, {"mixed", {"solver.mixed_precision=1024"}, kBf16},
        {"tf32", {"solver.enable_tf32_compute=true"}}}},
      {"wire_precision", {{"fp32"}, {"bf16", {"solver.wire_precision=bf16"}, kBf16}}},
      {"table_precision",
       {{"fp32"}, {"bf16", {"solver.table_precision=bf16"}, kBf16}, {"fp16", {"solver.table_precision=fp16"}, kBf16}}},
      {"shard_optimizer", {{"false"}, {"true", {"solver.shard_optimizer=true"}}}},
      {"input", {{"own"}, {"broadcast", {"solver.input=broadcast"}}}},
      {"embedding_memory",
       {{"none"}, {"tier", {std::string("solver.embedding_memory=") + tier}}, {"auto", {"solver.embedding_memory=auto"}}}},
      {"enable_overlap", {{"false"}, {"true", {"solver.enable_overlap=true"}}}},
      {"device_layout", {{"LocalFirst"}, {"NodeFirst", {"solver.device_layout=NodeFirst"}}}},
      {"evaluations", {{"by iterations"}, {"by epochs", {"solver.eval_interval=0", "solver.eval_every_epochs=1"}}}},
      {"cuda_graph", {{"true"}, {"false", {"solver.cuda_graph=false"}}}},
      {"all_reduce",
       {{"NCCL"}, {"Oneshot", {R"(all_reduce={"algo":"Oneshot"})"}},
        {"grouped", {R"(all_reduce={"algo":"NCCL","grouped":true})"}},
        {"unordered", {R"(all_reduce={"algo":"NCCL","ordered":false})"}}}},
      {"format",
       {{"RawAsync"}, {"Raw", {"layers.data.format=Raw"}}, {"Norm", {"layers.data.format=Norm"}},
        {"Norm with sums", {"layers.data.format=Norm", "layers.data.check=Sum"}}}},
      {"order",
       {{"as is"}, {"batches", {R"(layers.data.async_param={"shuffle":true})"}},
        {"samples", {"layers.data.shuffle_samples=true"}}}},
      {"float_label_dense", {{"false"}, {"true", {"layers.data.float_label_dense=true"}}}},
      {"keys", {{"local"}, {"global", {"layers.data.keys=global"}}}},
      {"input_key_type", {{"I32"}, {"I64", {"solver.input_key_type=I64"}}}},
      {"key_policy",
       {{"error"}, {"clamp", {"layers.data.key_policy=clamp"}},
        {"oov", {"layers.data.key_policy=oov", "layers.data.oov_key=3"}}}},
      {"sample_weight", {{"false"}, {"true", {"layers.data.label.sample_weight=true"}}}},
      {"negative_share", {{"1"}, {"0.5", {"layers.data.negative_share=0.5"}}}},
      {"aligned", {{"None"}, {"Auto", {"layers.data.dense.aligned=Auto"}}}},
      {"test_source", {{"none"}, {"one", {"layers.data.test_source=eval.data"}}}},
      {"cache_eval_data", {{"0"}, {"2", {"layers.data.cache_eval_data=2"}}}},
      {"eval_metrics",
       {{"AUC"}, {"loss", {R"(solver.eval_metrics=["AverageLoss"])"}},
        {"calibration", {R"(solver.eval_metrics=["AUC","AverageLoss","Calibration"])"}},
        {"groups", {R"(solver.eval_metrics=["AUC","GAUC","NDCG@2","HitRate@2"])", "solver.eval_group_slot=0"}}}},
      {"policy",
       {{"none"}, {"lr_plateau", {R"(solver.lr_plateau={"monitor":"AverageLoss","factor":0.5})"}},
        {"early_stop", {R"(solver.early_stop={"monitor":"AverageLoss","patience":9})"}},
        {"auc_threshold", {"solver.auc_threshold=1"}}}},
      {"predictions", {{"none"}, {"written", {"solver.export_predictions_prefix=p_"}}}},
      {"snapshot", {{"none"}, {"every 2", {"solver.snapshot=2", "solver.snapshot_prefix=s_", "solver.keep_checkpoints=1"}}}},
  };
  // clang-format on
  return options;
}

// Pairs that the check refuses, with a part of what it says. "*": any choice but the first.
struct Refusal {
  const char *option, *choices, *other, *other_choices, *says;
};
constexpr const char
    *kHashed = "Localized|Distributed",
    *kSized = "Hybrid|OneHot",
    *kGlobal =
        "SGD Global|MomentumSGD Global|Adam Global|AdaGrad Global|RowWiseAdaGrad Global|"
        "RowWiseAdam Global";
constexpr const char* kLocal =
    "SGD Local|MomentumSGD Local|Nesterov Local|Adam Local|AdamW Local|AdaGrad Local|"
    "RowWiseAdaGrad Local|RowWiseAdam Local|Ftrl Local";
constexpr Refusal kRefusals[] = {
    {"table optimizer", kLocal, "regularizer", "*", "update_type"},
    {"table optimizer",
     "MomentumSGD Local|Nesterov Local|Adam Local|AdamW Local|RowWiseAdam Local|Ftrl Local",
     "gradient_clip_norm", "0.1", "update_type"},
    {"table optimizer", "MomentumSGD Global|Adam Global|RowWiseAdam Global", "embedding_memory",
     "tier", "update_type"},
    {"embedding", kSized, "admission", "*", "admission"},
    {"embedding", kSized, "eviction", "*", "eviction"},
    {"embedding", kSized, "when_full", "*", "when_full"},
    {"embedding", kSized, "default_vector", "*", "default_vector"},
    {"embedding", kHashed, "sharding", "*", "sharding"},
    {"embedding", "OneHot", "sharding", "frequency", "sharding"},
    {"embedding", kHashed, "regularizer", "*", "regularizer"},
    {"embedding", kHashed, "init_stddev", "*", "init_stddev"},
    {"embedding", "*", "exchange_capacity", "*", "exchange_capacity"},
    {"embedding", "*", "communication_type", "*", "communication_type"},
    {"embedding", "OneHot", "keys of a slot", "*", "one key a slot"},
    {"embedding", kHashed, "input", "*", "solver.input"},
    {"all_reduce", "unordered", "shard_optimizer", "*", "all_reduce.ordered"},
    {"format", "RawAsync|Raw", "input_key_type", "*", "input_key_type"},
    {"format", "RawAsync|Raw", "keys", "*", "keys"},
    {"format", "Norm|Norm with sums", "order", "batches", "shuffle"},
    {"loss", "MSE|tasks", "negative_share", "*", "negative_share"},
    {"loss", "MSE|tasks", "dense penalty", "*", "regularizer"},
    {"loss", "MSE", "eval_metrics", "calibration|groups", "eval_metrics"},
    {"dense penalty", "*", "shard_optimizer", "*", "shard_optimizer"},
    {"eval_metrics", "loss", "policy", "auc_threshold", "auc_threshold"},
    {"sample_weight", "*", "eval_metrics", "groups", "eval_metrics"},
    {"embedding_memory", "tier", "regularizer", "*", "embedding_memory"},
    {"embedding_memory", "tier", "gradient_clip_norm", "0.1", "embedding_memory"},
};

// Keys, and types of layers, that no option has.
const std::vector<std::pair<std::string, std::vector<std::string>>> kLeftOut = {
    {"the frame of every run here",
     {"seed", "max_iter", "display", "gpu", "batchsize", "batchsize_eval", "eval_batches", "device",
      "threads", "source", "eval_source", "dense_dim", "slot_num", "embedding_vec_size"}},
    {"has one value, or no effect",
     {"lr_policy", "holistic_cuda_graph", "num_iterations_statistics", "plan_file", "load_factor",
      "hybrid_embedding_type", "multi_hot_reader"}},
    {"another name, or another way to say the same",
     {"num_epochs", "max_eval_batches", "max_eval_samples", "global_update", "initial_accu_value",
      "max_feature_num_per_sample", "max_nnz", "num_workers", "workspace_size_per_gpu_in_mb",
      "max_vocabulary_size", "vocabulary_size", "is_dense_float"}},
    {"a number beside a key that is combined",
     {"eval_start", "min_delta", "min_lr", "num_samples", "eval_num_samples", "num_threads",
      "num_batches_per_thread", "io_depth", "io_alignment", "io_block_size",
      "max_num_infrequent_samples", "p_dup_max", "max_all_reduce_bandwidth",
      "max_all_to_all_bandwidth", "efficiency_bandwidth_ratio", "memory_gb", "bandwidth_ratio",
      "capacity"}},
    {"about files and messages, not about training",
     {"strict", "on_save_error", "model_file", "dense_model_file", "sparse_model_file", "benchmark",
      "algorithm_search"}},
    {"needs data of its own: formats_test.cpp, followed_folder_test.cpp",
     {"columns", "labels", "conts", "cats", "follow"}},
    {"not reproducible: gpu_test.cpp", {"atomic_update"}},
    {"tests/network/layers_test.cpp trains it",
     {"Add",
      "Cast",
      "DotProduct",
      "ELU",
      "ElementwiseMultiply",
      "FusedReshapeConcat",
      "GELU",
      "GRU",
      "HSTU",
      "MatrixMultiply",
      "MultiHeadAttention",
      "Multiply",
      "PositionEmbedding",
      "ReduceMean",
      "ReduceSum",
      "Scale",
      "SequenceConcat",
      "SequenceLast",
      "SequenceMask",
      "SiLU",
      "Sigmoid",
      "Slice",
      "Softmax",
      "Sub",
      "Tanh",
      "Transpose",
      "WeightMultiply"}},
    {"end_to_end/histories_test.cpp", {"max_len", "lengths"}},
    {"in every network here", {"BinaryCrossEntropyLoss", "InnerProduct"}},
};

// ---- A run ----

std::string config_text(const std::string& network) {
  return R"({"solver":{"seed":7,"max_iter":4,"display":1,"gpu":[0],"batchsize":16,"batchsize_eval":16,
    "eval_batches":2,"eval_interval":2,"algorithm_search":false},
   "layers":[{"name":"data","type":"Data","format":"RawAsync","source":"train.data","eval_source":"eval.data","check":"None",
     "label":{"top":"label","label_dim":1},"dense":{"top":"dense","dense_dim":2},
     "sparse":[{"top":"keys","slot_num":3,"nnz_per_slot":1}]},
    {"name":"emb","type":"HybridSparseEmbedding","bottom":"keys","top":"emb",
     "sparse_embedding_hparam":{"slot_size_array":[40,30,300],"embedding_vec_size":4}},)" +
         kNetworks.at(network) +
         R"(,{"name":"z","type":"InnerProduct","bottom":"h","top":"z","fc_param":{"num_output":1}},
    {"name":"loss","type":"BinaryCrossEntropyLoss","bottom":["z","label"],"top":"loss"}]})";
}

// 64 samples as the Data layer wants them.
std::string samples_for(const config::DataConfig& data, uint64_t seed) {
  constexpr int64_t kSamples = 64;
  const bool norm = data.format == &config::data_format("Norm");
  const uint32_t slot_rows[] = {40, 30, 300};
  std::vector<std::byte> header;
  if (norm)
    data::append_norm_header({.sum = data.checksums,
                              .records = kSamples,
                              .label_dim = data.label_width(),
                              .dense_dim = data.dense_dim,
                              .slots = std::ssize(slot_rows)},
                             header);
  std::string bytes(reinterpret_cast<const char*>(header.data()), header.size());
  for (uint64_t i = 0; i < kSamples; ++i) {
    const auto draw = [&](uint64_t j, uint32_t below) { return random::word(seed, j, i) % below; };
    std::string sample;
    const auto put_number = [&](bool is_float, uint32_t value) {
      if (is_float)
        put(sample, static_cast<float>(value));
      else
        put(sample, static_cast<int32_t>(value));
    };
    for (uint64_t l = 0; l < static_cast<uint64_t>(data.label_dim); ++l)
      put_number(norm || data.float_label, draw(l, 2));
    if (data.sample_weight) put_number(true, 1 + draw(50, 3));
    for (uint64_t d = 0; d < static_cast<uint64_t>(data.dense_dim); ++d)
      put_number(norm || data.float_dense, draw(100 + d, 3));
    uint64_t column = 200;
    uint32_t offset = 0;
    for (size_t s = 0; s < data.sparse[0].hotness.size(); ++s) {
      const auto most = static_cast<uint32_t>(data.sparse[0].hotness[s]);
      const uint32_t keys = data.sparse[0].is_fixed_length ? most : 1 + draw(300 + s, most);
      if (norm) put(sample, static_cast<int32_t>(keys));
      for (uint32_t k = 0; k < most; ++k) {
        if (k >= keys) {
          if (!norm) put(sample, kNoKey);
          continue;
        }
        const uint32_t key = draw(column++, 30) + (data.global_keys ? offset : 0);
        if (data.int64_keys)
          put(sample, static_cast<int64_t>(key));
        else
          put(sample, key);
      }
      offset += slot_rows[s];
    }
    bytes += norm ? norm_block(data.checksums, sample) : sample;
  }
  return bytes;
}

struct RunResult {
  std::string refusal;  // of the check; names a key
  std::string fault;    // anything else that went wrong
  std::vector<double> losses;
};

class Combinations {
 public:
  explicit Combinations(const cuda::Backend* gpu = nullptr)
      : gpu_(gpu), options_(run_options(gpu != nullptr)) {
    for (const auto& option : options_) sizes_.push_back(static_cast<int>(option.choices.size()));
    for (const Refusal& refusal : kRefusals)
      for (const ChosenPair& pair : pairs(refusal)) refused_.insert(pair);
  }
  [[nodiscard]] CoveringArray array() const { return {sizes_, refused_}; }
  [[nodiscard]] std::vector<ChosenPair> pairs(const Refusal& of) const {
    std::vector<ChosenPair> list;
    for (const Chosen& a : chosen(of.option, of.choices))
      for (const Chosen& b : chosen(of.other, of.other_choices))
        list.push_back(a.option < b.option ? ChosenPair{a, b} : ChosenPair{b, a});
    return list;
  }
  [[nodiscard]] std::string name(Chosen of) const {
    return option(of).name + "=" + choice(of).name;
  }
  [[nodiscard]] std::string name(const ChosenPair& pair) const {
    return name(pair.first) + ", " + name(pair.second);
  }

  [[nodiscard]] RunResult run(const ArrayRow& row, const std::string& gpus) const {
    const TemporaryDirectory files;
    RunResult result;
    try {
      write_text(files / "config.json", config_text(options_[0].choices[at(row[0])].name));
      std::unique_ptr<config::TrainConfig> config;
      trainer::Options options{.threads = 2, .metrics = files / "metrics.jsonl", .quiet = true};
      options.device = gpu_ ? config::DeviceChoice::kCuda : config::DeviceChoice::kCpu;
      try {
        config = config::load_train_config(files / "config.json",
                                           with(changes(row), "solver.gpu=" + gpus));
        write_data(*config, files);
        (void)trainer::check_report(*config, options);
      } catch (const ConfigError& error) {
        result.refusal = error.what();
        return result;
      }
      (void)trainer::run_training(*config, options, gpu_);
      for (const auto& record : events_in(options.metrics))
        if (record.contains("loss"))
          result.losses.push_back(record["loss"].is_number() ? record["loss"].get<double>() : NAN);
      if (result.losses.size() < 4) result.fault = "found no losses";
      for (const double loss : result.losses)
        if (!std::isfinite(loss)) result.fault = "a loss is not finite";
    } catch (const std::exception& error) {
      result.fault = error.what();
    }
    return result;
  }

  // What is wrong with a row on one rank and on two; empty: nothing.
  [[nodiscard]] std::string fault(const ArrayRow& row) const {
    const RunResult one = run(row, "[0]"), two = run(row, "[0,1]");
    for (const auto& [result, ranks] :
         {std::pair{&one, "one rank"}, std::pair{&two, "two ranks"}}) {
      if (!result->refusal.empty()) return fmt::format("refused on {}: {}", ranks, result->refusal);
      if (!result->fault.empty()) return fmt::format("on {}: {}", ranks, result->fault);
    }
    double tolerance = 1e-4;
    for (size_t i = 0; i < row.size(); ++i)
      tolerance = std::max(tolerance, options_[i].choices[at(row[i])].tolerance);
    for (size_t i = 0; i < std::min(one.losses.size(), two.losses.size()); ++i)
      if (std::abs(one.losses[i] - two.losses[i]) > tolerance * (1 + std::abs(one.losses[i])))
        return fmt::format("loss {}: {} on one rank, {} on two", i, one.losses[i], two.losses[i]);
    return one.losses.size() == two.losses.size() ? "" : "other numbers of losses on two ranks";
  }

  // The pairs of a row that fail alone, with all else as plain as it can be.
  [[nodiscard]] std::string failing_pairs(const ArrayRow& row, const std::string& fault_of_row) {
    std::string text;
    const CoveringArray all = array();
    for (const ChosenPair& pair : CoveringArray::pairs_of(row)) {
      const auto [at, is_new] = alone_.try_emplace(pair);
      if (is_new) at->second = fault(all.plainest({pair.first, pair.second}).value_or(row));
      if (!at->second.empty()) text += "\n  " + name(pair) + ": " + at->second;
    }
    if (!text.empty()) return text;
    text = "\n  no pair fails alone: " + fault_of_row + "\n  in";
    for (int i = 0; i < std::ssize(row); ++i)
      if (row[at(i)] > 0) text += " " + name({i, row[at(i)]}) + ";";
    return text;
  }
  [[nodiscard]] const std::vector<RunOption>& options() const { return options_; }

 private:
  [[nodiscard]] static size_t at(int i) { return static_cast<size_t>(i); }
  [[nodiscard]] const RunOption& option(Chosen of) const { return options_[at(of.option)]; }
  [[nodiscard]] const OptionChoice& choice(Chosen of) const {
    return option(of).choices[at(of.choice)];
  }
  // `names`: with | between them.
  [[nodiscard]] std::vector<Chosen> chosen(const std::string& option_name,
                                           const std::string& names) const {
    std::vector<Chosen> list;
    for (int i = 0; i < std::ssize(options_); ++i)
      for (int j = 0; j < sizes_[at(i)]; ++j)
        if (options_[at(i)].name == option_name &&
            (names == "*"
                 ? j > 0
                 : ("|" + names + "|").find("|" + choice({i, j}).name + "|") != std::string::npos))
          list.push_back({i, j});
    INFO(option_name << "=" << names);
    REQUIRE(!list.empty());
    return list;
  }
  [[nodiscard]] std::vector<std::string> changes(const ArrayRow& row) const {
    std::vector<std::string> all;
    std::string hparam;
    for (size_t i = 0; i < row.size(); ++i)
      for (std::string change : options_[i].choices[at(row[i])].changes) {
        if (change.starts_with("optimizer={")) {
          const size_t end = change.find("_hparam"), begin = change.rfind('"', end) + 1;
          hparam = change.substr(begin, end + 7 - begin);
        }
        if (const size_t found = change.find("<optimizer>"); found != std::string::npos)
          change.replace(found, 11, hparam);
        all.push_back(change);
      }
    return all;
  }
  static void write_data(const config::TrainConfig& config, const TemporaryDirectory& files) {
    for (const auto& [name, seed] : {std::pair{"train", 1}, std::pair{"eval", 2}}) {
      const std::string samples = samples_for(config.data, static_cast<uint64_t>(seed)),
                        path = files / (std::string(name) + ".data");
      if (config.data.format == &config::data_format("Norm")) {
        write_text(path, fmt::format("1\n{}.norm\n", name));
        write_text(files / (std::string(name) + ".norm"), samples);
      } else {
        write_text(path, samples);
      }
    }
  }

  const cuda::Backend* const gpu_;
  const std::vector<RunOption> options_;
  std::vector<int> sizes_;
  std::set<ChosenPair> refused_;
  std::map<ChosenPair, std::string> alone_;  // fault() of pairs
};

// ---- The tests ----

void check_all_rows(Combinations all) {
  const auto rows = all.array().rows();
  for (const ArrayRow& row : rows)
    if (const std::string why = all.fault(row); !why.empty())
      FAIL_CHECK(all.failing_pairs(row, why));
  CHECK(rows.size() >= 100);  // table optimizers times optimizers
}

}  // namespace

TEST_CASE("every pair of options trains on one rank as on two", "[release-only]") {
  check_all_rows(Combinations());
}

TEST_CASE("every pair of options trains on one GPU as on two", "[release-only]") {
  const EmulatedDevices devices(2);
  check_all_rows(Combinations(&emulated_cuda()));
}

TEST_CASE("every key is among the options that are combined, or left out for a reason") {
  std::string text;
  for (const bool on_gpus : {false, true})
    for (const RunOption& option : run_options(on_gpus))
      for (const OptionChoice& choice : option.choices)
        for (const std::string& change : choice.changes) text += change + "\n";
  for (const auto& [type, layers] : kNetworks) text += layers;
  const auto combined = [&](const std::string& key) {
    return std::regex_search(text, std::regex("\\b" + key + "\\b"));
  };
  std::set<std::string> declared;
  const std::function<void(const config::BlockSchema&)> look = [&](const config::BlockSchema& of) {
    for (const config::KeySchema& key : of.keys) {
      declared.insert(key.name);
      if (key.block) look(*key.block);
    }
  };
  const trainer::ConfigKeys keys = trainer::config_keys();
  look(keys.config);
  look(keys.data);
  for (const auto& [type, block] : keys.embeddings) look(block);
  for (const auto& [type, block] : keys.layers) declared.insert(type);
  std::map<std::string, std::string> left_out;
  for (const auto& [reason, names] : kLeftOut)
    for (const std::string& name : names) {
      INFO(name);
      CHECK(left_out.emplace(name, reason).second);
      CHECK(declared.contains(name));
      CHECK(!combined(name));
    }
  for (const std::string& key : declared) {
    INFO(key);
    CHECK((combined(key) || left_out.contains(key)));
  }
}

TEST_CASE("pairs that cannot train are refused by the check, with a key", "[release-only]") {
  const Combinations all;
  std::set<ChosenPair> seen;
  for (const Refusal& refusal : kRefusals) {
    for (const ChosenPair& pair : all.pairs(refusal)) {
      INFO(all.name(pair));
      CHECK(seen.insert(pair).second);
      const auto row = all.array().plainest({pair.first, pair.second});
      REQUIRE(row.has_value());
      const RunResult found = all.run(*row, "[0,1]");
      CHECK(found.fault == "");
      INFO(found.refusal);
      check_contains(found.refusal, {refusal.says});
    }
  }
}

}  // namespace hlite::test
