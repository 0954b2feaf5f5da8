#include "hugectr_lite/trainer/run/metrics_file.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "hugectr_lite/core/error.h"

namespace hlite::trainer {
namespace {
// Shortest text that reads back as the same double; JSON has no NaN.
std::string number(double x) { return std::isfinite(x) ? fmt::format("{}", x) : "null"; }
}  // namespace

MetricsFile::MetricsFile(const std::string& path, bool append) : path_(path) {
  if (path.empty()) return;
  file_.reset(std::fopen(path.c_str(), append ? "a" : "w"));
  if (!file_)
    raise<FileError>("{}: cannot open the metrics file for writing: {}", path,
                     std::strerror(errno));
}

void MetricsFile::line(const std::string& text) {
  if (!file_) return;
  if (std::fputs((text + "\n").c_str(), file_.get()) < 0 || std::fflush(file_.get()) != 0)
    raise<FileError>("{}: cannot write the metrics file: {}", path_, std::strerror(errno));
}

void MetricsFile::train(const TrainEvent& e) {
  line(fmt::format(
      R"({{"event":"train","iter":{},"loss":{},"lr":{},"samples_per_s":{},"wait_share":{}}})",
      e.iter, number(e.loss), number(e.lr), number(e.samples_per_s), number(e.wait_share)));
}

void MetricsFile::eval(int64_t iter, const EvalResult& e) {
  line(fmt::format(R"({{"event":"eval","iter":{},"auc":{},"loss":{},"samples":{},"seconds":{}}})",
                   iter, e.auc ? number(*e.auc) : "null", number(e.loss), e.samples,
                   number(e.seconds)));
}

void MetricsFile::traffic(const std::string& json) {
  line(R"({"event":"traffic",)" + json.substr(1));
}

void MetricsFile::end(const EndEvent& e) {
  line(fmt::format(
      R"({{"event":"end","iter":{},"samples":{},"seconds":{},"samples_per_s":{},"peak_rss_bytes":{},"reason":"{}"}})",
      e.iter, e.samples, number(e.seconds), number(e.samples_per_s), e.peak_rss_bytes, e.reason));
}

}  // namespace hlite::trainer
