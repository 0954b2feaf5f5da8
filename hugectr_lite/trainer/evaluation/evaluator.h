// Runs the evaluation plan over the evaluation set and computes its metrics.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data_reader/batch_source.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/core/pinned_blocks.h"
#include "hugectr_lite/trainer/evaluation/gpu_evaluation.h"
#include "hugectr_lite/trainer/evaluation/task_metrics.h"
#include "hugectr_lite/trainer/model/model.h"
#include "hugectr_lite/trainer/model/model_results.h"

namespace hlite::trainer {

struct EvalResult {
  // Nothing when the set holds one class only, or the model predicts values (MSELoss).
  std::optional<double> auc;
  double loss = 0;  // mean over all samples, weighted if they have weights
  int64_t samples = 0;
  // Results of the tasks of a model of several: `auc` is their mean, `loss` the training loss. Else
  // empty.
  std::vector<TaskResult> tasks = {};
  double seconds = 0;  // that training stood still for it
  // The share of keys outside of their tables, where key_policy replaces those.
  std::optional<double> replaced_share = {};
  // Further metrics: those of solver.eval_metrics, of several tasks their means.
  metrics::NamedValues more = {};
};

// The further metrics of a model: RMSE first if it predicts values, then those of
// solver.eval_metrics.
std::vector<metrics::Metric> further_metrics(const Model& model);
inline constexpr const char* kRmse = "RMSE";
// All metrics of a model's outputs. Throws DataError on a score that is NaN.
EvalResult metrics_of(const Exec& exec, const Model& model, const SampleOutputs& outputs);
// Of no samples.
EvalResult no_metrics(const Model& model);

// Which set, and how much of it.
struct EvalSet {
  std::string path;
  int64_t most_samples = 0;
  bool test = false;             // or that of eval_source
  std::string predictions = {};  // prefix of files for its scores and labels; empty: none
};
EvalSet evaluation_set(const config::TrainConfig& config);
EvalSet test_set(const config::TrainConfig& config);

class Evaluator {
 public:
  // Evaluates the first `most_samples` samples of the file, or all if it has fewer. Opens it, so
  // that a missing or unfit one is found before training, and keeps it open, or its samples in
  // memory (cache_eval_data). Throws DataError.
  Evaluator(const config::TrainConfig& config, const EvalSet& set, Model& model, const Exec& exec,
            const comm::RankContext& ranks);

  [[nodiscard]] int64_t samples() const { return source_->samples(); }
  [[nodiscard]] const std::string& place() const { return set_.path; }
  // Returns true if any task has labels of both classes with a weight above 0. Reads the set up to
  // there, apart from start(). Collective. Throws DataError.
  [[nodiscard]] bool has_both_classes() const;
  // Takes the memory for scores and labels: on a GPU device memory, or the host's after a warning
  // where the device lacks it. After Model::allocate(), which needs the device's more.
  void allocate();
  // Returns true if metrics are computed while other work goes on after start().
  [[nodiscard]] bool overlaps_training() const { return gpu_ != nullptr; }
  // Runs the evaluation plan over the set: every rank over its rows of each batch. On a GPU with
  // memory for all scores it returns once everything is issued. False: given up early, because
  // stop() said so, to all ranks alike. Collective. REQUIRES allocate().
  bool start(const std::function<bool()>& stop = {});
  // Waits for the metrics of a start() that was true. All ranks get the result of all. Collective.
  // Throws DataError on a score that is NaN.
  EvalResult finish();

 private:
  EvalResult compute();
  EvalResult compute_on_gpu();
  void export_predictions();
  void share(EvalResult& result);
  const config::TrainConfig& config_;
  Model& model_;
  const EvalSet set_;
  Exec exec_;
  const comm::RankContext ranks_;
  std::unique_ptr<data::BatchSource> source_;  // repeats
  PinnedBlocks pinned_;                        // its memory
  SampleOutputs outputs_;                      // in host memory
  std::vector<int64_t> places_;                // of samples in the file, where they are exported
  std::unique_ptr<GpuEvaluation> gpu_;         // or all of it there
  double seconds_ = 0;                         // of the last start()
  int64_t replaced_keys_ = 0;                  // on this rank since the last start()
};

}  // namespace hlite::trainer
