// The way from a CSV file to a model, on real data with a known result.
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/catch.h"
#include "tests/support/program.h"

namespace hlite::test {

TEST_CASE("UCI Adult: csv_prep and train reach a test AUC of 0.900") {
  const TemporaryDirectory folder;
  const std::string adult = std::string(HLITE_TEST_DATA) + "/adult/",
                    configs = std::string(HLITE_CONFIGS) + "/";
  const auto prep = run_program({HLITE_CSV_PREP, "--schema", configs + "adult_schema.json",
                                 "--train", adult + "adult.data.gz", "--val",
                                 adult + "adult.test.gz", "--out", folder.path()});
  INFO(prep.err);
  REQUIRE(prep.code == 0);
  const auto train = run_program({HLITE_TRAIN, "--config", configs + "adult.json", "--set",
                                  "layers.data.source=" + (folder / "train.bin"), "--set",
                                  "layers.data.eval_source=" + (folder / "val.bin"), "--metrics",
                                  folder / "m.jsonl"});
  INFO(train.err);
  REQUIRE(train.code == 0);
  std::istringstream lines(read_text(folder / "m.jsonl"));
  nlohmann::json last;
  for (std::string line; std::getline(lines, line);)
    if (const auto event = nlohmann::json::parse(line); event["event"] == "eval") last = event;
  REQUIRE(last["samples"] == 16281);
  // A logistic regression reaches 0.9021, the best small network seen before 0.9046.
  CHECK(last["auc"].get<double>() >= 0.900);
  CHECK(last["loss"].get<double>() <= 0.33);
}

}  // namespace hlite::test
