// Hashed tables on several emulated GPUs.
#include "tests/end_to_end/golden_on_gpus.h"
#include "tests/support/errors.h"
#include "tests/support/metrics_events.h"

namespace hlite::test {
namespace {

const std::string kByKey = "layers.emb.type=DistributedSlotSparseEmbeddingHash",
                  kBySlot = "layers.emb.type=LocalizedSlotSparseEmbeddingHash";
// Of a small run's layer, with as many rows a rank.
std::string capacity(int rows, const std::string& more = "") {
  return R"(layers.emb.sparse_embedding_hparam={"embedding_vec_size":4,"combiner":"mean",)"
         R"("max_vocabulary_size_per_gpu":)" +
         std::to_string(rows) + more + "}";
}

// What small runs save.
class HashedRuns {
 public:
  explicit HashedRuns(Words changes) : changes_(std::move(changes)) {}
  [[nodiscard]] const SmallRun& run() const { return run_; }
  ProgramResult train(const Words& environment, const char* device, const char* rows,
                      const Words& more) const {
    return run_program(environment +
                       run_.command({"--quiet", "--device", device, "--threads", "1"}) +
                       changes_of(changes_) + changes_of({gpu(rows)}) + more);
  }
  [[nodiscard]] Tensors saved(const Words& environment, const char* device, const char* rows,
                              const Words& changes, const Words& more = {},
                              const std::string& name = "saved") const {
    REQUIRE(
        train(environment, device, rows, changes_of(changes) + more + Words{"--save", run_ / name})
            .code == 0);
    return everything(run_ / name);
  }

 private:
  SmallRun run_;
  Words changes_;
};

// The keys of the tables, which must be the same to a bit.
Tensors keys_of(Tensors all) {
  std::erase_if(all, [](const auto& tensor) { return !tensor.first.ends_with(".keys"); });
  return all;
}

void check_tables(const Tensors& got, const Tensors& want, double tolerance) {
  CHECK(keys_of(want).size() == 3);
  CHECK((keys_of(got) == keys_of(want)));
  check_weights(got, want, tolerance);
}

// A layer whose exchange has a capacity of one row, next to a hashed one.
std::string two_layers() {
  std::string text = small_config();
  const auto replace = [&](const std::string& what, const std::string& by) {
    text.replace(text.find(what), what.size(), by);
  };
  replace(R"({"name": "b1",)", R"({"name": "hash", "type": "DistributedSlotSparseEmbeddingHash",
   "bottom": "keys", "top": "hash",
   "sparse_embedding_hparam": {"embedding_vec_size": 3, "combiner": 0, "max_vocabulary_size_per_gpu": 400}},
  {"name": "b1",)");
  replace(R"({"name": "drop", "type": "Dropout", "bottom": "inter")",
          R"({"name": "flat", "type": "Reshape", "bottom": "hash", "top": "flat", "leading_dim": 9},
  {"name": "both", "type": "Concat", "bottom": ["inter", "flat"], "top": "both"},
  {"name": "drop", "type": "Dropout", "bottom": "both")");
  return text;
}

}  // namespace

TEST_CASE("golden runs with hashed tables, on several GPUs", "[release-only]") {
  const auto change = [](const std::string& type) {
    return Words{"layers.embedding.type=" + type,
                 R"(layers.embedding.sparse_embedding_hparam={"embedding_vec_size":16,)"
                 R"("combiner":0,"max_vocabulary_size_per_gpu":30000})"};
  };
  const auto check = [&](Golden& run, const std::string& type, const char* rows) {
    INFO(type << " " << rows);
    Words changes = change(type);
    changes.push_back(gpu(rows));
    auto got = run.weights(kFourGpus, "cuda", changes_of(changes));
    CHECK(std::erase_if(got, [](const auto& t) { return t.first.ends_with(".keys"); }) == 8);
    check_weights(got, run.expected());
  };
  Golden fused("dlrm_fused"), several("dcnv2_multihot");
  check(fused, "DistributedSlotSparseEmbeddingHash", "[[0,1,2,3]]");
  check(fused, "LocalizedSlotSparseEmbeddingHash", "[[0,1],[0,1]]");
  check(several, "DistributedSlotSparseEmbeddingHash", "[[0,1]]");
}

// Keys that are new to the tables in every batch, and several keys a slot where the data has them.
TEST_CASE("hashed tables on several GPUs are those of ranks of the CPU, row by row",
          "[release-only][slow]") {
  for (const std::string& type : {kByKey, kBySlot})
    for (const char* optimizer :
         {R"({"type":"AdaGrad","update_type":"Local","adagrad_hparam":{"learning_rate":0.05,)"
          R"("initial_accumulator":0.1}})",
          R"({"type":"RowWiseAdaGrad","update_type":"Local","row_wise_adagrad_hparam":)"
          R"({"learning_rate":0.05,"initial_accumulator":0.1}})",
          R"({"type":"RowWiseAdam","update_type":"Local","row_wise_adam_hparam":)"
          R"({"learning_rate":0.01,"epsilon":1e-7}})",
          R"({"type":"Adam","update_type":"Global","adam_hparam":{"learning_rate":0.01,)"
          R"("beta1":0.9,"beta2":0.999,"epsilon":1e-7}})"}) {
      INFO(type << " " << optimizer);
      const HashedRuns runs({type, capacity(400), std::string("layers.emb.optimizer=") + optimizer,
                             "solver.max_iter=12", "solver.eval_interval=5"});
      check_tables(runs.saved(kFourGpus, "cuda", "[[0,1,2,3]]", {}),
                   runs.saved({}, "cpu", "[[0,1,2,3]]", {}), 2e-5);
      const Words narrow = {"solver.wire_precision=bf16"};
      check_tables(runs.saved(kFourGpus, "cuda", "[[0],[0]]", narrow),
                   runs.saved({}, "cpu", "[[0],[0]]", narrow), 2e-5);
    }
}

TEST_CASE("hashed tables on several GPUs have the same bits in every order of their work",
          "[release-only]") {
  const HashedRuns runs({kByKey, capacity(400), "solver.max_iter=7", "solver.eval_interval=3"});
  const auto want = runs.saved(kFourGpus, "cuda", "[[0,1,2,3]]", {});
  CHECK((runs.saved(kFourGpus, "cuda", "[[0,1,2,3]]", {"solver.cuda_graph=false"}) == want));
  for (const char* rows : {"[[0,1,2,3]]", "[[0],[1],[0],[1]]"})
    for (int seed = 1; seed <= 3; ++seed)
      CHECK((runs.saved(kFourGpus + Words{order_of(seed)}, "cuda", rows, {}) == want));
}

// Runs that count for nothing have given the hashed layer's keys their rows.
TEST_CASE("an iteration on several GPUs that is made again takes no row twice, nor another one",
          "[release-only]") {
  const HashedRuns runs({"solver.max_iter=8", "solver.eval_interval=4"});
  write_text(runs.run() / "config.json", two_layers());
  const auto want = runs.saved(kFourGpus, "cuda", "[[0,1,2,3]]", {});
  CHECK(keys_of(want).size() == 3);
  const Words tight = {"layers.emb.sparse_embedding_hparam.exchange_capacity=1"};
  for (const Words& order : {Words{}, Words{order_of(5)}})
    CHECK((runs.saved(kFourGpus + order, "cuda", "[[0,1,2,3]]", tight) == want));
  check_tables(want, runs.saved({}, "cpu", "[[0,1,2,3]]", tight), 2e-5);
}

TEST_CASE("a checkpoint of GPUs with hashed tables goes on, on ranks of the CPU, and back",
          "[release-only]") {
  for (const std::string& type : {kByKey, kBySlot}) {
    INFO(type);
    const HashedRuns runs({type, capacity(400), "solver.eval_interval=0"});
    const auto go = [&](const Words& environment, const char* device, const char* rows,
                        const char* iterations, const std::string& name, const std::string& from) {
      const Words more = from.empty() ? Words{} : Words{"--resume", runs.run() / from};
      return runs.saved(environment, device, rows, {std::string("solver.max_iter=") + iterations},
                        more, name);
    };
    const auto four = go(kFourGpus, "cuda", "[[0,1,2,3]]", "5", "four", "");
    CHECK((go({}, "cpu", "[[0,1]]", "5", "cpu", "four") == four));
    CHECK((go(kFourGpus, "cuda", "[[0,1],[0,1]]", "5", "shared", "cpu") == four));
    const auto whole = go(kFourGpus, "cuda", "[[0,1,2,3]]", "18", "whole", "");
    CHECK((go(kFourGpus, "cuda", "[[0,1,2,3]]", "18", "resumed", "four") == whole));
    check_tables(go({}, "cpu", "[[0,1]]", "18", "moved", "four"), whole, 2e-4);
  }
}

TEST_CASE("several GPUs send the keys of hashed tables as ranks of the CPU do", "[no-tsan]") {
  const HashedRuns runs({kByKey, capacity(400), "solver.max_iter=6", "solver.eval_interval=3"});
  const auto traffic = [&](const Words& environment, const char* device) {
    REQUIRE(runs.train(environment, device, "[[0,1],[2,3]]",
                       {"--metrics", runs.run() / "metrics.jsonl"})
                .code == 0);
    std::string exchanges;
    for (const auto& event : events_in(runs.run() / "metrics.jsonl", "traffic"))
      for (const auto& step : event["steps"])
        if (step["step"].get<std::string>().ends_with("_exchange")) exchanges += step.dump() + "\n";
    return exchanges;
  };
  const std::string of_gpus = traffic(kFourGpus, "cuda");
  CHECK(of_gpus.size() > 100);
  CHECK(of_gpus == traffic({}, "cpu"));
}

TEST_CASE("a full table of one of several GPUs ends all of them, as on ranks of the CPU",
          "[no-tsan]") {
  for (const std::string& type : {kByKey, kBySlot})
    for (const char* rows : {"[[0,1,2,3]]", "[[0],[0]]"})
      for (const Words& order : {Words{}, Words{order_of(2)}}) {
        INFO(type << " " << rows);
        // The fourth batch or so exceeds the capacity.
        const HashedRuns runs({type, capacity(60), "solver.display=1000"});
        const auto result = runs.train(kFourGpus + order, "cuda", rows, {});
        CHECK(result.code == 3);
        check_contains(result.err, {"train: embedding emb: its table is full: key ", "of table ",
                                    "all 60 rows", "raise max_vocabulary_size_per_gpu"});
        CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
      }
}

}  // namespace hlite::test
