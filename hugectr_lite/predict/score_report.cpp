#include "hugectr_lite/predict/score_report.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/preparation/io/input_stream.h"

namespace hlite::predict {
namespace {

namespace fs = std::filesystem;

std::string python_program(const fs::path& programs) {
  if (const char* const named = std::getenv("HLITE_PYTHON")) return named;
  const fs::path extra_columns = programs / "python3";
  std::error_code error;
  return fs::exists(extra_columns, error) ? extra_columns.string() : "python3";
}

// Puts the build folder's Python package, which lies next to its programs, on PYTHONPATH.
void find_package(const fs::path& programs) {
  const fs::path package = programs.parent_path() / "python";
  std::error_code error;
  if (!fs::exists(package / "hugectr_lite", error)) return;
  const char* const before = std::getenv("PYTHONPATH");
  const bool any = before != nullptr && *before != 0;
  setenv("PYTHONPATH", any ? (package.string() + ":" + before).c_str() : package.c_str(), 1);
}

}  // namespace

void check_report(const PredictionOptions& options, const std::string& file) {
  if (!file.ends_with(".html"))
    raise<ConfigError>("--report: expected FILE.html, found \"{}\"", file);
  const auto refuse = [](bool given, const char* what) {
    if (given)
      raise<ConfigError>("--report: expected a checkpoint and a file of text with labels, found {}",
                         what);
  };
  refuse(prep::is_read_once(options.input),
         options.input == "-" ? "standard input" : "a pipe or device");
  refuse(options.labels == prep::Labels::kAbsent, "--no-label");
  refuse(!options.delta.empty(), "--delta");
  refuse(!options.run.config.empty(), "--config");
  refuse(!options.run.overrides.empty(), "--set");
  refuse(!checkpoint::is_checkpoint(options.model), "exported weights");
}

void write_report(const PredictionOptions& options, const PredictionResult& result,
                  const std::string& file) {
  const fs::path programs = fs::read_symlink("/proc/self/exe").parent_path();
  const std::string python = python_program(programs);
  std::vector<std::string> command = {python,        "-m",          "hugectr_lite.report",
                                      "--model",     options.model, "--input",
                                      options.input, "--out",       file};
  if (!options.prepared.empty()) command.insert(command.end(), {"--prepared", options.prepared});
  if (result.metrics)
    for (const auto& [name, value] : result.metrics->more)
      command.insert(command.end(),
                     {"--metric", name, value ? fmt::format("{:.5f}", *value) : "undefined"});
  if (options.run.threads > 0)
    command.insert(command.end(), {"--threads", std::to_string(options.run.threads)});
  if (options.run.device && *options.run.device != config::DeviceChoice::kAuto)
    command.insert(
        command.end(),
        {"--device", *options.run.device == config::DeviceChoice::kCpu ? "cpu" : "cuda"});
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  find_package(programs);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, python.c_str(), nullptr, nullptr, words.data(), environ);
  if (failed != 0)
    raise<ConfigError>(
        "--report: cannot start {}, which makes the page: {} (HLITE_PYTHON names another one)",
        python, std::strerror(failed));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    raise<DataError>(
        "--report: {} -m hugectr_lite.report has not written {}; the scores are complete", python,
        file);
}

}  // namespace hlite::predict
