// Model: a config compiled into buffers and plans.
//
// Construction checks and sizes everything and takes no memory worth speaking of; compile() builds
// the plans, whose steps stand in order in build_plans.cpp; allocate() takes the memory, and then
// they can be run. What else is done with a model lies in model_sizes.h, model_tensors.h,
// model_results.h and non_finite_search.h.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/plan/executor.h"
#include "hugectr_lite/plan/step_work.h"
#include "hugectr_lite/trainer/model/build_layers.h"
#include "hugectr_lite/trainer/model/copy_in.h"
#include "hugectr_lite/trainer/model/dense_optimizer.h"
#include "hugectr_lite/trainer/model/gradient_clip.h"
#include "hugectr_lite/trainer/model/keys_gather.h"
#include "hugectr_lite/trainer/model/layer_sums_gather.h"
#include "hugectr_lite/trainer/model/learning_rates.h"
#include "hugectr_lite/trainer/model/loss_mean.h"
#include "hugectr_lite/trainer/model/loss_scaling.h"
#include "hugectr_lite/trainer/model/replicated_row_sum.h"
#include "hugectr_lite/trainer/model/table_penalties.h"

namespace hlite::trainer {

// A model's place among the ranks of a run.
struct ModelRanks {
  comm::RankContext context = {};
  std::vector<LayerPlacement> placements = {};  // of the embedding layers; none on one rank
  std::function<bool()> stop_request = {};      // true if this rank shall stop
  RowTiers tiers = {};
  const checkpoint::SafetensorsReader* weights = nullptr;  // LayerSetup::weights, while it is made
  bool steps_of_gpu = false;  // of the network, as GPUs have them: to look at, not to run
  bool one_process = false;   // of GPUs that are not here: threads of one process
};

using comm::StepTraffic;

class Model {
 public:
  // `config` must outlive the model. Throws ConfigError when the layers do not fit together.
  // Collective when ranks.context.world is given. `gpu`: the one to run on, which is then the
  // current device whenever the model is used; null: the CPU.
  Model(const config::TrainConfig& config, uint64_t seed, int threads, ModelRanks ranks = {},
        const cuda::Backend* gpu = nullptr);

  // Adds the steps to both plans: enough to look at them, with a GPU that is not here too. A config
  // that does not train leaves the training plan empty.
  void build_plans();
  // Builds the plans, what their steps need, and the executor; what runs on the CPU will do so on
  // `host`. Takes the sparse update's workspace, on a GPU that of matrix products too, and no other
  // memory. Throws DeviceError when the GPU lacks memory for all that the model will need.
  void compile(const Exec& host);
  // Takes the memory of every buffer but, on the CPU, of those that are `lent`. Throws DataError
  // (DeviceError on a GPU) when it does not fit. REQUIRES compile().
  void allocate(std::span<const plan::LentMemory> lent = {});
  // Run a plan, again and with larger buffers where an exchange between ranks did not fit: what the
  // first try had done by then has no effect. Collective. On a GPU both return at once (on several
  // when all know that the lists fit), and the batch's memory may be used again after
  // executor().wait_for_input().
  void train(const plan::StepContext& context) { run(train_plan_, context); }
  void evaluate(const plan::StepContext& context) { run(eval_plan_, context); }
  // Waits until all runs of all ranks have ended, on several GPUs for no longer than others may
  // take: what the runs have made can be read. Collective. REQUIRES compile().
  void synchronize();
  // Calls body() when all runs of all ranks have ended and before any rank's next one. For whatever
  // takes, frees or page-locks memory: a driver may do that when no GPU of the process runs a
  // kernel, and one may wait for a rank that has not launched its own. Collective, and so is
  // body(): where it throws, other ranks leave by the abort. REQUIRES compile().
  void between_runs(FunctionRef<void()> body);
  // REQUIRES compile().
  [[nodiscard]] plan::Executor& executor() const { return *executor_; }
  // Returns the Exec for what the CPU does, with a GPU too. REQUIRES compile().
  [[nodiscard]] const Exec& host() const { return host_; }
  // Returns true if any rank requested a stop in the training iteration that has just run (on
  // several GPUs in the one before); all know the same.
  [[nodiscard]] bool stop_requested() const;
  // Returns the traffic of this rank in training iterations and evaluations so far, by step.
  [[nodiscard]] std::vector<StepTraffic> traffic() const;

  [[nodiscard]] const config::TrainConfig& config() const { return config_; }
  [[nodiscard]] uint64_t seed() const { return seed_; }
  [[nodiscard]] int ranks() const { return ranks_.context.ranks(); }
  [[nodiscard]] int rank() const { return ranks_.context.rank; }
  [[nodiscard]] const cuda::Backend* gpu() const { return gpu_; }
  // The memory of rows; nullopt: all rows are in memory.
  [[nodiscard]] std::optional<config::EmbeddingMemoryConfig> row_memory() const {
    return trainer::row_memory(config_, ranks_.tiers);
  }
  // The type of activations.
  [[nodiscard]] FloatType type() const { return type_; }
  // Largest batch of one rank that fits the buffers: evaluation takes what training needs, and at
  // least 8192 samples of a larger evaluation batch over all ranks.
  [[nodiscard]] int64_t max_batch() const { return max_batch_; }
  // Returns the work of a training iteration, on one rank.
  [[nodiscard]] plan::WorkSize train_size() const {
    return {train_batch_, max_batch_, layers_.network->gradient_buffer()};
  }
  // Returns true if the keys of a batch are routed and exchanged while the batch before is worked
  // on: on several GPUs of one process, in graphs. keys_plan() then has what needs keys alone, from
  // the batch's copy on, else nothing; train_plan() has the rest.
  [[nodiscard]] bool keys_ahead() const { return keys_ahead_; }
  [[nodiscard]] const plan::Plan& keys_plan() const { return keys_plan_; }
  [[nodiscard]] const plan::Plan& train_plan() const { return train_plan_; }
  [[nodiscard]] const plan::Plan& eval_plan() const { return eval_plan_; }
  [[nodiscard]] const plan::Buffers& buffers() const { return buffers_; }
  [[nodiscard]] const ModelLayers& layers() const { return layers_; }
  [[nodiscard]] const CopyIn& batch() const { return batch_; }
  [[nodiscard]] LearningRates& rates() { return rates_; }
  [[nodiscard]] const LearningRates& rates() const { return rates_; }
  [[nodiscard]] LossScaling& loss_scaling() { return loss_scaling_; }
  [[nodiscard]] const LossScaling& loss_scaling() const { return loss_scaling_; }
  [[nodiscard]] const LossMean& loss_mean() const { return loss_mean_; }
  [[nodiscard]] const DenseOptimizer& dense_optimizer() const { return dense_optimizer_; }

 private:
  // Data that ranks exchange, other than rows and keys.
  struct RankExchanges {
    RunStatus status;
    DenseAllReduce dense_sum;
    ReplicatedRowSum row_sum;
    LayerSumsGather layer_sums;
    int64_t training_runs = 0;
  };
  [[nodiscard]] LayerSetup layer_setup(int threads) const;
  [[nodiscard]] std::unique_ptr<RankExchanges> make_exchanges() const;
  [[nodiscard]] const RunStatus* status() const {
    return exchanges_ ? &exchanges_->status : nullptr;
  }
  [[nodiscard]] DenseShard* shard() const {
    return exchanges_ ? exchanges_->dense_sum.shard() : nullptr;
  }
  [[nodiscard]] bool has_gpu_steps() const { return gpu_ != nullptr || ranks_.steps_of_gpu; }
  [[nodiscard]] plan::Lane weight_gradient_lane() const {
    return has_gpu_steps() ? plan::Lane::kWeights : plan::Lane::kCompute;
  }
  void declare_buffers();
  [[nodiscard]] bool leaves_lookup(size_t embedding) const;
  void declare_network();
  [[nodiscard]] embedding::TablesIo tables_io(size_t layer, network::Phase phase) const;
  // Call emit(steps, io) for each embedding layer, and for those that are trained.
  template <typename Emit>
  void each_table(network::Phase phase, Emit&& emit) const;
  template <typename Emit>
  void each_trained_table(Emit&& emit) const;
  void emit_lookup(plan::Plan& keys, plan::Plan& plan, network::Phase phase);
  void emit_tops(plan::Plan& plan, size_t embedding) const;
  void emit_top_gradients(plan::Plan& plan) const;
  void build_train_plan(plan::Plan& keys, plan::Plan& plan);
  void build_eval_plan(plan::Plan& plan);
  void run(const plan::Plan& plan, const plan::StepContext& context);
  [[nodiscard]] bool run_once(const plan::Plan& plan, const plan::StepContext& context);
  void grow_exchanges(bool counted);

  const config::TrainConfig& config_;
  const uint64_t seed_;
  const ModelRanks ranks_;
  const cuda::Backend* const gpu_;
  const bool keys_ahead_;
  const FloatType type_;
  const int64_t train_batch_, max_batch_;
  const ModelLayers layers_;
  CopyIn batch_;
  LearningRates rates_;
  const std::unique_ptr<KeysGather> keys_gather_;   // where ranks get each other's keys
  const std::unique_ptr<RankExchanges> exchanges_;  // on several ranks
  LossScaling loss_scaling_;
  const std::unique_ptr<GradientClip> clip_;  // where the config has a norm
  TablePenalties table_penalties_;
  LossMean loss_mean_;
  DenseOptimizer dense_optimizer_;
  plan::Buffers buffers_;
  plan::Plan keys_plan_, train_plan_, eval_plan_;
  Exec host_;
  std::unique_ptr<plan::Executor> executor_;  // once compiled
};

}  // namespace hlite::trainer
