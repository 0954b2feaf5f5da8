// Trainer: trains the model of a config, step by step or in one go. `train` calls run(). A program
// that acts between steps uses
//
//   Trainer trainer(config, options, rank);   // checks; takes no memory worth speaking of
//   trainer.start();                          // memory, initial values or a file's
//   while (!trainer.finished()) {
//     trainer.step();
//     if (trainer.iteration() % 100 == 0) use(trainer.batch_loss());
//     if (trainer.iteration() % 1000 == 0) use(trainer.evaluate()->auc);
//   }
//   trainer.export_weights("model.safetensors");
//
// and gets the same bits. It is closed by its destructor.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "data_reader/batch_source.h"
#include "data_reader/data_identity.h"
#include "data_reader/followed_source.h"
#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/core/forked_task.h"
#include "hugectr_lite/core/pinned_blocks.h"
#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/trainer/evaluation/evaluator.h"
#include "hugectr_lite/trainer/model/model.h"
#include "hugectr_lite/trainer/report/progress.h"
#include "hugectr_lite/trainer/report/run_record.h"
#include "hugectr_lite/trainer/run/options.h"
#include "hugectr_lite/trainer/run/rank_tensors.h"
#include "hugectr_lite/trainer/run/row_memory.h"
#include "hugectr_lite/trainer/run/run_outputs.h"
#include "hugectr_lite/trainer/run/traffic.h"

namespace hlite::trainer {

// Further arguments of a rank's trainer.
struct RankOptions {
  comm::RankContext ranks = {};
  std::vector<LayerPlacement> placements = {};
  RowMemoryDecision memory = {};
  int threads = 1;                     // of this rank
  const cuda::Backend* gpu = nullptr;  // to train on; null: the CPU
};
// Those of a config with one rank, on the device that choose_device() names. Throws ConfigError for
// one with several, DeviceError as choose_device().
RankOptions one_rank(const config::TrainConfig& config, const Options& options);

// The state of the watched metrics in a checkpoint, and the weights of the best evaluation.
struct PolicyState {
  checkpoint::BestMetric plateau = {}, early_stop = {};
  const ByteSource* best_weights = nullptr;
};

// The trainer of one rank. Members that are not const are collective; rank 0 prints and writes
// files. `config` must outlive it.
class Trainer {
 public:
  // Checks what can be checked before memory is taken: files, paths to write to. Throws ConfigError
  // or DataError.
  Trainer(const config::TrainConfig& config, const Options& options, RankOptions rank);

  // Trains to the end, to the AUC target or until interrupted, as the config says: shows, evaluates
  // and saves at its intervals, saves and exports at the end as the options say. Returns the exit
  // code (kExitDone, kExitInterrupted). Throws DataError when the loss or a weight stops being
  // finite: looked at whenever one is shown, evaluated or saved. Instead of all that follows.
  int run();

  // Allocates memory and gives every weight its initial value, or those of --init or --resume. Call
  // once, before the functions below. Throws DataError for files, DeviceError for a GPU with too
  // little memory.
  void start();
  // One iteration with the next batch of the training data, which begins again at its end. On a GPU
  // it has been issued when the call returns. Throws DataError when the data cannot be used.
  void step();
  // These serve a run that follows a folder. If needs_file(), all of the open file has been trained
  // on; call next_file() before step(). It waits for a file and returns its name, kEnd if none will
  // come, or kNothing after a stop request. Then call score_file(), which returns nullopt after a
  // stop request, and open_file(). Collective. Throw DataError.
  [[nodiscard]] bool needs_file() const { return followed_ && followed_->at_end_of_file(); }
  data::FollowedSource::NextFile next_file();
  std::optional<EvalResult> score_file(const std::string& file);
  void open_file(const std::string& file);
  // The same with these samples, at most a batch; on one rank.
  void step(const data::HostBatch& batch);
  // Throws ConfigError if it was made without data.
  void expect_data() const;
  // Iterations done, those before a resume counted; after which the config ends;
  // samples trained on.
  [[nodiscard]] int64_t iteration() const { return iteration_; }
  // Those of them that were done on other data, which these continue (--grow).
  [[nodiscard]] int64_t earlier_iterations() const { return earlier_iterations_; }
  [[nodiscard]] int64_t last_iteration() const { return last_iteration_; }
  [[nodiscard]] int64_t epoch_iterations() const { return source_->batches_per_epoch(); }
  [[nodiscard]] bool finished() const { return iteration_ >= last_iteration_; }
  [[nodiscard]] int64_t samples() const { return samples_; }

  // They wait for the last step: its mean loss over the batch of all ranks, and its rate of the
  // dense parameters. batch_loss() throws DeviceError when a GPU met a key beyond its table.
  double batch_loss();
  double learning_rate();
  // Mean loss of all samples since start() or the last restart_mean_loss(), those of iterations
  // whose loss was not finite left out; NaN where there are none. They wait, too.
  double mean_loss() const { return model_->loss_mean().value(); }
  void restart_mean_loss() { model_->loss_mean().restart(); }
  // Throw DataError, naming the sample and layer that it begins with, when the last step's loss or
  // any weight is not finite: a finite loss may hide the latter.
  void check_loss();
  void check_weights();

  // Metrics over the evaluation set (eval_batches batches of batchsize_eval). Returns nullopt if a
  // stop is requested meanwhile. Throws DataError.
  std::optional<EvalResult> evaluate();
  // The same in two halves, between which a GPU goes on training: false when given up.
  bool start_evaluation();
  EvalResult finish_evaluation();

  // Keys outside of their tables that key_policy has replaced in the data of all ranks since
  // start(); nothing if it replaces none.
  std::optional<int64_t> replaced_keys();

  // Metrics over test_source. REQUIRES that the config has one.
  EvalResult test();

  // Writes a checkpoint, complete or not at all: what --resume takes, with the state of what
  // follows evaluations (training_policy.h) where there is one. Throws FileError.
  void save(const std::string& directory, const PolicyState& policy = {});
  // The same for a checkpoint of solver.snapshot, which then removes older ones. Training may go on
  // while it is written, if saves_in_background(). What happens on failure is up to
  // solver.on_save_error; save() always throws.
  void save_snapshot(const std::string& directory, const PolicyState& policy = {});
  // Lets the rows leave that do so when a checkpoint is saved (`eviction.interval` 0), if they have
  // not in this iteration. Saving does it too; to be called before an evaluation of the same weights.
  void evict_for_checkpoint();
  [[nodiscard]] bool saves_in_background() const;
  // Reports a snapshot that has been written in the background, or its failure, if it has ended
  // meanwhile. Not collective. Throws FileError as solver.on_save_error says.
  void check_save();
  // The same after waiting for it to finish.
  void wait_for_save();
  // Writes what the weights that a checkpoint of now would be used with differ by from those of the
  // one that the run was resumed from (checkpoint::weights_in), as a link of the chain in a folder.
  // REQUIRES resumed(). Returns "" or, on rank 0, why that failed.
  [[nodiscard]] std::string save_delta(const std::string& chain, const PolicyState& policy);
  // Writes all weights: what --init takes. Throws FileError.
  void export_weights(const std::string& path);
  // Writes tensors of the model in the same way, without a word. Returns the sum of the file, on
  // rank 0.
  FileSum write_tensors(const std::string& path, const std::vector<TensorRef>& tensors);

  // Returns true if any rank has a stop request, in its last step or now; the same on all.
  [[nodiscard]] bool stop_requested() const { return model_->stop_requested(); }
  bool agree_to_stop();
  // Returns how long the steps of this rank's iterations took since start(), where --report asked
  // for it and they can be timed; measures what the machine reaches, which takes a moment.
  std::optional<StepsEvent> step_times();
  // The tiers of embedding_memory and the rows that training has moved since start(), without
  // evaluations and files; nullopt if the config does not ask for it. Waits for a GPU.
  [[nodiscard]] std::optional<TablesEvent> table_tiers() const;
  // The vocabularies of hash tables that keys may lose or be refused rows of; nullopt without any.
  // Waits. Collective.
  [[nodiscard]] std::optional<VocabularyEvent> vocabulary();
  // The counters alone, of all layers together: of their fastest tiers.
  [[nodiscard]] embedding::RowCacheCounts moved_rows() const;
  // Returns what all ranks have sent each other in training since start(). REQUIRES several ranks.
  TrafficReport traffic();

  [[nodiscard]] const config::TrainConfig& config() const { return config_; }
  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] const comm::RankContext& ranks() const { return ranks_; }
  [[nodiscard]] int threads() const { return pool_.threads(); }
  [[nodiscard]] uint64_t seed() const { return seed_; }
  // CheckpointMeta::run, on rank 0.
  [[nodiscard]] uint64_t run_number() const { return run_; }
  [[nodiscard]] Model& model() { return *model_; }
  [[nodiscard]] const data::BatchSource& source() const { return *source_; }
  [[nodiscard]] const Evaluator* evaluator() const { return evaluator_.get(); }
  // Progress lines of this rank.
  [[nodiscard]] Progress& progress() { return progress_; }
  [[nodiscard]] RunRecords& records() { return records_; }
  // The places that it writes to: on rank 0, else null.
  [[nodiscard]] RunOutputs* outputs() { return outputs_ ? &*outputs_ : nullptr; }
  // The manifest of --resume, or null.
  [[nodiscard]] const checkpoint::CheckpointMeta* resumed() const { return resumed_.get(); }
  // Work of the CPU.
  [[nodiscard]] Exec exec() { return {.device = Device::kCpu, .pool = &pool_}; }

 private:
  void leave_out(const std::vector<embedding::RowCacheCounts>& before);
  void open_records();
  void open_data();
  void open_folder();
  void open_evaluation();
  [[nodiscard]] checkpoint::CheckpointMeta meta(const PolicyState& policy);
  bool fork_save(const std::string& directory, const checkpoint::CheckpointMeta& meta);
  [[nodiscard]] std::string write_snapshot(const std::string& directory,
                                           const checkpoint::CheckpointMeta& meta,
                                           const RankLists& lists) const;
  void report_save(const std::string& directory, int64_t iteration, double stopped_seconds,
                   const ForkedTask::Result& result);
  void end_save();  // of a run that fails for another reason: waits and throws nothing
  void restore();
  void restore_state();
  [[nodiscard]] int64_t global_size(const data::HostBatch& batch) const;
  void train_on(const data::HostBatch& batch, int64_t size, const data::HostBatch* next);
  void evict_rows(const std::function<bool(const embedding::Eviction&)>& due);
  void agree_on_start();
  [[nodiscard]] int first_of_ranks(bool mine);
  [[noreturn]] void fail_non_finite(const std::string& problem, int otherwise = 0);

  const config::TrainConfig& config_;
  const Options options_;
  const comm::RankContext ranks_;
  ThreadPool pool_;
  uint64_t seed_ = 0, run_ = 0;
  std::unique_ptr<checkpoint::CheckpointMeta> resumed_;  // of --resume
  checkpoint::WeightsFile resumed_weights_;              // those that it is used with
  bool new_data_ = false;                                // ModelData::new_data
  std::unique_ptr<Model> model_;
  std::unique_ptr<data::BatchSource> source_;
  data::FollowedSource* followed_ = nullptr;  // source_, where it is one
  PinnedBlocks pinned_;                       // its memory
  std::unique_ptr<Evaluator> evaluator_, tester_;
  data::TrainedOn trained_on_;                       // CheckpointMeta::trained_on
  std::vector<checkpoint::CopiedFile> preparation_;  // CheckpointMeta::preparation
  std::optional<RunOutputs> outputs_;                // on rank 0
  RunRecords records_;
  Progress progress_;
  int64_t earlier_iterations_ = 0;
  int64_t evicted_ = 0;  // iteration of the last checkpoint, which rows may have left for
  int64_t first_iteration_ = 0, iteration_ = 0, last_iteration_ = 0, samples_ = 0;
  struct {
    int64_t first_sample = 0, size = 0;
  } last_batch_;                      // of the last iteration
  std::vector<double> step_seconds_;  // of all iterations, where they are timed
  ModelTraffic evaluation_traffic_;
  struct PendingSave {
    std::string directory;
    int64_t iteration;
    ForkedTask task;
    double stopped_seconds = 0;  // of training
  };
  std::optional<PendingSave> save_;        // on rank 0, until it is reported
  std::vector<std::string> memory_lines_;  // log lines of "embedding_memory": "auto"
  std::vector<embedding::RowCacheCounts>
      rows_outside_training_;  // moved_rows() outside of training
};

}  // namespace hlite::trainer
