// What several GPUs say they send each other: the numbers of as many ranks of the CPU.
#include "tests/end_to_end/golden_on_gpus.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

// The traffic event of a golden run's first iterations.
nlohmann::json traffic_section(Golden& run, const Words& environment, const char* device,
                               const Words& more) {
  const auto result = run.train(environment, device,
                                Words{"--quiet", "--traffic", "--metrics", run / "m.jsonl", "--set",
                                      "solver.max_iter=5", "--set", "solver.eval_interval=0"} +
                                    more);
  REQUIRE(result.code == 0);
  check_contains(result.out, {"plain model-parallel instead"});
  auto traffic = last_event(run / "m.jsonl", "traffic");
  REQUIRE(!traffic.is_null());
  traffic.erase("host_to_device_bytes");  // GPUs alone have such
  return traffic;
}

double step_bytes(const nlohmann::json& traffic, const std::string& end) {
  double bytes = 0;
  for (const auto& step : traffic["steps"])
    if (step["step"].get<std::string>().ends_with(end))
      bytes += step["intra_bytes"].get<double>() + step["inter_bytes"].get<double>();
  return bytes;
}

// Of the plan's tables those below 10 kB are copied.
std::string tables(const std::string& sharding) {
  return R"(layers.embedding.sparse_embedding_hparam={"embedding_vec_size":16,"combiner":0,)"
         R"("slot_size_array":[1000,50,3,20000,7,500,11,4],"sharding":")" +
         sharding +
         (sharding == "auto" ? R"(","sharding_param":{"replicate_below_mb":0.01}})" : "\"}");
}

}  // namespace

TEST_CASE("several GPUs with any spread of tables send what ranks of the CPU send, step by step",
          "[release-only]") {
  Golden fused("dlrm_fused"), several("dcnv2_multihot");
  const std::string one_hot = "layers.embedding.type=LocalizedSlotSparseEmbeddingOneHot",
                    narrow = "solver.wire_precision=bf16";
  struct Case {
    Golden& run;
    const char* rows;
    Words changes;
  };
  const Case cases[] = {{fused, "[[0,1,2]]", {"solver.batchsize=240", "solver.batchsize_eval=240"}},
                        {fused, "[[0,1],[2,3]]", {kBetween}},
                        {fused, "[[0,1],[2,3]]", {kBetween, narrow}},
                        {fused, "[[0,1,2,3]]", {narrow, "solver.shard_optimizer=true"}},
                        {fused, "[[0,1,2,3]]", {one_hot, tables("slot")}},
                        {fused, "[[0,1],[2,3]]", {one_hot, tables("row")}},
                        {fused, "[[0,1,2,3]]", {one_hot, tables("auto"), narrow}},
                        {several, "[[0,1,2,3]]", {}},
                        {several, "[[0,1]]", {narrow}}};
  for (const Case& c : cases) {
    INFO(c.rows << " " << fmt::format("{}", fmt::join(c.changes, " ")));
    // Sums go flat among GPUs of one process, and by rails among nodes of the CPU.
    const bool nodes = std::string(c.rows).find("],[") != std::string::npos;
    const Words ranks = changes_of(c.changes + Words{gpu(c.rows)});
    const auto got = traffic_section(c.run, kFourGpus, "cuda", ranks),
               want = traffic_section(c.run, {}, "cpu", ranks);
    CHECK(step_bytes(want, ".rows_exchange") > 1000);
    CHECK(of_embedding(got) == of_embedding(want));
    if (!nodes) CHECK(got.dump() == want.dump());
  }
}

TEST_CASE("several GPUs with every table on all of them send sums, and no rows", "[release-only]") {
  Golden run("dlrm_fused");
  const Words ranks = changes_of({gpu("[[0,1,2,3]]"), tables("replicate"),
                                  "layers.embedding.type=LocalizedSlotSparseEmbeddingOneHot"});
  const auto got = traffic_section(run, kFourGpus, "cuda", ranks);
  CHECK(got.dump() == traffic_section(run, {}, "cpu", ranks).dump());
  CHECK(step_bytes(got, ".rows_exchange") == 0);
  CHECK(step_bytes(got, ".copies_all_reduce") > 1000);
}

}  // namespace hlite::test
