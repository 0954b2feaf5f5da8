// `train --device cuda` on several emulated GPUs of one process.
#include <algorithm>

#include "tests/end_to_end/golden_on_gpus.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/errors.h"

namespace hlite::test {

TEST_CASE("golden runs on several GPUs, with graphs and without, and where ranks share a GPU",
          "[release-only][slow]") {
  Golden plain("dlrm_plain"), fused("dlrm_fused");
  const auto two = plain.weights(kFourGpus, "cuda", on_ranks("[[0,1]]"));
  check_weights(two, plain.expected());
  CHECK(
      (plain.weights(kFourGpus, "cuda", on_ranks("[[0,1]]", {"solver.cuda_graph=false"})) == two));
  // Nodes have other frequent categories.
  check_weights(plain.weights(kFourGpus, "cuda", on_ranks("[[0],[0]]")), plain.expected());
  for (const char* rows : {"[[0,1,2,3]]", "[[0,1],[2,3]]", "[[0,1],[0,1]]"})
    check_weights(fused.weights(kFourGpus, "cuda", on_ranks(rows)), fused.expected());
  check_weights(fused.weights(kEightGpus, "cuda", on_ranks("[[0,1,2,3,4,5,6,7]]")),
                fused.expected());
}

TEST_CASE("several GPUs train the same bits in every order of their work", "[release-only][slow]") {
  Golden run("dlrm_fused");
  constexpr int kIterations = 6;  // eager, captured and launched again, on both sides
  const auto weights = [&](const Words& order, const char* rows) {
    return run.weights(kFourGpus + order, "cuda", on_ranks(rows), kIterations);
  };
  for (const char* rows : {"[[0,1,2,3]]", "[[0],[0],[0],[0]]"}) {
    const auto want = weights({}, rows);
    CHECK((weights({"HLITE_EMULATED_STREAMS=late"}, rows) == want));
    for (const int seed : {1, 2, 3}) CHECK((weights({order_of(seed)}, rows) == want));
  }
}

TEST_CASE("several GPUs with tables, rows, copies or a plan of shards, and several keys a slot",
          "[release-only][slow]") {
  const std::string one_hot = "layers.embedding.type=LocalizedSlotSparseEmbeddingOneHot";
  const auto hparam = [](const std::string& sharding) {
    return R"(layers.embedding.sparse_embedding_hparam={"embedding_vec_size":16,"combiner":0,)"
           R"("slot_size_array":[1000,50,3,20000,7,500,11,4],"sharding":")" +
           sharding + "\"}";
  };
  Golden run("dlrm_fused");
  for (const char* sharding : {"slot", "row", "replicate", "auto"})
    check_weights(
        run.weights(kFourGpus, "cuda", changes_of({gpu("[[0,1,2,3]]"), one_hot, hparam(sharding)})),
        run.expected());
  Golden several("dcnv2_multihot");
  check_weights(several.weights(kFourGpus, "cuda", on_ranks("[[0,1]]")), several.expected());
}

TEST_CASE("every optimizer on several GPUs does what it does on ranks of the CPU",
          "[release-only]") {
  Golden run("dlrm_fused");
  for (const char* optimizer :
       {R"({"type":"Adam","update_type":"Local","adam_hparam":{"learning_rate":0.001,)"
        R"("beta1":0.9,"beta2":0.999,"epsilon":1e-7}})",
        R"({"type":"Adam","update_type":"Global","adam_hparam":{"learning_rate":0.001,)"
        R"("beta1":0.9,"beta2":0.999,"epsilon":1e-7}})",
        R"({"type":"MomentumSGD","update_type":"Local","momentum_sgd_hparam":)"
        R"({"learning_rate":0.01,"momentum_factor":0.9}})",
        R"({"type":"AdaGrad","update_type":"Local","adagrad_hparam":{"learning_rate":0.01,)"
        R"("initial_accumulator":0.1,"epsilon":1e-6}})",
        R"({"type":"RowWiseAdaGrad","update_type":"Local","row_wise_adagrad_hparam":)"
        R"({"learning_rate":0.01,"initial_accumulator":0.1}})",
        R"({"type":"RowWiseAdam","update_type":"Global","row_wise_adam_hparam":)"
        R"({"learning_rate":0.001,"epsilon":1e-7}})"}) {
    INFO(optimizer);
    const Words ranks = on_ranks("[[0,1,2,3]]", {std::string("optimizer=") + optimizer});
    check_weights(run.weights(kFourGpus, "cuda", ranks, 8), run.weights({}, "cpu", ranks, 8), 1e-5);
  }
}

TEST_CASE("the capacity of lists between GPUs is grown, and nothing is lost", "[no-tsan]") {
  Golden run("dlrm_fused");
  const std::string capacity = "layers.embedding.sparse_embedding_hparam.exchange_capacity=";
  for (const Words& order : {Words{}, Words{order_of(4)}}) {
    const auto ample = run.weights(kFourGpus + order, "cuda", on_ranks("[[0,1],[2,3]]"), 8);
    CHECK((run.weights(kFourGpus + order, "cuda", on_ranks("[[0,1],[2,3]]", {capacity + "1"}), 8) ==
           ample));
  }
  // A capacity that suffices for some iterations: graphs are captured anew.
  const auto grown = run.train(
      kFourGpus, "cuda",
      Words{"--set", "solver.max_iter=12"} + on_ranks("[[0,1],[2,3]]", {capacity + "36"}));
  CHECK(grown.code == 0);
  check_contains(grown.err, {"rows requested of one rank, capacity 36; run again with capacity"});
}

TEST_CASE("bf16 on several GPUs repeats, and is that of the CPU's ranks but for rounding",
          "[release-only]") {
  Golden run("dlrm_fused");
  const Words ranks = on_ranks("[[0,1,2,3]]", {"solver.precision=bf16"});
  const auto got = run.weights(kFourGpus, "cuda", ranks, 8);
  CHECK((run.weights(kFourGpus + Words{order_of(9)}, "cuda", ranks, 8) == got));
  check_weights(got, run.weights({}, "cpu", ranks, 8), 2e-3);
}

TEST_CASE("several GPUs evaluate as one, and send what ranks of the CPU send", "[release-only]") {
  Golden run("dlrm_fused");
  const auto train = [&](const Words& environment, const char* device, const char* rows) {
    const auto result =
        run.train(environment, device,
                  Words{"--metrics", run / "m.jsonl"} +
                      on_ranks(rows, {"solver.max_iter=8", "solver.eval_interval=4"}));
    REQUIRE(result.code == 0);
    if (std::string(device) == "cuda" && std::string(rows) != "[[0]]")
      check_contains(result.out + result.err, {"4 ranks on GPUs 0 1 2 3", "over NVLink"});
    return std::pair(last_event(run / "m.jsonl", "eval"), last_event(run / "m.jsonl", "traffic"));
  };
  const auto [eval, traffic] = train(kFourGpus, "cuda", "[[0,1,2,3]]");
  const auto [eval_of_one, none] = train(kFourGpus, "cuda", "[[0]]");
  const auto [eval_of_cpu, traffic_of_cpu] = train({}, "cpu", "[[0,1,2,3]]");
  for (const auto& other : {eval_of_one, eval_of_cpu}) {
    CHECK(eval["samples"] == other["samples"]);
    CHECK(eval["auc"].get<double>() == Approx(other["auc"].get<double>()).margin(1e-5));
    CHECK(eval["loss"].get<double>() == Approx(other["loss"].get<double>()).margin(1e-6));
  }
  REQUIRE(!traffic.is_null());
  auto between_ranks = traffic;  // ranks of the CPU copy nothing to a device
  CHECK(between_ranks.erase("host_to_device_bytes") == 1);
  CHECK(between_ranks == traffic_of_cpu);
  // Between nodes GPUs of one process add flat; what the embedding sends is the same.
  const auto nodes = train(kFourGpus, "cuda", "[[0,1],[2,3]]").second;
  CHECK(of_embedding(nodes) == of_embedding(train({}, "cpu", "[[0,1],[2,3]]").second));
  CHECK(of_embedding(nodes).size() > 100);
}

// Dropout, Adam, momentum, a shuffled order and partial batches, which some ranks have no part of.
TEST_CASE(
    "a checkpoint of GPUs goes on, on three ranks of the CPU and on other GPUs, to the same "
    "tables",
    "[release-only]") {
  const SmallRun run;
  const auto train = [&](const Words& environment, const char* device, const char* rows,
                         const Words& more) {
    REQUIRE(run_program(environment + run.command(more) +
                        Words{"--quiet", "--device", device, "--threads", "1"} +
                        changes_of({gpu(rows), "solver.eval_interval=10", "solver.batchsize=48",
                                    "solver.batchsize_eval=48"}))
                .code == 0);
  };
  const auto until = [](int n) { return "solver.max_iter=" + std::to_string(n); };
  const char *const eight = "[[0,1,2,3,4,5,6,7]]", *const nodes = "[[0,1],[2,3]]";
  train(kEightGpus, "cuda", eight, {"--set", until(12), "--save", run / "eight"});
  train({}, "cpu", "[[0,1,2]]",
        {"--set", until(12), "--resume", run / "eight", "--save", run / "cpu"});
  CHECK((everything(run / "cpu") == everything(run / "eight")));
  train(kEightGpus, "cuda", nodes,
        {"--set", until(12), "--resume", run / "cpu", "--save", run / "nodes"});
  CHECK((everything(run / "nodes") == everything(run / "eight")));
  // A resumed run equals an uninterrupted one, whichever ranks held the tables meanwhile, and that
  // of ranks of the CPU but for rounding.
  train(kEightGpus, "cuda", eight, {"--set", until(24), "--save", run / "whole"});
  train(kEightGpus, "cuda", eight,
        {"--set", until(24), "--resume", run / "nodes", "--save", run / "resumed"});
  CHECK((everything(run / "resumed") == everything(run / "whole")));
  train({}, "cpu", "[[0,1,2]]",
        {"--set", until(24), "--resume", run / "nodes", "--save", run / "ranks"});
  check_weights(everything(run / "whole"), everything(run / "ranks"), 2e-4);
}

// Copied rows, and batches of which some ranks have no part.
TEST_CASE("batch statistics, penalties and clipping on several GPUs are those of the CPU's ranks",
          "[release-only][slow]") {
  const std::string at = "layers.emb.sparse_embedding_hparam.";
  const std::string global =
      R"({"type":"AdaGrad","update_type":"Global","adagrad_hparam":{"learning_rate":0.05,)"
      R"("initial_accumulator":0.1}})";
  const std::string row_wise_global =
      R"({"type":"RowWiseAdaGrad","update_type":"Global","row_wise_adagrad_hparam":)"
      R"({"learning_rate":0.05,"initial_accumulator":0.1}})";
  const Words penalty = {at + "regularizer=L2", at + "lambda=0.001", "optimizer=" + global,
                         "layers.emb.optimizer=" + global},
              clip = {"solver.gradient_clip_norm=0.05", "optimizer=" + global,
                      "layers.emb.optimizer=" + global},
              row_wise = {"layers.emb.optimizer=" + row_wise_global};
  for (const auto& [name, changes] :
       {std::pair<const char*, Words>{"BatchNorm", {}},
        {"PReLU_Dice", {}},
        {"penalty", penalty},
        {"clip", clip},
        {"both, by row", penalty + clip + row_wise},
        {"both, sharded", penalty + clip + Words{"solver.shard_optimizer=true"}}}) {
    INFO(name);
    const SmallRun run;
    if (changes.empty())
      write_text(run / "config.json", name == std::string("PReLU_Dice")
                                          ? small_config_with_dice()
                                          : small_config_with_batch_norm());
    const auto train = [&](const Words& environment, const char* device) {
      const Words all =
          changes + Words{gpu("[[0,1],[2,3]]"), "solver.max_iter=18", "solver.eval_interval=9"};
      REQUIRE(run_program(environment +
                          run.command({"--quiet", "--device", device, "--threads", "1", "--save",
                                       run / "saved"}) +
                          changes_of(all))
                  .code == 0);
      return everything(run / "saved");
    };
    const auto got = train(kFourGpus, "cuda");
    CHECK((train(kFourGpus + Words{order_of(6)}, "cuda") == got));
    check_weights(got, train({}, "cpu"), 2e-4);
  }
}

// Every work of every step: tests/trainer/run/session_test.cpp.
TEST_CASE("a GPU that fails in a step ends the program, with one message", "[no-tsan]") {
  Golden run("dlrm_fused");
  const std::vector<std::pair<const char*, const char*>> faults = {
      {"take_lists", "embedding.keys_exchange"},
      {"peer_sum", "all_reduce"},
      {"update_rows", "embedding.update_replicated"}};
  for (size_t i = 0; i < faults.size(); ++i) {
    const bool graph = i != 1;  // the third launch is then that of the first capture
    const auto& [kernel, step] = faults[i];
    INFO(kernel << ", graph " << graph);
    Words environment = kFourGpus;
    environment.push_back(std::string("HLITE_EMULATED_FAULT=2:") + kernel + ":3");
    if (i % 2 == 1) environment.push_back(order_of(static_cast<int>(i)));
    const auto result =
        run.train(environment, "cuda",
                  Words{"--quiet"} +
                      on_ranks("[[0,1,2,3]]",
                               {graph ? "solver.cuda_graph=true" : "solver.cuda_graph=false",
                                std::string(step).ends_with(".lists") ? "solver.input=broadcast"
                                                                      : "solver.input=own",
                                "solver.max_iter=6"}));
    CHECK(result.code == 4);
    check_contains(result.err, {"rank 2 on GPU 2, after ", std::string("step ") + step + ": ",
                                "cudaErrorLaunchFailure"});
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  }
}

TEST_CASE("several GPUs stop together when interrupted, and go on to the same bits", "[no-tsan]") {
  const SmallRun run;
  const auto command = [&](const std::string& iterations, const Words& more) {
    return kFourGpus + run.command(more) + Words{"--device", "cuda", "--threads", "1"} +
           changes_of({gpu("[[0,1,2,3]]"), iterations, "solver.eval_interval=0"});
  };
  const std::string metrics = run / "m.jsonl";
  RunningProgram program(command(kEndless, {"--save", run / "stopped", "--metrics", metrics}), "");
  program.await_text(metrics);
  program.signal(SIGTERM);
  const auto result = program.wait();
  INFO(result.err);
  REQUIRE(result.code == 5);
  const std::string to_end = iterations_after(run / "stopped", 20);
  const auto train = [&](const Words& more) { return run_program(command(to_end, more)).code; };
  REQUIRE(train({"--resume", run / "stopped", "--save", run / "resumed"}) == 0);
  REQUIRE(train({"--save", run / "whole"}) == 0);
  CHECK((everything(run / "resumed") == everything(run / "whole")));
}

}  // namespace hlite::test
