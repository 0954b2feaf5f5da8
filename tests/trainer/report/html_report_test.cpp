#include "hugectr_lite/trainer/report/html_report.h"

#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/trainer/report/metrics_file.h"
#include "hugectr_lite/trainer/report/step_verdict.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/metrics_events.h"
#include "tests/support/small_config.h"
#include "tests/support/temporary_directory.h"

namespace hlite::trainer {
namespace {

using nlohmann::json;
using test::check_contains;

const std::string kEvil = R"(</script><img src="http://x/y" onerror='a&b'>)";

std::string between(const std::string& text, const std::string& from, const std::string& to) {
  const size_t begin = text.find(from);
  REQUIRE(begin != std::string::npos);
  const size_t end = text.find(to, begin + from.size());
  REQUIRE(end != std::string::npos);
  return text.substr(begin + from.size(), end - begin - from.size());
}

// A run that is recorded by the page and by a metrics file alike.
struct RecordedRun {
  test::TemporaryDirectory dir;
  std::unique_ptr<config::TrainConfig> config = config::parse_train_config(
      test::small_config(), "a<b>.json", {"solver.snapshot_prefix=" + kEvil});
  std::string path = dir.path() + "/r.html", metrics = dir.path() + "/m.jsonl";
  RunRecords records;

  RecordedRun() {
    records.add(std::make_unique<HtmlReport>(path, *config));
    records.add(std::make_unique<MetricsFile>(metrics, false));
    records.notify(&RunRecord::ready, ReadyEvent{.iter = 0, .last_iter = 30, .seed = 7});
    for (int i = 1; i <= 3; ++i)
      records.notify(&RunRecord::train,
                     TrainEvent{10 * i, 0.7 / i, 0.6 / i, 0.1 * i, 1e5 / 3 * i, 0.01 * i});
    records.notify(
        &RunRecord::eval, int64_t{20},
        EvalResult{.auc = 2.0 / 3, .loss = 0.61, .more = {{"GAUC", 0.6}, {"NDCG@3", {}}}});
    records.notify(
        &RunRecord::eval, int64_t{30},
        EvalResult{.auc = std::nullopt, .loss = 0.6, .more = {{"GAUC", 0.5}, {"NDCG@3", 0.4}}});
    records.notify(
        &RunRecord::test, int64_t{30},
        EvalResult{.auc = 0.71234, .loss = 0.6543, .more = {{"GAUC", 0.5}, {"NDCG@3", 0.4}}});
  }
  [[nodiscard]] std::string page() const { return test::read_text(path); }
  // What the page's script draws.
  [[nodiscard]] json content() const {
    return json::parse(
        between(page(), R"(<script type="application/json" id="page">)", "</script>"));
  }
  [[nodiscard]] std::string body() const { return content()["body"].dump(); }
};

}  // namespace

TEST_CASE("the page has the metrics file's numbers") {
  RecordedRun run;
  run.records.notify(&RunRecord::ended, EndEvent{.iter = 30,
                                                 .samples = 90,
                                                 .seconds = 2,
                                                 .samples_per_s = 45,
                                                 .reason = EndReason::kMaxIter});
  const json numbers = run.content()["numbers"];
  json wanted;
  for (const char* event : {"train", "eval", "test", "progressive"}) wanted[event] = json::array();
  for (json e : test::events_in(run.metrics)) {
    const auto event = e["event"].get<std::string>();
    e.erase("event");
    if (event != "end") wanted[event].push_back(e);
  }
  CHECK(wanted["train"].size() == 3);
  CHECK(wanted["train"][0].size() == 6);
  CHECK(wanted["eval"][0]["ndcg@3"].is_null());
  CHECK(numbers == wanted);
  check_contains(run.body(),
                 {R"(["0.66667","best AUC, iteration 20"])", R"(["span.state.good","done"])",
                  R"(["0.23333","last training loss"])", R"(["0.71234","AUC of the test set"])",
                  R"(["0.65430","loss of the test set"])", R"(["test set","0.71234")",
                  R"(["30","does not exist","0.6","0.5","0.4")"});
}

TEST_CASE("there is a chart for each metric that evaluations had") {
  RecordedRun run;
  const auto titles_begin = [&](const std::vector<std::string>& expected) {
    const json charts = run.content()["body"][3];
    for (size_t i = 0; i < expected.size(); ++i) CHECK(charts[i + 1][1]["title"] == expected[i]);
    CHECK(charts.size() == expected.size() + 3);
  };
  run.records.notify(&RunRecord::ended, EndEvent{.iter = 30});
  titles_begin({"Loss", "AUC", "GAUC", "NDCG@3", "Throughput, samples/s"});
  CHECK(run.content()["body"][3][4][1]["lines"][0]["y"] == "ndcg@3");
  HtmlReport of_values(run.path, *run.config);
  titles_begin({"Loss", "Throughput, samples/s"});
  of_values.eval(10, EvalResult{.auc = {}, .loss = 0.5, .more = {{"RMSE", 0.7}}});
  of_values.ended(EndEvent{.iter = 10});
  titles_begin({"Loss", "RMSE", "Throughput, samples/s"});
}

TEST_CASE("there is a chart over the files of a folder that is followed") {
  RecordedRun run;
  CHECK(run.content()["body"][4] == "");
  const double none = std::numeric_limits<double>::quiet_NaN();
  const auto scores = [&](int64_t iter, const char* file, const EvalResult& result) {
    run.records.notify(&RunRecord::progressive, iter, std::string(file), result);
  };
  scores(30, "a", EvalResult{.auc = 0.5, .loss = 0.7, .samples = 9, .more = {{"GAUC", 0.6}}});
  scores(40, "b", EvalResult{.auc = {}, .loss = none, .more = {{"GAUC", {}}}});
  scores(40, "c", EvalResult{.auc = 0.75, .loss = 0.6, .samples = 8, .more = {{"GAUC", {}}}});
  run.records.notify(&RunRecord::ended, EndEvent{.iter = 50});
  const json charts = run.content()["body"][4];
  REQUIRE(charts.size() == 4);
  const auto points = [&](size_t i) { return charts[i][1]["lines"][0]["points"]; };
  CHECK(charts[1][1]["title"] == "auc of each file before it was trained on");
  CHECK(points(1) == json{{1, 0.5, "a"}, {3, 0.75, "c"}});
  CHECK(points(2) == json{{1, 0.7, "a"}, {3, 0.6, "c"}});
  CHECK(points(3) == json::array({{1, 0.6, "a"}}));
  check_contains(run.body(), {R"(["0.75000","AUC of c before training"])",
                              R"(["40, before b","does not exist","does not exist")"});
  const json numbers = run.content()["numbers"]["progressive"];
  CHECK(numbers[1]["file"] == "b");
  CHECK(numbers[1]["auc"].is_null());
  CHECK(numbers[2]["auc"] == 0.75);
}

TEST_CASE("a rising evaluation loss is marked, with where it was lowest") {
  RecordedRun run;
  const auto page_after = [&](int64_t iter, double loss) {
    run.records.notify(&RunRecord::eval, iter, EvalResult{.auc = 0.7, .loss = loss});
    run.records.notify(&RunRecord::ended, EndEvent{.iter = iter});
    return run.body();
  };
  CHECK(page_after(40, 0.601).find("evaluation loss rises") == std::string::npos);  // noise
  check_contains(page_after(50, 0.72),
                 {"The evaluation loss rises", "lowest after iteration 30 (0.60000)",
                  "0.72000 after iteration 50", "AverageLoss"});
}

TEST_CASE("a page is one file, and no text of a user is part of its code") {
  RecordedRun run;
  run.records.notify(&RunRecord::failed, "bad " + kEvil + "\xff");
  const std::string page = run.page(), data = between(page, R"(id="page">)", "</script>");
  CHECK(data.find('<') == std::string::npos);
  CHECK(page.ends_with(data + "</script>\n</body></html>\n\n"));
  CHECK(page.find("<img") == std::string::npos);
  CHECK(page.size() < 100'000);
  const json body = run.content()["body"];
  CHECK(body[0] == json{"h1", "a<b>.json"});
  CHECK(body[1][1] == json{"p", {"span.state.bad", "failed"}, ": bad " + kEvil + "\xef\xbf\xbd"});
  check_contains(body.back()[1][2][1].get<std::string>(), {json(kEvil).dump()});  // its config
}

TEST_CASE("a page is there from the start, and says how a run ended") {
  RecordedRun run;
  check_contains(run.body(), {"running"});
  const auto ends = [&](EndReason reason) {
    run.records.notify(&RunRecord::ended, EndEvent{.iter = 30, .reason = reason});
    return run.body();
  };
  check_contains(ends(EndReason::kTarget), {"target reached"});
  check_contains(ends(EndReason::kInterrupted), {"interrupted"});
  const std::filesystem::path path = run.path;
  for (const auto& entry : std::filesystem::directory_iterator(path.parent_path()))
    CHECK(!entry.path().filename().string().starts_with(path.filename().string() + "."));
  const auto config = config::parse_train_config(test::small_config(), "c", {});
  CHECK_THROWS_AS(HtmlReport(run.dir.path() + "/no/such/r.html", *config), FileError);
}

TEST_CASE("steps stand next to their lower bounds, with traffic by link") {
  RecordedRun run;
  StepsEvent steps{.iterations = 9, .steps = {}, .rates = {.flops = 1e9, .bytes = 1e8}};
  steps.steps.push_back({.name = "fc<1>", .lane = "compute", .seconds = 0.002, .flops = 1.5e6});
  steps.steps.push_back({.name = "emb.rows_exchange",
                         .lane = "comm",
                         .seconds = 0.001,
                         .exchange = true,
                         .sent = 2e6});
  run.records.notify(&RunRecord::steps, steps);
  run.records.notify(
      &RunRecord::traffic,
      std::string(R"({"steps":[{"step":"all_reduce","intra_bytes":1500000,"inter_bytes":250000,)"
                  R"("intra_messages":2,"inter_messages":1}],"plain":{"intra_bytes":0,)"
                  R"("inter_bytes":9000000,"intra_messages":0,"inter_messages":4}})"));
  run.records.notify(&RunRecord::ended, EndEvent{.iter = 30, .reason = EndReason::kMaxIter});
  check_contains(
      run.body(),
      {R"(["fc<1>","compute","2.000","1.500","66.7 %",["bar",{"fill":75.0,"rest":25.0}])",
       "Bound by matrix products", "2000.0 MB/s", R"(["all_reduce","1.500","0.250","3.0"])",
       R"("0.000","9.000","4.0"])"});
}

TEST_CASE("rows of hash tables are those of a layer's last event, and the most over the run") {
  RecordedRun run;
  const auto event = [&](int64_t iter, int64_t rows) {
    run.records.notify(&RunRecord::vocabulary, VocabularyEvent{iter,
                                                               {{"emb",
                                                                 {.rows = rows,
                                                                  .candidates = 2,
                                                                  .inserted = 3,
                                                                  .expired = 4,
                                                                  .rare = 5,
                                                                  .small = 6,
                                                                  .displaced = 7,
                                                                  .refused = 8}}}});
  };
  event(10, 90);
  event(20, 70);
  run.records.notify(&RunRecord::ended, EndEvent{.iter = 30});
  check_contains(run.body(), {R"(["table",["layer","rows","most rows","keys counted","inserted",)"
                              R"("evicted: expired","evicted: rare","evicted: small norm",)"
                              R"("evicted: table full","requests without a row"],)"
                              R"([["emb",70,90,2,3,4,5,6,7,8]]])"});
}

TEST_CASE("verdicts name what bounds a step and a run") {
  const MachineRates rates{.flops = 1e9, .bytes = 1e8};
  const StepTime products{.name = "p", .seconds = 1, .flops = 8e8, .bytes = 1e6},
      memory{.name = "m", .seconds = 2, .flops = 1, .bytes = 8e7},
      exchange{.name = "x", .seconds = 4, .exchange = true, .sent = 0},
      tiny{.name = "t", .seconds = 1e-6, .bytes = 1};
  CHECK(verdict_of(products, rates, 1).bound == StepBound::kProducts);
  CHECK(verdict_of(products, rates, 1).lower_bound_seconds == Approx(0.8));
  check_contains(verdict_of(products, rates, 1).words, {"close to"});
  CHECK(verdict_of(memory, rates, 2).lower_bound_seconds == Approx(0.8));
  check_contains(verdict_of(memory, rates, 2).words, {"half-way", "memory"});
  check_contains(verdict_of(memory, MachineRates{1e9, 1e9}, 2).words, {"far from its lower bound"});
  CHECK(verdict_of(tiny, rates, 2).words == "small");
  CHECK(verdict_of(exchange, rates, 4).words == "waits for other ranks");
  check_contains(verdict_of(std::vector{products, memory}, rates, 0).bound, {"memory: 67 %"});
  check_contains(verdict_of(std::vector{products, memory, exchange}, rates, 0).bound,
                 {"exchanges", "57 %"});
  check_contains(verdict_of(std::vector{products}, rates, 0.5).bound, {"the data: 50 %"});
  check_contains(verdict_of(std::vector<StepTime>{}, rates, 0).bound, {"nothing"});
}

TEST_CASE("energy and clock are read where the system has them") {
  test::TemporaryDirectory root;
  const PowerMeter nothing(root.path());
  CHECK(!nothing.watts());
  CHECK(!nothing.megahertz());
  CHECK(nothing.processor().empty());
  namespace fs = std::filesystem;
  const auto put = [&](const std::string& file, const std::string& text) {
    fs::create_directories(fs::path(root.path() + file).parent_path());
    std::ofstream(root.path() + file) << text;
  };
  put("/proc/cpuinfo",
      "model name\t: A 1\ncpu MHz\t\t: 1000.5\nmodel name\t: A 1\ncpu MHz\t\t: 2000.5\n");
  put("/sys/class/powercap/intel-rapl:0/energy_uj", "1000000\n");
  put("/sys/class/powercap/intel-rapl:0:0/energy_uj", "7\n");  // a part of the package
  put("/sys/class/powercap/intel-rapl:1/energy_uj", "0\n");
  const PowerMeter meter(root.path());
  CHECK(meter.processor() == "A 1");
  CHECK(*meter.megahertz() == Approx(1500.5));
  put("/sys/class/powercap/intel-rapl:1/energy_uj", "5000000\n");
  CHECK(meter.watts().value() > 0);
  put("/sys/class/powercap/intel-rapl:0/energy_uj", "0\n");  // run over
  put("/sys/class/powercap/intel-rapl:1/energy_uj", "0\n");
  CHECK(!meter.watts());
}

}  // namespace hlite::trainer
