// The config of a small DLRM, for tests of models and of the program as a whole.
#pragma once

#include <string>

namespace hlite::test {

// 3 tables x 4, 2 dense features, batch 32 of 500 training samples (a partial last batch),
// shuffled, dropout, a momentum optimizer for the network and Adam for the tables: everything that
// has state.
inline std::string small_config() {
  return R"({"solver": {"seed": 7, "lr_policy": "fixed", "display": 10, "max_iter": 200, "gpu": [0],
  "batchsize": 32, "batchsize_eval": 64, "eval_batches": 10, "eval_interval": 50,
  "snapshot": 1000000, "snapshot_prefix": "./snap_"},
 "optimizer": {"type": "MomentumSGD", "update_type": "Local",
  "momentum_sgd_hparam": {"learning_rate": 0.02, "momentum_factor": 0.9, "warmup_steps": 20,
   "decay_start": 120, "decay_steps": 60, "end_lr": 0.001}},
 "layers": [
  {"name": "data", "type": "Data", "format": "RawAsync", "source": "train.bin", "eval_source": "eval.bin",
   "check": "None", "label": {"top": "label", "label_dim": 1},
   "dense": {"top": "dense", "dense_dim": 2, "aligned": "Auto"},
   "sparse": [{"top": "keys", "type": "DistributedSlot", "max_feature_num_per_sample": 3, "max_nnz": 1, "slot_num": 3}],
   "async_param": {"num_threads": 1, "num_batches_per_thread": 2, "io_block_size": 4096, "io_depth": 2,
    "io_alignment": 512, "shuffle": true}},
  {"name": "emb", "type": "HybridSparseEmbedding", "bottom": "keys", "top": "emb",
   "optimizer": {"type": "Adam", "update_type": "Global",
    "adam_hparam": {"learning_rate": 0.01, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}},
   "sparse_embedding_hparam": {"slot_size_array": [40, 5, 300], "embedding_vec_size": 4, "combiner": 0}},
  {"name": "b1", "type": "FusedInnerProduct", "position": "Isolated", "bottom": "dense", "top": "b1",
   "fc_param": {"num_output": 4}},
  {"name": "inter", "type": "Interaction", "bottom": ["b1", "emb"], "top": "inter"},
  {"name": "drop", "type": "Dropout", "bottom": "inter", "top": "drop", "rate": 0.1},
  {"name": "t1", "type": "FusedInnerProduct", "position": "Isolated", "bottom": "drop", "top": "t1",
   "fc_param": {"num_output": 16}},
  {"name": "t2", "type": "InnerProduct", "bottom": "t1", "top": "z", "fc_param": {"num_output": 1}},
  {"name": "loss", "type": "BinaryCrossEntropyLoss", "bottom": ["z", "label"], "top": "loss"}]})";
}

// The same with layers whose numbers are those of the whole batch.
inline std::string small_config_with_batch_norm() {
  std::string text = small_config();
  const auto replace = [&](const std::string& what, const std::string& by) {
    text.replace(text.find(what), what.size(), by);
  };
  replace(R"({"name": "t2", "type": "InnerProduct", "bottom": "t1")",
          R"({"name": "bn", "type": "BatchNorm", "bottom": "t1", "top": "bn",
   "bn_param": {"factor": 0.1, "eps": 1e-3}},
  {"name": "t2", "type": "InnerProduct", "bottom": "bn")");
  replace(R"("bottom": "dense", "top": "b1")", R"("bottom": "nd", "top": "b1")");
  replace(R"({"name": "b1",)",
          R"({"name": "nd", "type": "BatchNorm", "bottom": "dense", "top": "nd",
   "bn_param": {"factor": 0.5, "eps": 1e-2}},
  {"name": "b1",)");
  return text;
}

// And with PReLU_Dice, whose numbers are, too.
inline std::string small_config_with_dice() {
  std::string text = small_config();
  const std::string what = R"({"name": "t2", "type": "InnerProduct", "bottom": "t1")";
  return text.replace(text.find(what), what.size(),
                      R"({"name": "dice", "type": "PReLU_Dice", "bottom": "t1", "top": "dice",
   "prelu_dice_param": {"alpha": 0.2, "epsilon": 0.05}},
  {"name": "t2", "type": "InnerProduct", "bottom": "dice")");
}

}  // namespace hlite::test
