#include "hugectr_lite/trainer/report/metrics_file.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/trainer/report/event_numbers.h"

namespace hlite::trainer {

namespace {

std::string json_string(const std::string& text) { return nlohmann::json(text).dump(); }

// Returns the text of several tasks: ,"tasks":[{"auc":..,"loss":..,"samples":..},..]
std::string tasks_text(const EvalResult& e) {
  std::string text;
  for (const TaskResult& t : e.tasks)
    text += fmt::format("{}{{{}}}", text.empty() ? "" : ",", json_members(numbers_of(t)));
  return text.empty() ? text : R"(,"tasks":[)" + text + "]";
}

std::string evaluation_line(const char* event, int64_t iter, const EvalResult& e) {
  return fmt::format(R"({{"event":"{}","iter":{},{}{}}})", event, iter, json_members(numbers_of(e)),
                     tasks_text(e));
}

std::string up_to_seconds(const std::string& line) {
  return line.substr(0, line.find(R"("seconds")"));
}

}  // namespace

MetricsFile::MetricsFile(const std::string& path, bool append)
    : file_(path, append, "the metrics file") {
  if (!append || !std::filesystem::is_regular_file(path)) return;
  std::ifstream earlier(path);
  for (std::string line; std::getline(earlier, line);)
    if (line.starts_with(R"({"event":"progressive")")) scored_.insert(up_to_seconds(line));
}

// Writes what is known, one digit after the point.
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

void MetricsFile::train(const TrainEvent& e) {
  file_.write(
      fmt::format(R"({{"event":"train","iter":{},{}}})", e.iter, json_members(numbers_of(e))));
}

void MetricsFile::eval(int64_t iter, const EvalResult& e) {
  file_.write(evaluation_line("eval", iter, e));
}

void MetricsFile::test(int64_t iter, const EvalResult& e) {
  file_.write(evaluation_line("test", iter, e));
}

void MetricsFile::progressive(int64_t iter, const std::string& file, const EvalResult& e) {
  const std::string line =
      fmt::format(R"({{"event":"progressive","iter":{},"file":{},{}{}}})", iter, json_string(file),
                  json_members(numbers_of(e)), tasks_text(e));
  if (scored_.count(up_to_seconds(line)) == 0) file_.write(line);
}

void MetricsFile::traffic(const std::string& json) {
  file_.write(R"({"event":"traffic",)" + json.substr(1));
}

void MetricsFile::tables(const TablesEvent& e) {
  std::string decision, layers;
  for (const std::string& line : e.decision)
    decision += fmt::format("{}{}", decision.empty() ? "" : ",", json_string(line));
  for (size_t i = 0; i < e.layers.size(); ++i)
    layers += fmt::format(R"({}{{"layer":{},"first_tier":{},"second_tier":{},{}}})",
                          layers.empty() ? "" : ",", json_string(e.layers[i].name),
                          json_string(e.layers[i].first), json_string(e.layers[i].second),
                          json_members(numbers_of(e.layers[i], e.moved[i], e.iterations)));
  file_.write(fmt::format(R"({{"event":"tables","iterations":{},"decision":[{}],"layers":[{}]}})",
                          e.iterations, decision, layers));
}

void MetricsFile::vocabulary(const VocabularyEvent& e) {
  std::string layers;
  for (const auto& [name, counts] : e.layers)
    layers += fmt::format(R"({}{{"layer":{},{}}})", layers.empty() ? "" : ",", json_string(name),
                          json_members(numbers_of(counts)));
  file_.write(fmt::format(R"({{"event":"vocabulary","iter":{},"layers":[{}]}})", e.iter, layers));
}

void MetricsFile::save_failed(int64_t iter, const std::string& why) {
  file_.write(
      fmt::format(R"({{"event":"save_failed","iter":{},"error":{}}})", iter, json_string(why)));
}

void MetricsFile::ended(const EndEvent& e) {
  file_.write(fmt::format(
      R"({{"event":"end","iter":{},"samples":{},"seconds":{},"samples_per_s":{},"peak_rss_bytes":{},"reason":"{}"{}{}}})",
      e.iter, e.samples, json_number(e.seconds), json_number(e.samples_per_s), e.peak_rss_bytes,
      name_of(e.reason), e.gpu_joules ? fmt::format(R"(,"gpu_joules":{:.1f})", *e.gpu_joules) : "",
      e.replaced_share ? fmt::format(R"(,"replaced_share":{})", *e.replaced_share) : ""));
}

}  // namespace hlite::trainer
