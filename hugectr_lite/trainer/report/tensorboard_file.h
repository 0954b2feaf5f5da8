// A run as an event file of TensorBoard: a scalar for each number of a line of training
// ("train/loss") and of an evaluation ("eval/auc", "test/auc", "progressive/auc"), named as in the metrics file.
//
// Format: TFRecord (length, masked CRC-32C of it, data, masked CRC-32C of that; little-endian) of
// protocol buffers `Event` (tensorflow/core/util/event.proto, framework/summary.proto).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "hugectr_lite/trainer/report/event_numbers.h"

namespace hlite::trainer {

class TensorboardFile final : public RunRecord {
 public:
  // A new file events.out.tfevents.<seconds>.<host>.<process> in `directory`, which is made where
  // it is missing. Throws FileError.
  explicit TensorboardFile(const std::string& directory);
  void train(const TrainEvent& e) override { scalars("train/", e.iter, numbers_of(e)); }
  void eval(int64_t iter, const EvalResult& e) override { evaluation("eval/", iter, e); }
  void test(int64_t iter, const EvalResult& e) override { evaluation("test/", iter, e); }
  void progressive(int64_t iter, const std::string& /*file*/, const EvalResult& e) override {
    evaluation("progressive/", iter, e);
  }

 private:
  void scalars(const std::string& prefix, int64_t step, const std::vector<NamedNumber>& numbers);
  void evaluation(const std::string& prefix, int64_t iter, const EvalResult& e);
  void scalar(std::string_view tag, int64_t step, double value);
  void record(std::string_view event);
  struct FileCloser {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, FileCloser> file_;
};

}  // namespace hlite::trainer
