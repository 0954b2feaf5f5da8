// docker/: the scripts of benchmark runs, as far as a machine without containers and without Slurm
// can run them.
#include <filesystem>

#include "hugectr_lite/config/train_config.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/mllog_rules.h"

namespace hlite::test {
namespace {

namespace fs = std::filesystem;

// docker/run_trials.sh on the host, with the files of `run` as its data.
ProgramResult run_trials(const SmallRun& run, const std::vector<std::string>& variables) {
  // clang-format off
  std::vector<std::string> command = {
      "/usr/bin/env", "ENGINE=none", "CLEAR_CACHES=0", "CONFIG=" + run / "config.json",
      "TRAIN_FILE=train.bin", "EVAL_FILE=eval.bin", "DATADIR=" + run.path(),
      "LOGDIR=" + run / "results", std::string("TRAIN=") + HLITE_TRAIN};
  // clang-format on
  command.insert(command.end(), variables.begin(), variables.end());
  command.emplace_back(HLITE_DOCKER "/run_trials.sh");
  return run_program(command);
}

// A line of `text` that begins so; fails where there is none.
std::string line_with(const std::string& text, const std::string& begin) {
  const size_t at = ("\n" + text).find("\n" + begin);
  INFO(text);
  REQUIRE(at != std::string::npos);
  return text.substr(at, text.find('\n', at) - at);
}

std::vector<std::string> system_files() {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(HLITE_DOCKER))
    if (entry.path().filename().string().starts_with("config_"))
      files.push_back(entry.path().string());
  return files;
}

// Answers as Slurm does, without a container: says how it was called, and runs what it was given
// with folders of this machine. Its first step unpacks the image; this machine's page cache must
// not be cleared.
constexpr const char* kSrun = R"(#!/bin/bash
echo "srun $*" >>"$CALLS"
while [[ $1 == -* ]]; do shift; done
case $1 in
  true) exit 0 ;;
  bash) exit 1 ;;
esac
DATADIR=$REAL_DATADIR LOGDIR=$REAL_LOGDIR exec "$SCRIPTS/$1"
)";

void write_program(const std::string& path, const char* text) {
  write_text(path, text);
  fs::permissions(path, fs::perms::owner_all);
}

// docker/run.sub with that srun.
ProgramResult run_sub(const SmallRun& run, const std::vector<std::string>& variables) {
  fs::create_directories(run / "bin");
  write_program(run / "bin/srun", kSrun);
  // clang-format off
  std::vector<std::string> command = {
      "/usr/bin/env", "PATH=" + run / "bin:/usr/bin:/bin", "CALLS=" + run / "calls",
      "SCRIPTS=" HLITE_DOCKER, "REAL_DATADIR=" + run.path(), "REAL_LOGDIR=" + run / "results",
      "CONT=image", "CONFIG=" + run / "config.json", "TRAIN_FILE=train.bin", "EVAL_FILE=eval.bin",
      "DATADIR=/data on nodes", "LOGDIR=" + run / "results", "DGXNNODES=1",
      std::string("TRAIN=") + HLITE_TRAIN};
  // clang-format on
  command.insert(command.end(), variables.begin(), variables.end());
  command.emplace_back("/bin/bash");
  command.emplace_back(HLITE_DOCKER "/run.sub");
  return run_program(command);
}

}  // namespace

TEST_CASE("the scripts of a benchmark run each trial with its own seed, and hand on what fails") {
  const SmallRun run;
  // Trials draw their seeds: the threshold is one that every seed reaches.
  const auto trials = run_trials(run, {"NEXP=2", "AUC_THRESHOLD=0.4", "SUBMITTER=We"});
  REQUIRE(trials.code == 0);
  std::vector<nlohmann::json> seeds;
  for (const char* name : {"results/result_0.txt", "results/result_1.txt"}) {
    const std::string log = read_text(run / name);
    CHECK(MllogRules(log).broken() == std::vector<std::string>{});
    for (const auto& line : parse_mllog(log)) {
      if (line.key == "seed") seeds.push_back(line.value);
      if (line.key == "run_stop") CHECK(line.metadata["status"] == "success");
    }
  }
  REQUIRE(seeds.size() == 2);
  CHECK(seeds[0] != seeds[1]);
  check_contains(trials.out, {"RESULT,DLRM,", "exit 0"});

  const auto diverged =
      run_trials(run, {"TRAIN_ARGS=--set optimizer.momentum_sgd_hparam.learning_rate=1e30"});
  CHECK(diverged.code == 3);
  check_contains(diverged.out, {"exit 3"});
  const auto missing = run_trials(run, {"TRAIN_FILE=no.bin"});
  CHECK(missing.code == 2);
  check_contains(missing.err, {"no.bin", "is DATADIR mounted?"});
  const auto engine = run_trials(run, {"ENGINE=lxc"});
  CHECK(engine.code == 2);
  check_contains(engine.err, {"expected docker, podman, apptainer or none, found lxc"});
}

TEST_CASE("every system file names a config that is there, of as many ranks as it says") {
  const auto files = system_files();
  CHECK(files.size() >= 5);
  for (const std::string& file : files) {
    INFO(file);
    const auto said =
        run_program({"/bin/bash", "-euc",
                     "source \"$0\"; echo \"$DGXSYSTEM|$DGXNNODES|$DGXNGPU|$BENCHMARK|$TRAIN_FILE|"
                     "$EVAL_FILE|$WALLTIME|$CONFIG\"",
                     file});
    REQUIRE(said.code == 0);
    std::vector<std::string> words;
    std::istringstream parts(said.out.substr(0, said.out.find('\n')));
    for (std::string word; std::getline(parts, word, '|');) words.push_back(word);
    REQUIRE(words.size() == 8);
    CHECK(fs::path(file).filename() == "config_" + words[0] + ".sh");
    const auto config = config::load_train_config(
        std::string(HLITE_CONFIGS "/") + fs::path(words[7]).filename().string(),
        {"solver.benchmark=" + words[3]});
    CHECK(std::to_string(config->solver.gpu.size()) == words[1]);
    CHECK(std::to_string(config->solver.gpu[0].size()) == words[2]);
    CHECK(words[7].starts_with("/usr/local/share/hugectr_lite/configs/"));
  }
}

TEST_CASE("each engine's command mounts data and results, and hands on what the run needs") {
  const SmallRun run;
  const auto command = [&](const char* engine) {
    const auto dry = run_trials(run, {std::string("ENGINE=") + engine, "CONT=image:1", "DRY_RUN=1",
                                      "GPUS=all", "SEED=7", "AUC_THRESHOLD=0.8"});
    REQUIRE(dry.code == 0);
    return line_with(dry.out, engine);
  };
  for (const char* engine : {"docker", "podman", "apptainer"})
    check_contains(command(engine), {run.path() + ":/data:ro", run.path() + "/results:/results",
                                     "SEED=7", "TRIAL=0", "DATADIR=/data", "LOGDIR=/results",
                                     "AUC_THRESHOLD=0.8", "image:1 run_and_time.sh"});
  for (const char* engine : {"docker", "podman"})
    check_contains(command(engine), {"--init", "--ipc=host", "--ulimit memlock=-1",
                                     "--ulimit stack=67108864", "--cap-add SYS_NICE"});
  check_contains(command("docker"), {"--gpus all", "--user"});
  check_contains(command("podman"), {"nvidia.com/gpu=all", "--userns=keep-id"});
  check_contains(command("apptainer"), {"--nv", "--cleanenv"});
}

TEST_CASE(
    "under Slurm an image is unpacked once, trials have seeds of their own, and a failure ends "
    "them") {
  const SmallRun run;
  const auto good = run_sub(run, {"NEXP=2", "AUC_THRESHOLD=0.4"});
  REQUIRE(good.code == 0);
  check_contains(good.err, {"the page cache is not cleared"});
  const std::string calls = read_text(run / "calls");
  CHECK(calls.find("--container-image=image") == calls.rfind("--container-image=image"));
  check_contains(line_with(calls, "srun --mpi=pmix"),
                 {"--ntasks-per-node=1", "/data on nodes:/data:ro", "results:/results",
                  "--no-container-mount-home", "run_and_time.sh"});
  std::vector<nlohmann::json> seeds;
  for (const char* name : {"results/result_0.txt", "results/result_1.txt"})
    for (const auto& line : parse_mllog(read_text(run / name))) {
      if (line.key == "seed") seeds.push_back(line.value);
      if (line.key == "cache_clear") CHECK(line.value == false);
    }
  REQUIRE(seeds.size() == 2);
  CHECK(seeds[0] != seeds[1]);

  fs::remove(run / "calls");
  CHECK(run_sub(run, {"NEXP=3", "TRAIN_FILE=no.bin"}).code == 2);
  const std::string tried = read_text(run / "calls");
  CHECK(tried.find("run_and_time.sh") == tried.rfind("run_and_time.sh"));
  const auto nodes = run_sub(run, {"SLURM_JOB_NUM_NODES=4"});
  CHECK(nodes.code == 2);
  check_contains(nodes.err, {"expected 1 nodes", "found 4"});
  const auto nothing = run_program({"/bin/bash", HLITE_DOCKER "/run.sub"});
  CHECK(nothing.code != 0);
  check_contains(nothing.err, {"expected CONT"});
}

TEST_CASE("what cannot be built is refused before anything is") {
  const auto build = [](const std::vector<std::string>& words) {
    std::vector<std::string> command = {HLITE_DOCKER "/build.sh"};
    command.insert(command.end(), words.begin(), words.end());
    const auto result = run_program(command);
    CHECK(result.code == 2);
    return result.err;
  };
  check_contains(build({}), {"expected cpu or cuda", "--bootstrap"});
  check_contains(build({"gpu"}), {"unknown argument 'gpu'"});
  check_contains(build({"cpu", "--builder", "kaniko"}), {"--builder kaniko is not there"});
  check_contains(build({"cpu", "--bootstrap", "--builder", "docker"}),
                 {"--bootstrap needs buildah"});
}

}  // namespace hlite::test
