#include "hugectr_lite/config/train_config.h"

#include <filesystem>
#include <fstream>

#include "hugectr_lite/core/file.h"
#include "tests/config/minimal_config.h"
#include "tests/data_reader/log_capture.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::config {

TEST_CASE("The solver block arrives whole") {
  const auto config = minimal();
  const SolverConfig& solver = config->solver;
  CHECK(solver.seed == 7);
  CHECK(solver.display == 10);
  CHECK(solver.max_iter == 200);
  CHECK(!solver.num_epochs);
  CHECK(solver.snapshot == 1000000);
  CHECK(solver.snapshot_prefix == "./t_");
  CHECK(solver.batchsize == 256);
  CHECK(solver.batchsize_eval == 512);
  CHECK(solver.eval_interval == 50);
  CHECK(solver.eval_batches == 4);
  CHECK(solver.auc_target == 0.99);
  CHECK(solver.metric_auc);
  CHECK(solver.metric_average_loss);
  CHECK(solver.gpu == std::vector<std::vector<int>>{{0}});
  CHECK(solver.ranks() == 1);
  CHECK(!solver.node_first);
  CHECK(!solver.mixed_precision);
  CHECK(solver.enable_overlap);
  CHECK(solver.cuda_graph);
  CHECK(!solver.holistic_cuda_graph);
  CHECK(solver.algorithm_search);
  CHECK(solver.device == DeviceChoice::kAuto);
  CHECK(solver.threads == 0);
  CHECK(solver.precision == FloatType::kFloat);
}

TEST_CASE("Keys that carry no information may be absent") {
  const auto config = parse_train_config(
      R"({"solver": {"batchsize": 8}, "optimizer": {"type": "Adam", "adam_hparam": {"learning_rate": 0.5}},
          "layers": [{"type": "Data", "format": "RawAsync", "source": "x",
                      "label": {"top": "y", "label_dim": 1}, "dense": {"top": "x", "dense_dim": 2},
                      "sparse": [{"top": "k", "slot_num": 3}]}]})",
      "few.json", {});
  const SolverConfig& solver = config->solver;
  CHECK(solver.display == 100);
  CHECK(solver.snapshot == 0);
  CHECK(solver.snapshot_prefix == "./snapshot_");
  CHECK(solver.gpu == std::vector<std::vector<int>>{{0}});
  CHECK(solver.ranks() == 1);
  CHECK(config->optimizer.rule.beta1 == 0.9);
  CHECK(config->optimizer.rule.beta2 == 0.999);
  CHECK(config->optimizer.rule.epsilon == 1e-8);
  CHECK(config->data.sparse[0].hotness == std::vector<int64_t>{1, 1, 1});
  CHECK(config->data.sparse[0].max_feature_num_per_sample == 3);
  CHECK(!config->data.checksums);
  CHECK(!config->data.async_param);
  CHECK(!config->data.num_samples);
  const auto shuffled =
      parse_train_config(config->root.dump(), "few.json", {"layers[0].async_param.shuffle=true"});
  REQUIRE(shuffled->data.async_param);
  CHECK(shuffled->data.async_param->io_alignment == 512);
  CHECK(shuffled->data.async_param->io_block_size == 1 << 20);
  CHECK(shuffled->data.async_param->num_batches_per_thread == 4);
  CHECK(shuffled->data.shuffle);
}

TEST_CASE("The solver's defaults and alternatives") {
  const std::string few =
      R"(solver={"lr_policy": "fixed", "display": 1, "snapshot": 0, "snapshot_prefix": "",)";
  auto config = minimal({few + R"("gpu": [0, 1], "batchsize": 8})"});
  CHECK(config->solver.num_epochs == 1);
  CHECK(!config->solver.max_iter);
  CHECK(config->solver.batchsize_eval == 8);
  CHECK(config->solver.eval_interval == 0);
  CHECK(config->solver.metric_auc);
  CHECK(!config->solver.metric_average_loss);
  CHECK(!config->solver.auc_target);
  CHECK(config->solver.ranks() == 2);

  config = minimal({few + R"("gpu": [[0, 1], [1, 0]], "batchsize": 8.0, "num_epochs": 3,
    "device_layout": "NodeFirst", "mixed_precision": 512, "eval_metrics": ["AverageLoss"],
    "device": "cpu", "threads": 3, "cuda_graph": false, "algorithm_search": false})"});
  CHECK(config->solver.gpu == std::vector<std::vector<int>>{{0, 1}, {1, 0}});
  CHECK(config->solver.node_first);
  CHECK(config->solver.batchsize == 8);
  CHECK(config->solver.num_epochs == 3);
  CHECK(config->solver.mixed_precision == 512);
  CHECK(!config->solver.metric_auc);
  CHECK(config->solver.metric_average_loss);
  CHECK(config->solver.device == DeviceChoice::kCpu);
  CHECK(config->solver.threads == 3);
  CHECK(!config->solver.cuda_graph);
  CHECK(!config->solver.algorithm_search);

  for (const auto& [length, batches] : {std::pair{R"("max_eval_batches": 5)", 5},
                                        {R"("max_eval_samples": 17)", 3},
                                        {R"("max_eval_samples": 16)", 2}}) {
    config = minimal({few + R"("gpu": [0], "batchsize": 8, "eval_interval": 1, )" + length + "}"});
    CHECK(config->solver.eval_batches == batches);
  }
}

TEST_CASE("An AUC target of 1 never stops training") {
  CHECK(!minimal({R"(solver.eval_metrics=["AUC:1.0"])"})->solver.auc_target);
  CHECK(!minimal({R"(solver.eval_metrics=["AUC"])"})->solver.auc_target);
  CHECK(minimal({R"(solver.eval_metrics=["AUC:0"])"})->solver.auc_target == 0.0);
  CHECK(minimal({R"(solver.eval_metrics=["AUC:.8025"])"})->solver.auc_target == 0.8025);
  CHECK(!minimal({"solver.eval_metrics=[]"})->solver.metric_auc);
}

TEST_CASE("sums in no order are for whole gradients") {
  const std::string own = R"(all_reduce={"algo":"NCCL","ordered":false})";
  CHECK(!minimal({own})->all_reduce.ordered);
  test::check_contains(
      test::message_of<ConfigError>([&] {
        (void)minimal({own, "solver.shard_optimizer=true"});
      }),
      {"all_reduce.ordered", "expected true where solver.shard_optimizer is true, found false"});
}

TEST_CASE("all_reduce defaults to NCCL without the block and to Oneshot inside it") {
  auto config = minimal();
  CHECK(!config->all_reduce.oneshot);
  CHECK(config->all_reduce.grouped);
  config = minimal({"all_reduce={}"});
  CHECK(config->all_reduce.oneshot);
  CHECK(!config->all_reduce.grouped);

  std::string text = test::kMinimalConfig;
  const size_t from = text.find("  \"all_reduce\""), to = text.find("  \"layers\"");
  text.erase(from, to - from);
  config = parse_train_config(text, "minimal.json", {});
  CHECK(!config->all_reduce.oneshot);
  config = parse_train_config(text, "minimal.json", {"all_reduce.grouped=true"});
  CHECK(config->all_reduce.oneshot);
  CHECK(config->all_reduce.grouped);
}

TEST_CASE("The other layers are handed on, with the changes of --set") {
  const auto config = minimal({"layers.fc.fc_param.num_output=2", "layers.loss.top=L"});
  REQUIRE(config->layers.size() == 2);
  CHECK(config->layers[0]->path() == "layers[1]");
  CHECK(config->layers[0]->find("fc_param")->find("num_output")->integer() == 2);
  CHECK(config->layers[1]->find("top")->string() == "L");
  CHECK(config->layers[1] == &config->root.find("layers")->elements()[2]);
  CHECK(JsonNode::parse(config->root.dump(), "d").dump() == config->root.dump());
}

TEST_CASE("strict: false turns unknown keys into warnings, nothing else") {
  CHECK_THROWS_AS(minimal({"solver.unheard_of=1"}), ConfigError);
  const auto config =
      minimal({"strict=false", "solver.unheard_of=1", "extra=2", "optimizer.sgd_hparam.odd=3",
               "layers.data.label.odd=4", "layers.data.async_param.odd=5"});
  CHECK(!config->strict);
  CHECK_THROWS_AS(minimal({"strict=false", "solver.vvgpu=1"}), ConfigError);
  CHECK_THROWS_AS(minimal({"strict=false", "solver.display=x"}), ConfigError);
}

TEST_CASE("Keys of other versions of HugeCTR") {
  CHECK(
      minimal({"solver.eval_metrics=[\"AUC\"]", "solver.auc_threshold=0.75"})->solver.auc_target ==
      0.75);
  CHECK(!minimal({"solver.eval_metrics=[\"AUC\"]", "solver.auc_threshold=1"})->solver.auc_target);
  CHECK(minimal({"solver.export_predictions_prefix=a/b_"})->solver.export_predictions_prefix ==
        "a/b_");
  // HugeCTR passes over files of weights that are not there.
  const test::LogCapture log;
  minimal({"solver.model_file=none.model", "solver.sparse_model_file=[\"\", \"0.model\"]"});
  CHECK(log.count("there is no file none.model; training does not start from it") == 1);
  CHECK(log.count("there is no file ") == 2);
  const auto shared = minimal({"layers.data.slot_size_array=[100, 0, 7]"});
  CHECK(shared->data.slot_size_array == std::vector<int64_t>{100, 7, 7});
  CHECK(shared->data.slot_vocabularies == std::vector<int64_t>{0, 2, 2});
  CHECK(minimal()->data.slot_vocabularies.empty());
}

TEST_CASE("A graph file trains with a second file for the solver") {
  const test::TemporaryDirectory dir;
  const JsonNode whole = JsonNode::parse(test::kMinimalConfig, "minimal.json");
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(dir / name) << text;
    return dir / name;
  };
  const std::string graph =
      write("graph.json", "{\"layers\":" + whole.find("layers")->dump() + "}");
  const std::string solver =
      write("solver.json", "{\"solver\":" + whole.find("solver")->dump() +
                               ",\n\"optimizer\":" + whole.find("optimizer")->dump() + "}");
  const auto config = load_train_config(graph, {"solver.batchsize=512"}, solver);
  CHECK(config->solver.batchsize == 512);
  CHECK(config->optimizer.schedule.base == 0.5);
  CHECK(config->directory == parent_directory(graph));
  const auto fault = [&](const std::string& first, const std::string& second) {
    return test::message_of<ConfigError>([&] { load_train_config(first, {}, second); });
  };
  test::check_contains(
      fault(graph, ""),
      {"graph.json:1", "missing key \"solver\" and \"optimizer\"", "--solver FILE"});
  test::check_contains(fault(solver, solver), {"solver.json:1: solver: expected it in one file",
                                               "found it at ", "solver.json:1 too"});
  test::check_contains(fault(graph, write("list.json", "[1]")),
                       {"list.json:1", "expected an object, found a list of 1"});
  test::check_contains(fault(graph, write("bad.json", "{\"solver\": {}, \"optimizer\": 3}")),
                       {"bad.json:1: solver: missing key \"batchsize\"", "optimizer: expected"});
  test::check_contains(fault(graph, dir / "none.json"), {"none.json"});
}

TEST_CASE("Paths are looked up in the config's folder, then in the working directory") {
  namespace fs = std::filesystem;
  const fs::path here = fs::current_path();
  const test::TemporaryDirectory folder;
  const fs::path base = folder.path();
  fs::create_directories(base / "config");
  fs::create_directories(base / "work");
  std::ofstream(base / "config" / "c.json") << test::kMinimalConfig;
  for (const char* file : {"config/both", "work/both", "work/only_work"}) {
    std::ofstream(base / file) << "x";
  }
  fs::current_path(base / "work");
  const auto config = load_train_config((base / "config" / "c.json").string(), {});
  CHECK(config->directory == (base / "config").string());
  CHECK(config->resolve("both") == (base / "config" / "both").string());
  CHECK(config->resolve("only_work") == "only_work");
  CHECK(config->resolve("nowhere") == (base / "config" / "nowhere").string());
  CHECK(config->resolve("/etc/x") == "/etc/x");
  // A config named without a folder.
  fs::current_path(base / "config");
  CHECK(load_train_config("c.json", {})->resolve("both") == "both");
  fs::current_path(here);
}

TEST_CASE("Every training config of the project parses") {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(HLITE_CONFIGS_DIR)) {
    if (entry.path().extension() != ".json") continue;
    INFO(entry.path().string());
    // The tools keep their own JSON here too.
    if (JsonNode::parse_file(entry.path().string()).find("solver") == nullptr) continue;
    const auto config = load_train_config(entry.path().string(), {});
    CHECK(config->solver.batchsize % config->solver.ranks() == 0);
    ++count;
  }
  CHECK(count >= 4);
}

TEST_CASE("The MLPerf configs keep their published values") {
  const std::string folder = HLITE_CONFIGS_DIR;
  struct Row {
    const char* file;
    size_t nodes;
    int64_t batchsize;
    double learning_rate;
    bool aligned, grouped;
  };
  for (const Row& row : {Row{"mlperf_dgx_a100.json", 1, 55296, 24, true, false},
                         Row{"mlperf_dgx_a100_8x8x1120.json", 8, 71680, 26, false, true},
                         Row{"mlperf_dgx_a100_14x8x640.json", 14, 71680, 26, false, true}}) {
    INFO(row.file);
    const auto config = load_train_config(folder + "/" + row.file, {});
    CHECK(config->solver.gpu.size() == row.nodes);
    CHECK(config->solver.ranks() == static_cast<int64_t>(8 * row.nodes));
    CHECK(config->solver.batchsize == row.batchsize);
    CHECK(config->solver.mixed_precision == 1024);
    CHECK(config->solver.auc_target == 0.8025);
    CHECK(config->solver.holistic_cuda_graph);
    CHECK(config->optimizer.schedule.base == row.learning_rate);
    CHECK(config->optimizer.atomic_update);
    CHECK(config->all_reduce.oneshot);
    CHECK(config->all_reduce.grouped == row.grouped);
    CHECK(config->data.dense_aligned == row.aligned);
    CHECK(config->data.num_samples == 4195196928);
    CHECK(config->layers.size() == 11);
    int64_t rows = 0;
    for (const int64_t size : config->data.slot_size_array) rows += size;
    CHECK(rows == 187767399);
  }
}

}  // namespace hlite::config
