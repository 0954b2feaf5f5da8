#include "hugectr_lite/predict/score_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "tools/io/numpy_file.h"
#include "tools/io/output_file.h"

namespace hlite::predict {

namespace {
constexpr std::string_view kHeader = "score\n";

std::string lines_of(std::span<const float> scores) {
  std::string text;
  for (const float score : scores) fmt::format_to(std::back_inserter(text), "{}\n", score);
  return text;
}

class CsvScores final : public ScoreFile {
 public:
  explicit CsvScores(const std::string& path) : file_(path) { file_.write(kHeader); }
  void add(std::span<const float> scores) override { file_.write(lines_of(scores)); }
  void finish() override { file_.finish(); }
  void close() override { file_.publish(); }

 private:
  tools::OutputFile file_;
};

class PrintedScores final : public ScoreFile {
 public:
  PrintedScores() { print(kHeader); }
  void add(std::span<const float> scores) override { print(lines_of(scores)); }
  void finish() override {}
  void close() override {
    if (std::fflush(stdout) != 0) fail();
  }

 private:
  [[noreturn]] static void fail() {
    raise<FileError>("standard output: cannot write: {}", std::strerror(errno));
  }
  static void print(std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) fail();
  }
};

class NumpyScores final : public ScoreFile {
 public:
  explicit NumpyScores(const std::string& path) : file_(path) {}
  void add(std::span<const float> scores) override {
    scores_.insert(scores_.end(), scores.begin(), scores.end());
  }
  void finish() override {
    if (std::exchange(finished_, true)) return;
    file_.write(
        tools::numpy_preamble({.type = "<f4", .shape = {static_cast<int64_t>(scores_.size())}}));
    file_.write(std::as_bytes(std::span(scores_)));
    file_.finish();
  }
  void close() override {
    finish();
    file_.publish();
  }

 private:
  tools::OutputFile file_;
  std::vector<float> scores_;
  bool finished_ = false;
};
}  // namespace

std::unique_ptr<ScoreFile> open_score_file(const std::string& path) {
  if (path == "-") return std::make_unique<PrintedScores>();
  if (path.ends_with(".npy")) return std::make_unique<NumpyScores>(path);
  if (path.ends_with(".csv")) return std::make_unique<CsvScores>(path);
  raise<ConfigError>("--out: expected a name that ends in .csv or .npy, or -, found {}", path);
}

}  // namespace hlite::predict
