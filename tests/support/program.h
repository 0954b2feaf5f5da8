// Runs a program and keeps what it printed.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace hlite::test {

struct ProgramResult {
  int code = -1;    // exit code, or 128 + the signal that ended it
  std::string out;  // standard output
  std::string err;  // standard error
};

// A program that is running; wait() must be called once.
class RunningProgram {
 public:
  RunningProgram(const std::vector<std::string>& arguments, const std::string& directory) {
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
  void signal(int number) const { kill(pid_, number); }
  [[nodiscard]] std::string error_so_far() const { return read_text(output_ / "err"); }
  ProgramResult wait() {
    int status = 0;
    if (waitpid(pid_, &status, 0) != pid_) throw std::runtime_error("cannot wait");
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return {code, read_text(output_ / "out"), read_text(output_ / "err")};
  }

 private:
  static void redirect(const std::string& path, int to) {
    const int file = open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
    if (file < 0 || dup2(file, to) < 0) _exit(125);
  }
  TemporaryDirectory output_;
  pid_t pid_;
};

inline ProgramResult run_program(const std::vector<std::string>& arguments,
                                 const std::string& directory = "") {
  return RunningProgram(arguments, directory).wait();
}

}  // namespace hlite::test
