// One training run, from a loaded config to the last checkpoint.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "data_reader/batch_source.h"
#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/core/backend.h"
#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/trainer/evaluator.h"
#include "hugectr_lite/trainer/metrics_file.h"
#include "hugectr_lite/trainer/model.h"
#include "hugectr_lite/trainer/options.h"
#include "hugectr_lite/trainer/progress.h"
#include "hugectr_lite/trainer/rate_meter.h"

namespace hlite::trainer {

// What a rank's trainer is given besides.
struct RankOptions {
  comm::RankContext ranks = {};
  std::vector<LayerPlacement> placements = {};
  int threads = 1;                     // of this rank
  const cuda::Backend* gpu = nullptr;  // to train on; null: the CPU
};

// The trainer of one rank. Every member is collective; rank 0 prints and writes files.
class Trainer {
 public:
  // Checks what can be checked before memory is taken: files, paths to write to. Throws ConfigError
  // or DataError.
  Trainer(const config::TrainConfig& config, const Options& options, RankOptions rank);

  ~Trainer();

  // Trains to the end, to the AUC target or until interrupted. Returns the exit code
  // (kExitDone, kExitInterrupted). Throws DataError when the loss or a weight stops
  // being finite: looked at whenever one is shown, evaluated or saved.
  int run();

 private:
  enum class Reason { kMaxIter, kTarget, kInterrupted };

  void restore();
  void open_data();
  Reason loop();
  void report_traffic();
  void train_one();
  void look(ProgressState& state);
  [[nodiscard]] int64_t global_size(const data::HostBatch& batch) const;
  // Whether any rank was asked to stop; the same on all.
  [[nodiscard]] bool agree_to_stop();
  [[nodiscard]] uint64_t agree_on_seed();
  // Whether the AUC target is reached. An interrupt ends it early and without a result; where a
  // GPU computes the metrics beside training, the result comes with report_evaluation().
  bool evaluate(ProgressState& state);
  // The result of an evaluation that has not been reported, if any: whether it reaches the target.
  bool report_evaluation(ProgressState& state);
  // Throws DataError for weights that are no numbers, which a finite loss may hide.
  void check_weights();
  [[noreturn]] void fail_non_finite(const std::string& found);
  void save(const std::string& directory);
  [[nodiscard]] std::string snapshot_path(int64_t iteration) const;
  [[nodiscard]] Exec exec() { return {.device = Device::kCpu, .pool = &pool_}; }

  const config::TrainConfig& config_;
  const Options options_;
  const comm::RankContext ranks_;
  ThreadPool pool_;
  uint64_t seed_ = 0;
  std::unique_ptr<checkpoint::CheckpointMeta> resumed_;  // of --resume
  std::unique_ptr<Model> model_;
  std::unique_ptr<data::BatchSource> source_;
  std::unique_ptr<Evaluator> evaluator_;
  MetricsFile metrics_;
  Progress progress_;
  int64_t first_iteration_ = 0, iteration_ = 0, last_iteration_ = 0, samples_ = 0;
  int64_t run_samples_ = 0;  // of this process
  struct {
    int64_t first_sample = 0, size = 0;
  } last_batch_;  // of the last iteration
  RateMeter rates_;
  std::optional<int64_t> evaluated_;       // iteration whose evaluation is not reported yet
  std::vector<StepTraffic> eval_traffic_;  // what evaluations exchanged
  double train_seconds_ = 0;               // of this process, evaluations and saving left out
};

// Why a GPU cannot train the config yet; empty: it can.
std::string needs_cpu(const config::TrainConfig& config);
// The GPU to train on, or null for the CPU: as --device or else solver.device says; "auto" takes a
// GPU where there is one that can train the config. Throws DeviceError when the device that was
// asked for is not there or cannot train it.
const cuda::Backend* choose_device(const config::TrainConfig& config, const Options& options);
// The seed of a run: the config's, or one drawn from the system where that is 0.
uint64_t resolve_seed(const config::TrainConfig& config);
// Threads of a run: --threads, else solver.threads, else all that this process may use.
int resolve_threads(const config::TrainConfig& config, const Options& options);

}  // namespace hlite::trainer
