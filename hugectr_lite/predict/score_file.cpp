#include "hugectr_lite/predict/score_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/preparation/io/numpy_file.h"
#include "hugectr_lite/preparation/io/output_file.h"

namespace hlite::predict {

namespace {

// Lines, wherever they go.
class TextScores : public ScoreFile {
 public:
  void set_extra_columns(const std::string& columns) override { columns_ = columns; }
  void add(std::span<const float> scores, std::span<const std::string> extra_columns) override {
    begin();
    HLITE_CHECK(extra_columns.size() == (columns_.empty() ? 0 : scores.size()),
                "{} scores, {} lines", scores.size(), extra_columns.size());
    std::string text;
    for (size_t i = 0; i < scores.size(); ++i) {
      if (!extra_columns.empty()) text += extra_columns[i] + ",";
      fmt::format_to(std::back_inserter(text), "{}\n", scores[i]);
    }
    write(text);
  }
  void finish() override { begin(); }

 private:
  virtual void write(std::string_view text) = 0;
  void begin() {
    if (!std::exchange(begun_, true)) write(columns_ + (columns_.empty() ? "" : ",") + "score\n");
  }

  std::string columns_;
  bool begun_ = false;
};

class CsvScores final : public TextScores {
 public:
  explicit CsvScores(const std::string& path) : file_(path) {}
  void finish() override {
    TextScores::finish();
    file_.finish();
  }
  void close() override {
    TextScores::finish();
    file_.publish();
  }

 private:
  void write(std::string_view text) override { file_.write(text); }
  prep::OutputFile file_;
};

class PrintedScores final : public TextScores {
 public:
  void close() override {
    finish();
    if (std::fflush(stdout) != 0) fail();
  }

 private:
  [[noreturn]] static void fail() {
    raise<FileError>("standard output: cannot write: {}", std::strerror(errno));
  }
  void write(std::string_view text) override {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) fail();
  }
};

class NumpyScores final : public ScoreFile {
 public:
  explicit NumpyScores(const std::string& path) : file_(path) {}
  void set_extra_columns(const std::string&) override {
    HLITE_CHECK(false, "columns in a .npy file");
  }
  void add(std::span<const float> scores, std::span<const std::string>) override {
    scores_.insert(scores_.end(), scores.begin(), scores.end());
  }
  void finish() override {
    if (std::exchange(finished_, true)) return;
    file_.write(
        prep::numpy_preamble({.type = "<f4", .shape = {static_cast<int64_t>(scores_.size())}}));
    file_.write(std::as_bytes(std::span(scores_)));
    file_.finish();
  }
  void close() override {
    finish();
    file_.publish();
  }

 private:
  prep::OutputFile file_;
  std::vector<float> scores_;
  bool finished_ = false;
};
}  // namespace

bool takes_columns(const std::string& path) { return path == "-" || path.ends_with(".csv"); }

std::unique_ptr<ScoreFile> open_score_file(const std::string& path) {
  if (path == "-") return std::make_unique<PrintedScores>();
  if (path.ends_with(".npy")) return std::make_unique<NumpyScores>(path);
  if (path.ends_with(".csv")) return std::make_unique<CsvScores>(path);
  raise<ConfigError>("--out: expected a name that ends in .csv or .npy, or -, found {}", path);
}

}  // namespace hlite::predict
