// The metrics file: one JSON object a line, flushed line by line.
//
//   {"event":"train","iter":50,"loss":0.41,"lr":0.5,"samples_per_s":1.2e5,"wait_share":0.001}
//   {"event":"eval","iter":100,"auc":0.78,"loss":0.53,"samples":8192,"seconds":0.1}
//   {"event":"end","iter":300,"samples":76800,"seconds":9.1,"samples_per_s":..,"peak_rss_bytes":..,
//    "reason":"max_iter"|"target"|"interrupted"}
//
//   {"event":"traffic","iterations":300,...} (trainer/run/traffic.h), on several ranks
//
// An AUC that does not exist (one class only) is null. "seconds" of an evaluation are those that
// training stood still for it. A GPU computes its metrics beside training: its line comes a little
// later, but before the next of another iteration.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "hugectr_lite/trainer/run/evaluator.h"

namespace hlite::trainer {

struct TrainEvent {
  int64_t iter = 0;
  double loss = 0, lr = 0, samples_per_s = 0, wait_share = 0;
};
struct EndEvent {
  int64_t iter = 0, samples = 0;
  double seconds = 0, samples_per_s = 0;
  int64_t peak_rss_bytes = 0;
  std::string reason;
};

class MetricsFile {
 public:
  // An empty path: nothing is written. Throws FileError when the file cannot be opened or written.
  MetricsFile(const std::string& path, bool append);
  void train(const TrainEvent& e);
  void eval(int64_t iter, const EvalResult& e);
  // `json`: TrafficReport::json().
  void traffic(const std::string& json);
  void end(const EndEvent& e);

 private:
  void line(const std::string& text);
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Closer> file_;
};

}  // namespace hlite::trainer
