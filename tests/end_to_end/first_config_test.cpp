// The first config that is written for prepared data: `train --new`, and --write-config of the
// preparations.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/end_to_end/small_run.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

const std::vector<std::string> kFirstModels = {"dlrm", "dcnv2",    "deepfm",   "wdl",    "dcn",
                                               "gdcn", "finalmlp", "finalnet", "masknet"};

// Trains a few iterations; with --check it would not read the data.
void check_trains(const std::string& config) {
  const auto result = run_program({HLITE_TRAIN, "--config", config, "--threads", "2", "--set",
                                   "solver.num_epochs=", "--set", "solver.max_iter=3"});
  INFO(result.err << result.out);
  CHECK(result.code == 0);
  check_contains(result.err, {"done after 3 iterations"});
  CHECK(result.err.find("warning") == std::string::npos);
}

// Rows of a number that means nothing and two categories of 16 values, of which neither alone says
// much of the label: 1 with probability 0.9 for about half of their pairs and 0.1 for the others.
std::string rows_of_pairs(int rows, uint64_t state) {
  std::string text = "label,x,a,b\n";
  for (int i = 0; i < rows; ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    const int a = static_cast<int>(state >> 60), b = static_cast<int>((state >> 56) & 15);
    const bool likely = (((a * 37 + b * 101 + a * b * 13) >> 2) & 1) != 0;
    const bool label = (state >> 32) % 1000 < (likely ? 900U : 100U);
    text += fmt::format("{},{},a{},b{}\n", label ? 1 : 0, (state >> 40) % 100, a, b);
  }
  return text;
}

// Criteo-like data as `options` say, of a training and a validation split.
std::string prepared_clicks(const TemporaryDirectory& folder, const std::string& name,
                            std::vector<std::string> options) {
  if (!std::filesystem::exists(folder / "s.train.tsv"))
    REQUIRE(run_program(
                {HLITE_CRITEO_SYNTH, "--train", "4000", "--test", "1000", "--out", folder / "s"})
                .code == 0);
  options.insert(options.begin(), {HLITE_CRITEO_PREP, "--train", folder / "s.train.tsv", "--val",
                                   folder / "s.test.tsv", "--quiet", "--out", folder / name});
  REQUIRE(run_program(options).code == 0);
  return folder / name;
}

}  // namespace

TEST_CASE("train --new writes a config for each model that trains on what was prepared") {
  const TemporaryDirectory folder;
  for (const auto& [name, options] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"raw", {}},
           {"norm", {"--format", "norm"}},
           {"norm_none", {"--format", "norm", "--norm-check", "None"}},
           {"multi_hot", {"--multi-hot", "2,1,3,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,4"}}}) {
    const std::string data = prepared_clicks(folder, name, options);
    for (const std::string& model : kFirstModels) {
      INFO(name << " " << model);
      const auto made = run_program({HLITE_TRAIN, "--new", model, "--prepared", data});
      REQUIRE(made.code == 0);
      write_text(folder / "config.json", made.out);
      check_trains(folder / "config.json");
    }
  }
  const auto dlrm = run_program({HLITE_TRAIN, "--new", "dlrm", "--prepared", folder / "raw"});
  CHECK(std::count(dlrm.out.begin(), dlrm.out.end(), '\n') <= 25);
}

TEST_CASE("models of several tasks train on the labels of a list, and score lines without them") {
  const TemporaryDirectory folder;
  const std::string names = "bought,x,a,clicked,b\n";
  std::string rows, fewer = "x,a,b\n";
  for (int i = 0; i < 600; ++i) {
    const int a = i % 7, b = i * i % 11;
    rows += fmt::format("{},{},{},{},{}\n", a > 4 ? "yes" : "no", i % 10, a, b % 2, b);
    fewer += fmt::format("{},{},{}\n", i % 10, a, b);
  }
  write_text(folder / "a.csv", names + rows);
  write_text(folder / "val.csv", names + rows.substr(0, rows.find('\n', rows.size() / 2) + 1));
  write_text(folder / "new.csv", fewer);
  write_text(folder / "schema.json", R"({"header": true, "dense": [{"column": "x"}],
    "label": [{"column": "bought", "positive": ["yes"]}, {"column": "clicked", "positive": ["1"]}],
    "categorical": [{"column": "a"}, {"column": "b"}]})");
  for (const std::string format : {"raw", "norm"}) {
    const std::string data = folder / format;
    const auto prepared = run_program({HLITE_CSV_PREP, "--schema", folder / "schema.json",
                                       "--train", folder / "a.csv", "--val", folder / "val.csv",
                                       "--format", format, "--out", data, "--quiet"});
    INFO(prepared.err);
    REQUIRE(prepared.code == 0);
    for (const char* model : {"mmoe", "ple"}) {
      INFO(format << " " << model);
      const auto made = run_program({HLITE_TRAIN, "--new", model, "--prepared", data});
      INFO(made.err);
      REQUIRE(made.code == 0);
      write_text(folder / "config.json", made.out);
      const std::string checkpoint = folder / (format + model);
      const auto trained =
          run_program({HLITE_TRAIN, "--config", folder / "config.json", "--threads", "2", "--set",
                       "solver.num_epochs=20", "--set", "solver.early_stop=", "--metrics",
                       folder / "m.jsonl", "--save", checkpoint});
      INFO(trained.err);
      REQUIRE(trained.code == 0);
      nlohmann::json eval;
      std::istringstream lines(read_text(folder / "m.jsonl"));
      for (std::string line; std::getline(lines, line);)
        if (auto event = nlohmann::json::parse(line); event["event"] == "eval") eval = event;
      for (const auto& task : eval["tasks"]) CHECK(task["auc"].get<double>() > 0.95);
      const std::vector<std::string> predict = {HLITE_PREDICT, "--model", checkpoint, "--prepared",
                                                data,          "--out",   "-"};
      auto with_labels = predict, without = predict;
      with_labels.insert(with_labels.end(), {"--input", folder / "a.csv"});
      without.insert(without.end(), {"--input", folder / "new.csv", "--no-label"});
      const auto scores = run_program(with_labels);
      INFO(scores.err);
      REQUIRE(scores.code == 0);
      CHECK(scores.out == run_program(without).out);
      std::filesystem::remove(folder / "m.jsonl");
    }
  }
}

TEST_CASE("models of histories train on lists of a CSV, and on what criteo_synth draws") {
  const TemporaryDirectory folder;
  std::string rows = "label,age,items,cates,city,item,cate\n";
  const auto list = [](const char* letter, int n, int of) {
    std::string text;
    for (int k = 0; k < n; ++k)
      text += fmt::format("{}{}{}", k > 0 ? "|" : "", letter, (n + k) % of);
    return text;
  };
  for (int i = 0; i < 600; ++i)
    rows += fmt::format("{},{},{},{},c{},i{},k{}\n", i % 2, i % 70, list("i", i % 6, 9),
                        list("k", i % 6, 3), i % 5, i % 9, i % 3);
  write_text(folder / "a.csv", rows);
  write_text(folder / "val.csv", rows.substr(0, rows.find('\n', rows.size() / 2) + 1));
  const auto schema_of = [](const char* item) {
    return fmt::format(R"({{"header": true, "label": {{"column": "label", "positive": ["1"]}},
      "dense": [{{"column": "age"}}], "categorical": [
        {{"column": "items", "separator": "|", "max_values": 4, "history": "seen", "vocabulary": "item"}},
        {{"column": "cates", "separator": "|", "max_values": 4, "history": "seen", "vocabulary": "cate"}},
        {{"column": "city"}}, {{"column": "item"{}}}, {{"column": "cate", "vocabulary": "cate"}}]}})",
                       item);
  };
  write_text(folder / "schema.json", schema_of(R"(, "vocabulary": "item")"));
  const auto prepare = [&](const std::string& name, const std::string& format) {
    const auto made = run_program({HLITE_CSV_PREP, "--schema", folder / "schema.json", "--train",
                                   folder / "a.csv", "--val", folder / "val.csv", "--format",
                                   format, "--out", folder / name, "--quiet"});
    INFO(made.err);
    REQUIRE(made.code == 0);
    return folder / name;
  };
  REQUIRE(run_program({HLITE_CRITEO_SYNTH, "--history", "7", "--train", "900", "--test", "300",
                       "--out", folder / "s"})
              .code == 0);
  for (const std::string& data :
       {prepare("raw", "raw"), prepare("norm", "norm"), folder / "s.histories.json"})
    for (const char* model : {"din", "dien", "bst"}) {
      INFO(data << " " << model);
      const auto made = run_program({HLITE_TRAIN, "--new", model, "--prepared", data});
      INFO(made.err);
      REQUIRE(made.code == 0);
      write_text(folder / "config.json", made.out);
      check_trains(folder / "config.json");
    }
  const auto refused = [&](const char* model, const std::string& data, const char* text) {
    const auto made = run_program({HLITE_TRAIN, "--new", model, "--prepared", data});
    CHECK(made.code == 2);
    check_contains(made.err, {text});
  };
  refused("wdl", folder / "raw",
          "expected data without histories for wdl (din, dien and bst read them)");
  // A history of items whose target has other ids.
  std::filesystem::remove_all(folder / "raw");
  const std::string name = R"(, "vocabulary": "item")";
  std::string alone = schema_of("");
  alone.erase(alone.find(name), name.size());
  write_text(folder / "schema.json", alone);
  refused("din", prepare("raw", "raw"),
          "expected one column, the target, with the vocabulary of the history's column \"items\"");
}

// Samples from 1,000,000 on are many: a few epochs, with evaluations inside of them.
TEST_CASE("the first config of many samples evaluates all of the validation split") {
  const TemporaryDirectory folder;
  std::string rows;
  for (int i = 0; i < 1'000'003; ++i)
    rows += std::to_string(i % 2) + ",c" + std::to_string(i % 7) + "\n";
  write_text(folder / "a.csv", rows);
  write_text(folder / "val.csv", rows.substr(0, 5 * 4101));
  REQUIRE(run_program({HLITE_CSV_PREP, folder / "a.csv", "--val", folder / "val.csv", "--label",
                       "0", "--out", folder / "data", "--write-config", "wdl", "--quiet"})
              .code == 0);
  check_trains(folder / "data/wdl.json");
  const auto result =
      run_program({HLITE_TRAIN, "--config", folder / "data/wdl.json", "--threads", "2", "--set",
                   "solver.num_epochs=", "--set", "solver.max_iter=122"});
  INFO(result.err << result.out);
  CHECK(result.code == 0);
  check_contains(result.err, {"iter 122  evaluation: AUC", "4101 samples in"});
}

// The best AUC that there is for these rows is 0.9. Too few iterations, or initial values of
// vectors near 0, leave products of two categories unlearned.
TEST_CASE("a first config of each model learns what two categories mean together") {
  const TemporaryDirectory folder;
  write_text(folder / "train.csv", rows_of_pairs(20'000, 1));
  write_text(folder / "val.csv", rows_of_pairs(4'000, 99));
  for (const std::string& model : kFirstModels) {
    INFO(model);
    REQUIRE(run_program({HLITE_CSV_PREP, folder / "train.csv", "--val", folder / "val.csv",
                         "--label", "label", "--dense", "x", "--out", folder / "data", "--force",
                         "--write-config", model, "--quiet"})
                .code == 0);
    const std::string config = folder / ("data/" + model + ".json");
    const auto result = run_program({HLITE_TRAIN, "--config", config, "--threads", "1"});
    REQUIRE(result.code == 0);
    const std::string says = "evaluation: AUC ";
    const size_t at = result.err.rfind(says);
    REQUIRE(at != std::string::npos);
    CHECK(std::stod(result.err.substr(at + says.size())) > 0.85);
  }
}

// Values around 250,000 of two categories of 16, whose effects have a deviation of about 44,000, and
// noise of 5,000 at most: its deviation is 2,887.
TEST_CASE("a first config of real labels learns them in their own unit, and predict says them") {
  const TemporaryDirectory folder;
  const auto rows_of_values = [](int rows, uint64_t state) {
    std::string text = "value,a,b\n";
    for (int i = 0; i < rows; ++i) {
      state = state * 6364136223846793005 + 1442695040888963407;
      const int a = static_cast<int>(state >> 60), b = static_cast<int>((state >> 56) & 15);
      const int noise = static_cast<int>((state >> 32) % 10'001) - 5'000;
      text += fmt::format("{},a{},b{}\n", 250'000 + 8'000 * (a - 8) + 5'000 * (b % 5 - 2) + noise,
                          a, b);
    }
    return text;
  };
  write_text(folder / "train.csv", rows_of_values(20'000, 1));
  write_text(folder / "val.csv", rows_of_values(2'000, 99));
  write_text(folder / "schema.json", R"({"header": true, "label": {"column": "value", "real": true},
      "categorical": [{"column": "a"}, {"column": "b"}], "dense": []})");
  const auto run = [](const std::vector<std::string>& command) {
    const auto result = run_program(command);
    REQUIRE(result.code == 0);
    return result;
  };
  run({HLITE_CSV_PREP, "--schema", folder / "schema.json", "--train", folder / "train.csv", "--val",
       folder / "val.csv", "--out", folder / "data", "--quiet"});
  const std::string config =
      run({HLITE_TRAIN, "--new", "dcnv2", "--prepared", folder / "data"}).out;
  const auto loss = nlohmann::json::parse(config)["layers"].back();
  CHECK(loss["type"] == "MSELoss");
  CHECK(loss["base_score"].get<double>() == Approx(246'000).margin(3'000));
  CHECK(loss["score_scale"].get<double>() == Approx(37'700).margin(2'000));
  write_text(folder / "config.json", config);
  run({HLITE_TRAIN, "--config", folder / "config.json", "--threads", "1", "--save",
       folder / "model", "--with-preparation"});
  const auto predicted = run({HLITE_PREDICT, "--model", folder / "model", "--input",
                              folder / "val.csv", "--out", folder / "scores.csv"});
  const std::string says = "RMSE ";
  const size_t at = predicted.err.rfind(says);
  INFO(predicted.err);
  REQUIRE(at != std::string::npos);
  CHECK(std::stod(predicted.err.substr(at + says.size())) < 1.15 * 2'887);
}

TEST_CASE("csv_prep --write-config writes one next to its data, and never over a file") {
  const TemporaryDirectory folder;
  write_text(folder / "a.csv", "1,x,0.5\n0,y,1.5\n1,x,2\n0,z,1\n");
  write_text(folder / "schema.json", R"({"separator": ",", "header": false,
      "label": {"column": 0, "positive": ["1"], "negative": ["0"]},
      "categorical": [{"column": 1, "name": "c"}], "dense": []})");
  const std::vector<std::string> prepare = {
      HLITE_CSV_PREP,  "--schema", folder / "schema.json", "--train", folder / "a.csv", "--out",
      folder / "data", "--force",  "--write-config"};
  const auto with = [&](const std::string& model) {
    std::vector<std::string> command = prepare;
    command.push_back(model);
    return run_program(command);
  };
  // Data without numbers.
  for (const std::string& model : kFirstModels) {
    REQUIRE(with(model).code == 0);
    check_trains(folder / "data/" + model + ".json");
  }
  // What it has written itself is no obstacle: the same command ends with success again.
  CHECK(with("wdl").code == 0);
  write_text(folder / "data/wdl.json", "mine");
  const auto again = with("wdl");
  CHECK(again.code == 2);
  check_contains(again.err, {"expected no file " + (folder / "data/wdl.json")});
  CHECK(read_text(folder / "data/wdl.json") == "mine");
  CHECK(with("mlp").code == 2);
}

TEST_CASE("train --new says what it lacks") {
  const TemporaryDirectory folder;
  CHECK(run_program({HLITE_TRAIN, "--new", "dlrm"}).code == 2);
  const auto nowhere = run_program({HLITE_TRAIN, "--new", "dlrm", "--prepared", folder / "no"});
  CHECK(nowhere.code != 0);
  check_contains(nowhere.err, {"no/manifest.json"});
  const auto unknown = run_program({HLITE_TRAIN, "--new", "mlp", "--prepared", folder.path()});
  CHECK(unknown.code == 2);
  check_contains(unknown.err, {"dcnv2"});
}

TEST_CASE("a checkpoint of a first config scores where its data are gone") {
  const TemporaryDirectory folder;
  write_text(folder / "a.csv", "1,x,0.5\n0,y,1.5\n1,x,2\n0,z,1\n");
  write_text(folder / "schema.json", R"({"label": {"column": 0, "positive": ["1"]},
      "categorical": [{"column": 1, "name": "c"}], "dense": [{"column": 2, "name": "x"}]})");
  const auto run = [](const std::vector<std::string>& command) {
    REQUIRE(run_program(command).code == 0);
  };
  run({HLITE_CSV_PREP, "--schema", folder / "schema.json", "--train", folder / "a.csv", "--out",
       folder / "data", "--write-config", "dlrm"});
  run({HLITE_TRAIN, "--config", folder / "data/dlrm.json", "--set", "solver.num_epochs=1", "--save",
       folder / "model", "--with-preparation"});
  std::filesystem::remove_all(folder / "data");
  run({HLITE_PREDICT, "--model", folder / "model", "--input", folder / "a.csv", "--out",
       folder / "scores.csv"});
  const std::string scores = read_text(folder / "scores.csv");
  CHECK(std::count(scores.begin(), scores.end(), '\n') == 1 + 4);
}

}  // namespace hlite::test
