// The metrics file: one JSON object a line, flushed line by line.
//
//   {"event":"train","iter":50,"loss":0.42,"batch_loss":0.41,"lr":0.5,"samples_per_s":1.2e5,
//    "wait_share":0.001}, "loss": the mean since the line before, "batch_loss": of this iteration
//   {"event":"eval","iter":100,"auc":0.78,"loss":0.53,"samples":8192,"seconds":0.1}
//   {"event":"gpu","iter":50,"watts":605.2,"joules":1810.5,"gpus":[{"device":0,"watts":310.1,
//    "sm_mhz":1755,"memory_mhz":2619,"celsius":61,"slowed_by":["power limit"]},..]}, after a
//    "train" on GPUs whose driver reports it (gpu_monitor.h); missing values are left out
//   {"event":"progressive","file":"day_02.bin",...}, as "eval", of a file of a folder that is
//    followed, before it is trained on. A run that goes on from before that file scores it again,
//    and writes the line if it has other numbers.
//   {"event":"test",...}, as "eval", of test_source, with the weights that are kept in the end
//   {"event":"end","iter":300,"samples":76800,"seconds":9.1,"samples_per_s":..,"peak_rss_bytes":..,
//    "reason":"max_iter"|"epochs"|"target"|"interrupted"|"early_stop"|"end_of_data"
//    [,"gpu_joules":..]}
//
//   {"event":"tables","iterations":300,"decision":["embedding_memory \"auto\": .."],"layers":[{
//    "layer":"emb","first_tier":"memory","second_tier":"the disk /nvme","rows":187767399,
//    "resident_rows":7812500,"row_bytes":512,"resident_share":0.979,"read_rows":270.5,
//    "written_rows":268.1,"read_bytes":1.1e6,"written_bytes":1.4e5,"expected_resident_share":0.981,
//    "expected_read_bytes":..,"expected_written_bytes":..},..]}, with solver.embedding_memory: of
//    training on rank 0, rows and bytes of an iteration; what is not known is left out
//   {"event":"vocabulary","iter":2000,"layers":[{"layer":"emb","rows":81000,"candidates":5200,
//    "inserted":120000,"expired":39000,"rare":0,"small":0,"displaced":0,"refused":7100},..]}, of
//    hash tables with admission, eviction or when_full, whenever rows may have left and at the end:
//    rows and counted keys of all ranks now, the others since the run began
//   {"event":"save_failed","iter":2000,"error":"..."}, with solver.on_save_error "continue": the
//    iteration of the checkpoint that is missing
//   {"event":"traffic","iterations":300,...} (trainer/run/traffic.h), on several ranks
//
// The names are those of event_numbers.h. A metric that does not exist (an AUC of one class only)
// is null. "seconds" of an evaluation is the time for which training paused. A GPU's metrics are
// computed while training goes on: their line comes a little later, but before the next line of
// another iteration.
#pragma once

#include <set>
#include <string>

#include "hugectr_lite/trainer/report/line_file.h"
#include "hugectr_lite/trainer/report/run_record.h"

namespace hlite::trainer {

class MetricsFile final : public RunRecord {
 public:
  // Throws FileError when the file cannot be opened.
  MetricsFile(const std::string& path, bool append);
  void train(const TrainEvent& e) override;
  void gpus(const GpuEvent& e) override;
  void eval(int64_t iter, const EvalResult& e) override;
  void test(int64_t iter, const EvalResult& e) override;
  void progressive(int64_t iter, const std::string& file, const EvalResult& e) override;
  void traffic(const std::string& json) override;
  void tables(const TablesEvent& e) override;
  void vocabulary(const VocabularyEvent& e) override;
  void save_failed(int64_t iter, const std::string& why) override;
  void ended(const EndEvent& e) override;

 private:
  LineFile file_;
  // "progressive" lines of the run that this one goes on with, up to their seconds.
  std::set<std::string> scored_;
};

}  // namespace hlite::trainer
