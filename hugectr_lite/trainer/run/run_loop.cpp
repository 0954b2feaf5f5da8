// The part of `train` around a TrainingLoop: its messages before and after, and the files that its
// options request at the end.
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "data_reader/key_check.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/live_line.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/trainer/model/model_sizes.h"
#include "hugectr_lite/trainer/model/resources.h"
#include "hugectr_lite/trainer/run/training_loop.h"

namespace hlite::trainer {
namespace {

void announce(Trainer& trainer, bool keeps_model) {
  RunContext& run = trainer.context();
  const config::TrainConfig& config = run.config;
  const int ranks = run.ranks.ranks();
  if (config.data.follow)
    run.progress.line(fmt::format("following {} in batches of {}, {}{} threads, seed {}",
                                  config.resolve(config.data.source), config.solver.batchsize,
                                  ranks > 1 ? fmt::format("{} ranks x ", ranks) : "",
                                  run.pool.threads(), run.seed));
  else
    run.progress.line(fmt::format(
        "training {} of {} samples in batches of {}, {} iterations, {}{} threads, seed {}",
        config.resolve(config.data.source), run.source->samples(), config.solver.batchsize,
        std::max<int64_t>(0, run.last_iteration - run.iteration),
        ranks > 1 ? fmt::format("{} ranks x ", ranks) : "", run.pool.threads(), run.seed));
  if (const std::string text = processors_warning(config, run.options.threads); !text.empty())
    log::warning("{}", text);
  if (run.outputs && run.outputs->takes_snapshots(run.iteration, run.last_iteration))
    static_cast<void>(run.outputs->snapshot(""));  // claims their place now
  if (!keeps_model)
    run.progress.line(
        "the trained model will not be kept: no --save, no --export and no snapshot was requested");
  if (const std::string text = precision_text(*run.model); !text.empty()) run.progress.line(text);
  const Evaluator* const evaluator = trainer.evaluations().evaluator();
  run.records.notify(&RunRecord::ready,
                     ReadyEvent{.iter = run.iteration,
                                .last_iter = run.last_iteration,
                                .train_samples = run.source->samples(),
                                .eval_samples = evaluator != nullptr ? evaluator->samples() : 0,
                                .seed = run.seed});
}

// Saves the model and its delta. The checkpoint comes first, so that a delta that fails does not lose
// it. Where it takes the place of the one that the delta begins from, the delta comes first: a run
// that is killed in between is repeated from there, and finds the link that it would write. If that
// delta fails, the model is saved as a snapshot, and the place keeps what the chain ends in.
void save_model(Trainer& trainer, TrainingLoop& loop, bool interrupted) {
  const Options& options = trainer.context().options;
  const auto save = [&] {
    if (!options.save.empty())
      loop.policy().save(options.save);
    else if (interrupted && !options.is_trial)
      loop.save_snapshot();
  };
  if (options.save_delta.empty()) return save();
  std::error_code none;
  const bool in_place =
      !options.save.empty() && std::filesystem::equivalent(options.save, options.resume, none);
  if (!in_place) save();
  const std::string failure = loop.policy().save_delta(options.save_delta);
  if (!failure.empty()) {
    const bool kept = in_place || interrupted || !options.save.empty();
    if (in_place) loop.save_snapshot();
    raise<FileError>(
        "{}; the model {}: once that is mended, the same command trains again and writes both",
        failure,
        in_place ? "is saved as a snapshot in place of --save, without its delta"
        : kept   ? "is saved, without its delta"
                 : "is not saved");
  }
  if (in_place) save();
}

void finish(Trainer& trainer, TrainingLoop& loop, EndReason reason) {
  const Options& options = trainer.context().options;
  trainer.saver().wait();
  const bool interrupted = reason == EndReason::kInterrupted;
  if (interrupted) trainer.check_weights();
  save_model(trainer, loop, interrupted);
  if (interrupted) return;
  loop.finish();
  if (!options.export_path.empty()) trainer.saver().export_weights(options.export_path);
}

void report_end(Trainer& trainer, TrainingLoop& loop, EndReason reason, Clock::time_point begin,
                bool keeps_model) {
  RunContext& run = trainer.context();
  if (run.ranks.ranks() > 1) {
    const TrafficReport report = trainer.counts().traffic();
    run.records.notify(&RunRecord::traffic, report.json());
    if (run.options.traffic && run.ranks.rank == 0) std::fputs(report.text().c_str(), stdout);
  }
  const auto tables = trainer.counts().table_tiers();
  if (tables) run.records.notify(&RunRecord::tables, *tables);
  const auto vocabulary = trainer.vocabularies().vocabulary();
  if (vocabulary) run.records.notify(&RunRecord::vocabulary, *vocabulary);
  if (run.ranks.rank == 0)
    if (const auto steps = trainer.counts().step_times())
      run.records.notify(&RunRecord::steps, *steps);
  const int64_t trained = loop.trained();
  const double seconds = loop.train_seconds();
  const double rate = seconds > 0 ? static_cast<double>(trained) / seconds : 0;
  const auto replaced = loop.replaced_share();
  run.records.notify(
      &RunRecord::ended,
      EndEvent{run.iteration, run.samples, seconds_since(begin), rate, peak_resident_bytes(),
               reason, loop.gpus() ? loop.gpus()->sample(run.iteration).joules : std::nullopt,
               replaced});
  run.progress.line(fmt::format("done after {} iterations ({}): {} samples in {}, {:.0f} samples/s",
                                run.iteration, name_of(reason), trained,
                                duration_text(seconds_since(begin)), rate));
  if (replaced.value_or(0) > 0) {
    const std::string text = fmt::format(
        "{:.1f} % of keys were outside of their tables and replaced (key_policy)", 100 * *replaced);
    *replaced > data::kManyReplaced ? log::warning("{}", text) : run.progress.line(text);
  }
  if (tables)
    for (size_t i = 0; i < tables->layers.size(); ++i)
      run.progress.line(tier_traffic_text(tables->layers[i], tables->moved[i]));
  if (vocabulary)
    for (const std::string& line : vocabulary_texts(*vocabulary)) run.progress.line(line);
  if (!keeps_model && reason != EndReason::kInterrupted)
    run.progress.line("the trained model was not kept");
  const data::BatchSource& source = *run.source;
  const std::string verdict =
      waiting_verdict(seconds, source.wait_seconds(), source.bytes_read(), source.decode_seconds());
  if (!verdict.empty()) run.progress.line(verdict);
}

}  // namespace

int Trainer::run() {
  const auto begin = Clock::now();
  try {
    start();
    TrainingLoop loop(*this);
    const bool keeps_model =
        !run_.outputs || run_.outputs->keeps_model(run_.iteration, run_.last_iteration);
    announce(*this, keeps_model);
    loop.begin();
    std::optional<EndReason> reason;
    while (!reason) reason = loop.advance();
    finish(*this, loop, *reason);
    report_end(*this, loop, *reason, begin, keeps_model);
    if (reason == EndReason::kInterrupted) return kExitInterrupted;
    return run_.records.lost_any() ? kExitData : kExitDone;
  } catch (const std::exception& e) {
    saver_.end();
    run_.records.notify(&RunRecord::failed, std::string(e.what()));
    throw;
  }
}

}  // namespace hlite::trainer
