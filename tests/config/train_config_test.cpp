#include "hugectr_lite/config/train_config.h"

#include <filesystem>
#include <fstream>

#include "tests/config/broken_config.h"

namespace hlite::config {
namespace {

std::unique_ptr<TrainConfig> minimal(const std::vector<std::string>& overrides = {}) {
  return parse_train_config(test::kMinimalConfig, "minimal.json", overrides);
}

OptimizerConfig optimizer(const char* text) {
  return parse_optimizer(JsonNode::parse(text, "o.json"), true);
}

}  // namespace

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
  CHECK(solver.device == "auto");
  CHECK(solver.threads == 0);
  CHECK(solver.precision == "fp32");
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
  CHECK(config->solver.device == "cpu");
  CHECK(config->solver.threads == 3);
  CHECK(!config->solver.cuda_graph);
  CHECK(!config->solver.algorithm_search);
}

TEST_CASE("An AUC target of 1 never stops training") {
  CHECK(!minimal({R"(solver.eval_metrics=["AUC:1.0"])"})->solver.auc_target);
  CHECK(!minimal({R"(solver.eval_metrics=["AUC"])"})->solver.auc_target);
  CHECK(minimal({R"(solver.eval_metrics=["AUC:0"])"})->solver.auc_target == 0.0);
  CHECK(minimal({R"(solver.eval_metrics=["AUC:.8025"])"})->solver.auc_target == 0.8025);
  CHECK(!minimal({"solver.eval_metrics=[]"})->solver.metric_auc);
}

TEST_CASE("The optimizer block of each type") {
  OptimizerConfig o = minimal()->optimizer;
  CHECK(o.type == OptimizerType::kSgd);
  CHECK(o.update_type == UpdateType::kLocal);
  CHECK(o.learning_rate == 0.5);
  CHECK(o.warmup_steps == 10);
  CHECK(o.decay_start == 100);
  CHECK(o.decay_steps == 90);
  CHECK(o.decay_power == 2);
  CHECK(o.end_lr == 0.125);
  CHECK(o.atomic_update);

  o = optimizer(R"({"type": "SGD", "global_update": true, "sgd_hparam": {"learning_rate": 26}})");
  CHECK(o.learning_rate == 26);
  CHECK(o.update_type == UpdateType::kGlobal);
  CHECK(!o.atomic_update);
  CHECK(o.warmup_steps == 1);
  CHECK(o.decay_start == 0);
  CHECK(o.decay_steps == 1);
  CHECK(o.decay_power == 2);
  CHECK(o.end_lr == 0);

  o = optimizer(R"({"type": "Adam", "update_type": "LazyGlobal", "adam_hparam":
    {"learning_rate": 0.001, "beta1": 0, "beta2": 0.5, "epsilon": 1e-7, "warmup_steps": 4}})");
  CHECK(o.type == OptimizerType::kAdam);
  CHECK(o.update_type == UpdateType::kLazyGlobal);
  CHECK(o.beta1 == 0);
  CHECK(o.beta2 == 0.5);
  CHECK(o.epsilon == 1e-7);
  CHECK(o.warmup_steps == 4);

  o = optimizer(R"({"type": "MomentumSGD", "update_type": "Global",
    "momentum_sgd_hparam": {"learning_rate": 1, "momentum_factor": 0.9}})");
  CHECK(o.type == OptimizerType::kMomentum);
  CHECK(o.update_type == UpdateType::kGlobal);
  CHECK(o.momentum_factor == 0.9);
  o = optimizer(
      R"({"type": "Nesterov", "nesterov_hparam": {"learning_rate": 1, "momentum_factor": 0.8}})");
  CHECK(o.type == OptimizerType::kNesterov);
  CHECK(o.momentum_factor == 0.8);
  o = optimizer(R"({"type": "AdaGrad", "adagrad_hparam":
    {"learning_rate": 1, "epsilon": 0.5, "initial_accumulator": 0.25}})");
  CHECK(o.type == OptimizerType::kAdaGrad);
  CHECK(o.epsilon == 0.5);
  CHECK(o.initial_accumulator == 0.25);
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

TEST_CASE("The Data layer arrives whole") {
  const DataConfig data = minimal()->data;
  CHECK(data.name == "data");
  CHECK(data.format == "RawAsync");
  CHECK(data.source == "train.bin");
  CHECK(data.eval_source == "val.bin");
  CHECK(data.check == "None");
  CHECK(data.num_samples == 51200);
  CHECK(data.eval_num_samples == 1024);
  CHECK(data.cache_eval_data == 4);
  CHECK(data.slot_size_array == std::vector<int64_t>{100, 50, 7});
  CHECK(!data.float_label);
  CHECK(!data.float_dense);
  CHECK(data.label_top == "y");
  CHECK(data.label_dim == 1);
  CHECK(data.dense_top == "x");
  CHECK(data.dense_dim == 5);
  CHECK(data.dense_aligned);
  CHECK(data.dense_width() == 8);
  REQUIRE(data.sparse.size() == 1);
  CHECK(data.sparse[0].top == "k");
  CHECK(data.sparse[0].type == "DistributedSlot");
  CHECK(data.sparse[0].slot_num == 3);
  CHECK(data.sparse[0].max_feature_num_per_sample == 3);
  CHECK(data.sparse[0].max_nnz == 1);
  REQUIRE(data.async_param);
  CHECK(data.async_param->num_threads == 2);
  CHECK(data.async_param->num_batches_per_thread == 4);
  CHECK(data.async_param->io_block_size == 4096);
  CHECK(data.async_param->io_depth == 2);
  CHECK(data.async_param->io_alignment == 512);
  CHECK(data.async_param->shuffle);
  CHECK(data.shuffle);
}

TEST_CASE("The Data layer's optional keys") {
  const auto data = minimal({R"(layers[0]={"type": "Data", "format": "Raw", "source": "a",
    "eval_source": "b", "check": "None", "num_samples": 10, "eval_num_samples": 5,
    "float_label_dense": true, "num_iterations_statistics": 30,
    "label": {"top": "l", "label_dim": 1}, "dense": {"top": "d", "dense_dim": 13},
    "sparse": [{"top": "s", "type": "LocalizedSlot", "max_feature_num_per_sample": 2,
                "slot_num": 2}]})"})
                        ->data;
  CHECK(data.format == "Raw");
  CHECK(data.float_label);
  CHECK(data.float_dense);
  CHECK(data.slot_size_array.empty());
  CHECK(!data.async_param);
  CHECK(!data.shuffle);
  CHECK(data.cache_eval_data == 0);
  CHECK(data.dense_width() == 13);
  CHECK(data.sparse[0].max_nnz == 1);
  CHECK(data.sparse[0].type == "LocalizedSlot");
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

TEST_CASE("Paths are looked up beside the config, then in the working directory") {
  namespace fs = std::filesystem;
  const fs::path here = fs::current_path();
  const fs::path base = fs::temp_directory_path() / "hlite_train_config_test";
  fs::remove_all(base);
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
  fs::remove_all(base);
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
    CHECK(config->optimizer.learning_rate == row.learning_rate);
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
