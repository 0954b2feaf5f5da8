// Evaluations: the metrics of a run's model over its evaluation set, its test set and the files of a
// folder that is followed. What they move is left out of the counts of training.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "hugectr_lite/trainer/evaluation/evaluator.h"
#include "hugectr_lite/trainer/run/training_counts.h"

namespace hlite::trainer {

// All functions are collective and throw DataError.
class Evaluations {
 public:
  Evaluations(RunContext& run, TrainingCounts& counts) : run_(run), counts_(counts) {}

  // Opens the sets that the config names.
  void open();
  // Takes the memory for scores and labels.
  void allocate();
  // Null if the config does not evaluate and evaluate() was not called.
  [[nodiscard]] const Evaluator* evaluator() const { return evaluator_.get(); }

  // Metrics over the evaluation set (eval_batches batches of batchsize_eval), also where the config
  // does not evaluate. Returns nullopt if a stop is requested meanwhile.
  std::optional<EvalResult> evaluate();
  // The same in two halves, between which a GPU goes on training. start() returns false after a
  // stop request; then finish() must not be called. REQUIRES evaluator().
  [[nodiscard]] bool start();
  [[nodiscard]] EvalResult finish() { return evaluator_->finish(); }
  // Metrics over test_source. REQUIRES that the config has one.
  [[nodiscard]] EvalResult test();
  // Metrics over a file, all of it, none of which exists where it has no samples; nullopt after a
  // stop request.
  [[nodiscard]] std::optional<EvalResult> score_file(const std::string& path);

 private:
  [[nodiscard]] std::unique_ptr<Evaluator> evaluator_of(const EvalSet& set);
  [[nodiscard]] bool start(Evaluator& evaluator);

  RunContext& run_;
  TrainingCounts& counts_;
  std::unique_ptr<Evaluator> evaluator_, tester_;
};

}  // namespace hlite::trainer
