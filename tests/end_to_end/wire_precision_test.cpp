// Rows and gradients between ranks in 16 bits: `wire_precision`.
#include "tests/end_to_end/golden_on_gpus.h"
#include "tests/support/metrics_events.h"

namespace hlite::test {
namespace {

const std::string kNarrow = "solver.wire_precision=bf16";

// Bytes between nodes that the run reports, by step, and of a plain embedding.
std::map<std::string, double> bytes_between(const GoldenRun& run, const Words& changes) {
  REQUIRE(run_program(Words{HLITE_TRAIN, "--config", run / "config.json", "--quiet", "--threads",
                            "2", "--metrics", run / "metrics.jsonl"} +
                      changes_of({"solver.max_iter=8", "solver.eval_interval=0"}) +
                      changes_of(changes))
              .code == 0);
  std::map<std::string, double> bytes;
  for (const auto& event : events_in(run / "metrics.jsonl", "traffic")) {
    for (const auto& step : event["steps"]) bytes[step["step"]] = step["inter_bytes"];
    bytes["plain"] = event["plain"]["inter_bytes"];
  }
  return bytes;
}

}  // namespace

TEST_CASE("golden runs with rows and gradients in 16 bits between ranks reach the AUC of float",
          "[no-tsan][release-only]") {
  const std::string rails =
      "layers.embedding.sparse_embedding_hparam.communication_type=IB_NVLink_Hierarchical";
  check_run_16_bits("dlrm_fused", {kNarrow, gpu("[[0,1],[0,1]]"), rails});
  check_run_16_bits("dlrm_plain", {kNarrow, gpu("[[0],[1]]"), kBetween});
}

TEST_CASE("on a narrow wire rows and gradients take half the bytes, keys and the loss as many") {
  const GoldenRun run("dlrm_fused");
  for (const char* grouped : {"true", "false"}) {
    const Words ranks = {gpu("[[0,1],[0,1]]"), kBetween,
                         std::string("all_reduce.grouped=") + grouped};
    Words narrow = ranks;
    narrow.push_back(kNarrow);
    const auto wide = bytes_between(run, ranks), got = bytes_between(run, narrow);
    REQUIRE(got.size() == wide.size());
    CHECK(got.at("plain") == wide.at("plain"));
    CHECK(got.at("embedding.keys_exchange") == wide.at("embedding.keys_exchange"));
    for (const char* step :
         {"embedding.rows_exchange", "embedding.grads_exchange", "embedding.copies_all_reduce"})
      CHECK(got.at(step) == Approx(wide.at(step) / 2).epsilon(1e-6));
    // Gradients in bf16, and 64 bytes of loss and stop request that a node's two ranks send on.
    const double floats = wide.at("dense_all_reduce"),
                 scalars = got.at("dense_all_reduce") - floats / 2;
    CHECK(scalars == Approx(2 * 64 / 2.0).epsilon(0.05));
  }
}

TEST_CASE("GPUs round on the wire as ranks of the CPU do, the same in every order", "[no-tsan]") {
  Golden run("dlrm_fused");
  const Words ranks = on_ranks("[[0,1],[2,3]]", {kNarrow});
  const auto got = run.weights(kFourGpus, "cuda", ranks, 6);
  CHECK((run.weights(kFourGpus + Words{order_of(5)}, "cuda", ranks, 6) == got));
  CHECK((run.weights(kFourGpus, "cuda",
                     on_ranks("[[0,1],[2,3]]", {kNarrow,
                                                "layers.embedding.sparse_embedding_hparam."
                                                "exchange_capacity=1"}),
                     6) == got));
  check_weights(got, run.weights({}, "cpu", ranks, 6), 2e-4);
  CHECK((got != run.weights(kFourGpus, "cuda", on_ranks("[[0,1],[2,3]]"), 6)));
}

TEST_CASE("the reported loss does not depend on the wire precision of gradients") {
  const GoldenRun run("dlrm_fused");
  std::vector<double> losses;
  for (const char* wire : {"fp32", "bf16"}) {
    const auto result = run_program(
        Words{HLITE_TRAIN, "--config", run / "config.json", "--init", run / "init.safetensors",
              "--quiet", "--threads", "2", "--metrics", run / "m.jsonl"} +
        changes_of({gpu("[[0,1]]"), "solver.max_iter=1", "solver.display=1",
                    "solver.eval_interval=0", std::string("solver.wire_precision=") + wire,
                    "layers.embedding.type=LocalizedSlotSparseEmbeddingOneHot",
                    R"(layers.embedding.sparse_embedding_hparam={"embedding_vec_size":16,)"
                    R"("slot_size_array":[1000,50,3,20000,7,500,11,4],"sharding":"replicate"})"}));
    REQUIRE(result.code == 0);
    for (const auto& event : events_in(run / "m.jsonl", "train")) losses.push_back(event["loss"]);
  }
  REQUIRE(losses.size() == 2);
  CHECK(losses[0] == losses[1]);
}

}  // namespace hlite::test
