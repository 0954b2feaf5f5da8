// Small runs with tables that are larger than the memory they may use.
#pragma once

#include <regex>

#include "hugectr_lite/core/error.h"
#include "tests/end_to_end/golden_on_gpus.h"
#include "tests/end_to_end/small_run.h"

namespace hlite::test {

using Changes = std::vector<std::string>;

class BeyondMemory {
 public:
  // `gpus`: the environment of emulated GPUs; none: on the CPU. `disk`: GPUs have rows on a disk
  // too.
  explicit BeyondMemory(Changes changes, Changes gpus = {}, bool disk = false)
      : changes_(std::move(changes)), gpus_(std::move(gpus)), disk_(disk) {}

  [[nodiscard]] ProgramResult run(Changes changes, const Changes& arguments,
                                  const Changes& environment = {}) const {
    Changes command = gpus_;
    command.insert(command.end(), environment.begin(), environment.end());
    const Changes program =
        run_.command({"--quiet", "--threads", "2", "--device", gpus_.empty() ? "cpu" : "cuda"});
    command.insert(command.end(), program.begin(), program.end());
    changes.insert(changes.begin(), changes_.begin(), changes_.end());
    for (const std::string& change : changes) command.insert(command.end(), {"--set", change});
    command.insert(command.end(), arguments.begin(), arguments.end());
    return run_program(command);
  }
  [[nodiscard]] std::string memory(const std::string& gb) const {
    if (disk_) return memory(gb, gb);
    if (!gpus_.empty()) return fmt::format(R"(solver.embedding_memory={{"gpu_gb":{}}})", gb);
    return fmt::format(R"(solver.embedding_memory={{"host_gb":{},"disk":"{}"}})", gb, run_.path());
  }
  [[nodiscard]] std::string memory(const std::string& gpu_gb, const std::string& host_gb) const {
    return fmt::format(R"(solver.embedding_memory={{"gpu_gb":{},"host_gb":{},"disk":"{}"}})",
                       gpu_gb, host_gb, run_.path());
  }
  // The number of GB that a refused run with this memory would take.
  [[nodiscard]] std::string min_gigabytes(const std::string& memory) const {
    return min_gigabytes(Changes{memory});
  }
  [[nodiscard]] std::string min_gigabytes(const Changes& changes) const {
    const ProgramResult refused = run(changes, {});
    INFO(refused.err);
    REQUIRE(refused.code == kExitConfig);
    std::smatch found;
    REQUIRE(std::regex_search(refused.err, found, std::regex("at least ([0-9.]+) GB")));
    return found[1];
  }
  // The change that gives the tables as little memory as they can have.
  [[nodiscard]] std::string min_memory() const {
    const std::string least = min_gigabytes(memory("1e-6"));
    return disk_ ? memory(least, min_gigabytes(memory(least, "1e-6"))) : memory(least);
  }
  void train(const Changes& changes, const std::string& name, const Changes& more = {},
             const Changes& environment = {}) const {
    Changes arguments = {"--save", run_ / (name + ".save"), "--export",
                         run_ / (name + ".safetensors")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    REQUIRE(run(changes, arguments, environment).code == 0);
  }
  [[nodiscard]] std::string exported(const std::string& name) const {
    return read_text(run_ / (name + ".safetensors"));
  }
  [[nodiscard]] std::string operator/(const std::string& name) const { return run_ / name; }

 private:
  SmallRun run_;
  Changes changes_, gpus_;
  bool disk_;
};

inline std::string local_optimizer(const std::string& type, const std::string& hparam) {
  return fmt::format(R"(layers.emb.optimizer={{"type":"{}","update_type":"Local",{}}})", type,
                     hparam);
}
// One for each kind of record: without state, with a number a row, with two numbers a weight. Other
// rules move the same records (tests/embedding).
inline const Changes kRules = {
    local_optimizer("SGD", R"("sgd_hparam":{"learning_rate":0.1})"),
    local_optimizer("RowWiseAdaGrad", R"("row_wise_adagrad_hparam":{"learning_rate":0.05})"),
    local_optimizer("RowWiseAdam", R"("row_wise_adam_hparam":{"learning_rate":0.01})"),
    local_optimizer(
        "Adam",
        R"("adam_hparam":{"learning_rate":0.01,"beta1":0.9,"beta2":0.999,"epsilon":1e-8})")};
inline const std::string kSmallBatches = "solver.batchsize_eval=32";

// Every kind of table, with what sets its sizes.
inline std::vector<Changes> kinds_of_tables() {
  const std::string slots = R"("slot_size_array":[40,5,300],)";
  const auto type = [](const std::string& name, const std::string& hparam) {
    return Changes{"layers.emb.type=" + name, "layers.emb.sparse_embedding_hparam={" + hparam +
                                                  R"("embedding_vec_size":4,"combiner":0})"};
  };
  return {{},
          type("LocalizedSlotSparseEmbeddingOneHot", slots),
          type("LocalizedSlotSparseEmbeddingOneHot", slots + R"("sharding":"row",)"),
          type("DistributedSlotSparseEmbeddingHash", R"("max_vocabulary_size_per_gpu":345,)"),
          type("LocalizedSlotSparseEmbeddingHash", slots)};
}

}  // namespace hlite::test
