// Runs a program and keeps what it printed.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/temporary_directory.h"

namespace hlite::test {

struct ProgramResult {
  int code = -1;    // exit code, or 128 + the signal that ended it
  std::string out;  // standard output
  std::string err;  // standard error
};

// A program that is running. One that is not waited for, because an assertion has failed, is killed.
class RunningProgram {
 public:
  RunningProgram(const std::vector<std::string>& arguments, const std::string& directory) {
    for (const char* stream : {"out", "err"}) write_text(output_ / stream, "");
    for (const std::string& word : arguments) words_ += word + " ";
    pid_ = fork();
    if (pid_ < 0) throw std::runtime_error("cannot fork");
    if (pid_ == 0) {
      redirect(output_ / "out", STDOUT_FILENO);
      redirect(output_ / "err", STDERR_FILENO);
      if (!directory.empty() && chdir(directory.c_str()) != 0) _exit(126);
      std::vector<char*> argv;
      for (const auto& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      _exit(127);
    }
  }
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;
  ~RunningProgram() {
    if (waited_) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  void signal(int number) const { kill(pid_, number); }
  [[nodiscard]] pid_t id() const { return pid_; }
  [[nodiscard]] bool running() const {
    siginfo_t ended{};
    return waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           ended.si_pid == 0;
  }
  // Waits until the file has something in it, or the program has ended.
  void await_text(const std::string& path) const {
    const auto empty = [&] {
      return !std::filesystem::exists(path) || std::filesystem::file_size(path) == 0;
    };
    while (running() && empty()) usleep(1000);
  }
  [[nodiscard]] std::string error_so_far() const { return read_text(output_ / "err"); }
  // Once.
  ProgramResult wait() {
    int status = 0;
    if (waitpid(pid_, &status, 0) != pid_) throw std::runtime_error("cannot wait");
    waited_ = true;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    const ProgramResult result{code, read_text(output_ / "out"), read_text(output_ / "err")};
    // Shown if the next assertion fails, as `code == 0` alone says nothing.
    if (code != 0)
      UNSCOPED_INFO(words_ << "\nended with code " << code << "\n"
                           << end_of(result.out) << end_of(result.err));
    return result;
  }

 private:
  static std::string end_of(const std::string& text) {
    constexpr size_t kShown = 8000;
    return text.size() <= kShown ? text : "..." + text.substr(text.size() - kShown);
  }
  static void redirect(const std::string& path, int to) {
    const int file = open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
    if (file < 0 || dup2(file, to) < 0) _exit(125);
  }
  TemporaryDirectory output_;
  std::string words_;  // of the command
  pid_t pid_;
  bool waited_ = false;
};

inline ProgramResult run_program(const std::vector<std::string>& arguments,
                                 const std::string& directory = "") {
  return RunningProgram(arguments, directory).wait();
}

// The child of a process that has `variable` ("NAME=value") in its environment; 0: there is none.
inline pid_t child_with(pid_t parent, const std::string& variable) {
  const std::string of = "/proc/" + std::to_string(parent);
  std::istringstream children(read_text(of + "/task/" + std::to_string(parent) + "/children"));
  for (pid_t child = 0; children >> child;) {
    const std::string all = read_text("/proc/" + std::to_string(child) + "/environ");
    if (('\0' + all).find('\0' + variable + '\0') != std::string::npos) return child;
  }
  return 0;
}

}  // namespace hlite::test
