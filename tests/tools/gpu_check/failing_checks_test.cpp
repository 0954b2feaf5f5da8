// What tools/gpu_check.sh makes of programs that crash, hang or compute nonsense;
// these are scripts.
#include <signal.h>

#include <cerrno>

#include "tests/tools/gpu_check/gpu_check_run.h"

namespace hlite::test {
namespace {

// A folder of programs with a `train` that names a device, and test programs of a file each.
class FakePrograms : public GpuCheckRun {
 public:
  explicit FakePrograms(const std::string& second_file, const std::string& train = "exit 1") {
    script("bin", "train",
           "case \"$*\" in *--check*) echo 'device memory, batch 1: a fake'; exit 0 ;; esac\n" +
               train);
    tests("cuda_tests", "first", "true");
    tests("ops_tests", "second", second_file);
    tests("optimizer_tests", "third", "true");
  }
  [[nodiscard]] std::vector<std::string> arguments(std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--bin", *this / "bin", "--out", *this / "out"});
    return more;
  }
  [[nodiscard]] std::string report() const { return read_text(*this / "out/report.md"); }

 private:
  void tests(const std::string& program, const std::string& file, const std::string& body) const {
    script("bin", program,
           "case \"$*\" in\n  *--list-tags*) echo '  1  [#" + file + "_test]'; exit 3 ;;\nesac\n" +
               body + "\necho 'All tests passed'");
  }
};

// Whether the process whose number a script has left in the file is no more.
bool ended(const std::string& file) {
  const auto pid = static_cast<pid_t>(std::stol(read_text(file)));
  return kill(pid, 0) != 0 && errno == ESRCH;
}

TEST_CASE("a build takes all targets that the machine's tools allow, as CMake reads them") {
  for (const std::vector<std::string>& with :
       {std::vector<std::string>{"-u", "CMAKE_BUILD_PARALLEL_LEVEL"},
        {"CMAKE_BUILD_PARALLEL_LEVEL=2"}}) {
    const TemporaryDirectory root;
    std::vector<std::string> command = {"/usr/bin/env"};
    command.insert(command.end(), with.begin(), with.end());
    command.insert(
        command.end(),
        {"python3", "-B", "-c",
         "import argparse, sys, types\n"
         "sys.path.insert(0, '" HLITE_SOURCE_DIR "/tools/gpu_check')\n"
         "import build\n"
         "ran = []\n"
         "build.missing = lambda: []\n"
         "build.output_of = lambda command, limit: 'hlite_trace: phony\\ntrain: phony\\n'\n"
         "build.run_limited = lambda command, limit, out: ran.append(command) or "
         "types.SimpleNamespace(seconds=0, overran=False, code=0)\n"
         "build.build(sys.argv[1], 60)\n"
         // --target takes what follows it, up to the next option.
         "read = argparse.ArgumentParser()\n"
         "read.add_argument('--build')\n"
         "read.add_argument('-j')\n"
         "read.add_argument('--target', nargs='+')\n"
         "got = read.parse_args(ran[1][1:])\n"
         "assert got.target == [*build.PROGRAMS, 'hlite_cuda', 'hlite_trace'], ran\n",
         root.path()});
    const ProgramResult result = run_program(command);
    INFO(result.out << result.err);
    CHECK(result.code == 0);
  }
}

TEST_CASE("a test file that crashes costs only itself, and is named with its signal") {
  const FakePrograms run("echo 'in the ninth case'; kill -SEGV $$");
  const auto result = run.run(run.arguments({"--only", "tests"}));
  INFO(result.out << result.err);
  CHECK(result.code == 1);
  check_contains(run.report(),
                 {"- tests-first_test: passed", "- tests-second_test: FAILED: ended by SIGSEGV",
                  "in the ninth case", "- tests-third_test: passed",
                  "4 passed, 1 FAILED, 0 not run\n- FAILED: tests-second_test"});
}

TEST_CASE("a check that overruns its time was not run, and does not fail") {
  const FakePrograms run("echo $$ >\"$PID_FILE\"; exec sleep 300");
  // A clock that stands still until the test of the second file has begun and is waited for: some
  // looks later it is an hour on.
  std::filesystem::create_directory(run / "clock");
  write_text(run / "clock/sitecustomize.py",
             "import os, time\n"
             "def clock(now):\n"
             "    pid, looks = os.environ['PID_FILE'], 0\n"
             "    def look():\n"
             "        nonlocal looks\n"
             "        looks += os.path.exists(pid) and os.path.getsize(pid) > 0\n"
             "        return now + (3600 if looks > 10 else 0)\n"
             "    return look\n"
             "time.monotonic, time.time = clock(time.monotonic()), clock(time.time())\n");
  const auto result = run.run(run.arguments({"--only", "tests", "--minutes", "0.2"}),
                              {"PID_FILE=" + (run / "pid"), "PYTHONPATH=" + (run / "clock")});
  INFO(result.out << result.err);
  CHECK(result.code == 0);
  check_contains(
      run.report(),
      {"- tests-first_test: passed", "- tests-second_test: not run: the 0.2 minutes are over",
       "- tests-third_test: not run: the 0.2 minutes are over", "3 passed, 0 FAILED, 2 not run"});
  CHECK(ended(run / "pid"));
}

TEST_CASE("a check that is ended keeps what it has seen") {
  const FakePrograms run("echo $$ >\"$PID_FILE\"; exec sleep 300");
  RunningProgram script(
      run.command(run.arguments({"--only", "tests"}), {"PID_FILE=" + (run / "pid")}), "");
  const std::string pid = run / "pid";
  script.await_text(pid);
  // What has ended is written already, whatever becomes of the script.
  check_contains(run.report(), {"- tests-first_test: passed"});
  script.signal(SIGTERM);
  CHECK(script.wait().code == 128 + SIGTERM);
  check_contains(run.report(), {"- ended by SIGTERM", "3 passed, 0 FAILED, 0 not run"});
  CHECK(std::filesystem::file_size(run / "out/logs.tar.gz") > 0);
  CHECK(ended(pid));
}

TEST_CASE("what compute-sanitizer finds is a failure, and running nothing is no pass") {
  const std::string options =
      "while [ \"$1\" != --error-exitcode ]; do tools=\"$tools $1\"; shift; done; shift 2\n";
  const auto report = [&](const std::string& sanitizer, int code) {
    const FakePrograms run("true");
    run.tool("compute-sanitizer", options + sanitizer);
    const auto result = run.run(run.arguments({"--only", "sanitizer"}));
    INFO(result.out << result.err);
    CHECK(result.code == code);
    return run.report();
  };
  check_contains(
      report(
          "case \"$tools $*\" in *racecheck*second_test*) echo 'a hazard'; exit 9 ;; esac\n\"$@\"",
          1),
      {"- sanitizer-probe: passed", "- sanitizer-memcheck-second_test: passed",
       "- sanitizer-racecheck-first_test: passed",
       "- sanitizer-racecheck-second_test: FAILED: exit code 9", "a hazard",
       "7 passed, 1 FAILED, 0 not run"});
  check_contains(report("exit 0", 0),
                 {"- sanitizer-probe: not run: compute-sanitizer does not work here: the sanitizer "
                  "has not run the tests",
                  "1 passed, 0 FAILED, 3 not run"});
}

TEST_CASE("our programs are led to cuBLASLt, and python3 is not") {
  const FakePrograms run("true");
  run.script("bin", "train",
             "echo \"$LD_LIBRARY_PATH\" >\"$SEEN.train\"; echo 'device memory, batch 1: a fake'");
  run.tool("ldconfig", "true");
  // A toolkit of this machine comes first; where there is none, it is this package of Python's.
  std::filesystem::create_directories(run / "site/nvidia/cu13/lib");
  write_text(run / "site/nvidia/cu13/lib/libcublasLt.so.13", "");
  write_text(run / "site/torch.py",
             "import os\n"
             "with open(os.environ['SEEN'] + '.python', 'w') as file:\n"
             "    file.write(os.environ.get('LD_LIBRARY_PATH', 'nothing'))\n"
             "raise ImportError\n");
  const auto result = run.run(run.arguments({"--only", "bench", "--small"}),
                              {"PYTHONPATH=" + (run / "site"), "SEEN=" + (run / "seen")});
  INFO(result.out << result.err);
  const std::string folder = read_text(run / "seen.train");
  CHECK(folder.size() > 1);
  check_contains(run.report(),
                 {"- cuBLASLt: " + folder.substr(0, folder.size() - 1) + "/libcublasLt.so.13",
                  "- pytorch: not run: python3 has no PyTorch"});
  CHECK(read_text(run / "seen.python") == "nothing");
}

TEST_CASE("golden runs with other losses, with NaN or without losses fail") {
  const auto outcome = [](const std::string& first_loss) {
    const FakePrograms run(
        "true",
        "while [ $# -gt 0 ]; do case \"$1\" in --metrics) metrics=$2 ;; esac; shift; done\n"
        "for event in '\"iter\": 1, \"batch_loss\": " +
            first_loss +
            "' '\"iter\": 2, \"batch_loss\": 0.6075258255004883' '\"iter\": 3, \"batch_loss\": 0'; "
            "do\n"
            "  echo \"{\\\"event\\\": \\\"train\\\", $event}\"\n"
            "done >\"$metrics\"");
    const auto result = run.run(run.arguments({"--only", "golden", "--small"}));
    CHECK(result.code == 1);
    return run.report();
  };
  check_contains(outcome("NaN"), {"- golden-dlrm_plain: FAILED: first 50 losses within nan"});
  check_contains(outcome("null"), {"- golden-dlrm_plain: FAILED: no batch_loss of iteration 1"});
  check_contains(outcome("0.6411101818084717"),
                 {"- golden-dlrm_plain: FAILED: first 50 losses within 1,",
                  "expected at most 1e-05", "same-bits-with-and-without-graph: not run"});
}

}  // namespace
}  // namespace hlite::test
