// What a GPU's memory will hold, what a machine lacks, and what no GPU trains: said before training
// begins.
#include "tests/end_to_end/emulated_gpu.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

constexpr const char* kSerially = "CUDA_LAUNCH_BLOCKING=1";  // one kernel after the other

// `train` where a variable of the environment asks the driver for what several GPUs do not train
// with.
ProgramResult train_where(const char* variable, const SmallRun& run,
                          std::vector<std::string> arguments) {
  std::vector<std::string> command = kEmulated;
  command.emplace_back(variable);
  const auto train = run.command(std::move(arguments));
  command.insert(command.end(), train.begin(), train.end());
  return run_program(command);
}

}  // namespace

TEST_CASE("train --check says what a GPU's memory will hold, and what is missing") {
  const SmallRun run;
  for (const char* device : {"auto", "cuda"}) {
    const auto fits = train_with(size_t{1} << 30, run, {"--check", "--device", device});
    CHECK(fits.code == 0);
    check_contains(fits.out, {"device memory, batch 32: emulated", "emb.table_2", "300 rows",
                              "two sets", "evaluation scores and metrics", "1.1 GB of 1.1 GB free",
                              "333 samples", "and the run can start here"});
  }
  const auto full = train_with(size_t{30} << 20, run, {"--check", "--device", "cuda"});
  CHECK(full.code == 0);
  check_contains(full.out, {"the run cannot start here yet", "device memory: 84.", "31.5 MB free",
                            "MB missing", "the largest tables: emb.table_2 (300 rows, 4.8 kB)"});
  // And without --check it does not, in the same words.
  const auto refused = train_with(size_t{30} << 20, run, {"--quiet", "--device", "cuda"});
  CHECK(refused.code == 4);
  check_contains(refused.err, {"device memory: 84.", "31.5 MB of 31.5 MB free", "MB missing",
                               "emb.table_2 (300 rows, 4.8 kB)", "--device cpu"});
  const auto cpu = train_with(size_t{1} << 30, run, {"--check", "--device", "cpu"});
  CHECK(cpu.out.find("device memory") == std::string::npos);
  check_contains(cpu.out, {"emb.table_2", "300 rows", "sorting workspace"});
}

TEST_CASE("train --check of a run on a GPU that is not here says what it would need") {
  const SmallRun run;
  std::vector<std::string> command = {"/usr/bin/env", "HLITE_CUDA_LIBRARY=/nowhere/plugin.so"};
  const auto train = run.command({"--check", "--device", "cuda"});
  command.insert(command.end(), train.begin(), train.end());
  const auto result = run_program(command);
  CHECK(result.code == 0);
  check_contains(result.out, {"device memory, batch 32: no GPU here", "emb.table_0", "two sets",
                              "matmul workspace", "the run cannot start here yet",
                              "- device cuda: ", "/nowhere/plugin.so"});
  // What no GPU trains yet is sized for the CPU.
  const auto two =
      train_where(kSerially, run, {"--check", "--device", "cuda", "--set", "solver.gpu=[[0,1]]"});
  CHECK(two.code == 0);
  check_contains(two.out, {"memory of rank 0", "with CUDA_LAUNCH_BLOCKING=1 GPUs would wait"});
}

TEST_CASE("what a GPU cannot train yet is said, and auto takes the CPU for it") {
  const SmallRun run;
  const auto two =
      train_where(kSerially, run, {"--quiet", "--device", "cuda", "--set", "solver.gpu=[[0],[0]]"});
  CHECK(two.code == 4);
  check_contains(two.err,
                 {"device cuda", "with CUDA_LAUNCH_BLOCKING=1 GPUs would wait for each other",
                  "--device cpu"});
  for (const char* ranks : {"solver.gpu=[[0,1]]", "solver.gpu=[[0],[0]]"}) {
    const auto lazy = train_where("CUDA_MODULE_LOADING=LAZY", run,
                                  {"--quiet", "--device", "cuda", "--set", ranks});
    CHECK(lazy.code == 4);
    check_contains(lazy.err, {"device cuda", "loads kernels at their first launch",
                              "CUDA_MODULE_LOADING=EAGER", "--device cpu"});
  }
  const auto one = train_where("CUDA_MODULE_LOADING=LAZY", run,
                               {"--quiet", "--device", "cuda", "--set", "solver.max_iter=1"});
  CHECK(one.code == 0);
  const auto ninth = train_on_gpu(run, {"--set", "solver.gpu=[[9]]"});
  CHECK(ninth.code == 4);
  check_contains(ninth.err, {"solver.gpu asks for device 9"});
  std::vector<std::string> command = kEmulated;
  const auto automatic =
      run.command({"--quiet", "--set", "solver.gpu=[[0,1]]", "--set", "solver.max_iter=3"});
  command.insert(command.end(), automatic.begin(), automatic.end());
  CHECK(run_program(command).code == 0);
}

}  // namespace hlite::test
