// `train` on several ranks computes what one rank computes: threads, and processes under mpirun.
#include <filesystem>

#include "hugectr_lite/core/error.h"
#include "tests/end_to_end/golden_run.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

using Changes = std::vector<std::string>;

std::string communication(const std::string& type) {
  return "layers.embedding.sparse_embedding_hparam.communication_type=" + type;
}
// dlrm_plain evaluates on batches of 128, which no five ranks share evenly.
const Changes kEvalFor5 = {"solver.batchsize_eval=130", "solver.eval_batches=50"};

void check_same(const std::string& got_directory, const std::string& want_directory,
                double tolerance) {
  const auto got = everything(got_directory), want = everything(want_directory);
  if (tolerance == 0)
    CHECK((got == want));
  else
    check_close_tensors(got, want, tolerance);
}

}  // namespace

TEST_CASE("golden runs on the ranks of one node") {
  check_run("dlrm_fused", 2, {gpu("[[0,1]]")});
  check_run("dlrm_plain", 2, {gpu("[[0,1]]"), communication("IB_NVLink")});
}

TEST_CASE("golden runs on nodes of one rank", "[slow][release-only]") {
  for (const char* type : {"IB_NVLink", "IB_NVLink_Hierarchical"}) {
    check_run("dlrm_fused", 2, {gpu("[[0],[1]]"), communication(type)});
    check_run("dlrm_plain", 2, {gpu("[[0],[1]]"), communication(type)});
  }
}

TEST_CASE("golden runs on nodes of several ranks", "[no-tsan][slow][release-only]") {
  for (const char* type : {"IB_NVLink", "IB_NVLink_Hierarchical"})
    for (const char* layout : {"LocalFirst", "NodeFirst"})
      check_run("dlrm_fused", 2,
                {gpu("[[0,1],[0,1]]"), communication(type),
                 std::string("solver.device_layout=") + layout});
}

TEST_CASE("golden runs with one all-reduce, grouped or by gradient, of either kind",
          "[no-tsan][slow][release-only]") {
  for (const char* algo : {"Oneshot", "NCCL"})
    for (const char* grouped : {"true", "false"})
      check_run("dlrm_fused", 2,
                {gpu("[[0,1]]"),
                 fmt::format(R"(all_reduce={{"algo":"{}","grouped":{}}})", algo, grouped)});
}

TEST_CASE("golden runs with each table on one rank", "[slow][release-only]") {
  const Changes type = {
      "layers.embedding.type=LocalizedSlotSparseEmbeddingOneHot",
      R"(layers.embedding.sparse_embedding_hparam={"embedding_vec_size":16,"combiner":0,)"
      R"("slot_size_array":[1000,50,3,20000,7,500,11,4]})"};
  for (const char* rows : {"[[0,1]]", "[[0],[1]]", "[[0,1],[0,1]]"}) {
    Changes changes = type;
    changes.push_back(gpu(rows));
    check_run("dlrm_fused", 2, changes);
  }
}

TEST_CASE("golden runs with rows, copies of tables and a plan of shards",
          "[no-tsan][slow][release-only]") {
  for (const char* sharding : {"row", "replicate", "auto"})
    check_run("dlrm_fused", 2,
              {gpu("[[0,1],[0,1]]"), "layers.embedding.type=LocalizedSlotSparseEmbeddingOneHot",
               std::string(R"(layers.embedding.sparse_embedding_hparam={"embedding_vec_size":16,)"
                           R"("slot_size_array":[1000,50,3,20000,7,500,11,4],"sharding":")") +
                   sharding + "\"}"});
  // Some tables copied, some whole, some cut: of several keys a slot, and by nodes.
  for (const char* ranks : {"[[0,1,2,3]]", "[[0,1],[0,1]]"}) {
    const std::string hparam = "layers.embedding.sparse_embedding_hparam.";
    check_run("dcnv2_multihot", 2,
              {gpu(ranks), communication("IB_NVLink"), hparam + "sharding=auto",
               hparam + R"(sharding_param={"replicate_below_mb":0.01,"bandwidth_ratio":2})"});
  }
}

TEST_CASE("the golden run of batch 130 on five ranks", "[release-only]") {
  Changes changes = kEvalFor5;
  changes.push_back(gpu("[[0,1,2,3,4]]"));
  check_run("dlrm_plain", 2, changes);
  changes.back() = gpu("[[0],[1],[2],[3],[4]]");
  changes.push_back(communication("IB_NVLink_Hierarchical"));
  check_run("dlrm_plain", 2, changes);
}

TEST_CASE("golden runs with lanes that overlap", "[slow]") {
  check_run("dlrm_fused", 2, {gpu("[[0,1]]"), "solver.enable_overlap=true"});
  check_run("dlrm_fused", 4,
            {gpu("[[0],[1]]"), communication("IB_NVLink"), "solver.enable_overlap=true",
             "layers.embedding.sparse_embedding_hparam.exchange_capacity=3"});
}

TEST_CASE("exchange buffers that are too small grow, and nothing is lost", "[slow]") {
  Changes changes = {gpu("[[0,1],[0,1]]"), communication("IB_NVLink_Hierarchical"),
                     "layers.embedding.sparse_embedding_hparam.exchange_capacity=3"};
  check_run("dlrm_fused", 2, changes);
  changes[1] = communication("IB_NVLink");
  check_run("dlrm_fused", 2, changes);
}

#ifdef HLITE_MPIRUN
TEST_CASE("golden runs under mpirun", "[slow][release-only]") {
  check_run("dlrm_fused", 1, {gpu("[[0],[1]]"), communication("IB_NVLink")}, 2);
  check_run("dlrm_fused", 1, {gpu("[[0],[1],[2],[3]]"), communication("IB_NVLink_Hierarchical")},
            4);
  check_run("dlrm_fused", 2, {gpu("[[0,1],[0,1]]"), communication("IB_NVLink_Hierarchical")}, 2);
}

TEST_CASE("processes that do not match the topology get an error with the right command") {
  const SmallRun run;
  std::vector<std::string> command = mpirun_prefix(2);
  const auto train = run.command({"--set", "solver.gpu=[[0],[1],[2],[3]]"});
  command.insert(command.end(), train.begin(), train.end());
  const auto result = run_program(command);
  CHECK(result.code == 4);
  check_contains(result.err, {"found 2 processes", "mpirun -np 4"});
}

TEST_CASE("processes of different configs, data or instructions end at the start, and say what") {
  const SmallRun run, other;
  std::string samples = read_text(other / "train.bin");
  samples[5] = static_cast<char>(samples[5] + 1);
  write_text(other / "train.bin", samples);
  struct Case {
    std::vector<std::string> before, program, changes;  // before: the environment
    std::vector<std::string> message;                   // none: they train
  };
  const Case cases[] = {
      {{}, run.command({"--threads", "1"}), {"solver.threads=2"}, {}},
      {{"HLITE_INSTRUCTIONS=base"},
       run.command({"--save", run / "model"}),
       {"optimizer.momentum_sgd_hparam.learning_rate=0.03"},
       {"--save: expected not given, as in process 0, found given", "instructions",
        "learning_rate: expected 0.02, as in process 0, found 0.03"}},
      {{},
       run.command(),
       {gpu("[[0],[1],[2]]")},
       {"solver.gpu (elements): expected 2, as in process 0, found 3"}},
      {{}, other.command(), {}, {"data of data.source: expected 12000 bytes"}}};
  const std::string differs = "process 1 differs from process 0 of the same run: ";
  for (const Case& c : cases) {
    // Each process takes its part of the words. mpirun's own way, a colon between two programs, ends
    // Debian's Open MPI 5.0.7 by SIGSEGV.
    std::vector<std::string> command = mpirun_prefix(2);
    const auto add = [&](const std::vector<std::string>& words) {
      command.insert(command.end(), words.begin(), words.end());
    };
    const Changes both = {gpu("[[0],[1]]"), "solver.max_iter=2", "solver.batchsize=30",
                          "solver.batchsize_eval=60"};
    const auto first = with_changes(run.command(), both);
    add({"bash", "-c",
         "if [ $OMPI_COMM_WORLD_RANK = 0 ]; then exec \"${@:2:$1}\"; else exec env \"${@:$1+2}\"; fi",
         "bash", std::to_string(first.size())});
    add(first);
    add(c.before);
    add(with_changes(with_changes(c.program, both), c.changes));
    const auto result = run_program(command);
    INFO(result.err);
    CHECK(result.code == (c.message.empty() ? 0 : kExitDevice));
    CHECK((result.err.find(differs) != std::string::npos) == !c.message.empty());
    for (const std::string& words : c.message) CHECK(result.err.find(words) != std::string::npos);
  }
}

// A disk that does not answer has the same effect as the signal. On a busy machine a process may be
// late by itself, and the run end before it trains: then the limit was too short for this machine,
// and the next one is longer.
TEST_CASE("a process that is stopped in training is waited for, and named with the step") {
  const SmallRun run;
  const std::string metrics = run / "m.jsonl";
  const auto trains = [&] {
    return std::filesystem::exists(metrics) &&
           read_text(metrics).find(R"("event":"train")") != std::string::npos;
  };
  const auto train = run.command(
      with_changes({"--threads", "1", "--quiet", "--metrics", metrics},
                   {gpu("[[0],[1]]"), kEndless, "solver.display=10", "solver.eval_interval=0"}));
  ProgramResult result;
  std::string says;
  for (const char* limit : {"10", "100"}) {
    std::filesystem::remove(metrics);
    std::vector<std::string> command = mpirun_prefix(2);
    command.insert(command.begin() + 1, {"-x", std::string("HLITE_COMM_TIMEOUT=") + limit});
    command.insert(command.end(), train.begin(), train.end());
    RunningProgram program(command, "");
    while (program.running() && !trains()) usleep(1000);
    const pid_t process =
        program.running() ? child_with(program.id(), "OMPI_COMM_WORLD_RANK=1") : 0;
    if (process > 0) kill(process, SIGSTOP);
    result = program.wait();
    INFO(result.err);
    CHECK(result.code == kExitDevice);
    says =
        std::string("rank 0 has waited ") + limit + " s for rank 1 (HLITE_COMM_TIMEOUT) in step ";
    if (process > 0 && result.err.find(says) != std::string::npos) break;
  }
  INFO(result.err);
  const size_t at = result.err.find(says);
  REQUIRE(at != std::string::npos);
  CHECK(result.err.find(" of iteration ", at) != std::string::npos);
}
#endif

TEST_CASE("ranks train the same weights and states as one rank, partial batches included",
          "[slow][release-only]") {
  const SmallRun run;
  const auto train = [&](const std::string& name, Changes changes) {
    changes.insert(changes.end(), {"solver.max_iter=40"});
    REQUIRE(run.train(with_changes({"--quiet", "--threads", "2", "--save", run / name}, changes))
                .code == 0);
  };
  for (
      const char* optimizer :
      {R"({"type":"SGD","update_type":"Local","sgd_hparam":{"learning_rate":0.5}})",
       R"({"type":"AdaGrad","update_type":"Local","adagrad_hparam":{"learning_rate":0.05,"initial_accumulator":0.1}})",
       R"({"type":"RowWiseAdaGrad","update_type":"Local","row_wise_adagrad_hparam":{"learning_rate":0.05,"initial_accumulator":0.1}})",
       R"({"type":"RowWiseAdam","update_type":"Local","row_wise_adam_hparam":{"learning_rate":0.01,"epsilon":1e-7}})",
       R"({"type":"RowWiseAdam","update_type":"Global","row_wise_adam_hparam":{"learning_rate":0.01,"epsilon":1e-7}})",
       R"({"type":"MomentumSGD","update_type":"Local","momentum_sgd_hparam":{"learning_rate":0.05,"momentum_factor":0.9}})",
       R"({"type":"Adam","update_type":"Local","adam_hparam":{"learning_rate":0.01,"beta1":0.9,"beta2":0.999,"epsilon":1e-7}})",
       R"({"type":"Adam","update_type":"Global","adam_hparam":{"learning_rate":0.01,"beta1":0.9,"beta2":0.999,"epsilon":1e-7}})",
       R"({"type":"Ftrl","update_type":"Local","ftrl_hparam":{"learning_rate":0.1,"beta":0.001,"lambda1":1e-5,"lambda2":1e-3}})",
       R"({"type":"Ftrl","update_type":"Global","ftrl_hparam":{"learning_rate":0.1,"beta":0.001,"lambda1":1e-5,"lambda2":1e-3}})"}) {
    INFO(optimizer);
    const std::string change = std::string("layers.emb.optimizer=") + optimizer;
    train("one", {change});
    for (const char* ranks : {"[[0,1]]", "[[0,1,2,3,4,5,6,7]]", "[[0,1],[2,3]]"}) {
      INFO(ranks);
      train("many", {change, gpu(ranks)});
      check_same(run / "many", run / "one", 2e-4);
    }
    train("many",
          {change, gpu("[[0,1,2,3]]"), "layers.emb.type=LocalizedSlotSparseEmbeddingOneHot"});
    check_same(run / "many", run / "one", 2e-4);
  }
}

TEST_CASE("frequent categories are taken from the data's manifest, else from batches") {
  const TemporaryDirectory data;
  const std::string prefix = data / "s";
  REQUIRE(run_program({HLITE_CRITEO_SYNTH, "--train", "5000", "--test", "500", "--cap", "1000",
                       "--format", "raw", "--out", prefix})
              .code == 0);
  const auto train = [&](const std::string& source) {
    const std::string sizes = "slot_size_array=" + prefix + ".manifest.json";
    return run_program(with_changes(
        {HLITE_TRAIN, "--config", std::string(HLITE_CONFIGS) + "/kaggle_dlrm.json", "--threads",
         "2"},
        {"layers.data.source=" + source, "layers.data.eval_source=" + prefix + ".test.bin",
         "layers.data." + sizes, "layers.embedding.sparse_embedding_hparam." + sizes,
         "layers.embedding.sparse_embedding_hparam.num_iterations_statistics=3",
         "solver.batchsize=500", "solver.batchsize_eval=500", "solver.eval_batches=1",
         gpu("[[0],[1]]"), communication("IB_NVLink"), "solver.snapshot_prefix=" + (data / "x")}));
  };
  const auto counted = train(prefix + ".train.bin");
  CHECK(counted.code == 0);
  check_contains(counted.err, {"times or more in " + prefix + ".key_counts.bin)"});
  std::filesystem::copy_file(prefix + ".train.bin", data / "alone.bin");
  const auto batches = train(data / "alone.bin");
  CHECK(batches.code == 0);
  check_contains(batches.err, {"times or more in the first 3 batches)"});
}

// Shuffled, with a partial last batch, some of whose ranks have no sample.
TEST_CASE("batch normalisation is over the batch of all ranks", "[slow][release-only]") {
  const SmallRun run;
  write_text(run / "config.json", small_config_with_batch_norm());
  const auto train = [&](const std::string& ranks, const char* name) {
    REQUIRE(
        run.train(with_changes({"--quiet", "--threads", "2", "--save", run / name}, {gpu(ranks)}))
            .code == 0);
  };
  train("[[0]]", "one");
  CHECK(everything(run / "one").at("bn.running_variance")[0] != 1);
  for (const char* ranks : {"[[0,1]]", "[[0,1],[2,3]]", "[[0,1,2,3,4,5,6,7]]"}) {
    INFO(ranks);
    train(ranks, "many");
    check_same(run / "many", run / "one", 5e-4);
    train(ranks, "again");
    check_same(run / "again", run / "many", 0);
  }
}

TEST_CASE("a checkpoint of four ranks resumes on four to the same bits, and on one and eight",
          "[slow]") {
  const SmallRun run;
  const std::string optimizer = GENERATE(
      as<std::string>{},
      R"({"type":"Adam","update_type":"Global","adam_hparam":{"learning_rate":0.01,"beta1":0.9,"beta2":0.999,"epsilon":1e-8}})",
      R"({"type":"RowWiseAdaGrad","update_type":"Local","row_wise_adagrad_hparam":{"learning_rate":0.05,"initial_accumulator":0.1}})",
      R"({"type":"RowWiseAdam","update_type":"Global","row_wise_adam_hparam":{"learning_rate":0.01,"epsilon":1e-7}})");
  INFO(optimizer);
  const auto train = [&](const std::string& ranks, std::vector<std::string> arguments,
                         const char* iterations) {
    arguments.insert(arguments.end(), {"--quiet", "--threads", "2"});
    REQUIRE(run.train(with_changes(std::move(arguments),
                                   {gpu(ranks), std::string("solver.max_iter=") + iterations,
                                    "layers.emb.optimizer=" + optimizer}))
                .code == 0);
  };
  train("[[0,1,2,3]]", {"--save", run / "half"}, "60");
  train("[[0,1,2,3]]", {"--save", run / "whole"}, "120");
  train("[[0,1,2,3]]", {"--resume", run / "half", "--save", run / "four"}, "120");
  check_same(run / "four", run / "whole", 0);
  train("[[0]]", {"--resume", run / "half", "--save", run / "one"}, "120");
  check_same(run / "one", run / "whole", 5e-4);
  train("[[0,1,2,3],[4,5,6,7]]", {"--resume", run / "half", "--save", run / "eight"}, "120");
  check_same(run / "eight", run / "whole", 5e-4);
  // What is saved is what was loaded.
  train("[[0,1],[2,3]]", {"--resume", run / "half", "--save", run / "same"}, "60");
  check_same(run / "same", run / "half", 0);
}

TEST_CASE("a rank that finds bad data ends all, with its error") {
  const SmallRun run;
  std::string samples = small_samples(500, 1);
  const uint32_t beyond = 40;  // of table 0, in the last of the first batch's samples
  std::memcpy(samples.data() + 31 * 24 + 12, &beyond, sizeof(beyond));
  write_text(run / "train.bin", samples);
  const auto result =
      run.train(with_changes({}, {gpu("[[0,1,2,3]]"), "layers.data.async_param.shuffle=false"}));
  CHECK(result.code == 3);
  check_contains(result.err, {"sample 31"});
}

TEST_CASE("several ranks stop together when interrupted, save, and go on to the same bits") {
  const SmallRun run;
  const auto command = [&](const std::string& iterations, std::vector<std::string> more) {
    more.insert(more.end(), {"--quiet", "--threads", "2"});
    return run.command(with_changes(std::move(more),
                                    {gpu("[[0,1],[2,3]]"), iterations, "solver.eval_interval=0"}));
  };
  const std::string metrics = run / "m.jsonl";
  RunningProgram program(command(kEndless, {"--save", run / "stopped", "--metrics", metrics}), "");
  program.await_text(metrics);
  program.signal(SIGTERM);
  const auto result = program.wait();
  INFO(result.err);
  REQUIRE(result.code == 5);
  const std::string to_end = iterations_after(run / "stopped", 100);
  const auto train = [&](const std::vector<std::string>& more) {
    return run_program(command(to_end, more)).code;
  };
  REQUIRE(train({"--resume", run / "stopped", "--save", run / "resumed"}) == 0);
  REQUIRE(train({"--save", run / "whole"}) == 0);
  check_same(run / "resumed", run / "whole", 0);
}

}  // namespace hlite::test
