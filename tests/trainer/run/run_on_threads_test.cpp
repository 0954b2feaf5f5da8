// Whole runs inside the test, as run_training() makes them: ranks, readers, evaluation and saving on their threads, for
// ThreadSanitizer to look at.
#include <regex>

#include "hugectr_lite/trainer/run/session.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/catch.h"

namespace hlite::test {
namespace {

using Words = std::vector<std::string>;

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class RunOnThreads {
 public:
  // Trains for 36 iterations, three of them partial batches, with four evaluations and two snapshots. Returns the exported
  // weights.
  [[nodiscard]] std::string train(const Words& changes, const std::string& resume = "") const {
    const auto config = config::load_train_config(
        files_ / "config.json",
        Words{"solver.max_iter=36", "solver.eval_interval=9", "solver.snapshot=15",
              "solver.snapshot_prefix=" + files_ / "snapshot_"} +
            changes);
    const int code = trainer::run_training(*config, {.threads = 2,
                                                     .export_path = exported_,
                                                     .save = files_ / "saved",
                                                     .resume = resume,
                                                     .metrics = files_ / "metrics.jsonl",
                                                     .quiet = true});
    REQUIRE(code == kExitDone);
    return read_text(exported_);
  }
  // The change that gives the tables as little memory as they can have: a refused run says how much.
  [[nodiscard]] std::string least_memory(const Words& changes) const {
    const auto memory = [&](const std::string& gb) {
      return fmt::format(R"(solver.embedding_memory={{"host_gb":{},"disk":"{}"}})", gb,
                         files_.path());
    };
    std::string refusal;
    try {
      (void)train(changes + Words{memory("1e-6")});
    } catch (const Error& error) {
      refusal = error.what();
    }
    INFO(refusal);
    std::smatch found;
    REQUIRE(std::regex_search(refusal, found, std::regex("at least ([0-9.]+) GB")));
    return memory(found[1]);
  }
  [[nodiscard]] std::string snapshot(int iteration) const {
    return files_ / fmt::format("snapshot_{}", iteration);
  }

 private:
  SmallRun files_;
  std::string exported_ = files_ / "weights.safetensors";
};

const std::string kOneNode = gpu("[[0,1]]"), kTwoNodes = gpu("[[0,1],[2,3]]");
const std::string kOverlap = "solver.enable_overlap=true";

}  // namespace

TEST_CASE("ranks that are threads train the same bits with lanes that overlap", "[threads]") {
  const RunOnThreads run;
  for (const std::string& ranks : {kOneNode, kTwoNodes}) {
    INFO(ranks);
    const std::string weights = run.train({ranks});
    CHECK(run.train({ranks, kOverlap}) == weights);
    CHECK(run.train({ranks, kOverlap, "solver.input=broadcast"}) == weights);
    // The buffers are too small, and the first batches are run again.
    CHECK(run.train({ranks, "layers.emb.sparse_embedding_hparam.exchange_capacity=1"}) == weights);
  }
}

TEST_CASE("ranks that are threads train hashed, localized and replicated tables repeatably",
          "[threads]") {
  const RunOnThreads run;
  const auto hparam = [](const std::string& more) {
    return R"(layers.emb.sparse_embedding_hparam={"embedding_vec_size":4,"combiner":0,)" + more +
           "}";
  };
  const std::string slots = R"("slot_size_array":[40,5,300])";
  for (const Words& kind :
       {Words{"layers.emb.type=LocalizedSlotSparseEmbeddingOneHot", hparam(slots)},
        Words{"layers.emb.type=DistributedSlotSparseEmbeddingHash",
              hparam(R"("max_vocabulary_size_per_gpu":345)")},
        Words{
            hparam(slots + R"(,"sharding":"auto","sharding_param":{"replicate_below_mb":0.0005})")},
        Words{"solver.precision=bf16", "solver.table_precision=bf16"}}) {
    INFO(kind[0]);
    const Words changes = kind + Words{kOneNode, kOverlap};
    CHECK(run.train(changes) == run.train(changes));
  }
}

TEST_CASE("tables on a disk are fetched and saved by threads to the bits of tables in memory",
          "[threads]") {
  const RunOnThreads run;
  const Words changes = {kOneNode, "solver.batchsize=8", "solver.batchsize_eval=8",
                         "layers.emb.optimizer.update_type=Local"};
  const std::string weights = run.train(changes);
  CHECK(run.train(changes + Words{run.least_memory(changes)}) == weights);
}

TEST_CASE("a run on threads that goes on from a snapshot ends with the same bits", "[threads]") {
  const RunOnThreads run;
  const std::string weights = run.train({kOneNode, kOverlap});
  CHECK(run.train({kOneNode, kOverlap}, run.snapshot(15)) == weights);
}

}  // namespace hlite::test
