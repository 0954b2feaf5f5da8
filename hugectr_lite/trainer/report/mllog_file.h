// A run as MLPerf's log: lines ":::MLLOG {json}", as mlperf-logging's compliance checker takes
// them. Rules: mlcommons/training_policies, training rules 1.0 to 2.1 for "dlrm", 3.0 to 6.0 for
// "dlrm_dcnv2", 6.1 for "dlrmv4"; keys and their rules: mlcommons/logging, compliance_checker.
//
// All that describes the run stands before init_stop (rules 2.0 want the division there), nothing
// of the data is read before run_start. Epochs count as each benchmark's rules say: dlrm's first is
// 1, and an evaluation after i iterations of batch B of N samples is at 1 + i B / N; dlrm_dcnv2's
// is the share of the run's iterations; dlrmv4 counts samples.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/trainer/report/line_file.h"
#include "hugectr_lite/trainer/report/run_record.h"
#include "hugectr_lite/trainer/report/submission.h"

namespace hlite::trainer {

class MllogFile final : public RunRecord {
 public:
  // Writes the header and init_start. Throws ConfigError when the config names no benchmark
  // (solver.benchmark) or, in the closed division, is not of the shape that the benchmark's log
  // describes; FileError. `config` must outlive it.
  MllogFile(const std::string& path, const config::TrainConfig& config,
            const Submission& submission);
  // A run that was neither ended nor failed was aborted.
  ~MllogFile() override;

  void ready(const ReadyEvent& e) override;
  void eval_begins(int64_t iter) override;
  void eval(int64_t iter, const EvalResult& e) override;
  void ended(const EndEvent& e) override;
  void failed(const std::string& why) override;

 private:
  enum class Stage { kInit, kRun, kDone };
  void header(const Submission& submission);
  void dlrm_keys(bool closed);
  void dcnv2_keys();
  void dlrmv4_keys();
  [[nodiscard]] bool is(config::Benchmark of) const { return benchmark_ == of; }
  // `value` is JSON; `metadata` more members of that object: R("epoch_num": 1.05)".
  void line(const char* type, const char* key, std::string_view value,
            std::string_view metadata = {});
  void point(const char* key, std::string_view value, std::string_view metadata = {});
  [[nodiscard]] std::string epoch(int64_t iter) const;
  [[nodiscard]] std::string of_epoch(int64_t iter) const;
  void stop(int64_t iter, bool success);

  const config::TrainConfig& config_;
  const config::Benchmark benchmark_;
  LineFile file_;
  Stage stage_ = Stage::kInit;
  ReadyEvent ready_;
  int64_t last_iter_ = 0;  // that was reported
  bool target_reached_ = false;
};

}  // namespace hlite::trainer
