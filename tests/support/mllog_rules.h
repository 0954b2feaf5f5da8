// What the compliance checker of mlperf-logging asks of a training log, written from its rule
// tables (mlcommons/logging, compliance_checker, training_{1.1,2.0,2.1}.0 for "dlrm",
// training_{3.0,4.0}.0 for "dlrm_dcnv2", training_6.1.0 for "dlrmv4"), so that a log can be checked
// without it.
#pragma once

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace hlite::test {

struct MllogLine {
  std::string key, type;
  nlohmann::json value, metadata;
};

// Throws nlohmann's exceptions on what is no JSON.
inline std::vector<MllogLine> parse_mllog(const std::string& text) {
  std::vector<MllogLine> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    constexpr const char* kToken = ":::MLLOG ";
    if (line.rfind(kToken, 0) != 0) continue;
    const auto json = nlohmann::json::parse(line.substr(std::string(kToken).size()));
    lines.push_back({json.at("key"), json.at("event_type"), json.at("value"), json.at("metadata")});
  }
  return lines;
}

class MllogRules {
 public:
  explicit MllogRules(const std::string& log) : lines_(parse_mllog(log)) {
    for (size_t i = 0; i < lines_.size(); ++i) at_[lines_[i].key].push_back(i);
  }

  // What is broken; empty: the log passes.
  std::vector<std::string> broken() {
    for (const char* key :
         {"submission_benchmark", "submission_org", "submission_platform", "submission_division",
          "submission_status", "init_stop", "run_start", "run_stop", "eval_samples",
          "train_samples", "global_batch_size", "gradient_accumulation_steps"})
      exactly_one(key);
    for (const char* key : {"cache_clear", "init_start", "epoch_start", "epoch_stop", "eval_start",
                            "eval_stop", "eval_accuracy"})
      expect(count(key) > 0, std::string(key) + ": none");
    if (!broken_.empty()) return broken_;
    order({"submission_division", "init_stop"});
    order({"init_start", "init_stop", "run_start", "epoch_start", "eval_start", "run_stop"});
    for (const char* key : {"submission_org", "submission_platform"})
      expect(!value(key).get<std::string>().empty(), std::string(key) + ": empty");
    const std::string status = metadata("run_stop", "status");
    expect(status == "success" || status == "aborted", "run_stop: status");
    expect(value("gradient_accumulation_steps") > 0, "gradient_accumulation_steps: not positive");
    for (const char* key : {"epoch_start", "epoch_stop", "eval_start", "eval_stop"})
      with_epochs(key);
    accuracy();
    if (dlrmv4()) common_6_1();
    if (value("submission_division") == "closed") closed();
    return broken_;
  }

 private:
  size_t count(const std::string& key) { return at_[key].size(); }
  const nlohmann::json& value(const std::string& key) { return lines_[at_[key].at(0)].value; }
  std::string metadata(const std::string& key, const char* name) {
    return lines_[at_[key].at(0)].metadata.value(name, "");
  }
  void expect(bool holds, const std::string& rule) {
    if (!holds) broken_.push_back(rule);
  }
  void exactly_one(const std::string& key) { expect(count(key) == 1, key + ": not one"); }
  void order(const std::vector<std::string>& keys) {
    for (size_t i = 1; i < keys.size(); ++i)
      expect(at_[keys[i - 1]].at(0) < at_[keys[i]].at(0), keys[i] + " before " + keys[i - 1]);
  }
  bool dlrmv4() { return value("submission_benchmark") == "dlrmv4"; }
  void with_epochs(const std::string& key) {
    const char* const name = dlrmv4() ? "samples_count" : "epoch_num";
    for (const size_t i : at_[key]) expect(lines_[i].metadata.contains(name), key + ": no " + name);
  }
  void accuracy() {
    with_epochs("eval_accuracy");
    double best = 0;
    for (const size_t i : at_["eval_accuracy"])
      if (lines_[i].value.is_number()) best = std::max(best, lines_[i].value.get<double>());
    expect(best > 0 && best <= 1, "eval_accuracy: not in (0, 1]");
    if (value("submission_division") != "closed") return;
    expect(best >= (dlrmv4()                                  ? 0.75
                    : value("submission_benchmark") == "dlrm" ? 0.8025
                                                              : 0.80275),
           "eval_accuracy: below the target");
  }
  void closed() {
    exactly_one("opt_base_learning_rate");
    exactly_one("opt_learning_rate_warmup_steps");
    if (value("submission_benchmark") == "dlrm")
      closed_dlrm();
    else if (dlrmv4())
      closed_dlrmv4();
    else
      closed_dcnv2();
  }
  // The open division takes any value.
  void common_6_1() {
    for (const char* key :
         {"max_sequence_length", "opt_name", "opt_adam_beta_1", "opt_adam_beta_2",
          "opt_adam_epsilon", "opt_weight_decay", "opt_gradient_clip_norm", "opt_sparse_name",
          "opt_sparse_base_learning_rate", "opt_learning_rate_warmup_start_lr",
          "eval_every_data_pct", "config_filename", "micro_batch_size", "tensor_parallelism",
          "pipeline_parallelism", "context_parallelism", "expert_parallelism"})
      exactly_one(key);
    for (const char* where : {"linear", "attn", "comm"}) {
      const std::string key = std::string("lowest_numerical_precision_in_") + where;
      exactly_one(key);
      const std::set<nlohmann::json> known = {"fp32", "tf32", "fp16", "bfloat16"};
      if (count(key) == 1) expect(known.contains(value(key)), key + ": not known");
    }
  }
  void closed_dlrmv4() {
    const std::map<std::string, nlohmann::json> wanted = {
        {"train_samples", 2290835423},
        {"eval_samples", 2058204},
        {"max_sequence_length", 4096},
        {"opt_name", "Adam"},
        {"opt_adam_beta_1", 0.95},
        {"opt_adam_beta_2", 0.999},
        {"opt_adam_epsilon", 1e-8},
        {"opt_weight_decay", 0},
        {"opt_gradient_clip_norm", 1},
        {"opt_sparse_name", "RowWiseAdagrad"},
        {"opt_sparse_base_learning_rate", value("opt_base_learning_rate")},
        {"opt_learning_rate_warmup_steps", 24000},
        {"opt_learning_rate_warmup_start_lr", 0},
        {"eval_every_data_pct", 0.001}};
    for (const auto& [key, expected] : wanted)
      if (count(key) == 1) expect(value(key) == expected, key + ": another value");
    const double batch = value("global_batch_size"), rate = value("opt_base_learning_rate");
    expect(std::abs(rate * 8192 / batch - 1e-6) <= 0.5e-6, "opt_base_learning_rate: out of band");
    const double interval = std::ceil(0.001 * 2290835423 / batch) * batch;
    const double first =
        std::ceil(std::floor((4480 * batch + 135331840) / 3) / interval) * interval;
    for (const size_t i : at_["eval_accuracy"])
      expect(std::fmod(lines_[i].metadata.value("samples_count", 0.), interval) == 0,
             "eval_accuracy: not at the grid");
    expect(lines_[at_["eval_accuracy"].at(0)].metadata.value("samples_count", 0.) == first,
           "eval_accuracy: first at another place");
  }
  void closed_dlrm() {
    for (const char* key :
         {"lr_decay_start_steps", "sgd_opt_base_learning_rate", "sgd_opt_learning_rate_decay_steps",
          "sgd_opt_learning_rate_decay_poly_power"})
      exactly_one(key);
    if (count("sgd_opt_learning_rate_decay_poly_power") == 1)
      expect(value("sgd_opt_learning_rate_decay_poly_power") == 2, "decay_poly_power: not 2");
    std::multiset<std::string> tensors, wanted{"embeddings"};
    for (const size_t i : at_["weights_initialization"])
      tensors.insert(lines_[i].metadata.value("tensor", ""));
    for (int i = 1; i <= 3; ++i) wanted.insert("bottom_mlp_dense" + std::to_string(i));
    for (int i = 1; i <= 5; ++i) wanted.insert("top_mlp_dense" + std::to_string(i));
    expect(tensors == wanted, "weights_initialization: not the nine tensors");
  }
  void closed_dcnv2() {
    const std::map<std::string, nlohmann::json> wanted = {
        {"opt_name", "adagrad"},
        {"opt_adagrad_learning_rate_decay", 0},
        {"opt_adagrad_initial_accumulator_value", 0},
        {"opt_adagrad_epsilon", 1e-8},
        {"opt_weight_decay", 0},
        {"opt_learning_rate_decay_start_step", 0},
        {"opt_learning_rate_decay_steps", 0},
        {"opt_learning_rate_warmup_steps", 0},
        {"eval_samples", 89137319}};
    for (const auto& [key, expected] : wanted) {
      exactly_one(key);
      if (count(key) == 1) expect(value(key) == expected, key + ": another value");
    }
  }

  std::vector<MllogLine> lines_;
  std::map<std::string, std::vector<size_t>> at_;
  std::vector<std::string> broken_;
};

}  // namespace hlite::test
