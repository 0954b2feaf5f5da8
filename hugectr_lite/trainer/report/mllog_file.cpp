#include "hugectr_lite/trainer/report/mllog_file.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/log.h"

namespace hlite::trainer {
namespace {

using config::Benchmark;

// Its name, and the AUC at which a run has succeeded, where the config names none.
struct BenchmarkFacts {
  const char* name;
  double target;
};
BenchmarkFacts facts_of(Benchmark benchmark) {
  if (benchmark == Benchmark::kDlrm) return {"dlrm", 0.8025};
  if (benchmark == Benchmark::kDlrmDcnv2) return {"dlrm_dcnv2", 0.80275};
  return {"dlrmv4", 0.75};
}
// Dense layers of the benchmark's DLRM, below and above the interaction.
constexpr int64_t kBottomLayers = 3, kTopLayers = 5;

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

Benchmark benchmark_of(const config::TrainConfig& config) {
  if (config.solver.benchmark == Benchmark::kNone)
    raise<ConfigError>(
        "--mllog: solver.benchmark (\"dlrm\", \"dlrm_dcnv2\" or \"dlrmv4\") is required in the "
        "config");
  return config.solver.benchmark;
}

// As the rules of 6.1 call number formats.
const char* format_name(FloatType type) {
  return type == FloatType::kBf16   ? "\"bfloat16\""
         : type == FloatType::kFp16 ? "\"fp16\""
                                    : "\"fp32\"";
}

// The optimizer of the first tables: its name, by the rules of 6.1, and its rate.
std::pair<std::string, double> table_optimizer(const config::TrainConfig& config) {
  const config::JsonNode* optimizer = nullptr;
  for (const config::JsonNode* layer : config.layers)
    if (layer->find("sparse_embedding_hparam")) {
      optimizer = layer->find("optimizer");
      break;
    }
  std::string name = config::type_name(config.optimizer.rule.type);
  double rate = config.optimizer.schedule.base;
  if (optimizer) {
    name = optimizer->find("type")->string();
    for (const auto& [key, value] : optimizer->members())
      if (const config::JsonNode* base = value.find("learning_rate")) rate = base->number();
  }
  return {name == "RowWiseAdaGrad" ? "RowWiseAdagrad" : name, rate};
}

// Most tokens of a sample: the events of its longest history, the candidate among them, and one for
// each other slot.
int64_t longest_sequence(const config::DataConfig& data) {
  int64_t events = 0, others = 0;
  for (const config::SparseInputConfig& input : data.sparse) {
    events = std::max(events, input.max_len);
    others += input.max_len > 0 ? 0 : input.slot_num;
  }
  return events + others;
}

std::string optimizer_name(config::OptimizerType type) {
  std::string name = config::type_name(type);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

// Dense layers in the config's order, those below and above its interaction.
struct DenseLayers {
  int64_t bottom = 0, top = 0;
};
DenseLayers dense_layers(const config::TrainConfig& config) {
  DenseLayers count;
  bool above = false;
  for (const config::JsonNode* layer : config.layers) {
    const std::string& type = layer->find("type")->string();
    above |= type == "Interaction";
    int64_t& side = above ? count.top : count.bottom;
    if (type == "FusedInnerProduct" || type == "InnerProduct") ++side;
    if (type == "MLP")
      side += std::ssize(layer->find("mlp_param")->find("num_outputs")->elements());
  }
  return count;
}

}  // namespace

MllogFile::MllogFile(const std::string& path, const config::TrainConfig& config,
                     const Submission& submission)
    : config_(config),
      benchmark_(benchmark_of(config)),
      file_(path, /*append=*/false, "the MLPerf log") {
  header(submission);
}

// A file that cannot be written has been complained of before.
MllogFile::~MllogFile() {
  try {
    if (stage_ == Stage::kRun) stop(last_iter_, false);
  } catch (const std::exception& e) {
    log::warning("{}", e.what());
  }
}

void MllogFile::line(const char* type, const char* key, std::string_view value,
                     std::string_view metadata) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  file_.write(fmt::format(
      R"(:::MLLOG {{"namespace": "", "time_ms": {}, "event_type": "{}", "key": "{}", "value": {}, "metadata": {{"file": "train", "lineno": 0{}{}}}}})",
      std::chrono::duration_cast<std::chrono::milliseconds>(now).count(), type, key, value,
      metadata.empty() ? "" : ", ", metadata));
}

void MllogFile::point(const char* key, std::string_view value, std::string_view metadata) {
  line("POINT_IN_TIME", key, value, metadata);
}

void MllogFile::header(const Submission& submission) {
  point("submission_benchmark", quoted(facts_of(benchmark_).name));
  point("submission_org", quoted(submission.org));
  point("submission_division", submission.closed ? "\"closed\"" : "\"open\"");
  point("submission_status", quoted(submission.status));
  const int64_t ranks = config_.solver.ranks();
  point("submission_platform",
        quoted(submission.platform.empty() ? fmt::format("{} x {} ranks", config_.solver.gpu.size(),
                                                         ranks / std::ssize(config_.solver.gpu))
                                           : submission.platform));
  point("cache_clear", submission.cache_clear ? "true" : "false");
  line("INTERVAL_START", "init_start", "null");
  const config::LrSchedule& rates = config_.optimizer.schedule;
  if (rates.decay != config::LrDecay::kPolynomial)
    raise<ConfigError>(
        "--mllog: expected decay \"polynomial\" in the optimizer, which the log's keys describe, "
        "found another");
  point("global_batch_size", fmt::format("{}", config_.solver.batchsize));
  point("gradient_accumulation_steps", "1");
  point("opt_base_learning_rate", json_number(rates.base));
  // The schedule's first step is its warm-up's last where there is none.
  point("opt_learning_rate_warmup_steps",
        fmt::format("{}", rates.warmup_steps > 1 ? rates.warmup_steps : 0));
  if (is(Benchmark::kDlrm)) dlrm_keys(submission.closed);
  if (is(Benchmark::kDlrmDcnv2)) dcnv2_keys();
  if (is(Benchmark::kDlrmv4)) dlrmv4_keys();
}

void MllogFile::dlrm_keys(bool closed) {
  const config::LrSchedule& rates = config_.optimizer.schedule;
  point("lr_decay_start_steps", fmt::format("{}", rates.decay_start));
  point("sgd_opt_base_learning_rate", json_number(rates.base));
  point("sgd_opt_learning_rate_decay_poly_power", json_number(rates.decay_power));
  point("sgd_opt_learning_rate_decay_steps", fmt::format("{}", rates.decay_steps));
  const DenseLayers layers = dense_layers(config_);
  if (closed && (layers.bottom != kBottomLayers || layers.top != kTopLayers))
    raise<ConfigError>(
        "--mllog in the closed division: expected {} dense layers below the interaction and {} "
        "above it, found {} and {}; --submission division=open takes any model",
        kBottomLayers, kTopLayers, layers.bottom, layers.top);
  point("weights_initialization", "null", R"("tensor": "embeddings")");
  for (int64_t i = 1; i <= layers.bottom; ++i)
    point("weights_initialization", "null", fmt::format(R"("tensor": "bottom_mlp_dense{}")", i));
  for (int64_t i = 1; i <= layers.top; ++i)
    point("weights_initialization", "null", fmt::format(R"("tensor": "top_mlp_dense{}")", i));
}

void MllogFile::dcnv2_keys() {
  const config::UpdateRule& rule = config_.optimizer.rule;
  const config::LrSchedule& rates = config_.optimizer.schedule;
  point("opt_name", fmt::format("\"{}\"", optimizer_name(rule.type)));
  point("opt_adagrad_learning_rate_decay", "0");
  point("opt_adagrad_initial_accumulator_value", json_number(rule.initial_accumulator));
  point("opt_adagrad_epsilon", json_number(rule.epsilon));
  point("opt_weight_decay", json_number(rule.weight_decay));
  point("opt_learning_rate_decay_start_step", fmt::format("{}", rates.decay_start));
  point("opt_learning_rate_decay_steps",
        fmt::format("{}", rates.decay_start > 0 ? rates.decay_steps : 0));
}

void MllogFile::dlrmv4_keys() {
  const config::SolverConfig& solver = config_.solver;
  const config::UpdateRule& rule = config_.optimizer.rule;
  const auto [tables, table_rate] = table_optimizer(config_);
  point("max_sequence_length", fmt::format("{}", longest_sequence(config_.data)));
  point("opt_name", quoted(config::type_name(rule.type)));
  point("opt_adam_beta_1", json_number(rule.beta1));
  point("opt_adam_beta_2", json_number(rule.beta2));
  point("opt_adam_epsilon", json_number(rule.epsilon));
  point("opt_weight_decay", json_number(rule.weight_decay));
  point("opt_gradient_clip_norm", json_number(solver.gradient_clip_norm));
  point("opt_sparse_name", quoted(tables));
  point("opt_sparse_base_learning_rate", json_number(table_rate));
  point("opt_learning_rate_warmup_start_lr", "0.0");
  const FloatType type = solver.mixed_precision ? FloatType::kFp16 : solver.precision;
  point("lowest_numerical_precision_in_linear",
        solver.enable_tf32_compute ? "\"tf32\"" : format_name(type));
  point("lowest_numerical_precision_in_attn", format_name(type));
  point("lowest_numerical_precision_in_comm", format_name(solver.wire_precision));
  for (const char* kind : {"tensor", "pipeline", "context", "expert"})
    point(fmt::format("{}_parallelism", kind).c_str(), "1");
  point("micro_batch_size", fmt::format("{}", solver.batchsize / solver.ranks()));
  const std::string& where = config_.root.where();  // FILE:LINE
  point("config_filename",
        quoted(std::filesystem::path(where.substr(0, where.rfind(':'))).filename().string()));
}

void MllogFile::ready(const ReadyEvent& e) {
  ready_ = e;
  last_iter_ = e.iter;
  point("seed", fmt::format("{}", e.seed));
  point("train_samples", fmt::format("{}", e.train_samples));
  point("eval_samples", fmt::format("{}", e.eval_samples));
  if (is(Benchmark::kDlrmv4))
    point("eval_every_data_pct",
          fmt::format("{:.2g}",
                      static_cast<double>(config_.solver.eval_interval * config_.solver.batchsize) /
                          static_cast<double>(std::max<int64_t>(1, e.train_samples))));
  line("INTERVAL_END", "init_stop", "null");
  line("INTERVAL_START", "run_start", "null");
  stage_ = Stage::kRun;
  line("INTERVAL_START", "epoch_start", "null", of_epoch(e.iter));
}

// Of the whole epoch, or where in it the run is.
std::string MllogFile::of_epoch(int64_t iter) const {
  if (is(Benchmark::kDlrm)) return R"("epoch_num": 1)";
  return epoch(iter);
}

std::string MllogFile::epoch(int64_t iter) const {
  const int64_t samples = iter * config_.solver.batchsize;
  if (is(Benchmark::kDlrmv4)) return fmt::format(R"("samples_count": {})", samples);
  const double epoch =
      is(Benchmark::kDlrmDcnv2)
          ? static_cast<double>(iter) / static_cast<double>(ready_.last_iter)
          : 1 + static_cast<double>(samples) / static_cast<double>(ready_.train_samples);
  return fmt::format(R"("epoch_num": {:.6g})", epoch);
}

void MllogFile::eval_begins(int64_t iter) {
  last_iter_ = iter;
  line("INTERVAL_START", "eval_start", "null", epoch(iter));
}

void MllogFile::eval(int64_t iter, const EvalResult& e) {
  point("eval_accuracy", json_number(e.auc), epoch(iter));
  line("INTERVAL_END", "eval_stop", "null", epoch(iter));
  const double target = config_.solver.auc_target.value_or(facts_of(benchmark_).target);
  target_reached_ |= e.auc && *e.auc >= target;
}

void MllogFile::ended(const EndEvent& e) {
  point("tracked_stats",
        fmt::format(R"({{"throughput": {}}})",
                    json_number(e.seconds > 0 ? static_cast<double>(e.samples) / e.seconds : 0)),
        fmt::format(R"("step": {})", e.iter));
  stop(e.iter, target_reached_ && e.reason != EndReason::kInterrupted);
}

void MllogFile::failed(const std::string& why) {
  point("hugectr_lite_failure", quoted(why));
  if (stage_ == Stage::kRun) stop(last_iter_, false);
}

void MllogFile::stop(int64_t iter, bool success) {
  stage_ = Stage::kDone;
  line("INTERVAL_END", "epoch_stop", "null", of_epoch(iter));
  line("INTERVAL_END", "run_stop", "null",
       success ? R"("status": "success")" : R"("status": "aborted")");
}

}  // namespace hlite::trainer
