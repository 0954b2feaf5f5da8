// `train` with rows in three tiers, GPUs' memory over the hosts' over disks, computes what it computes
// with all tables in the GPUs' memory, bit for bit.
#include <filesystem>
#include <map>

#include "tests/end_to_end/beyond_memory.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

const std::string kLate = "HLITE_EMULATED_STREAMS=late";

BeyondMemory in_three_tiers(Changes changes) {
  changes.insert(changes.end(), {kSmallBatches, "solver.eval_batches=3"});
  return BeyondMemory(std::move(changes), kFourGpus, /*disk=*/true);
}

// Each GPU's and host's memory exceeds the minimum by so much.
std::string with_more(const BeyondMemory& run, double gpu_gb, double host_gb) {
  const std::string gpu = run.min_gigabytes(run.memory("1e-6")),
                    host = run.min_gigabytes(run.memory(gpu, "1e-6"));
  return run.memory(fmt::format("{:.9f}", std::stod(gpu) + gpu_gb),
                    fmt::format("{:.9f}", std::stod(host) + host_gb));
}

const Changes kShared = {
    R"(layers.emb.sparse_embedding_hparam={"embedding_vec_size":4,"slot_tables":[0,1,0],)"
    R"("slot_size_array":[300,5,300]})"};

// Batches so small that each rank has many more rows than two of them.
const Changes kFewKeys = {"solver.batchsize=8", "solver.batchsize_eval=8", "solver.eval_batches=6",
                          "solver.eval_interval=7"};

std::vector<Changes> kinds_in_three_tiers() {
  std::vector<Changes> kinds = kinds_of_tables();
  kinds.push_back(kShared);
  for (const char* precision : {"bf16", "fp16"})
    kinds.push_back({std::string("solver.table_precision=") + precision});
  return kinds;
}

}  // namespace

TEST_CASE("three tiers: the same weights for every kind of record, at the least memory",
          "[no-tsan][slow]") {
  for (const std::string& rule : kRules) {
    if (kSanitized && rule != kRules.back()) continue;
    INFO(rule);
    const BeyondMemory run = in_three_tiers({rule});
    run.train({}, "memory");
    const std::string least = run.min_memory();
    run.train({least}, "tiers");
    CHECK((run.exported("tiers") == run.exported("memory")));
    // Resumed: with other capacities, and in the GPU's memory alone.
    run.train({least, "solver.max_iter=70"}, "half");
    const std::string more = with_more(run, 1e-6, 2e-6);
    run.train({more}, "more", {"--resume", run / "half.save"});
    CHECK((run.exported("more") == run.exported("memory")));
    run.train({}, "back", {"--resume", run / "half.save"});
    CHECK((everything(run / "back.save") == everything(run / "memory.save")));
    if (rule != kRules.back()) continue;
    run.train({"solver.max_iter=70"}, "whole");
    run.train({least}, "there", {"--resume", run / "whole.save"});
    CHECK((run.exported("there") == run.exported("memory")));
    // Two tiers if all rows fit on the host, and one if all fit on the GPU.
    for (const std::string& all :
         {run.memory(run.min_gigabytes(run.memory("1e-6")), "1"), run.memory("1", "1")}) {
      run.train({all}, "all", {"--resume", run / "half.save"});
      CHECK((everything(run / "all.save") == everything(run / "memory.save")));
    }
  }
}

TEST_CASE("three tiers: a checkpoint has the rows that were trained, as that of a CPU with a disk",
          "[no-tsan]") {
  const Changes few = {kRules.back(), "solver.max_iter=3", "solver.eval_interval=0"};
  const BeyondMemory run = in_three_tiers(few);
  run.train({run.min_memory()}, "tiers");
  Changes changes = few;
  changes.push_back(kSmallBatches);
  const BeyondMemory cpu(changes);
  cpu.train({cpu.min_memory()}, "disk");
  const Tensors tiers = everything(run / "tiers.save"), disk = everything(cpu / "disk.save");
  REQUIRE(tiers.size() == disk.size());
  size_t rows = 0;
  for (const auto& [name, values] : disk) {
    if (!name.ends_with(".keys")) continue;
    INFO(name);
    CHECK(tiers.at(name) == values);
    rows += values.size();
  }
  CHECK(rows > 50);
  CHECK(rows < 345);
}

// In the GPU's memory alone they train as on the CPU (table_precision_test.cpp).
TEST_CASE("three tiers in 16 bits: the same weights as in memory, and smaller records",
          "[no-tsan]") {
  const std::string narrow = "solver.table_precision=bf16";
  const auto bytes_of = [](const std::string& memory) {
    return std::stod(memory.substr(memory.find(':') + 1));
  };
  for (const std::string& rule : {kRules.front(), kRules.back()}) {
    INFO(rule);
    const BeyondMemory run = in_three_tiers({rule, narrow});
    run.train({}, "memory");
    const std::string least = run.min_memory();
    CHECK(bytes_of(least) < bytes_of(in_three_tiers({rule}).min_memory()));
    run.train({least}, "tiers");
    CHECK((run.exported("tiers") == run.exported("memory")));
    run.train({least, "solver.max_iter=70"}, "half");
    run.train({}, "back", {"--resume", run / "half.save"});
    CHECK((everything(run / "back.save") == everything(run / "memory.save")));
  }
}

TEST_CASE("three tiers: every kind of table, in any order of a GPU's work",
          "[release-only][slow]") {
  int seed = 0;
  for (const Changes& kind : kinds_in_three_tiers()) {
    INFO(fmt::format("{}", fmt::join(kind, " ")));
    Changes changes = kind;
    changes.insert(changes.end(), {kRules.back(), "solver.max_iter=25", "solver.eval_interval=7"});
    const BeyondMemory run = in_three_tiers(changes);
    run.train({}, "memory");
    const std::string least = run.min_memory();
    run.train({least}, "tiers");
    CHECK((run.exported("tiers") == run.exported("memory")));
    Changes orders = {kLate};
    orders.push_back(order_of(++seed));
    for (const std::string& order : orders) {
      INFO(order);
      run.train({least}, "order", {}, {order});
      CHECK((run.exported("order") == run.exported("memory")));
      run.train({least, "solver.cuda_graph=false"}, "eager", {}, {order});
      CHECK((run.exported("eager") == run.exported("memory")));
    }
  }
  CHECK(seed >= 4);
}

TEST_CASE("three tiers on several GPUs: every kind of table, in any order of their work",
          "[release-only][slow]") {
  int seed = 0, moving = 0;
  for (const Changes& kind : kinds_in_three_tiers())
    for (const char* ranks : {"[[0,1]]", "[[0,1],[2,3]]", "[[0],[0]]"}) {
      INFO(fmt::format("{} on {}", fmt::join(kind, " "), ranks));
      Changes changes = kind;
      changes.insert(changes.end(), kFewKeys.begin(), kFewKeys.end());
      changes.insert(changes.end(), {kRules.back(), gpu(ranks), "solver.max_iter=40"});
      const BeyondMemory run(changes, kFourGpus, /*disk=*/true);
      run.train({}, "memory");
      const std::string least = run.min_memory();
      run.train({least}, "tiers", {"--metrics", run / "m.jsonl"});
      CHECK((run.exported("tiers") == run.exported("memory")));
      const nlohmann::json tables = last_event(run / "m.jsonl", "tables")["layers"];
      INFO(tables.dump());
      REQUIRE(tables.size() == 2);
      for (const auto& tier : tables) {  // of the first rank, whose rows may all fit
        if (tier["resident_rows"] == tier["rows"]) continue;
        CHECK(tier["written_rows"].get<double>() > 0);
        ++moving;
      }
      if (ranks == std::string("[[0],[0]]")) continue;
      run.train({least}, "order", {}, {++seed % 3 == 0 ? kLate : order_of(seed)});
      CHECK((run.exported("order") == run.exported("memory")));
      run.train({least, "solver.cuda_graph=false"}, "eager");
      CHECK((run.exported("eager") == run.exported("memory")));
    }
  CHECK(moving >= 2 * 14);
}

TEST_CASE("three tiers on several GPUs: resumed in the middle, on as many ranks and on others",
          "[no-tsan][slow]") {
  for (const Changes& kind : {kinds_of_tables()[0], kinds_of_tables()[3]}) {
    INFO(fmt::format("{}", fmt::join(kind, " ")));
    Changes changes = kind;
    changes.insert(changes.end(), kFewKeys.begin(), kFewKeys.end());
    changes.insert(changes.end(), {kRules.back(), "solver.max_iter=40"});
    const BeyondMemory run(changes, kFourGpus, /*disk=*/true);
    const std::string two = gpu("[[0,1]]"), four = gpu("[[0,1],[2,3]]");
    const auto least_on = [&](const std::string& ranks) {
      const std::string gpu_gb = run.min_gigabytes(Changes{run.memory("1e-6"), ranks});
      return run.memory(gpu_gb, run.min_gigabytes(Changes{run.memory(gpu_gb, "1e-6"), ranks}));
    };
    run.train({two}, "memory");
    run.train({two, least_on(two), "solver.max_iter=21"}, "half");
    run.train({two, least_on(two)}, "again", {"--resume", run / "half.save"});
    CHECK((run.exported("again") == run.exported("memory")));
    run.train({two}, "back", {"--resume", run / "half.save"});
    CHECK((everything(run / "back.save") == everything(run / "memory.save")));
    run.train({two, "solver.max_iter=21"}, "whole");
    run.train({two, least_on(two)}, "there", {"--resume", run / "whole.save"});
    CHECK((run.exported("there") == run.exported("memory")));
    run.train({four}, "four", {"--resume", run / "whole.save"});
    run.train({four, least_on(four)}, "more", {"--resume", run / "half.save"});
    CHECK((run.exported("more") == run.exported("four")));
  }
}

TEST_CASE(
    "three tiers on several GPUs: lists that do not fit, keys of all ranks, 16 bits, one host",
    "[no-tsan]") {
  const auto check = [](Changes changes) {
    INFO(fmt::format("{}", fmt::join(changes, " ")));
    changes.insert(changes.end(), kFewKeys.begin(), kFewKeys.end());
    changes.insert(changes.end(), {kRules.back(), gpu("[[0,1]]"), "solver.max_iter=25"});
    const BeyondMemory run(changes, kFourGpus, /*disk=*/true);
    run.train({}, "memory");
    run.train({run.min_memory()}, "tiers", {"--traffic", "--metrics", run / "m.jsonl"});
    CHECK((run.exported("tiers") == run.exported("memory")));
    const nlohmann::json traffic = last_event(run / "m.jsonl", "traffic");
    INFO(traffic.dump());
    std::map<std::string, double> sent;  // an iteration
    for (const auto& step : traffic["steps"]) sent[step["step"]] = step["intra_bytes"];
    CHECK(sent["emb.host_lists"] > 0);
    CHECK(sent["emb.host_lists"] >= sent["emb.keys_exchange"]);
    // All rows fit on the GPUs, or on their host.
    const std::string on_gpus = run.memory("1", "1"),
                      on_host = run.memory(run.min_gigabytes(run.memory("1e-6")), "1");
    for (const std::string& all : {on_gpus, on_host}) {
      run.train({all}, "all");
      CHECK((everything(run / "all.save") == everything(run / "memory.save")));
    }
  };
  check({});
  check({"layers.emb.sparse_embedding_hparam.exchange_capacity=1"});
  check({R"(solver.input="broadcast")"});
  check({"solver.table_precision=bf16", "solver.wire_precision=bf16"});
}

TEST_CASE("golden runs in three tiers, as little as they take and more", "[no-tsan]") {
  const std::pair<const char*, const char*> runs[] = {{"dlrm_fused", "[0]"},
                                                      {"dlrm_plain", "[0]"},
                                                      {"dcnv2_multihot", "[0]"},
                                                      {"dlrm_plain", "[[0,1]]"},
                                                      {"dlrm_fused", "[[0,1],[2,3]]"}};
  for (const auto& [name, ranks] : runs) {
    if (kSanitized && name != std::string("dcnv2_multihot")) continue;
    INFO(name << " on " << ranks);
    Golden golden(name);
    const TemporaryDirectory disk;
    const Words small = {"solver.batchsize=32", kSmallBatches};
    const auto on = [&](const Words& changes) { return on_ranks(ranks, small + changes); };
    const auto weights = [&](const Words& changes) {
      return golden.weights(kFourGpus, "cuda", on(changes), 12);
    };
    const auto memory = [&](double gpu, double host) {
      return fmt::format(
          R"(solver.embedding_memory={{"gpu_gb":{:.9f},"host_gb":{:.9f},"disk":"{}"}})", gpu, host,
          disk.path());
    };
    const auto least = [&](double gpu, double host) {
      const ProgramResult refused = golden.train(kFourGpus, "cuda", on({memory(gpu, host)}));
      std::smatch found;
      REQUIRE(std::regex_search(refused.err, found, std::regex("at least ([0-9.]+) GB")));
      return std::stod(found[1]);
    };
    const Tensors want = weights({});
    const double gpu = least(1e-6, 1e-6), host = least(gpu, 1e-6);
    for (const double more : {0.0, 1e-4, 4e-4})
      CHECK(weights({memory(gpu + more / 2, host + more)}) == want);
  }
}

TEST_CASE("three tiers: what a run says of them", "[no-tsan]") {
  const BeyondMemory run = in_three_tiers({kRules.front()});
  const std::string least = run.min_memory();
  const ProgramResult checked = run.run({least}, {"--check"});
  INFO(checked.out);
  const std::string rows = "emb: ([0-9]+) of 345 rows \\(.* %, .*\\) in memory of the ";
  std::smatch gpu_lines, host_lines;
  REQUIRE(std::regex_search(checked.out, gpu_lines,
                            std::regex(rows + "GPU, ([0-9]+) \\(.*\\) on the host")));
  REQUIRE(std::regex_search(checked.out, host_lines,
                            std::regex(rows + "host, the others \\(.*\\) on the disk ")));
  CHECK(gpu_lines[2] == host_lines[1]);
  for (const std::string& lines : {gpu_lines[1].str(), host_lines[1].str()}) {
    CHECK(std::stoi(lines) >= 192);  // of two batches
    CHECK(std::stoi(lines) < 300);
  }
  REQUIRE(run.run({least}, {"--metrics", run / "m.jsonl", "--report", run / "r.html"}).code == 0);
  const nlohmann::json tables = last_event(run / "m.jsonl", "tables")["layers"];
  INFO(tables.dump());
  REQUIRE(tables.size() == 2);
  CHECK(tables[0]["first_tier"] == "memory of the GPU");
  CHECK(tables[0]["second_tier"] == "the host");
  CHECK(tables[1]["first_tier"] == "memory of the host");
  CHECK(tables[1]["second_tier"].get<std::string>().starts_with("the disk "));
  for (const auto& tier : tables) {
    CHECK(tier["read_rows"].get<double>() > 1);
    CHECK(tier["written_rows"].get<double>() > 1);
    CHECK(tier["resident_share"].get<double>() > 0.5);
  }
  CHECK(last_event(run / "m.jsonl", "train")["resident_share"].get<double>() > 0.5);
  check_contains(read_text(run / "r.html"), {"memory of the GPU", "memory of the host"});
  check_contains(run.run({least}, {"--estimate", "dgx_h100"}).out, {"of 345 rows", "the disk "});
}

TEST_CASE("three tiers: what cannot be") {
  const BeyondMemory run = in_three_tiers({kRules.front()});
  const auto message = [&](const Changes& changes) {
    const ProgramResult result = run.run(changes, {});
    CHECK(result.code == kExitConfig);
    return result.err;
  };
  check_contains(
      message({run.memory("1"), "layers.emb.type=DistributedSlotSparseEmbeddingHash",
               R"(layers.emb.sparse_embedding_hparam={"embedding_vec_size":4,)"
               R"("combiner":0,"max_vocabulary_size_per_gpu":345,"when_full":"evict"})"}),
      {"solver.embedding_memory", "expected hash tables in fp32, without admission", "\"emb\"",
       "without host_gb and disk"});
  check_contains(message({run.memory("1"), "layers.emb.type=DistributedSlotSparseEmbeddingHash",
                          R"(layers.emb.sparse_embedding_hparam={"embedding_vec_size":4,)"
                          R"("combiner":0,"max_vocabulary_size_per_gpu":345})",
                          "solver.table_precision=bf16"}),
                 {"solver.embedding_memory", "expected hash tables in fp32", "\"emb\""});
  const std::string least = run.min_gigabytes(run.memory("1e-6"));
  check_contains(message({run.memory("1e-6")}), {"solver.embedding_memory.gpu_gb: expected at"});
  check_contains(message({run.memory(least, "1e-6")}),
                 {"solver.embedding_memory.host_gb: expected at least", "rows of two batches"});
  const std::string host = run.min_gigabytes(run.memory(least, "1e-6"));
  const ProgramResult no_folder = run.run(
      {fmt::format(
          R"(solver.embedding_memory={{"gpu_gb":{},"host_gb":{},"disk":"/no/such/folder"}})", least,
          host)},
      {});
  CHECK(no_folder.code != 0);
  check_contains(no_folder.err, {"/no/such/folder", "No such file"});
}

}  // namespace hlite::test
