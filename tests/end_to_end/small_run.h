// A small DLRM on random data, for tests of the program as a whole.
#pragma once

#include <string>

#include "hugectr_lite/core/random.h"
#include "tests/support/program.h"
#include "tests/support/temporary_directory.h"

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

// Samples whose label depends on the first key and the first dense feature.
inline std::string small_samples(int64_t n, uint64_t seed) {
  std::string bytes;
  const auto put = [&](uint32_t v) { bytes.append(reinterpret_cast<const char*>(&v), sizeof(v)); };
  for (uint64_t i = 0; i < static_cast<uint64_t>(n); ++i) {
    const auto draw = [&](uint64_t j, uint32_t below) { return random::word(seed, j, i) % below; };
    const uint32_t key = draw(0, 40), dense = draw(1, 50);
    put((key % 2 == 0) == (draw(5, 100) < 80) ? 1 : 0);
    put(dense);
    put(draw(2, 7));
    put(key);
    put(draw(3, 5));
    put(draw(4, 300));
  }
  return bytes;
}

// The change that makes `rows` ("[[0,1],[2,3]]") the topology.
inline std::string gpu(const std::string& rows) { return "solver.gpu=" + rows; }

class SmallRun {
 public:
  SmallRun() {
    write_text(directory_ / "config.json", small_config());
    write_text(directory_ / "train.bin", small_samples(500, 1));
    write_text(directory_ / "eval.bin", small_samples(333, 2));
  }
  [[nodiscard]] std::string operator/(const std::string& file) const { return directory_ / file; }
  [[nodiscard]] const std::string& path() const { return directory_.path(); }
  [[nodiscard]] std::vector<std::string> command(std::vector<std::string> more = {}) const {
    std::vector<std::string> all = {HLITE_TRAIN, "--config", directory_ / "config.json"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  ProgramResult train(std::vector<std::string> more = {}) const {
    return run_program(command(std::move(more)));
  }

 private:
  TemporaryDirectory directory_;
};

}  // namespace hlite::test
