// RunContext: what the parts of one rank's trainer share. The trainer (trainer.h) makes it and
// counts iterations. Its parts act on the model, the records and the progress lines; FollowedFiles
// also sets the source and the data that was trained on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data_reader/batch_source.h"
#include "data_reader/data_identity.h"
#include "data_reader/followed_source.h"
#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/core/pinned_blocks.h"
#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/trainer/model/model.h"
#include "hugectr_lite/trainer/report/progress.h"
#include "hugectr_lite/trainer/report/run_record.h"
#include "hugectr_lite/trainer/run/options.h"
#include "hugectr_lite/trainer/run/run_outputs.h"

namespace hlite::trainer {

struct RunContext {
  // No aggregate: where a member's initializer throws, GCC 12 destroys those of an aggregate twice.
  RunContext(const config::TrainConfig& run, const Options& given, comm::RankContext here,
             int threads)
      : config(run),
        options(given),
        ranks(std::move(here)),
        pool(threads),
        progress(given.quiet || ranks.rank != 0) {}

  const config::TrainConfig& config;
  const Options options;
  const comm::RankContext ranks;
  ThreadPool pool;
  Progress progress;                       // lines of this rank
  std::optional<RunOutputs> outputs = {};  // on rank 0
  uint64_t seed = 0, number = 0;           // number: CheckpointMeta::run, on rank 0
  std::unique_ptr<checkpoint::CheckpointMeta> resumed = {};  // of --resume, or null
  checkpoint::WeightsFile resumed_weights = {};              // those that it is used with
  bool new_data = false;                                     // ModelData::new_data
  data::TrainedOn trained_on = {};                           // CheckpointMeta::trained_on
  std::vector<checkpoint::CopiedFile> preparation = {};      // CheckpointMeta::preparation
  std::unique_ptr<Model> model = {};
  std::vector<std::string> memory_lines = {};      // log lines of "embedding_memory": "auto"
  std::unique_ptr<data::BatchSource> source = {};  // null without data
  data::FollowedSource* followed = nullptr;        // source, where it is one
  PinnedBlocks pinned = {};                        // its memory
  RunRecords records = {};
  int64_t iteration = 0;           // done, also before a resume
  int64_t earlier_iterations = 0;  // of these: on other data, before --grow
  int64_t last_iteration = 0;      // after which the config ends the run
  int64_t samples = 0;             // trained on

  // Work of the CPU.
  [[nodiscard]] Exec exec() { return {.device = Device::kCpu, .pool = &pool}; }
  // Returns true if any rank has a stop request; the same on all. Collective.
  [[nodiscard]] bool agree_to_stop();
  // Throws ConfigError if the trainer was made without data.
  void expect_data() const;
};

}  // namespace hlite::trainer
