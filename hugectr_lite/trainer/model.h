// Model: a config compiled into buffers and plans.
//
// Construction checks and sizes everything and takes no memory worth speaking of; compile() makes
// the plans; allocate() takes the memory, and then they can be run. Order of a training iteration:
//
//   copy_in            batch -> labels, dense, keys
//   learning_rate      step += 1, learning rates of this step
//   <embedding>.lookup, <layer>.fprop ..., <loss>.fbprop
//   <layer>.bprop, .wgrad ... downwards
//   dense_update, <embedding>.update
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data_reader/batch_source.h"
#include "embedding/embedding_layer.h"
#include "hugectr_lite/checkpoint/safetensors.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/network/network.h"
#include "hugectr_lite/plan/plan.h"
#include "hugectr_lite/trainer/device_fit.h"
#include "hugectr_lite/trainer/gradient_sum.h"
#include "hugectr_lite/trainer/loss_scaling.h"
#include "hugectr_lite/trainer/placements.h"

namespace hlite::trainer {

// One line of the table that --check prints.
struct ModelRow {
  std::string name, type, output, detail;
  int64_t parameters = 0;
};

struct MemoryEstimate {
  int64_t tables = 0, optimizer_states = 0, dense_parameters = 0, activations = 0, gradients = 0,
          batch = 0, workspace = 0, matmul = 0;
  [[nodiscard]] int64_t total() const {
    return tables + optimizer_states + dense_parameters + activations + gradients + batch +
           workspace + matmul;
  }
};

// A model's place among the ranks of a run.
struct ModelRanks {
  comm::RankContext context = {};
  std::vector<LayerPlacement> placements = {};  // of the embedding layers; none on one rank
  std::function<bool()> wants_to_stop = {};     // whether this rank was asked to
};

// Device memory for the outputs of some samples: a float each.
struct OutputsPlace {
  float *logits = nullptr, *labels = nullptr;
};

using comm::StepTraffic;
class RankLanes;
class GpuRun;

class Model {
 public:
  // `config` must outlive the model. Throws ConfigError when the layers do not fit together.
  // Collective when ranks.context.world is given. `gpu`: the one to run on, which is then the
  // current device whenever the model is used; null: the CPU.
  Model(const config::TrainConfig& config, uint64_t seed, int threads, ModelRanks ranks = {},
        const cuda::Backend* gpu = nullptr);
  ~Model();

  [[nodiscard]] std::vector<ModelRow> describe() const;
  // On a GPU: of its memory. Evaluation left out.
  [[nodiscard]] MemoryEstimate memory() const;
  // The tables of all embedding layers; of hashed ones what all ranks have room for, as one.
  [[nodiscard]] std::vector<TableSize> tables() const;
  // Largest batch of one rank that fits the buffers: evaluation takes what training needs, and at
  // least 8192 samples of a larger evaluation batch over all ranks.
  [[nodiscard]] int64_t max_batch() const { return max_batch_; }
  // Rows of each slot's table, of all sparse inputs one after another.
  [[nodiscard]] const std::vector<int64_t>& slot_rows() const { return slot_rows_; }

  // Adds the steps to both plans: enough to look at them, with a GPU that is not here too.
  void make_plans();
  // Makes the plans and what their steps need. Takes the sparse update's workspace, on a GPU that
  // of matrix products too, and no other memory. Throws DeviceError when the GPU lacks memory for
  // all that the model will need.
  void compile();
  // Takes the memory of every buffer. Throws DataError (DeviceError on a GPU) when it does not fit.
  // REQUIRES compile().
  void allocate();
  // Run a plan, again and with larger buffers where an exchange between ranks did not fit: what the
  // first try had done by then has no effect. On several ranks and with solver.enable_overlap every
  // lane has a thread of its own. Collective. On a GPU both return at once, and the batch's memory
  // may be used again after wait_for_input().
  void train(const plan::StepContext& context) { run(train_plan_, context); }
  void evaluate(const plan::StepContext& context) { run(eval_plan_, context); }
  void wait_for_input();
  // To be called before the memory of batches is freed.
  void release_input();
  [[nodiscard]] bool on_gpu() const { return gpu_ != nullptr; }
  [[nodiscard]] const cuda::Backend* gpu() const { return gpu_; }
  [[nodiscard]] const plan::Plan& train_plan() const { return train_plan_; }
  [[nodiscard]] const plan::Plan& eval_plan() const { return eval_plan_; }
  [[nodiscard]] const network::Network& network() const { return *network_; }
  [[nodiscard]] const std::vector<std::unique_ptr<embedding::EmbeddingLayer>>& embeddings() const {
    return embeddings_;
  }

  // Waits for all runs of a GPU: see embedding::EmbeddingTables::check().
  void check_keys() const;

  // What this rank has sent and got in training iterations and evaluations so far, by step.
  [[nodiscard]] std::vector<StepTraffic> traffic() const;

  // First values of every weight and optimizer state, from the seed. REQUIRES allocate().
  void initialize(const Exec& exec);

  // Iterations done; set by a resume.
  [[nodiscard]] int64_t step() const { return read<int64_t>(step_); }
  void set_step(int64_t step);
  // After a training or evaluation run, which they wait for: mean loss of the batch, logits and
  // labels of its first n samples.
  [[nodiscard]] float loss() const { return read<float>(network_->loss()); }
  void append_outputs(int64_t n, std::vector<float>& logits, std::vector<float>& labels) const;
  // The same on a GPU, without waiting: two copies behind the run.
  void copy_outputs(int64_t n, const OutputsPlace& to);
  // Of a GPU: the stream that runs are ordered on. REQUIRES compile().
  [[nodiscard]] void* stream() const;
  // Whether any rank wanted to stop in the training iteration that has just run; all know the same.
  [[nodiscard]] bool stop_requested() const;
  [[nodiscard]] float learning_rate() const { return read<float>(rates_); }
  // To be called when weights have been set, before a plan runs: working copies follow.
  void weights_changed();
  // A dynamic loss scale, which a checkpoint keeps; nothing where there is none.
  [[nodiscard]] std::optional<optimizer::LossScale> dynamic_loss_scale() const;
  void set_dynamic_loss_scale(const optimizer::LossScale& state);

  // Where tables hold the keys that have come: makes room for a file's, before its weights are
  // read.
  void make_room(const checkpoint::SafetensorsReader& file);
  // Every weight by its name in a weights file; the optimizer's states likewise. Collective.
  [[nodiscard]] std::vector<checkpoint::TensorRef> weights() const;
  [[nodiscard]] std::vector<checkpoint::TensorRef> states() const;

  // Where numbers first stopped being finite in the batch that has just run.
  struct NonFinite {
    std::string tensor, layer;
    int64_t sample = 0;  // within the batch
  };
  // Looks at the batch's inputs, then at every activation in order; tensor empty when all are
  // finite.
  [[nodiscard]] NonFinite find_non_finite(const Exec& exec, int64_t batch) const;
  // The first weight or bias, as products read it, that is not finite; name empty when all are.
  // Whatever is not finite among a step's weights, features or embedding vectors makes weights so
  // that stay so, be it that a fused ReLU turns NaN into 0 on the way to the loss. Waits.
  struct NonFiniteWeight {
    std::string tensor;
    int64_t element = 0;
    float value = 0;
  };
  [[nodiscard]] NonFiniteWeight find_non_finite_weight(const Exec& exec) const;

 private:
  // Copies between host memory and buffers, wherever these are.
  void get(const void* from, void* to, size_t bytes) const;
  void put(const void* from, void* to, size_t bytes) const;
  template <typename T>
  [[nodiscard]] T read(plan::BufferId id) const {
    T value;
    get(buffers_.data<T>(id), &value, sizeof(T));
    return value;
  }
  [[nodiscard]] checkpoint::TensorRef tensor_at(std::string name, std::vector<int64_t> shape,
                                                float* data) const;
  [[nodiscard]] bool overlaps() const;
  void run(const plan::Plan& plan, const plan::StepContext& context);
  void run_once(const plan::Plan& plan, const plan::StepContext& context);
  void wire_sparse_inputs();
  void declare(uint64_t seed);
  void emit_copy_in(plan::Plan& plan) const;
  void emit_learning_rate(plan::Plan& plan) const;
  void emit_loss_scale(plan::Plan& plan, const std::vector<embedding::TablesIo>& io) const;
  void emit_dense_update(plan::Plan& plan) const;

  const config::TrainConfig& config_;
  uint64_t seed_;
  int threads_;
  const ModelRanks ranks_;
  const cuda::Backend* const gpu_;
  const FloatType type_;  // of activations
  LossScaling loss_scaling_;
  int64_t train_batch_, max_batch_;
  std::vector<std::unique_ptr<embedding::EmbeddingLayer>> embeddings_;
  std::vector<int64_t> slot_rows_;
  std::unique_ptr<network::Network> network_;
  optimizer::UpdateRule rule_;
  plan::Buffers buffers_;
  plan::BufferId batch_ = plan::kNoBuffer;  // of which the next three are parts
  plan::BufferId labels_ = plan::kNoBuffer, dense_ = plan::kNoBuffer, keys_ = plan::kNoBuffer;
  plan::BufferId step_ = plan::kNoBuffer;
  plan::BufferId rates_ = plan::kNoBuffer;       // a float: the dense rate
  std::vector<plan::BufferId> embedding_rates_;  // and each embedding's
  // int32, on several ranks: embedding::TablesIo.
  plan::BufferId overflow_ = plan::kNoBuffer;
  std::vector<plan::BufferId> dense_states_;
  std::unique_ptr<GradientSum> gradient_sum_;  // on several ranks
  plan::Plan train_plan_, eval_plan_;
  std::unique_ptr<RankLanes> lanes_;  // with overlap, from the first run on
  std::unique_ptr<GpuRun> gpu_run_;   // on a GPU, once compiled
};

}  // namespace hlite::trainer
