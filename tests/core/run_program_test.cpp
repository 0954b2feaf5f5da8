#include "hugectr_lite/core/run_program.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_directory.h"

namespace hlite {
namespace {

struct Ended {
  int code;
  std::string out, err;
};

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// A child that is the program "prog --name TEXT", whose body `body` is; standard output goes to
// `out`, or a file.
Ended run(std::vector<std::string> words, const std::function<int()>& body,
          const char* out = nullptr) {
  const test::TemporaryDirectory dir;
  const std::string out_file = out ? out : dir / "out", err_file = dir / "err";
  std::fflush(nullptr);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(open(out_file.c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
    dup2(open(err_file.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    CLI::App app("a program", "prog");
    std::string name;
    app.add_option("--name", name, "a name");
    double share = 0;
    app.add_option("--share", share, "a number");
    std::vector<std::string> files;
    app.add_option("--files", files, "some files");
    words.insert(words.begin(), "prog");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    const int code = run_program(app, static_cast<int>(argv.size()), argv.data(), body);
    std::fflush(nullptr);
    _exit(code);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return {WEXITSTATUS(status), out ? "" : text_of(out_file), text_of(err_file)};
}

int print_and_end() {
  std::puts("done");
  return kExitInterrupted;
}
const char* const kMoreHelp = "Run with --help for more information.\n";

}  // namespace

TEST_CASE("a program prints what its body prints, and exits with the body's code") {
  const Ended ended = run({"--name", "x"}, print_and_end);
  CHECK(ended.code == kExitInterrupted);
  CHECK(ended.out == "done\n");
  CHECK(ended.err.empty());
  CHECK(run({"--help"}, print_and_end).code == kExitDone);
}

TEST_CASE("an error of a program's body is one message and the error's code") {
  const Ended config = run({}, []() -> int { raise<ConfigError>("c.json:3: wrong"); });
  CHECK(config.code == kExitConfig);
  CHECK(config.err == "prog: c.json:3: wrong\n");
  CHECK(run({}, []() -> int { raise<DeviceError>("gone"); }).code == kExitDevice);
}

TEST_CASE("wrong usage is reported, runs nothing and exits with 2") {
  const Ended unknown = run({"--nmae", "x"}, print_and_end);
  CHECK(unknown.code == kExitConfig);
  CHECK(unknown.out.empty());
  CHECK(unknown.err.ends_with(kMoreHelp));
  CHECK(unknown.err.find("--nmae") != std::string::npos);

  const Ended empty = run({"--name", ""}, print_and_end);
  CHECK(empty.code == kExitConfig);
  CHECK(empty.out.empty());
  CHECK(empty.err ==
        std::string("prog: --name: expected a value, found an empty one\n") + kMoreHelp);
}

TEST_CASE("an option is no value of the one before, and a value that is not a number is an error") {
  for (const char* option : {"--name", "--files"}) {
    const Ended lacking = run({option, "--share", "0.5"}, print_and_end);
    CHECK(lacking.code == kExitConfig);
    CHECK(lacking.err == fmt::format("prog: {}: expected a value, found the option --share\n{}",
                                     option, kMoreHelp));
  }
  // What begins like an option, but is none, is a value.
  CHECK(run({"--name", "--strange", "--share", "-0.5"}, print_and_end).code == kExitInterrupted);
  const Ended text = run({"--share", "half = x"}, print_and_end);
  CHECK(text.code == kExitConfig);
  CHECK(text.err ==
        std::string("prog: --share: expected a number, found \"half = x\"\n") + kMoreHelp);
}

TEST_CASE("what standard output does not take is an error, and exits with 3") {
  const Ended full = run({}, print_and_end, "/dev/full");
  CHECK(full.code == kExitData);
  CHECK(full.err == "prog: standard output: cannot write all: No space left on device\n");
}

TEST_CASE("files of a program whose standard streams are closed get other descriptors") {
  const Ended ended = run({}, [] {
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) close(fd);
    CLI::App inner("a program", "inner");
    std::array<char, 6> name{"inner"};
    char* argv[] = {name.data()};
    int file = -1;
    run_program(inner, 1, argv, [&] { return file = dup(open("/dev/null", O_RDONLY)), kExitDone; });
    _exit(file > STDERR_FILENO ? 42 : 43);
    return kExitDone;
  });
  CHECK(ended.code == 42);
}

}  // namespace hlite
