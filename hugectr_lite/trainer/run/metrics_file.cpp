#include "hugectr_lite/trainer/run/metrics_file.h"

#include <cctype>

#include "hugectr_lite/core/error.h"

namespace hlite::trainer {
void MetricsFile::train(const TrainEvent& e) {
  file_.write(fmt::format(
      R"({{"event":"train","iter":{},"loss":{},"lr":{},"samples_per_s":{},"wait_share":{}}})",
      e.iter, json_number(e.loss), json_number(e.lr), json_number(e.samples_per_s),
      json_number(e.wait_share)));
}

namespace {

// "NDCG@10" -> "ndcg@10", "HitRate@5" -> "hit_rate@5"
std::string member_name(const std::string& metric) {
  std::string name;
  for (size_t i = 0; i < metric.size(); ++i) {
    const auto c = static_cast<unsigned char>(metric[i]);
    if (i > 0 && std::isupper(c) != 0 && std::islower(metric[i - 1]) != 0) name += '_';
    name += static_cast<char>(std::tolower(c));
  }
  return name;
}

// Of several: ,"tasks":[{"auc":..,"loss":..,"samples":..},..]
std::string tasks_text(const EvalResult& e) {
  std::string text;
  for (const TaskResult& t : e.tasks)
    text += fmt::format(R"({}{{"auc":{},"loss":{},"samples":{}}})", text.empty() ? "" : ",",
                        json_number(t.auc), json_number(t.loss), t.samples);
  return text.empty() ? text : R"(,"tasks":[)" + text + "]";
}

std::string evaluation_line(const char* event, int64_t iter, const EvalResult& e) {
  std::string more;
  for (const auto& [name, value] : e.more)
    more += fmt::format(R"("{}":{},)", member_name(name), json_number(value));
  return fmt::format(
      R"({{"event":"{}","iter":{},"auc":{},"loss":{},{}"samples":{},"seconds":{}{}}})", event, iter,
      json_number(e.auc), json_number(e.loss), more, e.samples, json_number(e.seconds),
      tasks_text(e));
}

}  // namespace

// What is known, one digit behind the point.
void MetricsFile::gpus(const GpuEvent& e) {
  const auto member = [](const char* name, const std::optional<double>& value) {
    return value ? fmt::format(R"("{}":{:.1f},)", name, *value) : "";
  };
  std::string list;
  for (const GpuState& gpu : e.gpus) {
    std::string slowed;
    for (const std::string& reason : gpu.slowed_by)
      slowed += fmt::format(R"({}"{}")", slowed.empty() ? "" : ",", reason);
    list +=
        fmt::format(R"({}{{"device":{},{}{}{}{}"slowed_by":[{}]}})", list.empty() ? "" : ",",
                    gpu.device, member("watts", gpu.watts), member("sm_mhz", gpu.sm_mhz),
                    member("memory_mhz", gpu.memory_mhz), member("celsius", gpu.celsius), slowed);
  }
  file_.write(fmt::format(R"({{"event":"gpu","iter":{},{}{}"gpus":[{}]}})", e.iter,
                          member("watts", e.watts), member("joules", e.joules), list));
}

void MetricsFile::eval(int64_t iter, const EvalResult& e) {
  file_.write(evaluation_line("eval", iter, e));
}

void MetricsFile::test(int64_t iter, const EvalResult& e) {
  file_.write(evaluation_line("test", iter, e));
}

void MetricsFile::traffic(const std::string& json) {
  file_.write(R"({"event":"traffic",)" + json.substr(1));
}

void MetricsFile::ended(const EndEvent& e) {
  file_.write(fmt::format(
      R"({{"event":"end","iter":{},"samples":{},"seconds":{},"samples_per_s":{},"peak_rss_bytes":{},"reason":"{}"{}}})",
      e.iter, e.samples, json_number(e.seconds), json_number(e.samples_per_s), e.peak_rss_bytes,
      e.reason, e.gpu_joules ? fmt::format(R"(,"gpu_joules":{:.1f})", *e.gpu_joules) : ""));
}

}  // namespace hlite::trainer
