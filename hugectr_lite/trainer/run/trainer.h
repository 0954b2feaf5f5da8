// Trainer: trains the model of a config, step by step or in one go. What `train` does is run();
// whoever wants to have a say between the steps goes
//
//   Trainer trainer(config, options, rank);   // checks; takes no memory worth speaking of
//   trainer.start();                          // memory, first values or a file's
//   while (!trainer.finished()) {
//     trainer.step();
//     if (trainer.iteration() % 100 == 0) use(trainer.loss());
//     if (trainer.iteration() % 1000 == 0) use(trainer.evaluate()->auc);
//   }
//   trainer.export_weights("model.safetensors");
//
// and gets the same bits. It is closed by its destructor.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "data_reader/batch_source.h"
#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/core/pinned_blocks.h"
#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/trainer/model/model.h"
#include "hugectr_lite/trainer/run/evaluator.h"
#include "hugectr_lite/trainer/run/metric_watch.h"
#include "hugectr_lite/trainer/run/options.h"
#include "hugectr_lite/trainer/run/progress.h"
#include "hugectr_lite/trainer/run/run_record.h"
#include "hugectr_lite/trainer/run/traffic.h"

namespace hlite::trainer {

// What a rank's trainer is given besides.
struct RankOptions {
  comm::RankContext ranks = {};
  std::vector<LayerPlacement> placements = {};
  int threads = 1;                     // of this rank
  const cuda::Backend* gpu = nullptr;  // to train on; null: the CPU
};
// Those of a config with one rank, on the device that choose_device() names. Throws ConfigError for
// one with several, DeviceError as choose_device().
RankOptions one_rank(const config::TrainConfig& config, const Options& options);

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

  // Takes the memory and gives every weight its first value, or those of --init or --resume. Once,
  // before all that follows. Throws DataError for files, DeviceError for a GPU without room.
  void start();
  // One iteration with the next batch of the training data, which begins again at its end. On a GPU
  // it has been issued when the call returns. Throws DataError when the data cannot be used.
  void step();
  // The same with these samples, at most a batch; on one rank.
  void step(const data::HostBatch& batch);
  // Iterations done, those before a resume counted; after which the config ends;
  // samples trained on.
  [[nodiscard]] int64_t iteration() const { return iteration_; }
  [[nodiscard]] int64_t last_iteration() const { return last_iteration_; }
  [[nodiscard]] int64_t epoch_iterations() const { return source_->batches_per_epoch(); }
  [[nodiscard]] bool finished() const { return iteration_ >= last_iteration_; }
  [[nodiscard]] int64_t samples() const { return samples_; }

  // Of the last step, which they wait for: mean loss over the batch of all ranks, rate of the dense
  // parameters. loss() throws DeviceError when a GPU met a key beyond its table.
  double loss();
  double learning_rate();
  // Throw DataError, naming the sample and layer that it begins with, when the last step's loss or
  // any weight is not finite: a finite loss may hide the latter.
  void check_loss();
  void check_weights();

  // Metrics over the evaluation set (eval_batches batches of batchsize_eval). Nothing when this
  // process was asked to stop meanwhile. Throws DataError.
  std::optional<EvalResult> evaluate();
  // The same in two halves, between which a GPU goes on training: false when given up.
  bool start_evaluation();
  EvalResult finish_evaluation();

  // What an evaluation leads to by solver.lr_plateau and early_stop: keeps the weights of the best
  // one in a file, <snapshot_prefix>best.safetensors, and cuts learning rates. Whether training is
  // to end.
  bool heed(const EvalResult& result);
  // Puts the best weights in the model, where there are any.
  void restore_best();
  // Metrics over test_source. REQUIRES that the config has one.
  EvalResult test();

  // Writes a checkpoint, complete or not at all: what --resume takes. Throws FileError.
  void save(const std::string& directory);
  // Writes all weights: what --init takes. Throws FileError.
  void export_weights(const std::string& path);

  // Whether any rank was asked to stop, when its last step ran or now; the same on all.
  [[nodiscard]] bool stop_requested() const { return model_->stop_requested(); }
  bool agree_to_stop();
  // How long the steps of this rank's iterations took since start(), where --report asked for it
  // and they can be timed; measures what the machine reaches, which takes a moment.
  std::optional<StepsEvent> step_times();
  // What all ranks have sent each other in training since start(). REQUIRES several ranks.
  TrafficReport traffic();

  [[nodiscard]] const config::TrainConfig& config() const { return config_; }
  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] const comm::RankContext& ranks() const { return ranks_; }
  [[nodiscard]] int threads() const { return pool_.threads(); }
  [[nodiscard]] uint64_t seed() const { return seed_; }
  [[nodiscard]] Model& model() { return *model_; }
  [[nodiscard]] const data::BatchSource& source() const { return *source_; }
  [[nodiscard]] const Evaluator* evaluator() const { return evaluator_.get(); }
  // Where this rank says what it does.
  [[nodiscard]] Progress& progress() { return progress_; }
  [[nodiscard]] RunRecords& records() { return records_; }

 private:
  void open_records();
  void expect_data() const;
  void open_data();
  void open_evaluation();
  [[nodiscard]] checkpoint::CheckpointMeta meta();
  void restore();
  void restore_state(const std::vector<TensorRef>& weights);
  [[nodiscard]] int64_t global_size(const data::HostBatch& batch) const;
  void train_on(const data::HostBatch& batch, int64_t size);
  [[nodiscard]] uint64_t agree_on_seed();
  [[nodiscard]] int first_of_ranks(bool mine);
  [[noreturn]] void fail_non_finite(const std::string& problem, int otherwise = 0);
  [[nodiscard]] Exec exec() { return {.device = Device::kCpu, .pool = &pool_}; }

  const config::TrainConfig& config_;
  const Options options_;
  const comm::RankContext ranks_;
  ThreadPool pool_;
  uint64_t seed_ = 0;
  std::unique_ptr<checkpoint::CheckpointMeta> resumed_;  // of --resume
  std::unique_ptr<Model> model_;
  std::unique_ptr<data::BatchSource> source_;
  PinnedBlocks pinned_;  // its memory
  std::unique_ptr<Evaluator> evaluator_, tester_;
  MetricWatch watch_;
  std::string best_weights_;  // file of the best evaluation; empty: none yet
  RunRecords records_;
  Progress progress_;
  int64_t first_iteration_ = 0, iteration_ = 0, last_iteration_ = 0, samples_ = 0;
  struct {
    int64_t first_sample = 0, size = 0;
  } last_batch_;                      // of the last iteration
  std::vector<double> step_seconds_;  // of all iterations, where they are timed
  MovedData moved_in_evaluations_;
};

}  // namespace hlite::trainer
