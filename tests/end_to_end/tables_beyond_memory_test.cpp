// `train` with tables that are larger than the memory it may use computes what it computes with all
// of them in memory, bit for bit.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tests/end_to_end/beyond_memory.h"
#include "tests/support/errors.h"
#include "tests/support/metrics_events.h"

namespace hlite::test {
namespace {

// host_gb of the change that memory() made.
double gigabytes_in(const std::string& change) {
  return std::stod(change.substr(change.find(':') + 1));
}

}  // namespace

TEST_CASE("tables beyond memory: the same weights for every kind of record, at the least memory",
          "[slow]") {
  for (const std::string& rule : kRules) {
    if (kSanitized && rule != kRules.back()) continue;
    INFO(rule);
    const BeyondMemory run({rule, kSmallBatches, "solver.eval_batches=3"});
    run.train({}, "memory");
    const std::string least = run.min_memory();
    run.train({least}, "disk");
    CHECK((run.exported("disk") == run.exported("memory")));
    // Killed and resumed: with another capacity, and in memory alone.
    run.train({least, "solver.max_iter=70"}, "half");
    run.train({run.memory("0.1")}, "more", {"--resume", run / "half.save"});
    CHECK((run.exported("more") == run.exported("memory")));
    run.train({}, "back", {"--resume", run / "half.save"});
    CHECK((run.exported("back") == run.exported("memory")));
    CHECK((everything(run / "back.save") == everything(run / "memory.save")));
    // And the other way.
    run.train({"solver.max_iter=70"}, "whole");
    run.train({least}, "there", {"--resume", run / "whole.save"});
    CHECK((run.exported("there") == run.exported("memory")));
  }
}

TEST_CASE("tables beyond memory: hashed, localized and plain tables, one rank and several",
          "[slow]") {
  for (const Changes& kind : kinds_of_tables())
    for (const std::string ranks : {"[0]", "[[0,1]]", "[[0,1],[2,3]]"}) {
      // Every kind on two ranks; on one and four the plain one and one that is hashed.
      const bool elsewhere = kind == kinds_of_tables()[0] || kind == kinds_of_tables()[3];
      if (ranks != "[[0,1]]" && (kSanitized || !elsewhere)) continue;
      // On two ranks rows are in 16 bits.
      const std::string precision = ranks == "[[0,1]]" ? "bf16" : "fp32";
      INFO(fmt::format("{} on {}, {}", fmt::join(kind, " "), ranks, precision));
      Changes changes = kind;
      changes.push_back("solver.table_precision=" + precision);
      changes.insert(changes.end(), {kRules.back(), kSmallBatches, gpu(ranks)});
      const BeyondMemory run(changes);
      run.train({}, "memory");
      run.train({run.min_memory()}, "disk");
      CHECK((run.exported("disk") == run.exported("memory")));
      run.train({"solver.max_iter=70", run.min_memory()}, "half");
      run.train({gpu(ranks)}, "back", {"--resume", run / "half.save"});
      CHECK((everything(run / "back.save") == everything(run / "memory.save")));
    }
}

TEST_CASE("tables beyond memory in 16 bits: the same weights, and smaller records") {
  for (const char* precision : {"bf16", "fp16"})
    for (const std::string& rule : kRules) {
      if (precision == std::string("fp16") && rule != kRules.back()) continue;
      INFO(precision << ", " << rule);
      const std::string narrow = std::string("solver.table_precision=") + precision;
      const BeyondMemory run({rule, kSmallBatches, "solver.eval_batches=3", narrow}),
          wide({rule, kSmallBatches, "solver.eval_batches=3"});
      run.train({}, "memory");
      const std::string least = run.min_memory();
      CHECK(gigabytes_in(least) < gigabytes_in(wide.min_memory()));
      run.train({least}, "disk");
      CHECK((run.exported("disk") == run.exported("memory")));
      run.train({least, "solver.max_iter=70"}, "half");
      run.train({}, "back", {"--resume", run / "half.save"});
      CHECK((everything(run / "back.save") == everything(run / "memory.save")));
    }
}

TEST_CASE(
    "tables beyond a GPU's memory: the same weights for every kind of record, at the least memory",
    "[no-tsan][slow]") {
  for (const std::string& rule : kRules) {
    if (kSanitized && rule != kRules.back()) continue;
    INFO(rule);
    const BeyondMemory run({rule, kSmallBatches, "solver.eval_batches=3"}, kFourGpus);
    run.train({}, "memory");
    const std::string least = run.min_memory();
    run.train({least}, "host");
    CHECK((run.exported("host") == run.exported("memory")));
    CHECK((everything(run / "host.save") == everything(run / "memory.save")));
    run.train({least, "solver.max_iter=70"}, "half");
    run.train({run.memory("1")}, "more", {"--resume", run / "half.save"});
    CHECK((everything(run / "more.save") == everything(run / "memory.save")));
    if (rule != kRules.back()) continue;
    run.train({"solver.max_iter=70"}, "whole");
    run.train({least}, "there", {"--resume", run / "whole.save"});
    CHECK((everything(run / "there.save") == everything(run / "memory.save")));
  }
}

TEST_CASE("tables beyond GPUs' memory: every kind of table, on one and several, in any order",
          "[release-only][slow]") {
  for (const Changes& kind : kinds_of_tables())
    for (const char* ranks : {"[0]", "[[0,1]]", "[[0,1,2,3]]", "[[0],[0]]"}) {
      INFO(fmt::format("{} on {}", fmt::join(kind, " "), ranks));
      Changes changes = kind;
      changes.insert(changes.end(),
                     {kRules.back(), kSmallBatches, gpu(ranks), "solver.max_iter=40"});
      const BeyondMemory run(changes, kFourGpus);
      run.train({}, "memory");
      const std::string least = run.min_memory();
      run.train({least}, "host");
      CHECK((everything(run / "host.save") == everything(run / "memory.save")));
      if (ranks == std::string("[[0],[0]]")) continue;
      run.train({least}, "order", {}, {order_of(1)});
      CHECK((everything(run / "order.save") == everything(run / "memory.save")));
    }
}

TEST_CASE("golden runs with tables beyond memory, as little as they take") {
  const std::pair<const char*, const char*> runs[] = {
      {"dlrm_fused", "0.02652"}, {"dlrm_plain", "0.0253"}, {"dcnv2_multihot", "0.02575"}};
  for (const auto& [name, gb] : runs) {
    const TemporaryDirectory disk;
    check_run(
        name, 2,
        {fmt::format(R"(solver.embedding_memory={{"host_gb":{},"disk":"{}"}})", gb, disk.path())});
  }
}

TEST_CASE("tables beyond memory: auto trains in memory what fits, with the same bits") {
  const BeyondMemory run({kRules.front(), kSmallBatches});
  run.train({}, "memory");
  REQUIRE(run.run({"solver.embedding_memory=auto", "solver.max_iter=200"},
                  {"--export", run / "auto.safetensors", "--metrics", run / "m.jsonl", "--report",
                   run / "r.html"})
              .code == 0);
  CHECK((run.exported("auto") == run.exported("memory")));
  check_contains(read_text(run / "m.jsonl"),
                 {R"({"event":"tables","iterations":200,"decision":["embedding_memory \"auto\": )"
                  R"(all rows are in memory)"});
  check_contains(read_text(run / "r.html"), {"Tables beyond memory", "all rows are in memory"});
  check_contains(run.run({"solver.embedding_memory=auto"}, {"--check"}).out,
                 {"embedding_memory \"auto\": all rows are in memory", "the run can start here"});
}

TEST_CASE("tables beyond memory: what is expected of generated click data is what a run measures") {
  const TemporaryDirectory data;
  const std::string prefix = data / "s";
  constexpr int64_t kSamples = 8000, kBatch = 16, kRecord = 16 * 4, kOfLine = 12;
  REQUIRE(run_program({HLITE_CRITEO_SYNTH, "--train", std::to_string(kSamples), "--test", "100",
                       "--cards", "kaggle", "--cap", "4000", "--format", "raw", "--out", prefix})
              .code == 0);
  const auto train = [&](const std::string& gb, const Changes& more) {
    const std::string sizes = "slot_size_array=" + prefix + ".manifest.json";
    Changes command = {HLITE_TRAIN, "--config", std::string(HLITE_CONFIGS) + "/kaggle_dlrm.json",
                       "--threads", "2",        "--device",
                       "cpu"};
    command.insert(command.end(), more.begin(), more.end());
    for (const std::string& change :
         {"layers.data.source=" + prefix + ".train.bin",
          "layers.data.eval_source=" + prefix + ".test.bin", "layers.data." + sizes,
          "layers.embedding.sparse_embedding_hparam." + sizes,
          "solver.batchsize=" + std::to_string(kBatch), std::string("solver.batchsize_eval=16"),
          std::string("solver.eval_interval=0"), "solver.snapshot_prefix=" + (data / "x"),
          fmt::format(R"(solver.embedding_memory={{"host_gb":{},"disk":"{}"}})", gb, data.path())})
      command.insert(command.end(), {"--set", change});
    return run_program(command);
  };
  const ProgramResult refused = train("1e-6", {"--quiet"});
  std::smatch found;
  REQUIRE(std::regex_search(refused.err, found,
                            std::regex("at least ([0-9.]+) GB.* for the ([0-9]+) rows")));
  const double least = std::stod(found[1]);
  const int64_t min_rows = std::stoll(found[2]);
  for (const double share : {0.05, 0.1, 0.3}) {
    if (kSanitized && share != 0.1) continue;
    const ProgramResult first = train(fmt::format("{}", least), {"--check"});
    INFO(first.out << first.err);
    REQUIRE(std::regex_search(first.out, found, std::regex("[0-9]+ of ([0-9]+) rows")));
    const int64_t rows = std::stoll(found[1]),
                  wanted = static_cast<int64_t>(share * static_cast<double>(rows)),
                  more = std::max<int64_t>(0, wanted - min_rows) * (kRecord + kOfLine);
    const std::string gb = fmt::format("{:.9f}", least + static_cast<double>(more) * 1e-9);
    const ProgramResult checked = train(gb, {"--check"});
    check_contains(checked.out, {"% of lookups are expected to find their rows in memory", "reads ",
                                 " from the disk " + data.path(), " and writes "});
    const std::string metrics = data / fmt::format("{}.jsonl", share);
    const ProgramResult run = train(gb, {"--metrics", metrics, "--report", data / "r.html"});
    REQUIRE(run.code == 0);
    check_contains(run.err, {"(expected: ", "lookups found their rows in memory"});
    const auto tables = last_event(metrics, "tables")["layers"][0];
    for (const auto& event : events_in(metrics, "train"))
      CHECK(event["resident_share"].get<double>() > 0.3);
    INFO(tables.dump());
    const double resident = tables["resident_rows"].get<double>() / tables["rows"].get<double>();
    CHECK(resident < share * 1.05 + 0.001);
    CHECK(std::abs(tables["resident_share"].get<double>() -
                   tables["expected_resident_share"].get<double>()) < 0.02);
    CHECK(tables["read_rows"].get<double>() > 0);  // from segments that still are in memory, too
    check_contains(read_text(data / "r.html"), {"Tables beyond memory", R"(["embedding",)"});
  }
}

TEST_CASE("tables beyond memory: a table that is next to nothing beside others stays in memory") {
  const TemporaryDirectory folder;
  Words command = {HLITE_TRAIN, "--check",  "--device",
                   "cpu",       "--config", HLITE_CONFIGS "/mlperf_dlrmv4.json"};
  const Words small = {
      "solver.gpu=[0]", "solver.batchsize=2", "solver.batchsize_eval=2",
      R"(solver.embedding_memory={"host_gb":2.5,"disk":")" + folder.path() + "\"}"};
  const ProgramResult result = run_program(command + changes_of(small));
  INFO(result.err);
  REQUIRE(result.code == 0);
  check_contains(result.out, {"of 293051712 rows"});
  CHECK(result.out.find("of 2049 rows") == std::string::npos);
}

TEST_CASE("tables beyond memory: what cannot be") {
  const BeyondMemory run({kRules.front()});
  const auto message = [&](const Changes& changes) {
    const ProgramResult result = run.run(changes, {});
    CHECK(result.code != 0);
    return result.err;
  };
  const std::string global =
      R"(layers.emb.optimizer={"type":"MomentumSGD","update_type":"Global",)"
      R"("momentum_sgd_hparam":{"learning_rate":0.1,"momentum_factor":0.9}})";
  check_contains(message({run.memory("0.1"), global}),
                 {"layers[1].optimizer", "Local", "solver.embedding_memory"});
  check_contains(message({run.memory("0.1"), "solver.gradient_clip_norm=1"}),
                 {"gradient_clip_norm", "solver.embedding_memory"});
  check_contains(message({R"(solver.embedding_memory={"host_gb":0.1,"disk":"/no/such/folder"})"}),
                 {"/no/such/folder", "No such file"});
  check_contains(message({R"(solver.embedding_memory={"host_gb":0,"disk":"."})"}),
                 {"solver.embedding_memory.host_gb", "> 0"});
  check_contains(message({R"(solver.embedding_memory={"gpu_gb":1,"host_gb":1})"}),
                 {"solver.embedding_memory", "host_gb and disk", "found no disk"});
  check_contains(message({"solver.embedding_memory=automatic"}),
                 {"solver.embedding_memory", "expected \"auto\" or an object"});
  const BeyondMemory on_gpu({kRules.front()}, kFourGpus);
  check_contains(on_gpu.run({R"(solver.embedding_memory={"host_gb":1,"disk":"."})"}, {}).err,
                 {"solver.embedding_memory", "gpu_gb is required for training on a GPU"});
}

}  // namespace hlite::test
