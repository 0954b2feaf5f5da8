#include "hugectr_lite/trainer/run/evaluations.h"

#include "data_reader/no_samples.h"

namespace hlite::trainer {

std::unique_ptr<Evaluator> Evaluations::evaluator_of(const EvalSet& set) {
  return std::make_unique<Evaluator>(run_.config, set, *run_.model, run_.exec(), run_.ranks);
}

void Evaluations::open() {
  if (run_.config.solver.evaluates()) evaluator_ = evaluator_of(evaluation_set(run_.config));
  if (!run_.config.data.test_source.empty()) tester_ = evaluator_of(test_set(run_.config));
}

void Evaluations::allocate() {
  if (evaluator_) evaluator_->allocate();
}

std::optional<EvalResult> Evaluations::evaluate() {
  run_.expect_data();
  if (!evaluator_) {
    evaluator_ = evaluator_of(evaluation_set(run_.config));
    run_.model->between_runs([&] { evaluator_->allocate(); });
  }
  if (!start()) return std::nullopt;
  return finish();
}

bool Evaluations::start() { return start(*evaluator_); }

bool Evaluations::start(Evaluator& evaluator) {
  bool whole = false;
  counts_.leave_out([&] { whole = evaluator.start([this] { return run_.agree_to_stop(); }); });
  return whole;
}

EvalResult Evaluations::test() {
  run_.model->between_runs([&] { tester_->allocate(); });
  EvalResult result;
  counts_.leave_out([&] {
    tester_->start();
    result = tester_->finish();
  });
  return result;
}

std::optional<EvalResult> Evaluations::score_file(const std::string& path) {
  std::unique_ptr<Evaluator> evaluator;
  try {
    evaluator = evaluator_of({.path = path, .most_samples = kNoEnd, .test = true});
  } catch (const data::NoSamplesError&) {  // on all ranks alike
    return no_metrics(*run_.model);
  }
  run_.model->between_runs([&] { evaluator->allocate(); });
  std::optional<EvalResult> result;
  if (start(*evaluator)) result = evaluator->finish();
  run_.model->between_runs([&] { evaluator.reset(); });
  return result;
}

}  // namespace hlite::trainer
