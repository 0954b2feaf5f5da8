// Who keeps a record of a run, and what it is told:
//
//   ready, { train, gpus where they tell | eval_begins, eval }..., traffic on several ranks, steps
//   where they were timed, then ended or failed
//
// Each kind of record is a class of its own (metrics_file.h, mllog_file.h, tensorboard_file.h) and
// takes what it needs. Rank 0 alone has any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/trainer/run/evaluator.h"
#include "hugectr_lite/trainer/run/gpu_monitor.h"
#include "hugectr_lite/trainer/run/machine_rates.h"

namespace hlite::trainer {

// What is known once a run has its memory, data and first values, and has not read a sample.
struct ReadyEvent {
  int64_t iter = 0, last_iter = 0;              // done before a resume; at which it ends
  int64_t train_samples = 0, eval_samples = 0;  // of an epoch, of an evaluation
  uint64_t seed = 0;
};
struct TrainEvent {
  int64_t iter = 0;
  double loss = 0, lr = 0, samples_per_s = 0, wait_share = 0;
};
struct EndEvent {
  int64_t iter = 0, samples = 0;
  double seconds = 0, samples_per_s = 0;
  int64_t peak_rss_bytes = 0;
  std::string reason;                     // "max_iter", "target", "interrupted", "early_stop"
  std::optional<double> gpu_joules = {};  // of all GPUs of rank 0's process
};

// A step of the training plan on rank 0: mean of an iteration.
struct StepTime {
  std::string name = {}, lane = {};
  double seconds = 0;
  double flops = 0, bytes = 0;  // of its work (plan/step_work.h)
  bool exchange = false;
  double sent = 0;  // bytes to other ranks, expected
};
struct StepsEvent {
  int64_t iterations = 0;
  std::vector<StepTime> steps = {};
  MachineRates rates = {};
  std::string device = {};
};

// Every event may throw FileError where it cannot be written: RunRecords goes on without this one.
class RunRecord {
 public:
  RunRecord() = default;
  RunRecord(const RunRecord&) = delete;
  RunRecord& operator=(const RunRecord&) = delete;
  virtual ~RunRecord() = default;

  virtual void ready(const ReadyEvent&) {}
  virtual void train(const TrainEvent&) {}
  virtual void gpus(const GpuEvent&) {}
  virtual void eval_begins(int64_t /*iter*/) {}
  virtual void eval(int64_t /*iter*/, const EvalResult&) {}
  virtual void test(int64_t /*iter*/, const EvalResult&) {}  // of test_source, at the end
  virtual void traffic(const std::string& /*json*/) {}       // TrafficReport::json()
  virtual void steps(const StepsEvent&) {}
  virtual void ended(const EndEvent&) {}
  virtual void failed(const std::string& /*why*/) {}
};

// All records of a run.
class RunRecords {
 public:
  void add(std::unique_ptr<RunRecord> record) { records_.push_back(std::move(record)); }
  // tell(&RunRecord::train, event)
  template <typename... Parameters, typename... Arguments>
  void tell(void (RunRecord::*event)(Parameters...), const Arguments&... arguments) {
    for (size_t i = 0; i < records_.size();) try {
        (records_[i].get()->*event)(arguments...);
        ++i;
      } catch (const FileError& failure) {
        lose(i, failure.what());
      }
  }
  // Whether one ended before the run: hours of training are worth more than a record of them, but
  // whoever started the run must learn of it.
  [[nodiscard]] bool lost_any() const { return lost_any_; }

 private:
  void lose(size_t index, const char* why);

  bool lost_any_ = false;
  std::vector<std::unique_ptr<RunRecord>> records_;
};

}  // namespace hlite::trainer
