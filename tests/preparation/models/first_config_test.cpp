#include "hugectr_lite/preparation/models/first_config.h"

#include <nlohmann/json.hpp>

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::prep {
namespace {

using data::Manifest;
using data::ManifestFile;

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

TEST_CASE("An epoch of a first config has 250 to 500 iterations, but batches of 128 to 8192") {
  // clang-format off
  const std::pair<int64_t, int64_t> cases[] = {
      {1, 1}, {63, 1}, {500, 8}, {2000, 32}, {4096, 128}, {32'561, 128}, {64'000, 256}, {200'000, 512},
      {1'000'000, 2048}, {2'047'999, 4096}, {2'048'000, 8192}, {4'000'000'000, 8192}};
  // clang-format on
  for (const auto& [samples, batch] : cases) {
    INFO(samples);
    CHECK(config_of(manifest_of(samples, {10, 20}))["solver"]["batchsize"] == batch);
  }
}

TEST_CASE("A first config has a penalty on all rows that follows the samples, if rows are few") {
  // 512 keys a slot in a batch, 16 rows for each, would be fewer than 200,000 rows.
  for (const auto& [rows, penalty] : {std::pair(199'616, true), std::pair(199'617, false)}) {
    INFO(rows);
    const auto config = config_of(manifest_of(200'000, {384, rows}));
    CHECK(tables_of(config).contains("lambda") == penalty);
    CHECK(config["optimizer"]["update_type"] == (penalty ? "Global" : "Local"));
  }
  for (const auto& [samples, lambda] :
       {std::pair(100'000, 0.02), std::pair(200'000, 0.01), std::pair(10'000'000, 2e-4)})
    CHECK(tables_of(config_of(manifest_of(samples, {9, 17})))["lambda"] == lambda);
  // Below 100,000 samples: 500 keys a row are many.
  CHECK(tables_of(config_of(manifest_of(10'000, {15, 25})))["lambda"] == 0.005);
  CHECK(tables_of(config_of(manifest_of(10'000, {15, 26})))["lambda"] == 0.02);
  // Of large batches more: 8192 keys a slot, 16 rows for each.
  CHECK(tables_of(config_of(manifest_of(10'000'000, {384, 261'760}))).contains("lambda"));
  CHECK(!tables_of(config_of(manifest_of(10'000'000, {384, 261'761}))).contains("lambda"));
  // Slots that share a table have its rows once; further keys of a slot count.
  Manifest shared = manifest_of(200'000, {150'000, 150'000});
  CHECK(!tables_of(config_of(shared)).contains("lambda"));
  shared.slot_tables = {0, 0};
  CHECK(tables_of(config_of(shared)).contains("lambda"));
  Manifest lists = manifest_of(10'000'000, {262'144, 262'144});
  CHECK(!tables_of(config_of(lists)).contains("lambda"));
  lists.hotness = {3, 1};
  CHECK(tables_of(config_of(lists)).contains("lambda"));
}

TEST_CASE("A first config has wider layers for more samples, and normalises batches") {
  const auto widths = [](int64_t samples) {
    const auto config = config_of(manifest_of(samples, {10, 20}), "dlrm");
    nlohmann::json found = {tables_of(config)["embedding_vec_size"]};
    for (const auto& layer : config["layers"])
      if (layer["type"] == "MLP")
        found.push_back(layer["mlp_param"]["num_outputs"]);
      else if (layer["type"] == "InnerProduct")
        found.push_back(layer["fc_param"]["num_output"]);
      else if (layer["type"] == "BatchNorm" || layer["type"] == "Dropout")
        found.push_back(layer["type"]);
    return found;
  };
  CHECK(widths(19'999) == nlohmann::json::parse(R"([8, [32, 8], [64, 32], "Dropout", 1])"));
  CHECK(widths(99'999) == nlohmann::json::parse(R"([8, [32, 8], [128, 64], "Dropout", 1])"));
  const auto wide = [](int64_t width) {
    return nlohmann::json::parse(fmt::format(
        R"([{0}, [{1}, {0}], 256, "BatchNorm", "Dropout", 128, "BatchNorm", "Dropout", 1])", width,
        4 * width));
  };
  CHECK(widths(100'000) == wide(8));
  CHECK(widths(999'999) == wide(8));
  CHECK(widths(1'000'000) == wide(16));
}

TEST_CASE("A first config learns slowly from few samples, and that of DCN twice as fast") {
  const auto rate = [](int64_t samples, const char* model) {
    return config_of(manifest_of(samples, {10, 20}),
                     model)["optimizer"]["adam_hparam"]["learning_rate"];
  };
  CHECK(rate(19'999, "dcnv2") == 0.001);
  CHECK(rate(20'000, "dcnv2") == 0.002);
  CHECK(rate(20'000, "dcn") == 0.004);
}

TEST_CASE("The rate of a first config decays where few samples have categories that are rare") {
  // 19,999 samples of two slots: 20 keys a row of 1999 rows.
  const nlohmann::json rare = config_of(manifest_of(19'999, {1000, 1000}), "dcn");
  const int64_t an_epoch = 19'999 / 128;
  const nlohmann::json& adam = rare["optimizer"]["adam_hparam"];
  CHECK(adam["learning_rate"] == 0.002);
  CHECK(adam["decay_start"] == 2 * 19'999 / 128);
  CHECK(adam["decay_steps"] == 8 * 19'999 / 128);
  CHECK(adam["end_lr"] == 2e-5);
  CHECK(adam["decay_start"] >= 2 * an_epoch);
  CHECK(rare["solver"]["num_epochs"] == 10);
  CHECK(!rare["solver"].contains("lr_plateau"));
  CHECK(rare["solver"].contains("early_stop"));
  CHECK(config_of(manifest_of(19'999, {1000, 1000}, false))["solver"]["num_epochs"] == 10);
  for (const Manifest& m : {manifest_of(19'999, {1000, 999}), manifest_of(20'000, {5000, 5000})}) {
    const nlohmann::json often = config_of(m);
    CHECK(!often["optimizer"]["adam_hparam"].contains("decay_start"));
    CHECK(often["solver"].contains("lr_plateau"));
  }
}

TEST_CASE(
    "A first config ends by its evaluations, or after few epochs without a validation split") {
  for (const auto& [samples, validation, epochs] :
       {std::tuple(19'999, false, 20), std::tuple(999'999, true, 50), std::tuple(999'999, false, 5),
        std::tuple(1'000'000, true, 10), std::tuple(1'000'000, false, 2)}) {
    INFO(samples << " " << validation);
    Manifest manifest = manifest_of(samples, {10, 20}, validation);
    const auto config = config_of(manifest);
    const auto& solver = config["solver"];
    CHECK(solver["num_epochs"] == epochs);
    CHECK(solver.contains("early_stop") == validation);
    if (validation) {
      CHECK(solver["early_stop"]["monitor"] == "AverageLoss");
      CHECK(solver["early_stop"]["min_delta"] == 7e-5);  // 0.005 / sqrt(5000)
    }
    CHECK(solver.contains("eval_every_epochs") == (validation && samples < 1'000'000));
    CHECK(solver.contains("eval_interval") == (validation && samples >= 1'000'000));
    for (const char* format : {"raw", "norm"}) {
      manifest.format = format;
      CHECK(config_of(manifest)["layers"][0].contains("shuffle_samples") == (samples < 1'000'000));
    }
  }
  // Four evaluations an epoch, of all 5000 samples in batches of 2048.
  const auto solver = config_of(manifest_of(1'000'000, {10, 20}))["solver"];
  CHECK(solver["eval_interval"] == 122);
  CHECK(solver["eval_batches"] == 3);
}

TEST_CASE(
    "A first config begins at the base rate of the training rows, or at the mean of real labels") {
  const auto loss_of = [](const Manifest& m) {
    nlohmann::json loss = config_of(m)["layers"].back();
    for (const char* key : {"type", "bottom", "top"}) loss.erase(key);
    return loss;
  };
  using nlohmann::json;
  Manifest clicks = manifest_of(32'561, {10, 20});
  CHECK(loss_of(clicks).empty());  // manifests of earlier versions do not count positives
  for (const auto& [positives, base] :
       {std::pair(7841, 0.2408), {3, 9.213e-5}, {32'558, 0.99990787}, {16'280, 0.5}}) {
    clicks.files[0].positives = positives;
    CHECK(loss_of(clicks) == json{{"base_score", base}});
  }
  clicks.files[0].positives = 32'561;  // of one class nothing is to be learnt
  CHECK(loss_of(clicks).empty());
  clicks.files[0].positives = 7841;
  clicks.sample_weight = true;  // of rows that weigh as much as each other it would be right
  CHECK(loss_of(clicks).empty());
  clicks.files[0].labels = {.mean = 0.5, .deviation = 0.5};
  CHECK(loss_of(clicks) == json{{"base_score", 0.5}});

  const auto noise_of = [](const Manifest& m) {
    return config_of(m)["solver"]["early_stop"]["min_delta"].get<double>();
  };
  Manifest stars = manifest_of(32'561, {10, 20});
  const double noise = noise_of(stars);
  stars.real_label = true;
  CHECK(loss_of(stars).empty());
  CHECK(noise_of(stars) == noise);
  struct Case {
    double mean, deviation, base, scale;
  };
  for (const Case& of : {Case{3.50156, 1.04253, 3.502, 1.043},
                         {-123'456.789, 1000.4, -123'457, 1000},
                         {0.0123456, 100, 0, 100},
                         {5e-7, 2e-9, 5e-7, 2e-9}}) {
    INFO(of.mean);
    stars.files[0].labels = {.mean = of.mean, .deviation = of.deviation};
    CHECK(loss_of(stars) == json{{"base_score", of.base}, {"score_scale", of.scale}});
    CHECK(noise_of(stars) == Approx(noise * of.deviation * of.deviation).epsilon(0.1));
  }
  stars.files[0].labels = {.mean = 3, .deviation = 0};  // all the same
  CHECK(loss_of(stars).empty());
}

TEST_CASE(
    "A first config is refused without training rows, for an unknown model and for other labels") {
  const auto message = [](const std::string& model, const Manifest& m) {
    return test::message_of<ConfigError>([&] { first_config(model, m, "work/"); });
  };
  CHECK(message("dcnv2", manifest_of(0, {10})) ==
        "work/manifest.json: expected data with training rows, found none");
  CHECK(message("mlp", manifest_of(10, {10})) ==
        "expected a model (dlrm, dcnv2, deepfm, wdl, dcn, gdcn, finalmlp, finalnet, masknet, mmoe, "
        "ple, din, dien, bst), found \"mlp\"");
  Manifest tasks = manifest_of(10, {10});
  CHECK(message("ple", tasks) ==
        "work/manifest.json: expected data with several labels for ple, found 1");
  tasks.label_dim = 2;
  CHECK(message("gdcn", tasks) ==
        "work/manifest.json: expected data with one label for gdcn, found 2");
}

TEST_CASE("A first config of several tasks has a logit and a weight for each label") {
  Manifest tasks = manifest_of(10, {10});
  tasks.label_dim = 3;
  for (const char* model : {"mmoe", "ple"}) {
    const auto config = config_of(tasks, model);
    CHECK(config["layers"][0]["label"]["label_dim"] == 3);
    const auto& layers = config["layers"];
    CHECK(layers[layers.size() - 2]["bottom"].size() == 3);
    CHECK(layers.back()["target_weight"] == nlohmann::json({1, 1, 1}));
  }
}

TEST_CASE("A first config of histories takes the target of a list from the table that they share") {
  // Slots: two lists, a city, items that share the table of the first list, categories.
  Manifest m = manifest_of(50'000, {90, 8, 5, 90, 90, 8});
  const char* names[] = {"item_history", "cates", "city", "last_item", "item", "cate"};
  for (const char* name : names) m.columns.emplace_back().name = name;
  m.format = "multi_hot_raw";
  m.hotness = {4, 4, 1, 1, 1, 1};
  m.fixed_length = false;
  m.slot_tables = {0, 1, 2, 0, 0, 1};
  m.histories = {{"clicks", 0, 2}};
  for (const char* model : {"din", "dien", "bst"}) {
    const nlohmann::json config = config_of(m, model);
    CHECK(config["layers"][0]["sparse"] == nlohmann::json::parse(R"([
      {"top": "history", "slot_num": 2, "max_len": 4, "lengths": "history_len"},
      {"top": "context", "slot_num": 2, "nnz_per_slot": [1, 1], "is_fixed_length": false},
      {"top": "target", "slot_num": 2, "nnz_per_slot": [1, 1], "is_fixed_length": false}])"));
    const auto& embedding = config["layers"][1];
    CHECK(embedding["bottom"] == nlohmann::json({"context", "target", "history"}));
    CHECK(tables_of(config)["slot_tables"] == nlohmann::json({0, 1, 1, 2, 1, 2}));
    CHECK(config["optimizer"]["adam_hparam"]["learning_rate"] ==
          (model == std::string("bst") ? 0.002 : 0.001));
  }
  const auto refused = [&](const Manifest& of, const std::string& message) {
    CHECK_THAT(test::message_of<ConfigError>([&] { first_config("din", of, "work/"); }),
               Catch::StartsWith("work/manifest.json: expected ") && Catch::Contains(message));
  };
  Manifest other = m;
  other.columns[4].name = "shown";  // which of two
  refused(other, "of the history's column \"item_history\"");
  refused(other, "found last_item, shown");
  other = m;
  other.slot_tables = {0, 1, 2, 0, 0, 3};
  refused(other, "named like it without \"_history\", found none");
  other = m;
  other.hotness[5] = 2;
  refused(other, "one key of the target \"cate\", found up to 2");
  other = m;
  other.histories.clear();
  refused(other, "data with one history, found none");
  CHECK_THAT(test::message_of<ConfigError>([&] { first_config("dcn", m, "work/"); }),
             Catch::Contains("data without histories for dcn (din, dien and bst read them)"));
}

TEST_CASE("A first config of dlrm needs no dense features") {
  Manifest no_dense = manifest_of(10, {10});
  no_dense.dense_dim = 0;
  const auto config = config_of(no_dense, "dlrm");
  for (const auto& layer : config["layers"]) CHECK(layer["type"] != "Interaction");
}

}  // namespace hlite::prep
