// Every rank gets the keys of the whole batch: `"input": "broadcast"`.
#include "tests/end_to_end/golden_on_gpus.h"
#include "tests/support/errors.h"
#include "tests/support/metrics_events.h"

namespace hlite::test {
namespace {

const std::string kBroadcast = "solver.input=broadcast";
const std::string kCapacity = "layers.embedding.sparse_embedding_hparam.exchange_capacity=";

std::map<std::string, double> bytes_of(const nlohmann::json& traffic, const char* where) {
  std::map<std::string, double> bytes;
  for (const auto& step : traffic["steps"]) bytes[step["step"]] = step[where];
  return bytes;
}

}  // namespace

// A partial last batch, of which some ranks have no part, evaluations, everything that has state.
TEST_CASE("ranks that get all keys train the bits of ranks that exchange lists",
          "[no-asan][slow]") {
  const SmallRun run;
  for (const char* rows : {"[[0,1]]", "[[0,1,2,3]]", "[[0,1],[2,3]]"}) {
    INFO(rows);
    const auto train = [&](const Words& changes) {
      REQUIRE(run_program(run.command({"--quiet", "--device", "cpu", "--threads", "2", "--save",
                                       run / "saved", "--metrics", run / "m.jsonl"}) +
                          changes_of({gpu(rows), "solver.max_iter=36", "solver.eval_interval=9"}) +
                          changes_of(changes))
                  .code == 0);
      std::string evaluations;
      for (const auto& event : events_in(run / "m.jsonl", "eval"))
        evaluations += event["auc"].dump() + " " + event["loss"].dump() + "\n";
      return std::pair(everything(run / "saved"), evaluations);
    };
    const auto own = train({});
    CHECK((train({kBroadcast}) == own));
    CHECK((train({kBroadcast, "solver.enable_overlap=true"}) == own));
    // The capacity is grown: the batch is run again.
    CHECK((train({kBroadcast, "layers.emb.sparse_embedding_hparam.exchange_capacity=1"}) == own));
    CHECK(std::count(own.second.begin(), own.second.end(), '\n') == 4);
  }
}

TEST_CASE("GPUs that get all keys train the bits of GPUs that exchange lists, in every order",
          "[release-only]") {
  Golden run("dlrm_fused");
  const auto weights = [&](const char* rows, const Words& order, const Words& more) {
    return run.weights(kFourGpus + order, "cuda", on_ranks(rows, more), 5);
  };
  const auto own = weights("[[0,1,2,3]]", {}, {});
  CHECK((weights("[[0,1,2,3]]", {order_of(3)}, {kBroadcast}) == own));
  CHECK((weights("[[0,1,2,3]]", {}, {kBroadcast, "solver.cuda_graph=false"}) == own));
  // Nodes have other frequent categories; the capacity is grown, and graphs are captured anew.
  CHECK((weights("[[0,1],[2,3]]", {order_of(8)}, {kBroadcast, kCapacity + "1"}) ==
         weights("[[0,1],[2,3]]", {}, {})));
  // Several keys a slot.
  Golden several("dcnv2_multihot");
  const auto of = [&](const Words& more) {
    return several.weights(kFourGpus, "cuda", on_ranks("[[0,1]]", more), 3);
  };
  CHECK((of({kBroadcast}) == of({})));
}

TEST_CASE("what ranks send of keys is the batch's, on GPUs as on the CPU, and nothing else changes",
          "[no-tsan]") {
  Golden run("dlrm_fused");
  constexpr double kBatch = 256, kColumns = 8, kDense = 13;
  const auto config = nlohmann::json::parse(read_text(run / "config.json"));
  REQUIRE(config["solver"]["batchsize"] == kBatch);
  REQUIRE(config["layers"][0]["sparse"][0]["slot_num"] == kColumns);
  REQUIRE(config["layers"][0]["dense"]["dense_dim"] == kDense);
  const auto train = [&](const Words& environment, const char* device, const Words& more) {
    const auto result = run.train(
        environment, device,
        Words{"--quiet", "--traffic", "--metrics", run / "m.jsonl"} +
            on_ranks("[[0,1],[2,3]]", more + Words{"solver.max_iter=8", "solver.eval_interval=4"}));
    REQUIRE(result.code == 0);
    return std::pair(last_event(run / "m.jsonl", "traffic"), result.out);
  };
  const auto [own, own_text] = train({}, "cpu", {});
  const auto [cpu, cpu_text] = train({}, "cpu", {kBroadcast});
  const auto [gpus, text] = train(kFourGpus, "cuda", {kBroadcast});
  for (const char* where : {"intra_bytes", "inter_bytes", "intra_received", "inter_received"}) {
    auto want = bytes_of(own, where), got = bytes_of(cpu, where);
    CHECK(want.erase("embedding.keys_exchange") == 1);
    // A rank's quarter of the batch to one rank of its node, and to two others.
    const double keys = 4 * (kBatch / 4) * kColumns * 4;
    CHECK(got["keys_gather"] == (std::string(where).starts_with("intra") ? keys : 2 * keys));
    CHECK(bytes_of(gpus, where)["keys_gather"] == got["keys_gather"]);
    CHECK(bytes_of(gpus, where)["embedding.rows_exchange"] == got["embedding.rows_exchange"]);
    got.erase("keys_gather");
    CHECK(got == want);
  }
  CHECK(!cpu.contains("host_to_device_bytes"));
  // Labels, dense features and keys of a quarter of the batch: it crosses the bus once.
  REQUIRE(gpus["host_to_device_bytes"].size() == 4);
  for (const double bytes : gpus["host_to_device_bytes"])
    CHECK(bytes == kBatch / 4 * (1 + kDense + kColumns) * 4);
  check_contains(text, {"keys_gather", "rank 3, from host to device"});
  CHECK(cpu_text.find("host to device") == std::string::npos);
  CHECK(own_text.find("keys_gather") == std::string::npos);
}

TEST_CASE("what the plan says of gathered keys is what is sent") {
  Golden run("dlrm_fused");
  const auto plan = run_program(Words{HLITE_TRAIN, "--config", run / "config.json", "--plan"} +
                                on_ranks("[[0,1],[2,3]]", {kBroadcast, "solver.batchsize=256"}));
  REQUIRE(plan.code == 0);
  check_contains(plan.out, {"keys_gather", "embedding.lists"});
  CHECK(plan.out.find("keys_exchange") == std::string::npos);
  const auto estimate = run_program(
      Words{HLITE_TRAIN, "--config", run / "config.json", "--estimate", "2x2 dgx_a100"} +
      on_ranks("[[0,1],[2,3]]", {kBroadcast}));
  REQUIRE(estimate.code == 0);
  CHECK(estimate.out.find("keys_exchange") == std::string::npos);
}

TEST_CASE("hashed tables are refused with all ranks' keys, in words") {
  const GoldenRun run("dlrm_fused");
  const auto result = run_program(
      Words{HLITE_TRAIN, "--config", run / "config.json", "--check"} +
      changes_of({gpu("[[0,1]]"), kBroadcast,
                  "layers.embedding.type=DistributedSlotSparseEmbeddingHash",
                  R"(layers.embedding.sparse_embedding_hparam={"embedding_vec_size":16,)"
                  R"("max_vocabulary_size_per_gpu":30000})"}));
  CHECK(result.code == 2);
  check_contains(result.err, {"solver.input", "expected \"own\" with a layer of type",
                              "DistributedSlotSparseEmbeddingHash", "found \"broadcast\""});
}

}  // namespace hlite::test
