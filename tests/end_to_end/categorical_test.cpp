// Data without numbers, from CSV to the test AUC of every config for it.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/metrics_events.h"
#include "tests/support/program.h"
#include "tests/support/temporary_directory.h"

namespace hlite::test {
namespace {

// Ten columns of categories, the label a matter of the first two.
std::string csv(int64_t rows, uint64_t seed) {
  std::string text =
      "label,user,item,daytime,weekday,isweekend,homework,cost,weather,country,city\n";
  for (int64_t i = 0; i < rows; ++i) {
    const auto draw = [&](uint64_t column, uint32_t below) {
      return random::word(seed, column, static_cast<uint64_t>(i)) % below;
    };
    const uint32_t user = draw(0, 12), item = draw(1, 9);
    const bool liked = (user % 2 == 0 || item % 3 == 0) != (draw(2, 100) < 10);
    text += liked ? "1" : "0";
    text += ",u" + std::to_string(user) + ",i" + std::to_string(item);
    for (uint64_t column = 3; column < 11; ++column) text += "," + std::to_string(draw(column, 4));
    text += '\n';
  }
  return text;
}

class Frappe {
 public:
  Frappe() {
    write_text(directory_ / "train.csv", csv(700, 1));
    write_text(directory_ / "val.csv", csv(150, 2));
    write_text(directory_ / "test.csv", csv(201, 3));
    REQUIRE(run_program({HLITE_CSV_PREP, "--schema", configs() + "frappe_schema.json", "--train",
                         *this / "train.csv", "--val", *this / "val.csv", "--test",
                         *this / "test.csv", "--out", *this / "frappe"})
                .code == 0);
  }
  [[nodiscard]] std::string operator/(const std::string& file) const { return directory_ / file; }
  static std::string configs() { return std::string(HLITE_CONFIGS) + "/accuracy/"; }
  // `sizes`: the block that names the manifest.
  [[nodiscard]] ProgramResult train(
      const std::string& config, std::vector<std::string> sets,
      const std::string& sizes = "embedding.sparse_embedding_hparam") const {
    for (const char* of : {"source=train", "eval_source=val", "test_source=test"}) {
      const std::string text = of;
      const size_t at = text.find('=');
      sets.push_back("layers.data." + text.substr(0, at + 1) +
                     (*this / "frappe/" + text.substr(at + 1) + ".bin"));
    }
    sets.push_back("layers." + sizes + ".slot_size_array=" + (*this / "frappe/manifest.json"));
    sets.push_back("solver.snapshot_prefix=" + (*this / "run_"));
    std::vector<std::string> command = {HLITE_TRAIN, "--config", configs() + config, "--metrics",
                                        *this / "m.jsonl"};
    for (const std::string& set : sets) command.insert(command.end(), {"--set", set});
    return run_program(command);
  }
  // What a run that has ended says of the test set.
  [[nodiscard]] nlohmann::json test_of_run() const {
    std::istringstream lines(read_text(*this / "m.jsonl"));
    nlohmann::json test;
    for (std::string line; std::getline(lines, line);)
      if (auto event = nlohmann::json::parse(line); event["event"] == "test") test = event;
    std::filesystem::remove(*this / "m.jsonl");
    return test;
  }

 private:
  TemporaryDirectory directory_;
};

}  // namespace

TEST_CASE("csv_prep makes a test split, and every config for such data learns from it") {
  const Frappe data;
  const auto manifest = nlohmann::json::parse(read_text(data / "frappe/manifest.json"));
  CHECK(manifest["slot_size_array"].size() == 10);
  CHECK(std::filesystem::file_size(data / "frappe/test.bin") == 201 * 11 * 4);
  CHECK(std::filesystem::file_size(data / "frappe/val.bin") == 150 * 11 * 4);
  for (const char* model : {"wdl", "deepfm", "dcn", "dcnv2", "dlrm", "logistic"}) {
    INFO(model);
    std::vector<std::string> sets = {"solver.num_epochs=12", "solver.batchsize=100",
                                     "optimizer.adam_hparam.learning_rate=0.02"};
    if (model != std::string("logistic")) {
      for (const char* layer : {"fc1", "fc2", "fc3"})
        sets.push_back("layers." + std::string(layer) + ".fc_param.num_output=16");
      sets.push_back("layers.embedding.sparse_embedding_hparam.lambda=0.0001");
    }
    REQUIRE(data.train("frappe_" + std::string(model) + ".json", sets).code == 0);
    const auto test = last_event(data / "m.jsonl", "test");
    REQUIRE(test.is_object());
    CHECK(test["samples"] == 201);
    CHECK(test["auc"].get<double>() > 0.7);
  }
}

TEST_CASE("the configs of FinalMLP, FinalNet and MaskNet learn", "[no-tsan]") {
  const Frappe data;
  for (const std::string model : {"finalmlp", "finalnet", "masknet"}) {
    INFO(model);
    std::vector<std::string> embeddings = {"embedding"};
    if (model == "finalmlp") embeddings = {"user_item", "other"};
    std::vector<std::string> sets = {"solver.num_epochs=8", "solver.batchsize=50",
                                     "optimizer.adam_hparam.learning_rate=0.005"};
    for (const std::string& layer : embeddings)
      sets.push_back("layers." + layer + ".sparse_embedding_hparam.lambda=0.0001");
    const auto result =
        data.train("frappe_" + model + ".json", sets,
                   model == "finalmlp" ? "data" : "embedding.sparse_embedding_hparam");
    INFO(result.err);
    REQUIRE(result.code == 0);
    CHECK(data.test_of_run()["auc"].get<double>() > 0.7);
  }
}

// The numbers of parameters that BARS' logs say, with the rows of tables that they say.
TEST_CASE("FinalMLP, FinalNet and MaskNet have as many parameters as published") {
  const auto parameters = [](const std::string& config, const std::string& rows) {
    std::vector<std::string> command = {HLITE_TRAIN, "--check", "--config",
                                        Frappe::configs() + config + ".json"};
    std::istringstream words(rows);
    for (std::string word; words >> word;)
      command.insert(command.end(), {"--set", "layers." + word});
    const auto result = run_program(command);
    INFO(config << result.err << result.out);
    const size_t at = result.out.find("\ntotal ");
    REQUIRE(at != std::string::npos);
    return std::stoll(result.out.substr(at + 7));
  };
  const std::string embedding = "embedding.sparse_embedding_hparam.slot_size_array=";
  const std::string rows = "[956,4084,9,9,4,5,4,11,82,235]";
  CHECK(parameters("frappe_finalmlp", "data.slot_size_array=" + rows) == 253'392);
  CHECK(parameters("frappe_finalnet", embedding + rows) == 256'791);
  CHECK(parameters("frappe_masknet", embedding + "[955,4083,8,8,3,4,3,10,81,234]") == 571'691);
  const std::string newer = embedding + "[16977,23606,49659]";
  CHECK(parameters("movielens_x1_finalmlp", newer) == 1'040'902);
  CHECK(parameters("movielens_x1_finalnet", newer) == 916'021);
  CHECK(parameters("movielens_x1_masknet", embedding + "[16976,23605,49658]") == 2'624'541);
}

TEST_CASE("a config that takes floats for integers is refused by the manifest") {
  const Frappe data;
  const auto result = data.train("frappe_logistic.json", {"layers.data.float_label_dense=false"});
  CHECK(result.code == 3);
  check_contains(result.err, {"train.bin: expected float32 labels",
                              "set \"float_label_dense\": true in layers[0]"});
}

TEST_CASE("data_inspect does not know what is missing in raw data") {
  const Frappe data;
  const auto result = run_program({HLITE_DATA_INSPECT, data / "frappe/train.bin"});
  CHECK(result.code == 0);
  check_contains(result.out, {"unknown"});
}

}  // namespace hlite::test
