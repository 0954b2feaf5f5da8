// A run as an event file of TensorBoard: a scalar for the loss, learning rate and speed of each
// shown iteration, for AUC and loss of each evaluation.
//
// Format: TFRecord (length, masked CRC-32C of it, data, masked CRC-32C of that; little-endian) of
// protocol buffers `Event` (tensorflow/core/util/event.proto, framework/summary.proto).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "hugectr_lite/trainer/run/run_record.h"

namespace hlite::trainer {

class TensorboardFile final : public RunRecord {
 public:
  // A new file events.out.tfevents.<seconds>.<host>.<process> in `directory`, which is made where
  // it is missing. Throws FileError.
  explicit TensorboardFile(const std::string& directory);
  void train(const TrainEvent& e) override;
  void eval(int64_t iter, const EvalResult& e) override;

 private:
  void scalar(std::string_view tag, int64_t step, double value);
  void record(std::string_view event);
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Closer> file_;
};

}  // namespace hlite::trainer
