// Trainer: trains the model of a config, step by step or in one go. `train` calls run(). A program
// that acts between steps uses
//
//   Trainer trainer(config, options, rank);   // checks; takes no memory worth speaking of
//   trainer.start();                          // memory, initial values or a file's
//   while (!trainer.finished()) {
//     trainer.step();
//     if (trainer.iteration() % 100 == 0) use(trainer.batch_loss());
//     if (trainer.iteration() % 1000 == 0) use(trainer.evaluations().evaluate()->auc);
//   }
//   trainer.saver().export_weights("model.safetensors");
//
// and gets the same bits. It is closed by its destructor.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hugectr_lite/trainer/model/row_memory.h"
#include "hugectr_lite/trainer/run/evaluations.h"
#include "hugectr_lite/trainer/run/followed_files.h"
#include "hugectr_lite/trainer/run/saver.h"

namespace hlite::trainer {

// Further arguments of a rank's trainer.
struct RankOptions {
  comm::RankContext ranks = {};
  std::vector<LayerPlacement> placements = {};
  RowMemoryDecision memory = {};
  int threads = 1;                     // of this rank
  const cuda::Backend* gpu = nullptr;  // to train on; null: the CPU
};
// Returns the options of the only rank of a config, on the device that choose_device() names.
// Throws ConfigError if the config has several ranks, DeviceError as choose_device().
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
  // code (kExitDone, kExitInterrupted; kExitData if a record of the run was lost). Throws DataError
  // if the loss or a weight is not finite, which is checked whenever one is shown, evaluated or
  // saved. To be called alone: it calls the functions below.
  int run();

  // Allocates memory and gives every weight its initial value, or those of --init or --resume. Call
  // once, before the functions below. Throws DataError for files, DeviceError for a GPU with too
  // little memory.
  void start();
  // One iteration with the next batch of the training data, which begins again at its end. On a GPU
  // it has been issued when the call returns. Throws DataError when the data cannot be used.
  void step();
  // The same with these samples, at most a batch; on one rank.
  void step(const data::HostBatch& batch);
  [[nodiscard]] int64_t iteration() const { return run_.iteration; }
  [[nodiscard]] bool finished() const { return run_.iteration >= run_.last_iteration; }

  // Waits for the last step. Returns its mean loss over the batch of all ranks. Throws DeviceError
  // when a GPU met a key beyond its table.
  [[nodiscard]] double batch_loss();
  // Throw DataError, naming the sample and layer that it begins with, when the last step's loss or
  // any weight is not finite: a finite loss may hide the latter.
  void check_loss();
  void check_weights();
  // Keys outside of their tables that key_policy has replaced in the data of all ranks since
  // start(); nothing if it replaces none.
  [[nodiscard]] std::optional<int64_t> replaced_keys();

  [[nodiscard]] RunContext& context() { return run_; }
  [[nodiscard]] Model& model() { return *run_.model; }
  [[nodiscard]] Evaluations& evaluations() { return evaluations_; }
  [[nodiscard]] Saver& saver() { return saver_; }
  [[nodiscard]] VocabularyKeeper& vocabularies() { return vocabularies_; }
  [[nodiscard]] TrainingCounts& counts() { return counts_; }
  // The files of a run that follows a folder: if at_end(), open the next one before step().
  [[nodiscard]] FollowedFiles& files() { return files_; }

 private:
  void check_inputs();
  void open_records();
  void agree_on_start();
  void make_model(RankOptions rank);
  void open_data();
  void restore();
  void restore_state();
  [[nodiscard]] int64_t global_size(const data::HostBatch& batch) const;
  void train_on(const data::HostBatch& batch, int64_t size, const data::HostBatch* next);
  [[nodiscard]] int first_of_ranks(bool mine);
  [[noreturn]] void fail_non_finite(const std::string& problem, int otherwise = 0);

  RunContext run_;
  TrainingCounts counts_{run_};
  VocabularyKeeper vocabularies_{run_, counts_};
  Saver saver_{run_, counts_, vocabularies_};
  Evaluations evaluations_{run_, counts_};
  FollowedFiles files_{run_, saver_};
  struct {
    int64_t first_sample = 0, size = 0;
  } last_batch_;  // of the last iteration
};

}  // namespace hlite::trainer
