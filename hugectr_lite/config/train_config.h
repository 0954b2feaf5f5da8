// The blocks of a training config as plain structs. Dialect: HugeCTR 3.1's JSON (solver, optimizer,
// all_reduce, layers), plus our own keys, marked (ours). Layers are parsed by network/ and
// embedding/; this file holds what is not a layer's own business.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hugectr_lite/config/block_schema.h"
#include "hugectr_lite/config/data_config.h"
#include "hugectr_lite/config/evaluation_config.h"
#include "hugectr_lite/config/json_node.h"
#include "hugectr_lite/config/optimizer_config.h"
#include "hugectr_lite/config/problems.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/float_type.h"

namespace hlite::config {

// kAuto: a GPU where there is one that can train the config, else the CPU.
enum class DeviceChoice { kAuto, kCpu, kCuda };
// Takes one of the names "auto", "cpu", "cuda".
DeviceChoice device_choice(std::string_view name);

// (ours) How ranks learn which rows others want of them: each lists the rows of its own samples and
// sends the lists, or all get the whole batch's keys and make all lists.
enum class InputWay { kOwn, kBroadcast };

// (ours) Whose rules a run's MLPerf log follows.
enum class Benchmark { kNone, kDlrm, kDlrmDcnv2, kDlrmv4 };

// solver.embedding_memory: the tiers that hold the rows of tables. On the CPU, rows that do not fit
// in memory are on a disk. On GPUs, GPU memory holds those in use, and host memory all rows or,
// with a disk, a part of them.
struct EmbeddingMemoryConfig {
  bool automatic = false;  // "auto": chosen by the machine's memory (trainer/model/row_memory.h)
  double gpu_gb = 0;       // per GPU: rows, optimizer states and maps
  double host_gb = 0;      // per process, likewise
  std::string disk;        // a folder; empty: none
  double disk_gb = 0;      // per layer and rank; 0: the free space
};

// Decides what a run does when a snapshot cannot be written.
enum class OnSaveError { kEnd, kContinue };

struct SolverConfig {
  uint64_t seed = 0;  // 0: drawn from the system when training starts, and printed
  int64_t display = 100;
  std::optional<int64_t> max_iter;    // exactly one of the two is set after parsing:
  std::optional<int64_t> num_epochs;  // passes over the data; 1 when the config names neither
  int64_t snapshot = 0;
  OnSaveError on_save_error = OnSaveError::kEnd;  // (ours)
  std::string snapshot_prefix = "./snapshot_";
  int64_t keep_checkpoints = 0;  // (ours) snapshots of this run to keep; 0: all
  int64_t batchsize = 0;         // global
  int64_t batchsize_eval = 0;    // global; = batchsize when absent
  int64_t eval_interval = 0;     // in iterations; 0: never, or by evaluation.every_epochs
  int64_t eval_start = 0;        // (ours) evaluations by eval_interval before it are left out
  int64_t eval_batches = 0;      // 0: all, with every_epochs
  // "AUC:x", or auc_threshold x, with x < 1 stops training when reached.
  std::optional<double> auc_target;
  std::string export_predictions_prefix;  // of text files with an evaluation's scores and labels
  bool metric_auc = true;
  bool metric_average_loss = false;
  std::vector<std::vector<int>> gpu = {{0}};  // nodes x ranks of the node
  bool node_first = false;                    // device_layout
  // GPU knobs: read and checked here, used by the CUDA backend. On the CPU mixed_precision is bf16.
  std::optional<int64_t> mixed_precision;
  bool enable_tf32_compute = false;
  bool cuda_graph = true;
  bool enable_overlap = false;
  bool holistic_cuda_graph = false;
  bool algorithm_search = true;
  bool int64_keys = false;                    // input_key_type I64, for Norm files
  DeviceChoice device = DeviceChoice::kAuto;  // (ours)
  Benchmark benchmark = Benchmark::kNone;     // (ours)
  int threads = 0;  // (ours) CPU threads; 0: all that this process may use
  // (ours) Of activations; fp16 on a GPU only, and where mixed_precision is given.
  FloatType precision = FloatType::kFloat;
  // (ours) Of rows and gradients between ranks: float or bf16.
  FloatType wire_precision = FloatType::kFloat;
  // (ours) Of the rows of tables, which updates round stochastically where it is 16 bits.
  FloatType table_precision = FloatType::kFloat;
  // (ours) Whether each of several ranks updates a part of the dense parameters, with states of no
  // others.
  bool shard_optimizer = false;
  InputWay input = InputWay::kOwn;  // (ours)

  std::optional<EmbeddingMemoryConfig> embedding_memory;  // (ours) none: all rows are in memory

  EvaluationConfig evaluation;
  // (ours) Most of the Euclidean norm of all gradients together, of the network and, with
  // gradient_clip_all, of the tables; 0: any.
  double gradient_clip_norm = 0;
  bool gradient_clip_all = true;  // (ours) gradient_clip_scope

  [[nodiscard]] bool evaluates() const { return eval_interval > 0 || evaluation.every_epochs > 0; }
  [[nodiscard]] bool clips_tables() const { return gradient_clip_norm > 0 && gradient_clip_all; }
  // Samples of an evaluation, at most.
  [[nodiscard]] int64_t eval_samples() const {
    return eval_batches > 0 ? eval_batches * batchsize_eval : std::numeric_limits<int64_t>::max();
  }
  [[nodiscard]] int64_t ranks() const;
  [[nodiscard]] int64_t max_ranks_of_a_node() const;
  // Returns true if there are other ranks, whose keys all get.
  [[nodiscard]] bool gathers_keys() const { return input == InputWay::kBroadcast && ranks() > 1; }
};

struct AllReduceConfig {
  bool oneshot = false;  // block missing: NCCL; present without algo: Oneshot
  bool grouped = false;
  bool ordered = true;  // (ours) sums in the order of ranks; false: on GPUs NCCL's own
};

struct TrainConfig {
  JsonNode root;          // with --set applied; layers[1..] are parsed from here
  std::string directory;  // of the config file; paths inside are relative to it, then to the cwd
  bool strict = true;
  SolverConfig solver;
  OptimizerConfig optimizer;
  bool trains = true;  // false: the model only predicts, and no layer has an optimizer
  AllReduceConfig all_reduce;
  DataConfig data;
  std::vector<const JsonNode*> layers;  // layers[1..], each an object with a string `type`
  Problems problems;           // found in the blocks above; only read_train_config() leaves any
  bool data_is_valid = false;  // no problem is in the Data layer

  // A path inside the config: see resolve_path() of core/file.h.
  [[nodiscard]] std::string resolve(const std::string& path, PathUse use = PathUse::kInput) const {
    return resolve_path(directory, path, use);
  }
};

// Reads and checks everything above. `overrides` are the --set arguments in order. Throws
// ConfigError for a file that cannot be read or is not JSON; other faults are the config's
// `problems`, and what is wrong has its default. Returned by pointer: `layers` points into `root`.
//
// `solver`: if not empty, a second file that holds the blocks `solver`, `optimizer` and perhaps
// `all_reduce`, which the first one then must not have: HugeCTR's graph files have layers only.
std::unique_ptr<TrainConfig> read_train_config(const std::string& path,
                                               const std::vector<std::string>& overrides,
                                               const std::string& solver = "");
std::unique_ptr<TrainConfig> read_train_config(JsonNode root, std::string directory,
                                               const std::vector<std::string>& overrides);
// Reads a config like this and throws all faults as one ConfigError. Each has a line with file,
// line, JSON path, what was expected and what was found.
std::unique_ptr<TrainConfig> load_train_config(const std::string& path,
                                               const std::vector<std::string>& overrides,
                                               const std::string& solver = "");
// Does the same with text in memory; `name` stands for the file in messages.
std::unique_ptr<TrainConfig> parse_train_config(std::string_view text, const std::string& name,
                                                const std::vector<std::string>& overrides);

// The keys of the file, and those of its Data layer. What other layers may say, they describe.
BlockSchema describe_config();
BlockSchema describe_data_layer();

}  // namespace hlite::config
