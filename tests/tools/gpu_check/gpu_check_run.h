// A run of tools/gpu_check.sh in a folder of its own.
#pragma once

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/program.h"

namespace hlite::test {

class GpuCheckRun {
 public:
  GpuCheckRun() {
    std::filesystem::create_directories(folder_ / "path");
    // Whatever GPU this machine has, the run sees none but the plug-in's.
    tool("nvidia-smi", "echo 'no driver here'; exit 9");
  }
  [[nodiscard]] std::string operator/(const std::string& name) const { return folder_ / name; }

  // A shell script that the run finds first on its PATH.
  void tool(const std::string& name, const std::string& text) const { script("path", name, text); }

  // A shell script in a folder.
  void script(const std::string& folder, const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(folder_ / folder);
    const std::string path = folder_ / (folder + "/" + name);
    write_text(path, "#!/bin/sh\n" + text + "\n");
    if (chmod(path.c_str(), 0755) != 0) throw std::runtime_error("cannot chmod " + path);
  }

  // The command line; `variables` are NAME=VALUE. Unless the arguments say otherwise, a run and its
  // checks may take hours: their own limits are those of a quiet machine with a GPU.
  [[nodiscard]] std::vector<std::string> command(const std::vector<std::string>& arguments,
                                                 const std::vector<std::string>& variables = {},
                                                 const std::string& script = HLITE_SOURCE_DIR
                                                 "/tools/gpu_check.sh") const {
    const char* path = std::getenv("PATH");
    std::vector<std::string> words = {
        "/usr/bin/env",
        "-u",
        "OUT",
        "-u",
        "LD_LIBRARY_PATH",
        "PATH=" + (folder_ / "path") + ":" + (path ? path : "/usr/bin:/bin")};
    words.insert(words.end(), variables.begin(), variables.end());
    words.insert(words.end(), {"bash", script, "--minutes", "600", "--slow", "30"});
    words.insert(words.end(), arguments.begin(), arguments.end());
    return words;
  }
  [[nodiscard]] ProgramResult run(const std::vector<std::string>& arguments,
                                  const std::vector<std::string>& variables = {}) const {
    return run_program(command(arguments, variables), folder_.path());
  }

 private:
  TemporaryDirectory folder_;
};

}  // namespace hlite::test
