#include "hugectr_lite/trainer/run/training_loop.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/core/log.h"

namespace hlite::trainer {
namespace {

// "AUC 0.80123  loss 0.44000  GAUC 0.7  9000 samples in 0.01 s"
std::string evaluation_text(const EvalResult& result) {
  if (result.samples == 0) return "no samples";
  // Of all tasks, and in brackets of each.
  const auto text = [&](const char* none, auto&& value_of) {
    const auto of = [&](const auto& from) {
      const std::optional<double> value = value_of(from);
      return value ? fmt::format("{:.5f}", *value) : none;
    };
    std::string tasks;
    for (const TaskResult& t : result.tasks) tasks += (tasks.empty() ? "" : ", ") + of(t);
    return of(result) + (tasks.empty() ? "" : " (by task: " + tasks + ")");
  };
  std::string more;
  for (size_t m = 0; m < result.more.size(); ++m)
    more += fmt::format("  {} {}", result.more[m].first,
                        text("undefined", [&](const auto& of) { return of.more[m].second; }));
  const bool values = !result.more.empty() && result.more.front().first == kRmse;
  const std::string area =
      values ? "" : fmt::format("AUC {}  ", text("undefined (one class only)", [](const auto& of) {
                                  return of.auc;
                                }));
  return fmt::format("{}loss {:.5f}{}  {} samples in {:.2f} s", area, result.loss, more,
                     result.samples, result.seconds) +
         (result.replaced_share
              ? fmt::format("  {:.1f} % of keys replaced", 100 * *result.replaced_share)
              : "");
}

}  // namespace

TrainingLoop::TrainingLoop(Trainer& trainer, std::function<void()> before_step)
    : trainer_(trainer),
      run_(trainer.context()),
      policy_(trainer),
      before_step_(std::move(before_step)) {
  const cuda::Backend* const gpu = run_.model->gpu();
  if (gpu && run_.ranks.rank == 0)
    gpus_ = std::make_unique<GpuMonitor>(gpus_of(run_.config.solver, *gpu));
}

void TrainingLoop::begin(std::optional<int64_t> iterations) {
  run_.expect_data();
  last_iteration_ = iterations ? run_.iteration + *iterations : run_.last_iteration;
  first_ = lap_ = mark();
  state_ = {};
  state_.last_iter = last_iteration_;
  const config::SolverConfig& solver = run_.config.solver;
  state_.may_end_early = solver.evaluation.early_stop || solver.auc_target;
  ended_.reset();
  evaluated_.reset();
  if (!iterations && trainer_.finished()) {
    log::warning("nothing to train: {} iterations are done, and the config wants {}",
                 run_.iteration, last_iteration_);
  } else if (!iterations && policy_.stopped_early()) {
    ended_ = EndReason::kEarlyStop;
    log::warning(
        "nothing to train: the run of this checkpoint was stopped early after iteration {}; a "
        "larger patience in solver.early_stop goes on",
        run_.iteration);
  }
  if (for_caller()) run_.model->loss_mean().restart();
  begin_ = Clock::now();
  meter_ = {};
  meter_.start_lap(0, 0, run_.source->wait_seconds());
}

std::optional<EndReason> TrainingLoop::advance() {
  if (!ended_ && !at_end()) policy_.use_last();
  meter_.resume(now());
  for (bool event = false; !event && !ended_ && !at_end();) {
    while (!ended_ && trainer_.files().at_end()) next_file();
    if (ended_) break;
    if (before_step_) before_step_();
    trainer_.saver().check();
    trainer_.step();
    event = after_step();
  }
  meter_.pause(now());
  if (!ended_ && at_end())
    ended_ = run_.config.solver.max_iter ? EndReason::kMaxIter : EndReason::kEpochs;
  if (ended_) report_evaluation();
  return ended_;
}

void TrainingLoop::next_file() {
  using Next = data::FollowedSource::Next;
  report_evaluation();
  meter_.pause(now());
  const auto [next, file] = trainer_.files().next();
  if (next == Next::kEnd) ended_ = EndReason::kEndOfData;
  if (next == Next::kNothing) ended_ = EndReason::kInterrupted;
  if (next != Next::kFile) return;
  const auto scored = run_.followed->state_of(file);
  const auto result = trainer_.evaluations().score_file(run_.followed->path(file));
  if (!result) {
    ended_ = EndReason::kInterrupted;
    return;
  }
  const int64_t iteration = run_.iteration;
  run_.records.notify(&RunRecord::progressive, iteration, file, *result);
  run_.progress.line(
      fmt::format("iter {}  {} before training: {}", iteration, file, evaluation_text(*result)));
  result->samples > 0 ? trainer_.files().open(file) : run_.followed->pass_over(file, scored);
  meter_.resume(now());
}

bool TrainingLoop::after_step() {
  const auto& solver = run_.config.solver;
  const auto every = [&](int64_t interval) {
    return interval > 0 && run_.iteration % interval == 0;
  };
  const bool display = every(solver.display) || (for_caller() && at_end());
  const int64_t epochs = solver.evaluation.every_epochs * run_.source->batches_per_epoch(),
                done = run_.iteration - run_.earlier_iterations;
  const bool evaluates = (every(solver.eval_interval) && run_.iteration >= solver.eval_start) ||
                         (epochs > 0 && done % epochs == 0);
  const bool snapshot = every(solver.snapshot) && !for_caller();
  const bool event = display || evaluates || snapshot || at_end();
  show(event, display);
  if (run_.model->stop_requested())
    ended_ = EndReason::kInterrupted;
  else if (evaluates || snapshot)
    pause(evaluates, snapshot);
  return event;
}

// Reading a GPU's numbers waits for them. An evaluation's are read at iterations fixed by the
// config, never because they are ready or a person is watching: runs repeat.
void TrainingLoop::show(bool event, bool display) {
  if (event) report_evaluation();
  const bool gpu = run_.model->gpu() != nullptr, redraw = run_.progress.due();
  if (!gpu || redraw || event) {
    state_.iter = run_.iteration;
    state_.batch_loss = trainer_.batch_loss();
    state_.loss = run_.model->loss_mean().value();
    state_.lr = run_.model->rates().last_dense_rate();
    // If not all ranks are here, a non-finite loss has to wait: they end together.
    if (!std::isfinite(state_.batch_loss) && (!gpu || event || run_.ranks.ranks() == 1)) {
      report_evaluation();  // started in an earlier iteration
      trainer_.check_loss();
    }
  }
  if (event) trainer_.check_weights();
  if (!redraw && !display) return;
  state_.samples_per_s = meter_.samples_per_second(now(), trained());
  state_.wait_share = meter_.wait_share(now(), run_.source->wait_seconds());
  const double left = static_cast<double>(last_iteration_ - run_.iteration) *
                      static_cast<double>(run_.config.solver.batchsize);
  state_.eta_seconds =
      trained() > 0 ? left * train_seconds() / static_cast<double>(trained()) : INFINITY;
  if (redraw) {
    watch_gpus(/*for_the_record=*/false);
    run_.progress.redraw(state_);
  }
  if (display) {
    const Mark here = mark();
    const Mark lap = std::exchange(lap_, here);
    state_.replaced_share = replaced_share(lap, here);
    embedding::RowCacheCounts moved = here.moved;
    moved -= lap.moved;
    if (moved.lookups > 0) state_.resident_share = moved.resident_share();
    run_.records.notify(&RunRecord::train, state_);
    watch_gpus(/*for_the_record=*/true);
    run_.progress.display(state_);
    meter_.start_lap(now(), trained(), run_.source->wait_seconds());
    run_.model->loss_mean().restart();
  }
}

std::optional<double> TrainingLoop::replaced_share(const Mark& begin, const Mark& end) const {
  const config::DataConfig& data = run_.config.data;
  const int64_t keys = (end.samples - begin.samples) * data.key_layout().columns;
  if (!data.key_policy.replaces() || keys == 0) return std::nullopt;
  return static_cast<double>(end.replaced_keys - begin.replaced_keys) / static_cast<double>(keys);
}

void TrainingLoop::pause(bool evaluates, bool snapshot) {
  std::optional<InterruptGuard> interrupts;
  if (for_caller()) interrupts.emplace();
  meter_.pause(now());
  if (evaluates) {
    // The checkpoint of this iteration is to be the model that was evaluated.
    const Options& options = run_.options;
    const bool saves = !for_caller() && (!options.save.empty() || !options.save_delta.empty()),
               may_end = at_end() || run_.config.solver.auc_target;
    if (snapshot || (saves && may_end)) trainer_.vocabularies().evict_for_checkpoint();
    evaluate();
  }
  if (ended_) return;
  const bool stop = run_.agree_to_stop();
  if (snapshot) report_evaluation();
  if (snapshot && !stop) policy_.save_snapshot(snapshot_place());
  if (stop) ended_ = EndReason::kInterrupted;
  meter_.resume(now());
}

void TrainingLoop::watch_gpus(bool for_the_record) {
  constexpr double kSecondsBetweenReadings = 1;
  if (!gpus_ || !gpus_->watches()) return;
  if (!for_the_record && seconds_since(watched_) < kSecondsBetweenReadings) return;
  watched_ = Clock::now();
  const GpuEvent event = gpus_->sample(state_.iter);
  state_.watts = event.watts;
  state_.celsius = std::nullopt;
  for (const GpuState& gpu : event.gpus)
    if (gpu.celsius) state_.celsius = std::max(*gpu.celsius, state_.celsius.value_or(*gpu.celsius));
  if (for_the_record) run_.records.notify(&RunRecord::gpus, event);
}

void TrainingLoop::evaluate() {
  run_.records.notify(&RunRecord::eval_begins, run_.iteration);
  if (!trainer_.evaluations().start()) return;  // interrupted: no result
  evaluated_ = run_.iteration;
  // Training goes on while a GPU computes the metrics, unless they decide whether and how it does.
  const config::SolverConfig& solver = run_.config.solver;
  if (for_caller() || !trainer_.evaluations().evaluator()->overlaps_training() ||
      solver.auc_target || solver.evaluation.watches())
    report_evaluation();
}

void TrainingLoop::report_evaluation() {
  if (!evaluated_) return;
  const int64_t iteration = *std::exchange(evaluated_, std::nullopt);
  const EvalResult result = trainer_.evaluations().finish();
  state_.auc = result.auc;
  state_.auc_iter = iteration;
  run_.records.notify(&RunRecord::eval, iteration, result);
  run_.progress.line(fmt::format("iter {}  evaluation: {}", iteration, evaluation_text(result)));
  if (const auto reason = policy_.apply(result); !ended_) ended_ = reason;
}

std::string TrainingLoop::snapshot_place() const {
  return run_.outputs ? run_.outputs->snapshot(std::to_string(run_.iteration)) : "";
}

void TrainingLoop::save_snapshot() {
  policy_.save(snapshot_place());
  if (run_.outputs)
    if (const std::string text = run_.outputs->remove_older_snapshots(run_.number); !text.empty())
      log::warning("{}", text);
}

void TrainingLoop::finish() {
  const bool before_last = ended_ == EndReason::kTarget || ended_ == EndReason::kEarlyStop ||
                           ended_ == EndReason::kEndOfData;
  if (!before_last && !trainer_.finished()) return;
  policy_.use_best(/*for_good=*/!for_caller());
  if (run_.config.data.test_source.empty()) return;
  const EvalResult result = trainer_.evaluations().test();
  run_.records.notify(&RunRecord::test, run_.iteration, result);
  run_.progress.line("test: " + evaluation_text(result));
}

}  // namespace hlite::trainer
