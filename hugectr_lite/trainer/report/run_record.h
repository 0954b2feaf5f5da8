// RunRecord receives the events of a run, in this order:
//
//   ready, { train, gpus if NVML reports | eval_begins, eval | progressive | vocabulary |
//   save_failed }..., traffic on several ranks, tables with embedding_memory, vocabulary, steps
//   where they were timed, then ended or failed
//
// Each kind of record is a class of its own (metrics_file.h, mllog_file.h, tensorboard_file.h) and
// takes what it needs. Rank 0 alone has any.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/trainer/evaluation/evaluator.h"
#include "hugectr_lite/trainer/model/model_sizes.h"
#include "hugectr_lite/trainer/report/gpu_monitor.h"
#include "hugectr_lite/trainer/report/machine_rates.h"

namespace hlite::trainer {

// The last iteration of a run that ends with its data or by a signal.
inline constexpr int64_t kNoEnd = std::numeric_limits<int64_t>::max();

// The facts that are known once a run has its memory, data and initial values, and has not read a
// sample.
struct ReadyEvent {
  int64_t iter = 0, last_iter = 0;              // done before a resume; at which it ends, or kNoEnd
  int64_t train_samples = 0, eval_samples = 0;  // of an epoch, of an evaluation
  uint64_t seed = 0;
};
struct TrainEvent {
  int64_t iter = 0;
  double loss = 0, batch_loss = 0;  // mean since the line before; of this iteration's batch
  double lr = 0, samples_per_s = 0, wait_share = 0;
  std::optional<double> replaced_share =
      {};  // share of keys that key_policy replaced since the last line
  // Share of lookups since the line before whose rows were in memory; nullopt if all rows are.
  std::optional<double> resident_share = {};
};
// Why training ended.
enum class EndReason { kMaxIter, kEpochs, kTarget, kInterrupted, kEarlyStop, kEndOfData };
const char* name_of(EndReason reason);  // "max_iter", "epochs", "target", ...

struct EndEvent {
  int64_t iter = 0, samples = 0;
  double seconds = 0, samples_per_s = 0;
  int64_t peak_rss_bytes = 0;
  EndReason reason = EndReason::kMaxIter;
  std::optional<double> gpu_joules = {};      // all GPUs of rank 0's process
  std::optional<double> replaced_share = {};  // share of trained keys that key_policy replaced
};

// A step of the training plan on rank 0: mean of an iteration.
struct StepTime {
  std::string name = {}, lane = {};
  double seconds = 0;
  double flops = 0, bytes = 0;  // of its work (plan/step_work.h)
  bool exchange = false;
  double sent = 0;  // bytes to other ranks, expected
};
// Rows of tables beyond memory: where they lay and what moved in training, on rank 0.
struct TablesEvent {
  int64_t iterations = 0;
  std::vector<std::string> decision = {};  // choice of "embedding_memory": "auto"
  std::vector<LayerTiers> layers = {};
  std::vector<embedding::RowCacheCounts> moved = {};  // per layer
};

struct StepsEvent {
  int64_t iterations = 0;
  std::vector<StepTime> steps = {};
  MachineRates rates = {};
  std::string device = {};
};

// The vocabularies of hash tables whose keys get or lose rows by rules, of all ranks: whenever rows
// may have left, and at the end.
struct VocabularyEvent {
  struct Layer {
    std::string name = {};
    embedding::VocabularyCounts counts = {};
  };
  int64_t iter = 0;
  std::vector<Layer> layers = {};
};
// A line for each layer, for a person.
std::vector<std::string> vocabulary_texts(const VocabularyEvent& event);

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
  // The score of a file of a followed folder, before the file is trained on.
  virtual void progressive(int64_t /*iter*/, const std::string& /*file*/, const EvalResult&) {}
  virtual void traffic(const std::string& /*json*/) {}  // TrafficReport::json()
  virtual void tables(const TablesEvent&) {}
  virtual void vocabulary(const VocabularyEvent&) {}
  virtual void steps(const StepsEvent&) {}
  // A checkpoint that could not be written, of a run that goes on without it.
  virtual void save_failed(int64_t /*iter*/, const std::string& /*why*/) {}
  virtual void ended(const EndEvent&) {}
  virtual void failed(const std::string& /*why*/) {}
};

// All records of a run.
class RunRecords {
 public:
  void add(std::shared_ptr<RunRecord> record) { records_.push_back(std::move(record)); }
  // notify(&RunRecord::train, event)
  template <typename... Parameters, typename... Arguments>
  void notify(void (RunRecord::*event)(Parameters...), const Arguments&... arguments) {
    for (size_t i = 0; i < records_.size();) try {
        (records_[i].get()->*event)(arguments...);
        ++i;
      } catch (const FileError& failure) {
        lose(i, failure.what());
      }
  }
  // Returns true if one ended before the run: hours of training are worth more than a record of
  // them, but the user must learn of it.
  [[nodiscard]] bool lost_any() const { return lost_any_; }

 private:
  void lose(size_t index, const char* why);

  bool lost_any_ = false;
  std::vector<std::shared_ptr<RunRecord>> records_;
};

}  // namespace hlite::trainer
