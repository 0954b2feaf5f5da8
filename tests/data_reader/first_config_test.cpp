#include "data_reader/first_config.h"

#include <nlohmann/json.hpp>

#include "hugectr_lite/core/error.h"
#include "tests/support/errors.h"

namespace hlite::data {
namespace {

Manifest manifest_of(int64_t samples, std::vector<int64_t> slot_sizes, bool validation = true) {
  Manifest m;
  m.dense_dim = 3;
  m.hotness.assign(slot_sizes.size(), 1);
  m.slot_sizes = std::move(slot_sizes);
  const auto add = [&](const char* role, int64_t rows) {
    ManifestFile& file = m.files.emplace_back();
    file.role = role;
    file.name = std::string(role) + ".bin";
    file.rows = rows;
  };
  add("train", samples);
  if (validation) add("val", 5000);
  return m;
}

nlohmann::json config_of(const Manifest& m, const std::string& model = "dcnv2") {
  return nlohmann::json::parse(first_config(model, m, "work/"));
}

const nlohmann::json& tables_of(const nlohmann::json& config) {
  return config["layers"][1]["sparse_embedding_hparam"];
}

}  // namespace

TEST_CASE("An epoch of a first config has 250 to 500 iterations, but batches of 32 to 8192") {
  const std::pair<int64_t, int64_t> cases[] = {{1, 1},
                                               {63, 1},
                                               {500, 8},
                                               {2000, 32},
                                               {15'999, 32},
                                               {16'000, 64},
                                               {32'561, 128},
                                               {200'000, 512},
                                               {1'000'000, 2048},
                                               {2'047'999, 4096},
                                               {2'048'000, 8192},
                                               {4'000'000'000, 8192}};
  for (const auto& [samples, batch] : cases) {
    INFO(samples);
    CHECK(config_of(manifest_of(samples, {10, 20}))["solver"]["batchsize"] == batch);
  }
}

TEST_CASE("A first config has a penalty on all rows that follows the samples, if rows are few") {
  // 512 keys a slot in a batch, 16 rows for each: 16384 rows in two slots.
  for (const auto& [rows, penalty] : {std::pair(16'000, true), std::pair(16'001, false)}) {
    INFO(rows);
    const auto config = config_of(manifest_of(200'000, {384, rows}));
    CHECK(tables_of(config).contains("lambda") == penalty);
    CHECK(config["optimizer"]["update_type"] == (penalty ? "Global" : "Local"));
  }
  CHECK(tables_of(config_of(manifest_of(200'000, {384, 16'000})))["lambda"] == 1e-4);
  CHECK(tables_of(config_of(manifest_of(32'561, {9, 17})))["lambda"] == 6.1e-4);
  CHECK(tables_of(config_of(manifest_of(19'999, {9, 17})))["lambda"] == 0.001);
  // Slots that share a table have its rows once; further keys of a slot count.
  Manifest shared = manifest_of(200'000, {16'000, 16'000});
  CHECK(!tables_of(config_of(shared)).contains("lambda"));
  shared.slot_tables = {0, 0};
  CHECK(tables_of(config_of(shared)).contains("lambda"));
  Manifest lists = manifest_of(200'000, {16'384, 16'384});
  CHECK(!tables_of(config_of(lists)).contains("lambda"));
  lists.hotness = {3, 1};
  CHECK(tables_of(config_of(lists)).contains("lambda"));
}

TEST_CASE("A first config has wider layers for more samples") {
  const auto widths = [](int64_t samples) {
    const auto config = config_of(manifest_of(samples, {10, 20}), "dlrm");
    nlohmann::json found = {tables_of(config)["embedding_vec_size"]};
    for (const auto& layer : config["layers"])
      if (layer["type"] == "MLP") found.push_back(layer["mlp_param"]["num_outputs"]);
    return found;
  };
  CHECK(widths(99'999) == nlohmann::json::parse("[8, [32, 8], [128, 64]]"));
  CHECK(widths(100'000) == nlohmann::json::parse("[8, [32, 8], [256, 128]]"));
  CHECK(widths(999'999) == nlohmann::json::parse("[8, [32, 8], [256, 128]]"));
  CHECK(widths(1'000'000) == nlohmann::json::parse("[16, [64, 16], [256, 128]]"));
}

TEST_CASE("Vectors of a first config begin well above 0, those of DCN still further") {
  for (const std::string& model : first_config_models())
    CHECK(tables_of(config_of(manifest_of(1000, {10, 20}), model))["init_stddev"] ==
          (model == "dcn" ? 0.2 : 0.05));
}

TEST_CASE(
    "A first config ends by its evaluations, or after few epochs without a validation split") {
  for (const auto& [samples, validation, epochs] :
       {std::tuple(999'999, true, 30), std::tuple(999'999, false, 5),
        std::tuple(1'000'000, true, 10), std::tuple(1'000'000, false, 2)}) {
    INFO(samples << " " << validation);
    const auto config = config_of(manifest_of(samples, {10, 20}, validation));
    const auto& solver = config["solver"];
    CHECK(solver["num_epochs"] == epochs);
    CHECK(solver.contains("early_stop") == validation);
    CHECK(solver.contains("eval_every_epochs") == (validation && samples < 1'000'000));
    CHECK(solver.contains("eval_interval") == (validation && samples >= 1'000'000));
    CHECK(config["layers"][0].contains("shuffle_samples") == (samples < 1'000'000));
  }
  // Four evaluations an epoch, of all 5000 samples in batches of 2048.
  const auto solver = config_of(manifest_of(1'000'000, {10, 20}))["solver"];
  CHECK(solver["eval_interval"] == 122);
  CHECK(solver["eval_batches"] == 3);
}

TEST_CASE("A first config is refused without training rows, and for an unknown model") {
  const auto message = [](const std::string& model, const Manifest& m) {
    return test::message_of<ConfigError>([&] { first_config(model, m, "work/"); });
  };
  CHECK(message("dcnv2", manifest_of(0, {10})) ==
        "work/manifest.json: expected data with training rows, found none");
  CHECK(message("mlp", manifest_of(10, {10})) ==
        "expected a model (dlrm, dcnv2, deepfm, wdl, dcn), found \"mlp\"");
  Manifest no_dense = manifest_of(10, {10});
  no_dense.dense_dim = 0;
  test::check_contains(message("dlrm", no_dense),
                       {"dlrm: expected data with dense features, found none"});
}

}  // namespace hlite::data
