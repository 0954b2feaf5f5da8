// `train --device cuda` under mpirun: a process a node, a thread for each of its emulated GPUs, and
// between the processes the stand-in NCCL.
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <set>

#include "tests/end_to_end/golden_on_gpus.h"
#include "tests/support/errors.h"
#include "tests/support/metrics_events.h"

#ifdef HLITE_MPIRUN
namespace hlite::test {
namespace {

// Of `processes` processes with two GPUs each.
Words on_processes(int processes, const Words& more = {}) {
  return Words{"/usr/bin/env", std::string("HLITE_CUDA_LIBRARY=") + HLITE_EMULATED_PLUGIN,
               "HLITE_EMULATED_DEVICES=2"} +
         more + mpirun_prefix(processes);
}

const std::string kType = "layers.embedding.sparse_embedding_hparam.communication_type=";
Words ranks_of(const std::string& type, const Words& more = {}) {
  return changes_of(Words{gpu("[[0,1],[0,1]]"), kType + type} + more);
}

std::string traffic_of(Golden& run, const Words& environment, const char* device,
                       const Words& ranks) {
  const std::string metrics = run / "m.jsonl";
  REQUIRE(run.train(environment, device,
                    Words{"--quiet", "--metrics", metrics, "--set", "solver.max_iter=6", "--set",
                          "solver.eval_interval=3"} +
                        ranks)
              .code == 0);
  auto event = events_in(metrics, "traffic").at(0);
  event.erase("host_to_device_bytes");  // only GPUs have it
  return event.dump();
}

}  // namespace

TEST_CASE("GPUs of two processes train tables beyond their memory to the same bits", "[no-asan]") {
  Golden run("dlrm_fused");
  const Words changes = {
      gpu("[[0,1],[0,1]]"), "solver.batchsize=64", "solver.batchsize_eval=64",
      "layers.embedding.type=LocalizedSlotSparseEmbeddingOneHot",
      R"(layers.embedding.sparse_embedding_hparam={"embedding_vec_size":16,"combiner":0,)"
      R"("slot_size_array":[1000,50,3,20000,7,500,11,4],"sharding":"row"})"};
  const auto weights = [&](const Words& more) {
    return run.weights(on_processes(2), "cuda", changes_of(changes + more), 6);
  };
  // 1,024 lines for 5,395 rows.
  const auto got = weights({R"(solver.embedding_memory={"gpu_gb":0.000105})"});
  CHECK((got == weights({})));
}

TEST_CASE("golden runs on the GPUs of two processes, by rails and flat, with graphs and without",
          "[no-asan][slow]") {
  Golden run("dlrm_fused");
  for (const char* type : {"IB_NVLink_Hierarchical", "IB_NVLink"}) {
    INFO(type);
    const auto got = run.weights(on_processes(2), "cuda", ranks_of(type));
    check_weights(got, run.expected());
    check_weights(got, run.weights({}, "cpu", ranks_of(type)));
    CHECK(
        (run.weights(on_processes(2), "cuda", ranks_of(type, {"solver.cuda_graph=false"})) == got));
  }
  CHECK(
      (run.weights(on_processes(2, {order_of(3)}), "cuda", ranks_of("IB_NVLink_Hierarchical"), 6) ==
       run.weights(on_processes(2), "cuda", ranks_of("IB_NVLink_Hierarchical"), 6)));
}

TEST_CASE("GPUs of two processes with a sharded optimizer, narrow gradients, one rank a node",
          "[release-only]") {
  Golden run("dlrm_fused");
  const Words sharded = ranks_of("IB_NVLink_Hierarchical",
                                 {"solver.shard_optimizer=true", "solver.device_layout=NodeFirst"});
  check_weights(run.weights(on_processes(2), "cuda", sharded), run.expected());
  const Words narrow = ranks_of("IB_NVLink_Hierarchical", {"solver.wire_precision=bf16"});
  check_weights(run.weights(on_processes(2), "cuda", narrow, 6), run.weights({}, "cpu", narrow, 6),
                1e-4);
  check_weights(run.weights(on_processes(2), "cuda", on_ranks("[[0],[0]]")), run.expected());
}

TEST_CASE("GPUs of two processes send what ranks of the CPU send, step by step", "[no-tsan]") {
  Golden run("dlrm_fused");
  for (const char* type : {"IB_NVLink_Hierarchical", "IB_NVLink"}) {
    const Words ranks = ranks_of(type, {R"(all_reduce={"algo":"NCCL"})"});
    CHECK(traffic_of(run, on_processes(2), "cuda", ranks) == traffic_of(run, {}, "cpu", ranks));
  }
}

TEST_CASE("NCCL sums gradients where the order of sums is given up") {
  Golden run("dlrm_fused");
  const Words unordered = {R"(all_reduce={"algo":"NCCL","ordered":false})"};
  check_weights(run.weights(on_processes(2), "cuda", ranks_of("IB_NVLink", unordered)),
                run.expected());
  check_weights(run.weights(kFourGpus, "cuda", on_ranks("[[0,1]]", unordered)), run.expected());
  const auto refused = run.train(kFourGpus + Words{"HLITE_EMULATED_NCCL=0"}, "cuda",
                                 Words{"--quiet"} + on_ranks("[[0,1]]", unordered));
  CHECK(refused.code == 4);
  check_contains(refused.err, {"cannot load NCCL"});
}

TEST_CASE("the capacity of lists between processes is grown, and nothing is lost") {
  Golden run("dlrm_fused");
  const Words ample = ranks_of("IB_NVLink_Hierarchical");
  const Words little =
      ample + changes_of({"layers.embedding.sparse_embedding_hparam.exchange_capacity=3"});
  CHECK((run.weights(on_processes(2), "cuda", little, 8) ==
         run.weights(on_processes(2), "cuda", ample, 8)));
}

TEST_CASE("a checkpoint of two processes' GPUs goes on, there and on CPU ranks, to the same bits") {
  const Golden run("dlrm_fused");
  const auto train = [&](const Words& environment, const char* device, int until,
                         const Words& more) {
    REQUIRE(run_program(environment +
                        Words{HLITE_TRAIN, "--config", run / "config.json", "--quiet", "--threads",
                              "1", "--device", device, "--set", "solver.seed=3", "--set",
                              "solver.eval_interval=0", "--set",
                              "solver.max_iter=" + std::to_string(until)} +
                        more + ranks_of("IB_NVLink_Hierarchical"))
                .code == 0);
  };
  train(on_processes(2), "cuda", 4, {"--save", run / "half"});
  train(on_processes(2), "cuda", 8, {"--save", run / "whole"});
  train(on_processes(2), "cuda", 8, {"--resume", run / "half", "--save", run / "resumed"});
  CHECK((everything(run / "resumed") == everything(run / "whole")));
  train({}, "cpu", 4, {"--resume", run / "half", "--save", run / "same"});
  CHECK((everything(run / "same") == everything(run / "half")));
}

TEST_CASE("a GPU, a connection or a rank that fails ends all processes, with one message") {
  Golden run("dlrm_fused");
  const auto fails = [&](const Words& environment, const Words& words, const Words& more = {}) {
    INFO(environment[0]);
    const auto result = run.train(
        on_processes(2, environment), "cuda",
        Words{"--quiet"} + ranks_of("IB_NVLink_Hierarchical", Words{"solver.max_iter=6"} + more));
    CHECK(result.code == 4);
    for (const std::string& word : words) check_contains(result.err, {word});
  };
  fails({"HLITE_EMULATED_FAULT=1:gather_requested:3"},
        {"embedding.gather", "cudaErrorLaunchFailure"});
  fails({"HLITE_EMULATED_NCCL_FAULT=error:1:9"}, {"NCCL", "system error"});
  fails({"HLITE_EMULATED_NCCL_FAULT=silent:2:9", "HLITE_COMM_TIMEOUT=1"},
        {"has waited 1 s", "HLITE_COMM_TIMEOUT"});
  fails({"HLITE_EMULATED_NCCL_FAULT=silent:1:9", "HLITE_COMM_TIMEOUT=1"}, {"has waited 1 s"},
        {"solver.cuda_graph=false"});
  fails({"HLITE_EMULATED_NCCL=0"}, {"cannot load NCCL", "libnccl.so.2"});
}

TEST_CASE("an old NCCL trains without graphs, and says so once") {
  Golden run("dlrm_fused");
  const Words ranks = ranks_of("IB_NVLink_Hierarchical", {"solver.max_iter=4"});
  const auto result =
      run.train(on_processes(2, {"HLITE_EMULATED_NCCL_VERSION=22809"}), "cuda", ranks);
  CHECK(result.code == 0);
  const std::string all = result.out + result.err, words = "NCCL 2.28.9, without graphs";
  check_contains(all, {"2 processes, here 2 ranks on GPUs 0 1", words});
  CHECK(all.find(words) == all.rfind(words));
}

// Of the processes that run `train` on this configuration file.
std::set<int> trainers(const std::string& config) {
  std::set<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::string command;
    try {
      command = read_text(entry.path().string() + "/cmdline");
    } catch (const std::exception&) {
      continue;  // it has ended
    }
    if (command.starts_with(HLITE_TRAIN) && command.find(config) != std::string::npos)
      found.insert(std::stoi(name));
  }
  return found;
}

TEST_CASE("a process that is killed ends the others") {
  Golden run("dlrm_fused");
  const std::string metrics = run / "m.jsonl", config = run / "config.json";
  RunningProgram program(
      on_processes(2) +
          Words{HLITE_TRAIN, "--config", config, "--init", run / "init.safetensors", "--threads",
                "1", "--device", "cuda", "--quiet", "--metrics", metrics} +
          ranks_of("IB_NVLink_Hierarchical",
                   {"solver.max_iter=1000000", "solver.display=1", "solver.eval_interval=0"}),
      "");
  const auto trains = [&] {
    return std::filesystem::exists(metrics) && std::filesystem::file_size(metrics) >= 300;
  };
  while (program.running() && !trains()) usleep(10'000);
  const std::set<int> both = trainers(config);
  REQUIRE(both.size() == 2);
  kill(*both.rbegin(), SIGKILL);
  const auto result = program.wait();
  CHECK(result.code != 0);
  CHECK(!result.err.empty());
  while (!trainers(config).empty()) usleep(10'000);  // those that were stopped may take a while
}

}  // namespace hlite::test
#endif
