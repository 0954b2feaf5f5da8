// A run as one HTML page (page.h). It is written anew while the run goes on, each time whole or not
// at all, so one of a run that was killed says how far that came.
#pragma once

#include <string>
#include <vector>

#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/core/stopwatch.h"
#include "hugectr_lite/trainer/report/page.h"
#include "hugectr_lite/trainer/report/power_meter.h"
#include "hugectr_lite/trainer/report/run_record.h"

namespace hlite::trainer {

class HtmlReport final : public RunRecord {
 public:
  // Throws FileError when the page cannot be written. `config` must outlive it.
  HtmlReport(std::string path, const config::TrainConfig& config);

  void ready(const ReadyEvent& e) override;
  void train(const TrainEvent& e) override;
  void gpus(const GpuEvent& e) override;
  void eval(int64_t iter, const EvalResult& e) override;
  void test(int64_t iter, const EvalResult& e) override;
  void progressive(int64_t iter, const std::string& file, const EvalResult& e) override;
  void traffic(const std::string& json) override;
  void tables(const TablesEvent& e) override;
  void vocabulary(const VocabularyEvent& e) override;
  void steps(const StepsEvent& e) override;
  void ended(const EndEvent& e) override;
  void failed(const std::string& why) override;

 private:
  struct Evaluation {
    int64_t iter;
    EvalResult result;
    std::string file = {};  // that was scored before it was trained on
  };
  void write();
  [[nodiscard]] std::string page() const;
  // Nodes of the page; "" where there is nothing to show.
  [[nodiscard]] Json head() const;
  [[nodiscard]] Json tiles() const;
  [[nodiscard]] Json charts() const;
  [[nodiscard]] Json file_charts() const;
  [[nodiscard]] Json rising_loss() const;
  [[nodiscard]] Json step_section() const;
  [[nodiscard]] Json traffic_section() const;
  [[nodiscard]] Json tables_section() const;
  [[nodiscard]] Json vocabulary_section() const;
  [[nodiscard]] Json evaluation_section() const;
  [[nodiscard]] Json machine_section() const;
  [[nodiscard]] Json numbers() const;
  [[nodiscard]] double wait_share() const;

  const std::string path_;
  const config::TrainConfig& config_;
  const PowerMeter power_;
  Clock::time_point written_;
  ReadyEvent ready_;
  std::vector<TrainEvent> train_;
  std::vector<GpuEvent> gpus_;
  std::vector<Evaluation> evals_, tests_, files_;
  std::string traffic_;
  TablesEvent tables_;
  std::vector<VocabularyEvent> vocabularies_;
  StepsEvent steps_;
  EndEvent end_;  // once ended_
  bool ended_ = false;
  std::string failure_;  // why, if it failed
};

}  // namespace hlite::trainer
