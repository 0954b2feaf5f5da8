// The loop of `train` over a trainer's steps, with what the config wants at its intervals (lines,
// metrics, evaluations, snapshots) and what the options want at the end.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/live_line.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/core/stopwatch.h"
#include "hugectr_lite/trainer/run/preconditions.h"
#include "hugectr_lite/trainer/run/rate_meter.h"
#include "hugectr_lite/trainer/run/resources.h"
#include "hugectr_lite/trainer/run/trainer.h"

namespace hlite::trainer {
namespace {

class RunLoop {
 public:
  explicit RunLoop(Trainer& trainer) : trainer_(trainer) {}
  int run();

 private:
  enum class Reason { kMaxIter, kTarget, kInterrupted, kEarlyStop };
  // What is due after an iteration.
  struct Due {
    bool redraw, display, evaluate, snapshot;
    bool moment;  // any of the latter three, or the end
  };

  void announce();
  Reason loop();
  [[nodiscard]] Due due() const;
  void show(const Due& due);
  // Evaluates and saves; a reason to end the loop, if that is one.
  std::optional<Reason> pause(const Due& due);
  void look(bool all_do);
  void measure();
  // Looks at the GPUs, where they tell; for a person no more often than is of use.
  void watch_gpus(bool for_the_record);
  // A reason to end the loop, if the result is one. An interrupt ends it early and without a
  // result; where a GPU computes the metrics beside training, the result comes with
  // report_evaluation().
  std::optional<Reason> evaluate();
  // The result of an evaluation that has not been reported, if any, and what follows from it.
  std::optional<Reason> report_evaluation();
  void test();
  void finish(Reason reason);
  void report_end(Reason reason);

  Trainer& trainer_;
  ProgressState state_;
  RateMeter meter_;
  Clock::time_point begin_, loop_begin_;  // of the run, of the loop
  int64_t first_samples_ = 0;             // trained on before this process
  std::optional<int64_t> evaluated_;      // iteration whose evaluation is not reported yet
  double train_seconds_ = 0;              // evaluations and saving left out
  std::unique_ptr<GpuMonitor> gpus_;      // on rank 0
  Clock::time_point watched_;             // when it last looked
};

int RunLoop::run() {
  begin_ = Clock::now();
  try {
    trainer_.start();
    first_samples_ = trainer_.samples();
    if (const cuda::Backend* const gpu = trainer_.model().gpu(); gpu && trainer_.ranks().rank == 0)
      gpus_ = std::make_unique<GpuMonitor>(gpus_of(trainer_.config().solver, *gpu));
    announce();
    const Reason reason = loop();
    finish(reason);
    report_end(reason);
    if (reason == Reason::kInterrupted) return kExitInterrupted;
    return trainer_.records().lost_any() ? kExitData : kExitDone;
  } catch (const std::exception& e) {
    trainer_.records().tell(&RunRecord::failed, std::string(e.what()));
    throw;
  }
}

void RunLoop::announce() {
  const auto& config = trainer_.config();
  const int ranks = trainer_.ranks().ranks();
  trainer_.progress().line(fmt::format(
      "training {} of {} samples in batches of {}, {} iterations, {}{} threads, seed {}",
      config.data.source, trainer_.source().samples(), config.solver.batchsize,
      std::max<int64_t>(0, trainer_.last_iteration() - trainer_.iteration()),
      ranks > 1 ? fmt::format("{} ranks x ", ranks) : "", trainer_.threads(), trainer_.seed()));
  if (const std::string text = processors_warning(config, trainer_.options()); !text.empty())
    log::warning("{}", text);
  if (trainer_.finished())
    log::warning("nothing to train: {} iterations are done, and the config wants {}",
                 trainer_.iteration(), trainer_.last_iteration());
  if (const std::string text = precision_text(trainer_.model()); !text.empty())
    trainer_.progress().line(text);
}

RunLoop::Reason RunLoop::loop() {
  const Evaluator* const evaluator = trainer_.evaluator();
  trainer_.records().tell(
      &RunRecord::ready, ReadyEvent{.iter = trainer_.iteration(),
                                    .last_iter = trainer_.last_iteration(),
                                    .train_samples = trainer_.source().samples(),
                                    .eval_samples = evaluator != nullptr ? evaluator->samples() : 0,
                                    .seed = trainer_.seed()});
  state_.iter = trainer_.iteration();
  state_.last_iter = trainer_.last_iteration();
  loop_begin_ = Clock::now();
  meter_.resume(seconds_since(loop_begin_));
  std::optional<Reason> ended;
  while (!ended && !trainer_.finished()) {
    trainer_.step();
    const Due now = due();
    show(now);
    if (trainer_.stop_requested())
      ended = Reason::kInterrupted;
    else if (now.evaluate || now.snapshot)
      ended = pause(now);
  }
  meter_.pause(seconds_since(loop_begin_));
  report_evaluation();
  train_seconds_ = meter_.total_seconds(seconds_since(loop_begin_));
  return ended.value_or(Reason::kMaxIter);
}

RunLoop::Due RunLoop::due() const {
  const auto& solver = trainer_.config().solver;
  const auto every = [&](int64_t interval) {
    return interval > 0 && trainer_.iteration() % interval == 0;
  };
  Due due{.redraw = trainer_.progress().due(),
          .display = every(solver.display),
          .evaluate = every(solver.eval_interval) ||
                      every(solver.evaluation.every_epochs * trainer_.epoch_iterations()),
          .snapshot = every(solver.snapshot),
          .moment = false};
  due.moment = due.display || due.evaluate || due.snapshot || trainer_.finished();
  return due;
}

// Looking at a GPU's numbers waits for them. An evaluation's are taken when an iteration's number
// says so, never for being ready or for a person watching: runs repeat.
void RunLoop::show(const Due& due) {
  if (due.moment) report_evaluation();
  const bool gpu = trainer_.model().gpu() != nullptr, alone = trainer_.ranks().ranks() == 1;
  if (!gpu || due.redraw || due.moment) look(/*all_do=*/!gpu || due.moment || alone);
  if (due.moment) trainer_.check_weights();
  if (due.redraw) {
    measure();
    watch_gpus(/*for_the_record=*/false);
    trainer_.progress().redraw(state_);
  }
  if (due.display) {
    measure();
    trainer_.records().tell(&RunRecord::train, TrainEvent{state_.iter, state_.loss, state_.lr,
                                                          state_.samples_per_s, state_.wait_share});
    watch_gpus(/*for_the_record=*/true);
    trainer_.progress().display(state_);
    meter_.start_lap(seconds_since(loop_begin_), trainer_.samples() - first_samples_,
                     trainer_.source().wait_seconds());
  }
}

std::optional<RunLoop::Reason> RunLoop::pause(const Due& due) {
  meter_.pause(seconds_since(loop_begin_));
  if (due.evaluate)
    if (const auto reason = evaluate()) return reason;
  const bool stop = trainer_.agree_to_stop();
  if (due.snapshot) report_evaluation();
  if (due.snapshot && !stop)
    trainer_.save(snapshot_path(trainer_.config(), std::to_string(trainer_.iteration())));
  meter_.resume(seconds_since(loop_begin_));
  if (stop) return Reason::kInterrupted;
  return std::nullopt;
}

// What the last iteration has come to. Where not all ranks look, a loss that is no number has to
// wait: they end together.
void RunLoop::look(bool all_do) {
  state_.iter = trainer_.iteration();
  state_.loss = trainer_.loss();
  state_.lr = trainer_.learning_rate();
  if (std::isfinite(state_.loss) || !all_do) return;
  report_evaluation();  // of an iteration before
  trainer_.check_loss();
}

void RunLoop::measure() {
  const double now = seconds_since(loop_begin_);
  const int64_t trained = trainer_.samples() - first_samples_;
  state_.samples_per_s = meter_.samples_per_second(now, trained);
  state_.wait_share = meter_.wait_share(now, trainer_.source().wait_seconds());
  const auto left = static_cast<double>((trainer_.last_iteration() - trainer_.iteration()) *
                                        trainer_.config().solver.batchsize);
  state_.eta_seconds =
      trained > 0 ? left * meter_.total_seconds(now) / static_cast<double>(trained) : INFINITY;
}

void RunLoop::watch_gpus(bool for_the_record) {
  constexpr double kSecondsBetweenLooks = 1;
  if (!gpus_ || !gpus_->watches()) return;
  if (!for_the_record && seconds_since(watched_) < kSecondsBetweenLooks) return;
  watched_ = Clock::now();
  const GpuEvent event = gpus_->look(state_.iter);
  state_.watts = event.watts;
  state_.celsius = std::nullopt;
  for (const GpuState& gpu : event.gpus)
    if (gpu.celsius) state_.celsius = std::max(*gpu.celsius, state_.celsius.value_or(*gpu.celsius));
  if (for_the_record) trainer_.records().tell(&RunRecord::gpus, event);
}

std::optional<RunLoop::Reason> RunLoop::evaluate() {
  trainer_.records().tell(&RunRecord::eval_begins, trainer_.iteration());
  if (!trainer_.start_evaluation()) return std::nullopt;  // interrupted: no result
  evaluated_ = trainer_.iteration();
  // Training goes on beside the metrics, unless they decide whether and how it does.
  const config::SolverConfig& solver = trainer_.config().solver;
  if (trainer_.evaluator()->beside_training() && !solver.auc_target && !solver.evaluation.watches())
    return std::nullopt;
  return report_evaluation();
}

// "AUC 0.80123  loss 0.44000  GAUC 0.7  9000 samples in 0.01 s"
static std::string evaluation_text(const EvalResult& result) {
  const auto text = [](const std::optional<double>& auc) {
    return auc ? fmt::format("{:.5f}", *auc) : "undefined (one class only)";
  };
  std::string tasks, more;
  for (const TaskResult& t : result.tasks) tasks += (tasks.empty() ? "" : ", ") + text(t.auc);
  if (!tasks.empty()) tasks = " (by task: " + tasks + ")";
  for (const auto& [name, value] : result.more)
    more += fmt::format("  {} {}", name, value ? fmt::format("{:.5f}", *value) : "undefined");
  return fmt::format("AUC {}{}  loss {:.5f}{}  {} samples in {:.2f} s", text(result.auc), tasks,
                     result.loss, more, result.samples, result.seconds);
}

std::optional<RunLoop::Reason> RunLoop::report_evaluation() {
  if (!evaluated_) return std::nullopt;
  const int64_t iteration = *std::exchange(evaluated_, std::nullopt);
  const EvalResult result = trainer_.finish_evaluation();
  state_.auc = result.auc;
  trainer_.records().tell(&RunRecord::eval, iteration, result);
  trainer_.progress().line(
      fmt::format("iter {}  evaluation: {}", iteration, evaluation_text(result)));
  const bool stop = trainer_.heed(result);
  const auto& target = trainer_.config().solver.auc_target;
  if (target && result.auc && *result.auc >= *target) {
    trainer_.progress().line(fmt::format("the target AUC of {} is reached", *target));
    return Reason::kTarget;
  }
  return stop ? std::optional(Reason::kEarlyStop) : std::nullopt;
}

void RunLoop::test() {
  const EvalResult result = trainer_.test();
  trainer_.records().tell(&RunRecord::test, trainer_.iteration(), result);
  trainer_.progress().line("test: " + evaluation_text(result));
}

void RunLoop::finish(Reason reason) {
  const Options& options = trainer_.options();
  if (reason == Reason::kInterrupted) {
    trainer_.check_weights();
    trainer_.save(options.save.empty()
                      ? snapshot_path(trainer_.config(), std::to_string(trainer_.iteration()))
                      : options.save);
    return;
  }
  if (trainer_.config().solver.evaluation.early_stop) trainer_.restore_best();
  if (!trainer_.config().data.test_source.empty()) test();
  if (!options.save.empty()) trainer_.save(options.save);
  if (!options.export_path.empty()) trainer_.export_weights(options.export_path);
}

void RunLoop::report_end(Reason reason) {
  if (trainer_.ranks().ranks() > 1) {
    const TrafficReport report = trainer_.traffic();
    trainer_.records().tell(&RunRecord::traffic, report.json());
    if (trainer_.options().traffic && trainer_.ranks().rank == 0)
      std::fputs(report.text().c_str(), stdout);
  }
  if (trainer_.ranks().rank == 0)
    if (const auto steps = trainer_.step_times())
      trainer_.records().tell(&RunRecord::steps, *steps);
  const int64_t trained = trainer_.samples() - first_samples_;
  const double rate = train_seconds_ > 0 ? static_cast<double>(trained) / train_seconds_ : 0;
  const char* const names[] = {"max_iter", "target", "interrupted", "early_stop"};
  const char* const name = names[static_cast<int>(reason)];
  trainer_.records().tell(
      &RunRecord::ended, EndEvent{trainer_.iteration(), trainer_.samples(), seconds_since(begin_),
                                  rate, peak_resident_bytes(), name,
                                  gpus_ ? gpus_->look(trainer_.iteration()).joules : std::nullopt});
  trainer_.progress().line(
      fmt::format("done after {} iterations ({}): {} samples in {}, {:.0f} samples/s",
                  trainer_.iteration(), name, trained, duration_text(seconds_since(begin_)), rate));
  const data::BatchSource& source = trainer_.source();
  const std::string verdict = waiting_verdict(train_seconds_, source.wait_seconds(),
                                              source.bytes_read(), source.decode_seconds());
  if (!verdict.empty()) trainer_.progress().line(verdict);
}

}  // namespace

int Trainer::run() { return RunLoop(*this).run(); }

}  // namespace hlite::trainer
