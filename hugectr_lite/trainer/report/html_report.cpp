#include "hugectr_lite/trainer/report/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/live_line.h"
#include "hugectr_lite/core/output_place.h"
#include "hugectr_lite/trainer/report/event_numbers.h"
#include "hugectr_lite/trainer/report/gpu_section.h"
#include "hugectr_lite/trainer/report/html_style.h"
#include "hugectr_lite/trainer/report/line_chart.h"
#include "hugectr_lite/trainer/report/line_file.h"
#include "hugectr_lite/trainer/report/step_verdict.h"

namespace hlite::trainer {
namespace {

constexpr double kSecondsBetweenPages = 10;
constexpr double kSmallShare = 0.01;  // steps of less stand together

std::string cell(const std::string& text) { return "<td>" + text + "</td>"; }
std::string words(const std::string& text) {
  return "<td class=\"words\">" + html_escaped(text) + "</td>";
}
std::string header(std::initializer_list<const char*> names) {
  std::string row = "<tr>";
  for (const char* name : names) row += fmt::format("<th>{}</th>", name);
  return row + "</tr>\n";
}
std::string tile(const std::string& value, const std::string& name) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", html_escaped(value),
                     html_escaped(name));
}
std::string section(const std::string& title, const std::string& body) {
  return body.empty() ? "" : fmt::format("<section><h2>{}</h2>\n{}</section>\n", title, body);
}
std::string item(const std::string& name, const std::string& value) {
  return fmt::format("<dt>{}</dt><dd>{}</dd>\n", html_escaped(name), html_escaped(value));
}
// The bar's full length is the longest step.
std::string step_row(const StepTime& s, const StepVerdict& v, double all, double longest) {
  const double bound = std::min(v.lower_bound_seconds, s.seconds),
               scale = longest > 0 ? 100 / longest : 0;
  return "<tr>" + cell(html_escaped(s.name)) + "<td class=\"left\">" + s.lane + "</td>" +
         cell(fmt::format("{:.3f}", s.seconds * 1e3)) +
         cell(v.lower_bound_seconds > 0 ? fmt::format("{:.3f}", v.lower_bound_seconds * 1e3) : "") +
         cell(fmt::format("{:.1f} %", all > 0 ? 100 * s.seconds / all : 0)) +
         cell(fmt::format("<span class=\"bar\"><i class=\"f\" style=\"width:{:.1f}%\"></i><i "
                          "class=\"r\" style=\"width:{:.1f}%\"></i></span>",
                          bound * scale, (s.seconds - bound) * scale)) +
         words(v.words) + "</tr>\n";
}
std::string megabytes(double bytes) { return fmt::format("{:.3f}", bytes * 1e-6); }

}  // namespace

HtmlReport::HtmlReport(std::string path, const config::TrainConfig& config)
    : path_(std::move(path)), config_(config) {
  write();
}

void HtmlReport::ready(const ReadyEvent& e) {
  ready_ = e;
  write();
}
void HtmlReport::train(const TrainEvent& e) {
  train_.push_back(e);
  if (seconds_since(written_) > kSecondsBetweenPages) write();
}
void HtmlReport::gpus(const GpuEvent& e) { gpus_.push_back(e); }
void HtmlReport::eval(int64_t iter, const EvalResult& e) {
  evals_.push_back({iter, e});
  if (seconds_since(written_) > kSecondsBetweenPages) write();
}
void HtmlReport::test(int64_t iter, const EvalResult& e) { tests_.push_back({iter, e}); }
void HtmlReport::traffic(const std::string& json) { traffic_ = json; }
void HtmlReport::tables(const TablesEvent& e) { tables_ = e; }

void HtmlReport::vocabulary(const VocabularyEvent& e) { vocabularies_.push_back(e); }
void HtmlReport::steps(const StepsEvent& e) { steps_ = e; }
void HtmlReport::ended(const EndEvent& e) {
  end_ = e;
  ended_ = true;
  write();
}
void HtmlReport::failed(const std::string& why) {
  failure_ = why;
  write();
}

// Written under a temporary name, then renamed.
void HtmlReport::write() {
  const std::string half = temporary_file(path_);
  LineFile(half, /*append=*/false, "the report").write(page());
  std::error_code error;
  std::filesystem::rename(half, path_, error);
  if (error) raise<FileError>("{}: cannot write the report: {}", path_, error.message());
  written_ = Clock::now();
}

double HtmlReport::wait_share() const {
  double sum = 0;
  for (const TrainEvent& e : train_) sum += e.wait_share;
  return train_.empty() ? 0 : sum / static_cast<double>(train_.size());
}

std::string HtmlReport::head() const {
  const std::string name = config_.root.where().substr(0, config_.root.where().find(':'));
  std::string state =
      "<span class=\"state live\">running</span>, or killed: as of the last line "
      "that was shown";
  if (!failure_.empty())
    state = "<span class=\"state bad\">failed</span>: " + html_escaped(failure_);
  else if (ended_ && end_.reason == EndReason::kInterrupted)
    state = "<span class=\"state live\">interrupted</span> and saved";
  else if (ended_)
    state = fmt::format("<span class=\"state good\">{}</span>",
                        end_.reason == EndReason::kTarget ? "target reached" : "done");
  return fmt::format(
      "<h1>{}</h1>\n<p>{}</p>\n<p class=\"soft\">hugectr_lite {}, seed {}, batches of {}, {} rank{}"
      "</p>\n",
      html_escaped(std::filesystem::path(name).filename().string()), state, kVersion, ready_.seed,
      config_.solver.batchsize, config_.solver.ranks(), config_.solver.ranks() == 1 ? "" : "s");
}

std::string HtmlReport::tiles() const {
  std::string text;
  const Evaluation* best = nullptr;
  for (const Evaluation& e : evals_)
    if (e.result.auc && (!best || *e.result.auc > *best->result.auc)) best = &e;
  if (best)
    text += tile(fmt::format("{:.5f}", *best->result.auc),
                 fmt::format("best AUC, iteration {}", best->iter));
  for (const Evaluation& e : tests_) {
    if (e.result.auc) text += tile(fmt::format("{:.5f}", *e.result.auc), "AUC of the test set");
    text += tile(fmt::format("{:.5f}", e.result.loss), "loss of the test set");
  }
  if (!train_.empty())
    text += tile(fmt::format("{:.5f}", train_.back().loss), "last training loss");
  const int64_t iterations = ended_ ? end_.iter : train_.empty() ? ready_.iter : train_.back().iter;
  text += tile(fmt::format("{}", iterations),
               ready_.last_iter == kNoEnd ? "iterations"
                                          : fmt::format("iterations of {}", ready_.last_iter));
  if (ended_) {
    text += tile(short_number(end_.samples_per_s), "samples/s");
    text += tile(duration_text(end_.seconds), "in all");
    text += tile(bytes_text(end_.peak_rss_bytes), "memory at most");
    if (end_.replaced_share)
      text += tile(fmt::format("{:.1f} %", 100 * *end_.replaced_share),
                   "of training keys replaced (key_policy)");
  }
  if (!train_.empty())
    text += tile(fmt::format("{:.1f} %", 100 * wait_share()), "waiting for data");
  return "<div class=\"tiles\">\n" + text + "</div>\n";
}

std::string HtmlReport::charts() const {
  ChartLine loss{.name = "training"}, eval_loss{.name = "evaluation", .marks = true},
      auc{.name = "AUC", .marks = true}, rate{.name = "samples/s"}, wait{.name = "waiting, %"},
      lr{.name = "learning rate"};
  for (const TrainEvent& e : train_) {
    const auto iter = static_cast<double>(e.iter);
    loss.points.emplace_back(iter, e.loss);
    rate.points.emplace_back(iter, e.samples_per_s);
    wait.points.emplace_back(iter, 100 * e.wait_share);
    lr.points.emplace_back(iter, e.lr);
  }
  for (const Evaluation& e : evals_) {
    eval_loss.points.emplace_back(static_cast<double>(e.iter), e.result.loss);
    if (e.result.auc) auc.points.emplace_back(static_cast<double>(e.iter), *e.result.auc);
  }
  std::string text = svg_of({"Loss", "iteration", {loss, eval_loss}});
  text += svg_of({"AUC", "iteration", {auc}});
  text += svg_of({"Throughput, samples/s", "iteration", {rate}, true});
  text += svg_of({"Waiting for data, % of the time", "iteration", {wait}, true});
  text += svg_of({"Learning rate", "iteration", {lr}, true});
  return "<div class=\"charts\">\n" + text + "</div>\n" + rising_loss();
}

// A loss that rises while training goes on means that the model learns its samples by heart.
std::string HtmlReport::rising_loss() const {
  constexpr double kNoise = 1.01;
  if (evals_.empty()) return "";
  const Evaluation& lowest = *std::min_element(
      evals_.begin(), evals_.end(),
      [](const Evaluation& a, const Evaluation& b) { return a.result.loss < b.result.loss; });
  const Evaluation& last = evals_.back();
  if (!(last.result.loss > kNoise * lowest.result.loss)) return "";
  return fmt::format(
      "<p><span class=\"state bad\">The evaluation loss rises</span>: it was lowest after iteration "
      "{} ({:.5f}), and is {:.5f} after iteration {}. The model overfits its training data: a larger "
      "penalty, dropout, a lower learning rate or solver.early_stop on AverageLoss helps.</p>\n",
      lowest.iter, lowest.result.loss, last.result.loss, last.iter);
}

std::string HtmlReport::step_section() const {
  if (steps_.steps.empty())
    return ended_
               ? "<p>Steps were not timed here: on a GPU they are one graph. train_bench --device "
                 "cuda times them one by one.</p>\n"
               : "";
  const RunVerdict verdict = verdict_of(steps_.steps, steps_.rates, wait_share());
  double all = 0, longest = 0;
  for (const StepTime& s : steps_.steps) {
    all += s.seconds;
    longest = std::max(longest, s.seconds);
  }
  const std::string head =
      "<tr><th>step</th><th class=\"left\">lane</th><th>ms</th><th>lower bound, ms</th>"
      "<th>share</th><th class=\"left\">lower bound and time</th><th class=\"left\">verdict</th></tr>\n";
  std::string large = head, small = head;
  int small_steps = 0;
  double small_seconds = 0;
  for (const StepTime& s : steps_.steps) {
    const bool is_small = s.seconds < kSmallShare * all;
    small_steps += is_small ? 1 : 0;
    small_seconds += is_small ? s.seconds : 0;
    (is_small ? small : large) += step_row(s, verdict_of(s, steps_.rates, all), all, longest);
  }
  std::string text = fmt::format(
      "<p><b>Bound by {}.</b> What would help: {}.</p>\n<p class=\"soft\">Mean of {} iterations, "
      "rank 0; {:.3f} ms of steps. Lower bounds: {:.0f} GFLOP/s of fp32 products and {:.1f} GB/s "
      "of a copy, measured after the run.</p>\n<div class=\"wide\"><table>\n{}</table></div>\n",
      html_escaped(verdict.bound), html_escaped(verdict.change), steps_.iterations, all * 1e3,
      steps_.rates.flops * 1e-9, steps_.rates.bytes * 1e-9, large);
  if (small_steps > 0)
    text += fmt::format(
        "<details><summary>{} steps of less than 1 % each, {:.1f} % together</summary><div "
        "class=\"wide\"><table>\n{}</table></div></details>\n",
        small_steps, all > 0 ? 100 * small_seconds / all : 0, small);
  return text;
}

std::string HtmlReport::traffic_section() const {
  if (traffic_.empty()) return "";
  const auto report = nlohmann::json::parse(traffic_);
  std::string rows = header({"step", "in node, MB", "between nodes, MB", "messages"});
  const auto row = [&](const std::string& name, const nlohmann::json& t) {
    rows += "<tr>" + cell(html_escaped(name)) + cell(megabytes(t.at("intra_bytes"))) +
            cell(megabytes(t.at("inter_bytes"))) +
            cell(fmt::format("{:.1f}", t.at("intra_messages").get<double>() +
                                           t.at("inter_messages").get<double>())) +
            "</tr>\n";
  };
  for (const auto& step : report.at("steps")) row(step.at("step"), step);
  row("plain model-parallel embedding instead", report.at("plain"));
  return "<p class=\"soft\">Sent by all ranks together in an iteration, mean.</p>\n<div "
         "class=\"wide\"><table>\n" +
         rows + "</table></div>\n";
}

// The last event of each layer, and the rows of each over the run.
std::string HtmlReport::vocabulary_section() const {
  if (vocabularies_.empty()) return "";
  std::map<std::string, embedding::VocabularyCounts> last;
  std::map<std::string, int64_t> most;
  for (const VocabularyEvent& event : vocabularies_)
    for (const auto& [name, counts] : event.layers) {
      last[name] = counts;
      most[name] = std::max(most[name], counts.rows);
    }
  std::string rows =
      header({"layer", "rows", "most rows", "keys counted", "rows that came", "left unused",
              "left as rare", "left as small", "evicted when full", "requests without a row"});
  for (const auto& [name, n] : last) {
    rows += "<tr>" + cell(html_escaped(name));
    for (const int64_t number : {n.rows, most[name], n.candidates, n.inserted, n.expired, n.rare,
                                 n.small, n.displaced, n.refused})
      rows += cell(fmt::format("{}", number));
    rows += "</tr>\n";
  }
  return "<p class=\"soft\">Of all ranks. Most rows: of those times when rows may have left.</p>\n"
         "<div class=\"wide\"><table>\n" +
         rows + "</table></div>\n";
}

std::string HtmlReport::tables_section() const {
  std::string text;
  for (const std::string& line : tables_.decision) text += "<p>" + html_escaped(line) + "</p>\n";
  if (tables_.layers.empty()) return text;
  std::string rows = header({"layer", "rows", "held", "in", "others", "lookups found, %",
                             "expected, %", "MB read", "expected", "MB written", "expected"});
  for (size_t i = 0; i < tables_.layers.size(); ++i) {
    const LayerTiers& t = tables_.layers[i];
    const embedding::RowCacheCounts& m = tables_.moved[i];
    const auto each = [&](int64_t bytes) {
      return cell(megabytes(static_cast<double>(bytes) /
                            static_cast<double>(std::max<int64_t>(1, tables_.iterations))));
    };
    const auto expected = [&](auto&& text_of) {
      return cell(t.forecast ? text_of(*t.forecast) : "unknown");
    };
    using Forecast = embedding::TierForecast;
    rows += "<tr>" + cell(html_escaped(t.name)) + cell(fmt::format("{}", t.rows)) +
            cell(fmt::format("{}", t.resident)) + cell(t.first) + cell(html_escaped(t.second)) +
            cell(fmt::format("{:.2f}", 100 * m.resident_share())) + expected([](const Forecast& f) {
              return fmt::format("{:.2f}", 100 * f.rows.resident_share());
            }) +
            each(m.read_bytes) +
            expected([](const Forecast& f) { return megabytes(f.read_bytes); }) +
            each(m.written_bytes) +
            expected([](const Forecast& f) { return megabytes(f.written_bytes); }) + "</tr>\n";
  }
  return text +
         "<p class=\"soft\">Of training on rank 0; megabytes of an iteration.</p>\n<div "
         "class=\"wide\"><table>\n" +
         rows + "</table></div>\n";
}

std::string HtmlReport::evaluation_section() const {
  if (evals_.empty() && tests_.empty()) return "";
  std::string rows = "<tr><th>iter</th>";
  for (const NamedNumber& n : numbers_of((evals_.empty() ? tests_ : evals_)[0].result))
    rows += "<th>" + html_escaped(n.name) + "</th>";
  rows += "</tr>\n";
  const auto add = [&](const std::string& name, const EvalResult& result) {
    rows += "<tr>" + cell(name);
    for (const NamedNumber& n : numbers_of(result))
      rows += cell(n.value ? fmt::format("{:.8g}", *n.value) : "one class only");
    rows += "</tr>\n";
  };
  for (const Evaluation& e : evals_) add(fmt::format("{}", e.iter), e.result);
  for (const Evaluation& e : tests_) add("test set", e.result);
  return "<div class=\"wide\"><table>\n" + rows + "</table></div>\n";
}

std::string HtmlReport::machine_section() const {
  const std::string processor = power_.processor();
  const auto watts = power_.watts(), clock = power_.megahertz();
  std::string text = item("device", steps_.device.empty() ? "not known yet" : steps_.device);
  text += item("processor", processor.empty() ? "not said by the system" : processor);
  text += item("clock", clock ? fmt::format("{:.0f} MHz", *clock) : "not said by the system");
  text += item("power", watts ? fmt::format("{:.1f} W, mean of all processor packages", *watts)
                              : "no counter that may be read");
  if (watts && ended_ && end_.samples > 0)
    text += item("energy",
                 fmt::format("{:.3g} J a million samples",
                             *watts * end_.seconds / static_cast<double>(end_.samples) * 1e6));
  if (end_.gpu_joules && end_.samples > 0)
    text += item("energy of the GPUs",
                 fmt::format("{:.3g} J a million samples",
                             *end_.gpu_joules / static_cast<double>(end_.samples) * 1e6));
  text += item("training data",
               fmt::format("{}, {} samples", config_.data.source, ready_.train_samples));
  if (ready_.eval_samples > 0)
    text += item("evaluation data",
                 fmt::format("{}, {} samples", config_.data.eval_source, ready_.eval_samples));
  return "<dl>\n" + text + "</dl>\n";
}

// A list for each name of the metrics file: {"iter":[10,20],"loss":[0.5,0.4],...}. A line that lacks
// a name, as replaced_share where no key was replaced, has null.
static std::string columns_text(
    const std::vector<std::pair<int64_t, std::vector<NamedNumber>>>& lines) {
  std::vector<std::string> names;
  for (const auto& line : lines)
    for (const NamedNumber& number : line.second)
      if (std::find(names.begin(), names.end(), number.name) == names.end())
        names.push_back(number.name);
  std::string text = "\"iter\":[";
  for (const auto& line : lines)
    text += fmt::format("{}{}", &line == &lines[0] ? "" : ",", line.first);
  text += "]";
  for (const std::string& name : names) {
    text += fmt::format(",\n\"{}\":[", name);
    for (const auto& line : lines) {
      const auto found =
          std::find_if(line.second.begin(), line.second.end(),
                       [&](const NamedNumber& number) { return number.name == name; });
      text += (&line == &lines[0] ? "" : ",") +
              json_number(found == line.second.end() ? std::nullopt : found->value);
    }
    text += "]";
  }
  return "{" + text + "}";
}

std::string HtmlReport::numbers() const {
  std::vector<std::pair<int64_t, std::vector<NamedNumber>>> train, eval, test;
  for (const TrainEvent& e : train_) train.emplace_back(e.iter, numbers_of(e));
  for (const Evaluation& e : evals_) eval.emplace_back(e.iter, numbers_of(e.result));
  for (const Evaluation& e : tests_) test.emplace_back(e.iter, numbers_of(e.result));
  const std::string of_test = test.empty() ? "" : ",\n\"test\":" + columns_text(test);
  return "<script type=\"application/json\" id=\"numbers\">\n{\"train\":" + columns_text(train) +
         ",\n\"eval\":" + columns_text(eval) + of_test + "}\n</script>\n";
}

std::string HtmlReport::page() const {
  std::string text = page_head("hugectr_lite run") + head() + tiles() + charts();
  text += section("What took the time", step_section());
  text += section("Traffic", traffic_section());
  text += section("Tables beyond memory", tables_section());
  text += section("Vocabulary of hash tables", vocabulary_section());
  text += section("GPUs", gpu_section(gpus_));
  text += section("Evaluations", evaluation_section());
  text += section("Machine and data", machine_section());
  const auto config = nlohmann::ordered_json::parse(config_.root.dump());
  text += "<section><details><summary>Config</summary><pre>" + html_escaped(config.dump(2)) +
          "</pre></details></section>\n";
  return text + numbers() + "</main></body></html>\n";
}

}  // namespace hlite::trainer
