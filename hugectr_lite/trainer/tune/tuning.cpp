#include "hugectr_lite/trainer/tune/tuning.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>
#include <optional>

#include "hugectr_lite/comm/mpi_plugin.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/core/live_line.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/core/output_place.h"
#include "hugectr_lite/core/stopwatch.h"
#include "hugectr_lite/trainer/model/build_layers.h"
#include "hugectr_lite/trainer/model/resources.h"
#include "hugectr_lite/trainer/run/metric_watch.h"
#include "hugectr_lite/trainer/run/session.h"
#include "hugectr_lite/trainer/tune/search_space.h"

namespace hlite::trainer {
namespace {

using config::TrainConfig;

// The length of a trial, as a share of what the config itself trains until it stops early, and how
// much of it has constant rates. Measured on the data sets of docs/train.md: in 0.6 of the
// iterations a schedule that decays comes to what the cuts of lr_plateau do in all, and 0.2 of them
// order trials well enough to leave the best among the first few.
struct Length {
  double share, constant;
};
constexpr Length kShort{0.2, 1.0 / 3}, kLong{0.6, 0.5};
constexpr size_t kFinalists = 2;  // that are trained for longer

// What a run came to.
class Outcome : public RunRecord {
 public:
  explicit Outcome(const config::EvaluationConfig& evaluation) : watch_(evaluation) {}
  void eval(int64_t iter, const EvalResult& result) override {
    if (first_ == 0) first_ = iter;
    watch_.see(result, iter);
  }
  void ended(const EndEvent& event) override { iteration_ = event.iter; }

  [[nodiscard]] const checkpoint::BestMetric& best() const { return watch_.early_stop(); }
  // Iterations to the first evaluation, and in all.
  [[nodiscard]] int64_t first() const { return first_; }
  [[nodiscard]] int64_t iteration() const { return iteration_; }

 private:
  MetricWatch watch_;
  int64_t first_ = 0, iteration_ = 0;
};

// Trials say what they come to, and not what every run says: warnings are those of the first one.
class Silence {
 public:
  explicit Silence(bool wanted) : before_(log::level()) {
    if (wanted) log::set_level(log::Level::kNothing);
  }
  ~Silence() { end(); }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;
  void end() { log::set_level(before_); }

 private:
  const log::Level before_;
};

[[noreturn]] void fail(const TrainConfig& config, const char* path, const std::string& expected) {
  raise<ConfigError>("{}: {}: expected {}, as --tune is given", config.root.where(), path,
                     expected);
}

std::unique_ptr<TrainConfig> changed(const TrainConfig& config,
                                     const std::vector<std::string>& changes) {
  auto result = read_train_config(config.root, config.directory, changes);
  require_valid(*result);
  return result;
}

// The config that trials vary.
std::unique_ptr<TrainConfig> base_config(const TrainConfig& config) {
  if (config.data.follow) fail(config, "layers[0].follow", "data that end");
  if (!config.solver.evaluates())
    fail(config, "solver", "\"eval_every_epochs\" or \"eval_interval\", and an \"eval_source\"");
  std::vector<std::string> changes;
  if (!config.solver.evaluation.early_stop)
    changes.emplace_back(R"(solver.early_stop={"monitor": "AverageLoss", "patience": 4})");
  if (config.solver.seed == 0) changes.push_back(fmt::format("solver.seed={}", random_word()));
  return changed(config, changes);
}

std::string value_text(const Trial& trial) {
  return fmt::format("{:.5f} at iteration {}", trial.value, count_text(trial.best_iteration));
}

// What stands on top of the config that was found.
std::string comment(const Tuning& tuning) {
  const Trial &best = tuning.trials[*tuning.best], &own = tuning.trials[0];
  const std::string found = &best == &own ? fmt::format("no other was better: {}", value_text(own))
                                          : fmt::format("{}: {}, where it had {}", best.changes,
                                                        value_text(best), value_text(own));
  return fmt::format(
      "// train --tune: the best by {} of eval_source of {} trials, the first of which was the\n"
      "// config as it was. {}.\n",
      tuning.metric, tuning.trials.size(), found);
}

class Search {
 public:
  Search(const TrainConfig& config, const Options& options,
         const std::function<void(const std::string&)>& line)
      : options_(options), line_(line), base_(base_config(config)), space_(base_->root) {
    if (space_.axes().empty() || space_.axes().front().name != "learning_rate")
      fail(config, "optimizer", "a \"learning_rate\" above 0");
  }

  // Once.
  Tuning run() {
    const InterruptGuard interrupts;
    Tuning result{.metric = base_->solver.evaluation.early_stop->monitor};
    result.interrupted = !run_all();
    for (const Run& run : runs_) {
      result.trials.push_back(trial_of(run));
      if (run.outcome->best().any && (!result.best || better(run, runs_[*result.best])))
        result.best = result.trials.size() - 1;
    }
    if (result.best) result.config = runs_[*result.best].root.text();
    return result;
  }

 private:
  struct Run {
    Point point = {};
    bool own = false;        // the config as it is, with its own schedule
    int64_t iterations = 0;  // that its config trains, and the share of them with constant rates
    double constant = 0;
    config::JsonNode root = {};
    std::shared_ptr<Outcome> outcome = {};
  };

  // Returns false when interrupted.
  bool run_all() {
    if (!train({.point = space_.own(), .own = true})) return false;
    if (!train(with_length(space_.own(), kLong))) return false;
    const auto others = static_cast<size_t>(options_.tune) - 2;
    const bool few = others <= kFinalists;
    // One half looks everywhere, the other around the best so far.
    for (size_t n = 1; n <= others; ++n) {
      const auto number = static_cast<int64_t>(n);
      const Point point = few || 2 * n <= others
                              ? space_.even(number)
                              : space_.even_around(best_others().front().point, number);
      if (!train(with_length(point, few ? kLong : kShort))) return false;
    }
    if (few) return true;
    const std::vector<Run> best = best_others();
    for (size_t i = 0; i < kFinalists; ++i)
      if (!train(with_length(best[i].point, kLong))) return false;
    return true;
  }

  // Trials with other values than the config's, the best ones first.
  [[nodiscard]] std::vector<Run> best_others() const {
    std::vector<Run> others(runs_.begin() + 2, runs_.end());
    std::stable_sort(others.begin(), others.end(),
                     [&](const Run& a, const Run& b) { return better(a, b); });
    return others;
  }

  // Ends with an evaluation.
  [[nodiscard]] Run with_length(const Point& point, const Length& length) const {
    const int64_t whole = runs_[0].outcome->iteration(), every = runs_[0].outcome->first();
    const auto evaluations =
        std::lround(length.share * static_cast<double>(whole) / static_cast<double>(every));
    return {.point = point,
            .iterations = every * std::max<int64_t>(1, evaluations),
            .constant = length.constant};
  }

  bool train(Run run) {
    if (InterruptGuard::requested()) return false;
    std::vector<std::string> changes;
    if (!run.own) {
      changes = space_.changes(run.point);
      const auto constant =
          static_cast<int64_t>(run.constant * static_cast<double>(run.iterations));
      for (std::string& change : space_.schedule(run.point, run.iterations, constant))
        changes.push_back(std::move(change));
    }
    Silence silence(!run.own);
    const auto config = changed(*base_, changes);
    run.root = config->root;
    // What is written at intervals or at the end is not a trial's.
    config->solver.snapshot = 0;
    config->solver.export_predictions_prefix.clear();
    config->data.test_source.clear();
    run.outcome = std::make_shared<Outcome>(config->solver.evaluation);
    Options options;
    options.device = options_.device;
    options.threads = options_.threads;
    options.init = options_.init;
    options.allow_other_data = options_.allow_other_data;
    options.quiet = options.is_trial = true;
    options.record = run.outcome;
    const Clock::time_point begin = Clock::now();
    try {
      if (run_training(*config, options) == kExitInterrupted) return false;
    } catch (const DataError&) {
      if (run.own) throw;  // the data, or a config that diverges by itself
      run.outcome = std::make_shared<Outcome>(config->solver.evaluation);
    }
    silence.end();
    runs_.push_back(std::move(run));
    line_(line_of(runs_.size(), seconds_since(begin)));
    return true;
  }

  [[nodiscard]] bool better(const Run& a, const Run& b) const { return score(a) < score(b); }
  // Less is better.
  [[nodiscard]] double score(const Run& run) const {
    const checkpoint::BestMetric& best = run.outcome->best();
    if (!best.any || !std::isfinite(best.value)) return std::numeric_limits<double>::infinity();
    return base_->solver.evaluation.early_stop->rises() && !best.of_loss ? -best.value : best.value;
  }

  [[nodiscard]] Trial trial_of(const Run& run) const {
    const checkpoint::BestMetric& best = run.outcome->best();
    return {.changes = run.own ? "the config itself"
                               : fmt::format("{} iterations, {}", count_text(run.iterations),
                                             space_.text(run.point)),
            .value = best.any ? best.value : std::numeric_limits<double>::quiet_NaN(),
            .best_iteration = best.iteration};
  }

  [[nodiscard]] std::string line_of(size_t number, double seconds) const {
    const Trial trial = trial_of(runs_[number - 1]);
    return fmt::format(
        "trial {} of {}: {} in {:.1f} s ({})", number, trials_in_all(),
        std::isnan(trial.value)
            ? "diverged"
            : fmt::format("{} {}", base_->solver.evaluation.early_stop->monitor, value_text(trial)),
        seconds, trial.changes);
  }
  [[nodiscard]] size_t trials_in_all() const {
    const auto n = static_cast<size_t>(options_.tune);
    return n - 2 <= kFinalists ? n : n + kFinalists;
  }

  const Options& options_;
  const std::function<void(const std::string&)>& line_;
  const std::unique_ptr<TrainConfig> base_;
  const SearchSpace space_;
  std::vector<Run> runs_;
};

// Next to the config, whose relative paths then hold.
std::string tuned_place(const std::string& config) {
  std::filesystem::path place = config;
  if (place.extension() == ".json") place.replace_extension();
  return place.string() + ".tuned.json";
}

}  // namespace

Tuning tune(const TrainConfig& config, const Options& options,
            const std::function<void(const std::string&)>& line) {
  if (comm::under_mpirun())
    raise<ConfigError>(
        "--tune: expected one process, found mpirun: the ranks of solver.gpu are threads of a trial");
  return Search(config, options, line).run();
}

int run_tuning(const TrainConfig& config, const Options& options) {
  const std::string place = tuned_place(options.config);
  expect_output_place(place);
  const Tuning tuning =
      tune(config, options, [](const std::string& line) { log::info("{}", line); });
  if (tuning.best) {
    const Trial& best = tuning.trials[*tuning.best];
    replace_file(place, comment(tuning) + tuning.config);
    log::info("{}: {} {} ({}); the config itself: {}", place, tuning.metric, value_text(best),
              best.changes, value_text(tuning.trials[0]));
  } else {
    log::warning("interrupted before the config itself was trained: {} is not written", place);
  }
  if (tuning.interrupted) return kExitInterrupted;
  bool trains = false;
  for (const std::string* output : {&options.save, &options.export_path, &options.metrics,
                                    &options.tensorboard, &options.report})
    trains |= !output->empty();
  if (!trains) return kExitDone;
  Options again = options;
  again.config = place;
  again.overrides.clear();
  again.solver.clear();
  return run_training(*config::load_train_config(place, {}), again);
}

}  // namespace hlite::trainer
