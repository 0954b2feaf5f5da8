// The metrics file: one JSON object a line, flushed line by line.
//
//   {"event":"train","iter":50,"loss":0.41,"lr":0.5,"samples_per_s":1.2e5,"wait_share":0.001}
//   {"event":"eval","iter":100,"auc":0.78,"loss":0.53,"samples":8192,"seconds":0.1}
//   {"event":"gpu","iter":50,"watts":605.2,"joules":1810.5,"gpus":[{"device":0,"watts":310.1,
//    "sm_mhz":1755,"memory_mhz":2619,"celsius":61,"slowed_by":["power limit"]},..]}, behind a
//    "train" on GPUs whose driver tells (gpu_monitor.h); what it does not tell is left out
//   {"event":"test",...}, as "eval", of test_source, with the weights that are kept in the end
//   {"event":"end","iter":300,"samples":76800,"seconds":9.1,"samples_per_s":..,"peak_rss_bytes":..,
//    "reason":"max_iter"|"target"|"interrupted"|"early_stop"[,"gpu_joules":..]}
//
//   {"event":"traffic","iterations":300,...} (trainer/run/traffic.h), on several ranks
//
// Further metrics of solver.eval_metrics are members of an evaluation: "calibration", "gauc",
// "ndcg@10", "hit_rate@10". A metric that does not exist (an AUC of one class only) is null.
// "seconds" of an evaluation are those that training stood still for it. A GPU computes its metrics
// beside training: its line comes a little later, but before the next of another iteration.
#pragma once

#include <string>

#include "hugectr_lite/trainer/run/line_file.h"
#include "hugectr_lite/trainer/run/run_record.h"

namespace hlite::trainer {

class MetricsFile final : public RunRecord {
 public:
  // Throws FileError when the file cannot be opened.
  MetricsFile(const std::string& path, bool append) : file_(path, append, "the metrics file") {}
  void train(const TrainEvent& e) override;
  void gpus(const GpuEvent& e) override;
  void eval(int64_t iter, const EvalResult& e) override;
  void test(int64_t iter, const EvalResult& e) override;
  void traffic(const std::string& json) override;
  void ended(const EndEvent& e) override;

 private:
  LineFile file_;
};

}  // namespace hlite::trainer
