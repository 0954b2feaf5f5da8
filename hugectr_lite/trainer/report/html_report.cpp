#include "hugectr_lite/trainer/report/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/live_line.h"
#include "hugectr_lite/core/output_place.h"
#include "hugectr_lite/trainer/report/event_numbers.h"
#include "hugectr_lite/trainer/report/gpu_section.h"
#include "hugectr_lite/trainer/report/line_file.h"
#include "hugectr_lite/trainer/report/step_verdict.h"

namespace hlite::trainer {
namespace {

constexpr double kSecondsBetweenPages = 10;
constexpr double kSmallShare = 0.01;  // steps of less stand together

std::string megabytes(double bytes) { return fmt::format("{:.3f}", bytes * 1e-6); }

// The bar's full length is the longest step.
Json step_row(const StepTime& s, const StepVerdict& v, double all, double longest) {
  const double bound = std::min(v.lower_bound_seconds, s.seconds),
               scale = longest > 0 ? 100 / longest : 0;
  return {s.name,
          s.lane,
          fmt::format("{:.3f}", s.seconds * 1e3),
          v.lower_bound_seconds > 0 ? fmt::format("{:.3f}", v.lower_bound_seconds * 1e3) : "",
          fmt::format("{:.1f} %", all > 0 ? 100 * s.seconds / all : 0),
          {"bar", {{"fill", bound * scale}, {"rest", (s.seconds - bound) * scale}}},
          v.words};
}
Json step_table(const Json& rows) {
  return {"table",
          {"step", "lane", "ms", "lower bound, ms", "share", "lower bound and time", "verdict"},
          rows,
          {1, 5, 6}};
}

// {"iter": 10, "loss": 0.5, ...}: the names of the metrics file, with null for what does not exist.
Json numbers_line(int64_t iter, const std::vector<NamedNumber>& numbers) {
  Json line = {{"iter", iter}};
  for (const auto& [name, value] : numbers) line[name] = value ? Json(*value) : Json();
  return line;
}

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
void HtmlReport::progressive(int64_t iter, const std::string& file, const EvalResult& e) {
  files_.push_back({iter, e, file});
  if (seconds_since(written_) > kSecondsBetweenPages) write();
}
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

void HtmlReport::write() {
  replace_file(path_, [&](const std::string& temporary) {
    LineFile(temporary, /*append=*/false, "the report").write(page());
  });
  written_ = Clock::now();
}

double HtmlReport::wait_share() const {
  double sum = 0;
  for (const TrainEvent& e : train_) sum += e.wait_share;
  return train_.empty() ? 0 : sum / static_cast<double>(train_.size());
}

Json HtmlReport::head() const {
  Json state = {"p"};
  const auto is = [&](const char* style, const char* word, const std::string& more = {}) {
    state.insert(state.end(), {{std::string("span.state.") + style, word}, more});
  };
  if (!failure_.empty())
    is("bad", "failed", ": " + failure_);
  else if (!ended_)
    is("live", "running", ", or killed: as of the last line that was shown");
  else if (end_.reason == EndReason::kInterrupted)
    is("live", "interrupted", " and saved");
  else
    is("good", end_.reason == EndReason::kTarget ? "target reached" : "done");
  return {"div",
          state,
          {"p.soft", fmt::format("hugectr_lite {}, seed {}, batches of {}, {} rank{}", kVersion,
                                 ready_.seed, config_.solver.batchsize, config_.solver.ranks(),
                                 config_.solver.ranks() == 1 ? "" : "s")}};
}

Json HtmlReport::tiles() const {
  Json tiles = {"tiles"};
  const auto add = [&](const std::string& value, const std::string& name) {
    tiles.push_back(Json::array({value, name}));
  };
  const auto number = [](double x) { return fmt::format("{:.5f}", x); };
  const Evaluation* best = nullptr;
  for (const Evaluation& e : evals_)
    if (e.result.auc && (!best || *e.result.auc > *best->result.auc)) best = &e;
  if (best) add(number(*best->result.auc), fmt::format("best AUC, iteration {}", best->iter));
  const auto scored = std::find_if(files_.rbegin(), files_.rend(),
                                   [](const Evaluation& e) { return e.result.auc.has_value(); });
  if (scored != files_.rend())
    add(number(*scored->result.auc), "AUC of " + scored->file + " before training");
  for (const Evaluation& e : tests_) {
    if (e.result.auc) add(number(*e.result.auc), "AUC of the test set");
    add(number(e.result.loss), "loss of the test set");
  }
  if (!train_.empty()) add(number(train_.back().loss), "last training loss");
  const int64_t iterations = ended_ ? end_.iter : train_.empty() ? ready_.iter : train_.back().iter;
  add(fmt::format("{}", iterations), ready_.last_iter == kNoEnd
                                         ? "iterations"
                                         : fmt::format("iterations of {}", ready_.last_iter));
  if (ended_) {
    add(rate_text(end_.samples_per_s), "samples/s");
    add(duration_text(end_.seconds), "in all");
    add(bytes_text(end_.peak_rss_bytes), "memory at most");
    if (end_.replaced_share)
      add(fmt::format("{:.1f} %", 100 * *end_.replaced_share),
          "of training keys replaced (key_policy)");
  }
  if (!train_.empty()) add(fmt::format("{:.1f} %", 100 * wait_share()), "waiting for data");
  return tiles;
}

// The curves are of numbers().
Json HtmlReport::charts() const {
  Json charts = {"div.charts"};
  const auto add = [&](const std::string& title, bool zero, const Json& lines) {
    charts.push_back(
        {"chart", {{"title", title}, {"x", "iteration"}, {"zero", zero}, {"lines", lines}}});
  };
  const auto line = [](const std::string& name, const char* of, const std::string& y,
                       int times = 1) {
    return Json{{"name", name}, {"of", of}, {"y", y}, {"times", times}};
  };
  const auto evaluated = [&](const std::string& name, const std::string& y) {
    Json marks = line(name, "eval", y);
    marks["kind"] = "marks";
    return marks;
  };
  add("Loss", false, {line("training", "train", "loss"), evaluated("evaluation", "loss")});
  // Only metrics with values: MSELoss, for example, has an RMSE but no AUC.
  const Json evals = numbers()["eval"];
  const auto add_metric = [&](const std::string& name) {
    const std::string y = member_name(name);
    if (std::any_of(evals.begin(), evals.end(), [&](const Json& e) { return !e.at(y).is_null(); }))
      add(name, false, Json::array({evaluated(name, y)}));
  };
  add_metric("AUC");
  if (!evals_.empty())
    for (const auto& [name, value] : evals_[0].result.more) add_metric(name);
  add("Throughput, samples/s", true, Json::array({line("samples/s", "train", "samples_per_s")}));
  add("Waiting for data, % of the time", true,
      Json::array({line("waiting, %", "train", "wait_share", 100)}));
  add("Learning rate", true, Json::array({line("learning rate", "train", "lr")}));
  return charts;
}

// Of the files of a folder, one after the other.
Json HtmlReport::file_charts() const {
  std::map<std::string, Json> points;
  std::vector<std::string> names;
  for (size_t i = 0; i < files_.size(); ++i)
    for (const auto& [name, value] : numbers_of(files_[i].result)) {
      if (name == "samples" || name == "seconds" || !value || !std::isfinite(*value)) continue;
      if (points.count(name) == 0) names.push_back(name);
      points[name].push_back({i + 1, *value, files_[i].file});
    }
  Json charts = {"div.charts"};
  for (const std::string& name : names) {
    const Json line = {{"kind", "marks"}, {"points", points[name]}};
    charts.push_back({"chart",
                      {{"title", name + " of each file before it was trained on"},
                       {"x", "file"},
                       {"zero", false},
                       {"lines", Json::array({line})}}});
  }
  return names.empty() ? Json("") : charts;
}

// A loss that rises while training goes on means overfitting.
Json HtmlReport::rising_loss() const {
  constexpr double kNoise = 1.01;
  if (evals_.empty()) return "";
  const Evaluation& lowest = *std::min_element(
      evals_.begin(), evals_.end(),
      [](const Evaluation& a, const Evaluation& b) { return a.result.loss < b.result.loss; });
  const Evaluation& last = evals_.back();
  if (!(last.result.loss > kNoise * lowest.result.loss)) return "";
  return {"p",
          {"span.state.bad", "The evaluation loss rises"},
          fmt::format(": it was lowest after iteration {} ({:.5f}), and is {:.5f} after iteration "
                      "{}. The model overfits its training data: a larger penalty, dropout, a "
                      "lower learning rate or solver.early_stop on AverageLoss helps.",
                      lowest.iter, lowest.result.loss, last.result.loss, last.iter)};
}

Json HtmlReport::step_section() const {
  const char* const title = "What took the time";
  if (steps_.steps.empty())
    return ended_ ? section(title,
                            "Steps were not timed here: on a GPU they are one graph. "
                            "train_bench --device cuda times them one by one.")
                  : Json("");
  const RunVerdict verdict = verdict_of(steps_.steps, steps_.rates, wait_share());
  double all = 0, longest = 0, small_seconds = 0;
  for (const StepTime& s : steps_.steps) {
    all += s.seconds;
    longest = std::max(longest, s.seconds);
  }
  Json large = Json::array(), small = Json::array();
  for (const StepTime& s : steps_.steps) {
    const bool is_small = s.seconds < kSmallShare * all;
    small_seconds += is_small ? s.seconds : 0;
    (is_small ? small : large)
        .push_back(step_row(s, verdict_of(s, steps_.rates, all), all, longest));
  }
  Json text = section(
      title,
      Json{"p",
           {"b", fmt::format("Bound by {}.", verdict.bound)},
           fmt::format(" What would help: {}.", verdict.change)},
      Json{"p.soft", fmt::format("Mean of {} iterations, rank 0; {:.3f} ms of steps. Lower bounds: "
                                 "{:.0f} GFLOP/s of fp32 products and {:.1f} GB/s of a copy, "
                                 "measured after the run.",
                                 steps_.iterations, all * 1e3, steps_.rates.flops * 1e-9,
                                 steps_.rates.bytes * 1e-9)},
      step_table(large));
  if (!small.empty())
    text.push_back({"details",
                    {"summary", fmt::format("{} steps of less than 1 % each, {:.1f} % together",
                                            small.size(), all > 0 ? 100 * small_seconds / all : 0)},
                    step_table(small)});
  return text;
}

Json HtmlReport::traffic_section() const {
  if (traffic_.empty()) return "";
  const Json report = Json::parse(traffic_);
  Json rows = Json::array();
  const auto add = [&](const Json& name, const Json& t) {
    rows.push_back({name, megabytes(t.at("intra_bytes")), megabytes(t.at("inter_bytes")),
                    fmt::format("{:.1f}", t.at("intra_messages").get<double>() +
                                              t.at("inter_messages").get<double>())});
  };
  for (const Json& step : report.at("steps")) add(step.at("step"), step);
  add("plain model-parallel embedding instead", report.at("plain"));
  return section("Traffic", Json{"p.soft", "Sent by all ranks together in an iteration, mean."},
                 Json{"table", {"step", "in node, MB", "between nodes, MB", "messages"}, rows});
}

// The last event of each layer, and the rows of each over the run.
Json HtmlReport::vocabulary_section() const {
  if (vocabularies_.empty()) return "";
  std::map<std::string, embedding::VocabularyCounts> last;
  std::map<std::string, int64_t> most;
  for (const VocabularyEvent& event : vocabularies_)
    for (const auto& [name, counts] : event.layers) {
      last[name] = counts;
      most[name] = std::max(most[name], counts.rows);
    }
  Json rows = Json::array();
  for (const auto& [name, n] : last)
    rows.push_back({name, n.rows, most[name], n.candidates, n.inserted, n.expired, n.rare, n.small,
                    n.displaced, n.refused});
  return section("Vocabulary of hash tables",
                 Json{"p.soft",
                      "All ranks. \"Most rows\" is the maximum over the points at which eviction "
                      "ran."},
                 Json{"table",
                      {"layer", "rows", "most rows", "keys counted", "inserted", "evicted: expired",
                       "evicted: rare", "evicted: small norm", "evicted: table full",
                       "requests without a row"},
                      rows});
}

Json HtmlReport::tables_section() const {
  if (tables_.decision.empty() && tables_.layers.empty()) return "";
  Json text = section("Tables beyond memory");
  for (const std::string& line : tables_.decision) text.push_back({"p", line});
  if (tables_.layers.empty()) return text;
  Json rows = Json::array();
  for (size_t i = 0; i < tables_.layers.size(); ++i) {
    const LayerTiers& t = tables_.layers[i];
    std::map<std::string, double> n;
    for (const NamedNumber& number : numbers_of(t, tables_.moved[i], tables_.iterations))
      n[number.name] = number.value.value_or(0);
    const auto expected = [&](const std::string& text_of) {
      return t.forecast ? text_of : "unknown";
    };
    rows.push_back({t.name, t.rows, t.resident, t.first, t.second,
                    fmt::format("{:.2f}", 100 * n["resident_share"]),
                    expected(fmt::format("{:.2f}", 100 * n["expected_resident_share"])),
                    megabytes(n["read_bytes"]), expected(megabytes(n["expected_read_bytes"])),
                    megabytes(n["written_bytes"]),
                    expected(megabytes(n["expected_written_bytes"]))});
  }
  text.push_back({"p.soft", "Training on rank 0; megabytes per iteration."});
  text.push_back({"table",
                  {"layer", "rows", "held", "in", "others", "lookups found, %", "expected, %",
                   "MB read", "expected", "MB written", "expected"},
                  rows});
  return text;
}

Json HtmlReport::evaluation_section() const {
  const auto& any = !evals_.empty() ? evals_ : !tests_.empty() ? tests_ : files_;
  if (any.empty()) return "";
  Json names = {"iter"}, rows = Json::array();
  for (const NamedNumber& n : numbers_of(any[0].result)) names.push_back(n.name);
  const auto add = [&](const std::string& name, const EvalResult& result) {
    Json row = {name};
    for (const NamedNumber& n : numbers_of(result))
      row.push_back(n.value && std::isfinite(*n.value) ? fmt::format("{:.8g}", *n.value)
                                                       : "does not exist");
    rows.push_back(row);
  };
  for (const Evaluation& e : evals_) add(fmt::format("{}", e.iter), e.result);
  for (const Evaluation& e : tests_) add("test set", e.result);
  for (const Evaluation& e : files_) add(fmt::format("{}, before {}", e.iter, e.file), e.result);
  return section("Evaluations", Json{"table", names, rows});
}

Json HtmlReport::machine_section() const {
  const std::string processor = power_.processor();
  const auto watts = power_.watts(), clock = power_.megahertz();
  Json list = {"dl"};
  const auto add = [&](const char* name, const std::string& value) {
    list.insert(list.end(), {{"dt", name}, {"dd", value}});
  };
  const auto energy = [&](const char* name, double joules) {
    add(name, fmt::format("{:.3g} J a million samples",
                          joules / static_cast<double>(end_.samples) * 1e6));
  };
  add("device", steps_.device.empty() ? "not known yet" : steps_.device);
  add("processor", processor.empty() ? "unknown" : processor);
  add("clock", clock ? fmt::format("{:.0f} MHz", *clock) : "unknown");
  add("power", watts ? fmt::format("{:.1f} W, mean of all processor packages", *watts)
                     : "no counter that may be read");
  if (watts && ended_ && end_.samples > 0) energy("energy", *watts * end_.seconds);
  if (end_.gpu_joules && end_.samples > 0) energy("energy of the GPUs", *end_.gpu_joules);
  add("training data", fmt::format("{}, {} samples", config_.data.source, ready_.train_samples));
  if (ready_.eval_samples > 0)
    add("evaluation data",
        fmt::format("{}, {} samples", config_.data.eval_source, ready_.eval_samples));
  return section("Machine and data", list);
}

Json HtmlReport::numbers() const {
  Json train = Json::array(), eval = Json::array(), test = Json::array(), files = Json::array();
  for (const TrainEvent& e : train_) train.push_back(numbers_line(e.iter, numbers_of(e)));
  for (const Evaluation& e : evals_) eval.push_back(numbers_line(e.iter, numbers_of(e.result)));
  for (const Evaluation& e : tests_) test.push_back(numbers_line(e.iter, numbers_of(e.result)));
  for (const Evaluation& e : files_) {
    files.push_back(numbers_line(e.iter, numbers_of(e.result)));
    files.back()["file"] = e.file;
  }
  return {{"train", train}, {"eval", eval}, {"test", test}, {"progressive", files}};
}

std::string HtmlReport::page() const {
  const std::string file = config_.root.where().substr(0, config_.root.where().find(':')),
                    name = std::filesystem::path(file).filename().string(),
                    config = nlohmann::ordered_json::parse(config_.root.dump()).dump(2);
  return html_page(
      {{"title", "hugectr_lite run"},
       {"body",
        Json::array({Json{"h1", name}, head(), tiles(), charts(), file_charts(), rising_loss(),
                     step_section(), traffic_section(), tables_section(), vocabulary_section(),
                     gpu_section(gpus_), evaluation_section(), machine_section(),
                     Json{"section", {"details", {"summary", "Config"}, {"pre", config}}}})},
       {"numbers", numbers()}});
}

}  // namespace hlite::trainer
