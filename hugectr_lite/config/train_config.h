// The blocks of a training config as plain structs. Dialect: HugeCTR 3.1's JSON (solver, optimizer,
// all_reduce, layers), plus our own keys, marked (ours). Layers are parsed by network/ and
// embedding/; this file holds what is not a layer's own business.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hugectr_lite/config/json_node.h"
#include "hugectr_lite/config/object_reader.h"
#include "hugectr_lite/config/optimizer_config.h"
#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/core/key_layout.h"

namespace hlite::config {

struct SolverConfig {
  uint64_t seed = 0;  // 0: drawn from the system when training starts, and printed
  int64_t display = 0;
  std::optional<int64_t> max_iter;    // exactly one of the two is set after parsing:
  std::optional<int64_t> num_epochs;  // passes over the data; 1 when the config names neither
  int64_t snapshot = 0;
  std::string snapshot_prefix;
  int64_t batchsize = 0;       // global
  int64_t batchsize_eval = 0;  // global; = batchsize when absent
  int64_t eval_interval = 0;   // 0: never evaluate
  int64_t eval_batches = 0;
  std::optional<double> auc_target;  // "AUC:x" with x < 1 stops training when reached
  bool metric_auc = true;
  bool metric_average_loss = false;
  std::vector<std::vector<int>> gpu;  // nodes x ranks of the node
  bool node_first = false;            // device_layout
  // GPU knobs: read and checked here, used by the CUDA backend.
  std::optional<int64_t> mixed_precision;
  bool enable_tf32_compute = false;
  bool cuda_graph = true;
  bool enable_overlap = false;
  bool holistic_cuda_graph = false;
  bool algorithm_search = true;
  bool int64_keys = false;      // input_key_type I64, for Norm files
  std::string device = "auto";  // (ours) auto, cpu, cuda
  int threads = 0;              // (ours) CPU threads; 0: all that this process may use
  // (ours) Of activations on a GPU; fp16 too where mixed_precision is given.
  FloatType precision = FloatType::kFloat;

  [[nodiscard]] int64_t ranks() const;
};

struct AllReduceConfig {
  bool oneshot = false;  // block missing: NCCL; present without algo: Oneshot
  bool grouped = false;
};

struct SparseInputConfig {
  std::string top;
  std::string type;  // DistributedSlot, LocalizedSlot
  int64_t slot_num = 0;
  int64_t max_feature_num_per_sample = 0;
  int64_t max_nnz = 0;
  std::vector<int64_t> hotness;  // [slot_num] most keys a sample has in each slot; with
  bool is_fixed_length = false;  // is_fixed_length exactly so many
};

struct AsyncParamConfig {
  int64_t num_threads = 0, num_batches_per_thread = 0, io_block_size = 0, io_depth = 0,
          io_alignment = 0;
  bool shuffle = false;
  std::optional<bool> multi_hot_reader, is_dense_float;
};

// (ours) What becomes of a key outside of its table.
enum class KeyPolicy {
  kError,  // the data is refused
  kClamp,  // it becomes the table's last row
  kOov,    // it becomes oov_key
};
struct KeyPolicyConfig {
  KeyPolicy kind = KeyPolicy::kError;
  uint32_t oov_key = 0;
};

// The Data layer, layers[0].
struct DataConfig {
  std::string name, format;         // format: Raw, RawAsync or Norm
  std::string source, eval_source;  // as written
  std::string check;                // None or Sum
  std::optional<int64_t> num_samples, eval_num_samples;
  int64_t cache_eval_data = 0;
  std::vector<int64_t> slot_size_array;           // may be empty
  bool float_label = false, float_dense = false;  // of the raw formats: float32, else int32
  KeyPolicyConfig key_policy;
  // Norm: (ours) "keys": "global" for keys that count on over all tables, as the original's are,
  // else they are local to their slot's table; 64-bit keys (solver.input_key_type).
  bool global_keys = false, int64_keys = false;
  std::string label_top, dense_top;
  int64_t label_dim = 0, dense_dim = 0;
  bool dense_aligned = false;  // "Auto": zero-pad the dense width to 8
  std::vector<SparseInputConfig> sparse;
  std::optional<AsyncParamConfig> async_param;
  bool shuffle = false;  // async_param.shuffle

  [[nodiscard]] int64_t dense_width() const {
    return dense_aligned ? (dense_dim + 7) / 8 * 8 : dense_dim;
  }
  [[nodiscard]] bool is_raw() const { return format == "Raw" || format == "RawAsync"; }
  // The slots of all sparse inputs, one input after another.
  [[nodiscard]] KeyLayout key_layout() const;
};

struct TrainConfig {
  JsonNode root;          // with --set applied; layers[1..] are parsed from here
  std::string directory;  // of the config file; paths inside are relative to it, then to the cwd
  bool strict = true;
  SolverConfig solver;
  OptimizerConfig optimizer;
  AllReduceConfig all_reduce;
  DataConfig data;
  std::vector<const JsonNode*> layers;  // layers[1..], each an object with a string `type`

  // A path inside the config: see resolve_path() in slot_sizes.h.
  [[nodiscard]] std::string resolve(const std::string& path) const;
};

// Parses and checks everything above. `overrides` are the --set arguments in order.
// Throws ConfigError with file, line, JSON path, expected and found.
// Returned by pointer: `layers` points into `root`.
std::unique_ptr<TrainConfig> load_train_config(const std::string& path,
                                               const std::vector<std::string>& overrides);
// The same from text in memory; `name` stands for the file in messages.
std::unique_ptr<TrainConfig> parse_train_config(std::string_view text, const std::string& name,
                                                const std::vector<std::string>& overrides);

}  // namespace hlite::config
