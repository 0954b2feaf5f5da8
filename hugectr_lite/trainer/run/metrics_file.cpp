#include "hugectr_lite/trainer/run/metrics_file.h"

#include "hugectr_lite/core/error.h"

namespace hlite::trainer {
void MetricsFile::train(const TrainEvent& e) {
  file_.write(fmt::format(
      R"({{"event":"train","iter":{},"loss":{},"lr":{},"samples_per_s":{},"wait_share":{}}})",
      e.iter, json_number(e.loss), json_number(e.lr), json_number(e.samples_per_s),
      json_number(e.wait_share)));
}

// Of several: ,"tasks":[{"auc":..,"loss":..,"samples":..},..]
static std::string tasks_text(const EvalResult& e) {
  std::string text;
  for (const TaskResult& t : e.tasks)
    text += fmt::format(R"({}{{"auc":{},"loss":{},"samples":{}}})", text.empty() ? "" : ",",
                        t.auc ? json_number(*t.auc) : "null", json_number(t.loss), t.samples);
  return text.empty() ? text : R"(,"tasks":[)" + text + "]";
}

void MetricsFile::eval(int64_t iter, const EvalResult& e) {
  file_.write(
      fmt::format(R"({{"event":"eval","iter":{},"auc":{},"loss":{},"samples":{},"seconds":{}{}}})",
                  iter, e.auc ? json_number(*e.auc) : "null", json_number(e.loss), e.samples,
                  json_number(e.seconds), tasks_text(e)));
}

void MetricsFile::traffic(const std::string& json) {
  file_.write(R"({"event":"traffic",)" + json.substr(1));
}

void MetricsFile::ended(const EndEvent& e) {
  file_.write(fmt::format(
      R"({{"event":"end","iter":{},"samples":{},"seconds":{},"samples_per_s":{},"peak_rss_bytes":{},"reason":"{}"}})",
      e.iter, e.samples, json_number(e.seconds), json_number(e.samples_per_s), e.peak_rss_bytes,
      e.reason));
}

}  // namespace hlite::trainer
