// `train` reproduces the losses of tests/data/pytorch/losses.json, which generate.py there recorded
// in PyTorch: optimizers, learning rates and layers that the golden runs do not have.
#include "hugectr_lite/checkpoint/safetensors.h"
#include "tests/end_to_end/golden_on_gpus.h"
#include "tests/end_to_end/golden_run.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/metrics_events.h"

namespace hlite::test {
namespace {

using nlohmann::json;

const json& recorded_losses() {
  static const json recorded =
      json::parse(read_text(std::string(HLITE_TEST_DATA) + "/pytorch/losses.json"));
  return recorded;
}

// Samples as generate.py draws them. `data`: what is special about them.
std::string pytorch_samples(const json& recorded, const json& data) {
  std::string bytes;
  const auto put = [&](auto v) {
    static_assert(sizeof(v) == 4);
    bytes.append(reinterpret_cast<const char*>(&v), sizeof(v));
  };
  const std::vector<uint32_t> rows = recorded["rows"];
  const uint64_t count = recorded["batch"].get<uint64_t>() * recorded["runs"][0]["losses"].size();
  const bool real = data.value("real", false), weighted = data.value("sample_weight", false);
  const double share = data.value("negative_share", 1.0);
  const uint64_t drawn = random::stream_of("share of negatives"), seed = recorded["seed"];
  for (uint64_t i = 0, n = 0; n < count; ++i) {
    const bool even = random::word(1, 0, i) % rows[0] % 2 == 0;
    const bool label = even == (random::word(3, 0, i) % 100 < 80);
    if (!label && !(random::word(seed, drawn, i) < share * 0x1p32)) continue;
    ++n;
    if (real)
      put(2 * random::uniform(random::word(6, 0, i)) - (even ? 1.0f : 0.0f));
    else
      put(label ? 1.0f : 0.0f);
    if (weighted)
      put(random::word(5, 1, i) % 7 == 0 ? 0.0f : 3 * random::uniform(random::word(5, 0, i)));
    for (uint64_t j = 0; j < recorded["dense"].get<uint64_t>(); ++j)
      put(2 * random::uniform(random::word(2, j, i)) - 1);
    for (uint64_t s = 0; s < rows.size(); ++s) put(random::word(1, s, i) % rows[s]);
  }
  return bytes;
}

json pytorch_config(const json& recorded, const json& run) {
  const auto& rows = recorded["rows"];
  json config = json::parse(R"({"solver": {"display": 1, "batchsize_eval": 64}, "layers": [
    {"name": "data", "type": "Data", "format": "Raw", "source": "train.bin", "eval_source": "train.bin",
     "check": "None", "float_label_dense": true, "label": {"top": "label", "label_dim": 1},
     "dense": {"top": "dense", "aligned": "None"},
     "sparse": [{"top": "keys", "type": "LocalizedSlot", "max_nnz": 1}]},
    {"name": "emb", "type": "LocalizedSlotSparseEmbeddingOneHot", "bottom": "keys", "top": "emb",
     "sparse_embedding_hparam": {"combiner": 0}}]})");
  json &solver = config["solver"], &data = config["layers"][0];
  json& tables = config["layers"][1]["sparse_embedding_hparam"];
  solver["seed"] = recorded["seed"];
  solver["max_iter"] = solver["eval_interval"] = run["losses"].size();
  solver["batchsize"] = recorded["batch"];
  solver["eval_batches"] = recorded["evaluated"].get<int64_t>() / 64;
  config["optimizer"] = run["optimizer"];
  data["negative_share"] = run["data"].value("negative_share", 1.0);
  for (const char* key : {"sample_weight", "real"})
    data["label"][key] = run["data"].value(key, false);
  data["dense"]["dense_dim"] = recorded["dense"];
  data["sparse"][0]["slot_num"] = data["sparse"][0]["max_feature_num_per_sample"] = rows.size();
  tables["slot_size_array"] = rows;
  tables["embedding_vec_size"] = recorded["width"];
  for (const auto& layer : run["layers"]) config["layers"].push_back(layer);
  return config;
}

void write_pytorch_weights(const json& shapes, const std::string& path) {
  std::vector<std::vector<float>> values;
  std::vector<TensorRef> tensors;
  values.reserve(shapes.size());
  for (const auto& [name, shape] : shapes.items()) {
    TensorRef tensor{.name = name, .shape = shape.get<std::vector<int64_t>>()};
    auto& of = values.emplace_back(static_cast<size_t>(tensor.size()));
    const float bound = name.find(".table_") != std::string::npos ? 1.0f : 0.5f;
    for (size_t i = 0; i < of.size(); ++i)
      of[i] = bound * (2 * random::uniform(random::word(4, random::stream_of(name), i)) - 1);
    tensor.data = of.data();
    tensors.push_back(std::move(tensor));
  }
  WriteFile file(path);
  checkpoint::write_safetensors(file, tensors);
  file.close();
}

struct PytorchCase {
  Words environment;
  Words arguments;
  size_t iterations;
};

void check_pytorch_losses(const json& run, const PytorchCase& how) {
  INFO(run["name"].get<std::string>() << ", " << fmt::format("{}", fmt::join(how.arguments, " ")));
  const json& recorded = recorded_losses();
  const TemporaryDirectory directory;
  write_text(directory / "config.json", pytorch_config(recorded, run).dump());
  write_text(directory / "train.bin", pytorch_samples(recorded, run["data"]));
  write_pytorch_weights(run["tensors"], directory / "init.safetensors");
  REQUIRE(run_program(how.environment +
                      Words{HLITE_TRAIN, "--config", directory / "config.json", "--init",
                            directory / "init.safetensors", "--quiet", "--metrics",
                            directory / "metrics.jsonl", "--set",
                            "solver.max_iter=" + std::to_string(how.iterations)} +
                      how.arguments)
              .code == 0);
  size_t found = 0, evaluations = 0;
  for (const json& event : events_in(directory / "metrics.jsonl")) {
    if (event["event"] == "eval") {
      ++evaluations;
      for (const auto& [name, value] : run["evaluation"].items()) {
        INFO(name);
        const double tolerance = name == "auc" ? 1e-4 : 1e-5;  // a pair may be won by rounding
        CHECK(event[name].get<double>() == Approx(value.get<double>()).epsilon(tolerance));
      }
      CHECK(event["auc"].is_null() == run["data"].value("real", false));
    }
    if (event["event"] != "train") continue;
    const double loss = run["losses"][found], rate = run["rates"][found];
    ++found;
    INFO("iteration " << found);
    CHECK(event["iter"] == found);
    CHECK(event["lr"].get<double>() == Approx(rate).epsilon(1e-6));
    CHECK(std::abs(event["batch_loss"].get<double>() - loss) <= 1e-5 * loss);
  }
  CHECK(found == how.iterations);
  CHECK(evaluations == (how.iterations == run["losses"].size() ? 1 : 0));
}

}  // namespace

TEST_CASE("losses recorded in PyTorch are reproduced on the CPU, on one rank and on two",
          "[slow][release-only]") {
  const auto& runs = recorded_losses()["runs"];
  REQUIRE(!runs.empty());
  for (const auto& run : runs)
    for (const char* ranks : {"[[0]]", "[[0,1]]"})
      check_pytorch_losses(
          run,
          {{}, {"--device", "cpu", "--threads", "2", "--set", gpu(ranks)}, run["losses"].size()});
}

TEST_CASE("losses recorded in PyTorch are reproduced on an emulated GPU", "[no-asan][no-tsan]") {
  for (const auto& run : recorded_losses()["runs"])
    check_pytorch_losses(
        run, {{"/usr/bin/env", std::string("HLITE_CUDA_LIBRARY=") + HLITE_EMULATED_PLUGIN},
              {"--device", "cuda"},
              run["data"].empty() ? 20 : run["losses"].size()});
}

}  // namespace hlite::test
