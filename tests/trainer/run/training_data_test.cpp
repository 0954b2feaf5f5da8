#include "hugectr_lite/trainer/run/training_data.h"

#include "data_reader/manifest.h"
#include "hugectr_lite/core/error.h"
#include "tests/checkpoint/tensors.h"
#include "tests/data_reader/log_capture.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/small_config.h"
#include "tests/support/temporary_directory.h"

namespace hlite::trainer {
namespace {

using test::check_contains;
using test::message_of;
using test::write_text;

// train.bin and eval.bin of a preparation with these vocabularies, in a folder with a config.
struct PreparedFolder {
  test::TemporaryDirectory folder;
  std::unique_ptr<config::TrainConfig> config;
  data::Manifest manifest;

  PreparedFolder() {
    write_text(folder / "config.json", test::small_config());
    write_text(folder / "train.bin", "the training data");
    write_text(folder / "eval.bin", "the others");
    config = config::load_train_config(folder / "config.json", {});
    manifest.tool = "csv_prep";
    manifest.dense_dim = 2;
    manifest.hotness = {1, 1, 1};
    manifest.slot_sizes = {40, 5, 300};
    for (const char* name : {"user", "item", "kind"})
      manifest.columns.push_back({.name = name, .vocabulary = std::string("00ff") + name});
    manifest.files = {{"train", "train.bin", 17, 0, 17, "00aa"},
                      {"val", "eval.bin", 10, 0, 10, ""}};
    write();
  }
  void write() const { write_text(folder / "manifest.json", manifest.to_json()); }
};

// Weights of a model that was trained on these data.
std::string model_of(const PreparedFolder& prepared, const data::TrainedOn& on) {
  const auto weights = test::model_weights();
  std::string path = prepared.folder / "w.safetensors";
  checkpoint::save_weights(path, weights->refs(), on.to_text());
  return path;
}

TEST_CASE("slots that share a table need one vocabulary") {
  PreparedFolder p;
  std::string text = test::small_config();
  const std::string sizes = R"("slot_size_array": [40, 5, 300])";
  text.replace(text.find(sizes), sizes.size(),
               R"("slot_size_array": [40, 5, 40], "slot_tables": [0, 1, 0])");
  write_text(p.folder / "config.json", text);
  p.config = config::load_train_config(p.folder / "config.json", {});
  check_contains(message_of<DataError>([&] { (void)check_training_data(*p.config, {}); }),
                 {"manifest.json", "slots 0 (user) and 2 (kind)", "table 0 of \"emb\"",
                  "slot_tables", "--allow-other-data"});
  Options allowed;
  allowed.allow_other_data = true;
  test::LogCapture log;
  CHECK_NOTHROW(check_training_data(*p.config, allowed));
  check_contains(log.text(), {"warning", "slots 0 (user) and 2 (kind)"});
  p.manifest.columns[2].vocabulary = p.manifest.columns[0].vocabulary;
  p.write();
  CHECK_NOTHROW(check_training_data(*p.config, {}));
}

TEST_CASE("a config that could share tables gets a warning how, unless it says that it does not") {
  PreparedFolder p;
  p.manifest.slot_sizes = {40, 5, 40};
  p.manifest.slot_tables = {0, 1, 0};
  p.manifest.columns[2].vocabulary = p.manifest.columns[0].vocabulary;
  p.write();
  const std::string sizes = R"("slot_size_array": [40, 5, 300])";
  const auto warnings = [&](const std::string& more) {
    std::string text = test::small_config();
    text.replace(text.find(sizes), sizes.size(), R"("slot_size_array": [40, 5, 40])" + more);
    write_text(p.folder / "config.json", text);
    p.config = config::load_train_config(p.folder / "config.json", {});
    test::LogCapture log;
    (void)check_training_data(*p.config, {});
    return log.text();
  };
  check_contains(warnings(""), {"manifest.json: some slots of \"emb\" share a vocabulary",
                                "\"slot_tables\": [0,1,0]", "sparse_embedding_hparam"});
  CHECK(warnings(R"(, "slot_tables": [0, 1, 0])").empty());
  CHECK(warnings(R"(, "slot_tables": [0, 1, 2])").empty());
}

TEST_CASE("the training data are what their manifest says") {
  const PreparedFolder p;
  const data::TrainedOn on = check_training_data(*p.config, {});
  CHECK(on.identity == p.manifest.identity());
  CHECK(on.file == "train.bin");
  CHECK(on.rows == 17);
  CHECK(on.xxh3 == "00aa");
  CHECK(on.place == p.folder / "manifest.json");
}

TEST_CASE("without a manifest nothing is known, and a model stays of the data it was of") {
  PreparedFolder p;
  const data::TrainedOn before = check_training_data(*p.config, {});
  std::filesystem::remove(p.folder / "manifest.json");
  const test::LogCapture log;
  const data::TrainedOn on = check_training_data(*p.config, {});
  CHECK_FALSE(on.identity.known());
  Options options;
  options.init = model_of(p, before);
  CHECK(check_model_data(on, options).on.identity == before.identity);
  options.init = model_of(p, {});
  CHECK_FALSE(check_model_data(on, options).on.identity.known());
  CHECK(check_model_data(before, options).on.identity == before.identity);
  CHECK(log.text().empty());
}

TEST_CASE("a model of other data is refused, or taken with a warning") {
  PreparedFolder p;
  Options options;
  options.init = model_of(p, check_training_data(*p.config, {}));
  p.manifest.columns[1].vocabulary = "00ee";
  p.write();
  const data::TrainedOn other = check_training_data(*p.config, {});
  check_contains(message_of<DataError>([&] { check_model_data(other, options); }),
                 {"manifest.json", "w.safetensors was trained on", "vocabulary of slot item"});
  options.allow_other_data = true;
  const test::LogCapture log;
  CHECK(check_model_data(other, options).on.identity == other.identity);
  check_contains(log.text(), {"warning", "vocabulary of slot item"});
}

TEST_CASE("the files of a preparation are those that predict needs") {
  PreparedFolder p;
  check_contains(message_of<ConfigError>([&] { preparation_of(*p.config); }),
                 {"--with-preparation", "vocabulary", "manifest.json"});
  p.manifest.features_json = R"({"categorical": [{"vocabulary": "vocabulary/00_user.txt"}]})";
  p.write();
  const auto files = preparation_of(*p.config);
  REQUIRE(files.size() == 2);
  CHECK(files[0].from == p.folder / "vocabulary/00_user.txt");
  CHECK(files[0].name == "vocabulary/00_user.txt");
  CHECK(files[1].name == "manifest.json");
  p.manifest.features_json = R"({"categorical": [{"vocabulary": "vocabulary/00_item.txt"},
    {"vocabulary": "vocabulary/01_city.txt"}, {"vocabulary": "vocabulary/00_item.txt"}]})";
  p.write();
  CHECK(preparation_of(*p.config).size() == 3);   // a shared one once
  p.manifest.options_json = R"({"hash": 1000})";  // ids that need no vocabulary
  p.write();
  CHECK(preparation_of(*p.config).size() == 1);
  std::filesystem::remove(p.folder / "manifest.json");
  check_contains(message_of<ConfigError>([&] { preparation_of(*p.config); }),
                 {"expected the manifest of csv_prep or criteo_prep", "train.bin"});
}

}  // namespace
}  // namespace hlite::trainer
