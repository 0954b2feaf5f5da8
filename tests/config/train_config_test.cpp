#include "hugectr_lite/config/train_config.h"

#include <filesystem>
#include <fstream>

#include "hugectr_lite/core/file.h"
#include "tests/config/broken_config.h"
#include "tests/data_reader/log_capture.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::config {
namespace {

std::unique_ptr<TrainConfig> minimal(const std::vector<std::string>& overrides = {}) {
  return parse_train_config(test::kMinimalConfig, "minimal.json", overrides);
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

TEST_CASE("The Data layer arrives whole") {
  const DataConfig data = minimal()->data;
  CHECK(data.name == "data");
  CHECK(data.format == DataFormat::kRawAsync);
  CHECK(data.source == "train.bin");
  CHECK(data.eval_source == "val.bin");
  CHECK(!data.checksums);
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
  CHECK(data.sparse[0].type == SlotSpread::kDistributed);
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
  CHECK(data.format == DataFormat::kRaw);
  CHECK(data.float_label);
  CHECK(data.float_dense);
  CHECK(data.slot_size_array.empty());
  CHECK(!data.async_param);
  CHECK(!data.shuffle);
  CHECK(data.cache_eval_data == 0);
  CHECK(data.dense_width() == 13);
  CHECK(data.sparse[0].max_nnz == 1);
  CHECK(data.sparse[0].type == SlotSpread::kLocalized);
}

namespace {
// The Data layer of `format` with these keys (JSON members) and sparse inputs.
DataConfig data_layer(const std::string& format, const std::string& keys,
                      const std::string& sparse) {
  return minimal({R"(layers[0]={"type": "Data", )" + format +
                  R"("source": "a", "eval_source": "b", "check": "None", "num_samples": 10,
    "eval_num_samples": 5, "label": {"top": "l", "label_dim": 1},
    "dense": {"top": "d", "dense_dim": 13}, )" +
                  keys + R"("sparse": [)" + sparse + "]}"})
      ->data;
}
constexpr const char* kNorm = R"("format": "Norm", )";
constexpr const char* kRaw = R"("format": "Raw", )";
}  // namespace

TEST_CASE("How many keys a slot has is told in one of three ways, or is one") {
  const auto hotness = [](const std::string& format, const std::string& keys) {
    const DataConfig data = data_layer(
        format, "", R"({"top": "s", "type": "LocalizedSlot", "slot_num": 3, )" + keys + "}");
    CHECK(data.sparse[0].max_nnz ==
          *std::max_element(data.sparse[0].hotness.begin(), data.sparse[0].hotness.end()));
    CHECK(data.sparse[0].is_fixed_length == data.is_raw());
    return data.sparse[0].hotness;
  };
  using List = std::vector<int64_t>;
  CHECK(hotness(kRaw, R"("nnz_per_slot": [4, 1, 2])") == List{4, 1, 2});
  CHECK(hotness(kRaw, R"("nnz_per_slot": 2, "max_nnz": 2, "max_feature_num_per_sample": 6)") ==
        List{2, 2, 2});
  CHECK(hotness(kRaw, R"("nnz_per_slot": 1)") == List{1, 1, 1});
  CHECK(hotness(kRaw, R"("max_feature_num_per_sample": 3)") == List{1, 1, 1});
  CHECK(hotness(kRaw, R"("max_feature_num_per_sample": 30, "max_nnz": 1)") == List{1, 1, 1});
  CHECK(hotness(kNorm, R"("nnz_per_slot": [4, 1, 2])") == List{4, 1, 2});
  CHECK(hotness(kNorm, R"("max_feature_num_per_sample": 30, "max_nnz": 5)") == List{5, 5, 5});
  CHECK(hotness(kNorm, R"("max_feature_num_per_sample": 3)") == List{1, 1, 1});
  CHECK(hotness(kNorm, R"("max_feature_num_per_sample": 10)") == List{8, 8, 8});
  CHECK(hotness(kNorm, R"("max_nnz": 5)") == List{5, 5, 5});
  CHECK(hotness(kNorm, R"("is_fixed_length": false)") == List{1, 1, 1});
  CHECK(hotness(kRaw, R"("is_fixed_length": true)") == List{1, 1, 1});
  const DataConfig varying = data_layer(
      kRaw, "",
      R"({"top": "s", "slot_num": 3, "nnz_per_slot": [4, 1, 2], "is_fixed_length": false})");
  CHECK(varying.sparse[0].hotness == List{4, 1, 2});
  CHECK_FALSE(varying.sparse[0].is_fixed_length);
}

TEST_CASE("Several sparse inputs are one row of slots") {
  const DataConfig data =
      data_layer(kRaw, R"("slot_size_array": [9, 8, 7], )",
                 R"({"top": "s", "type": "LocalizedSlot", "slot_num": 2, "nnz_per_slot": [1, 3]},
         {"top": "t", "type": "DistributedSlot", "slot_num": 1, "nnz_per_slot": 2})");
  REQUIRE(data.sparse.size() == 2);
  CHECK(data.key_layout().hotness == std::vector<int64_t>{1, 3, 2});
  CHECK(data.key_layout().columns == 6);
  CHECK(data.slot_size_array == std::vector<int64_t>{9, 8, 7});
}

TEST_CASE("The columns of Parquet files are named in the config, or left to the data") {
  const auto layer = [](const std::string& columns) {
    return R"(layers[0]={"type": "Data", "format": "Parquet", "source": "a", "eval_source": "b", "check": "Sum",
      "label": {"top": "l", "label_dim": 1}, "dense": {"top": "d", "dense_dim": 2}, "slot_size_array": [3, 4, 5],
      "sparse": [{"top": "s", "type": "DistributedSlot", "max_feature_num_per_sample": 3, "slot_num": 3}])" +
           columns + "}";
  };
  const std::string good =
      R"(, "columns": {"labels": "click", "conts": ["I1", "I2"], "cats": ["C1", "C2", "C3"]})";
  const DataConfig data = minimal({layer(good)})->data;
  CHECK(data.format == DataFormat::kParquet);
  CHECK(!data.is_raw());
  REQUIRE(data.columns);
  CHECK(data.columns->labels == std::vector<std::string>{"click"});
  CHECK(data.columns->conts == std::vector<std::string>{"I1", "I2"});
  CHECK(data.columns->cats == std::vector<std::string>{"C1", "C2", "C3"});
  CHECK(!minimal({layer("")})->data.columns);
  CHECK(minimal({layer(""), "solver.input_key_type=I64"})->data.int64_keys);

  const auto refused = [&](const std::string& columns) {
    return test::message_of<ConfigError>([&] { minimal({layer(columns)}); });
  };
  test::check_contains(refused(R"(, "columns": {"labels": "click", "cats": ["C1", "C2", "C3"]})"),
                       {"layers[0].columns", "missing key \"conts\""});
  test::check_contains(
      refused(R"(, "columns": {"labels": "a", "conts": "I1", "cats": ["C1", "C2", "C3"]})"),
      {"layers[0].columns.conts: expected 2 names (dense_dim), found 1"});
  test::check_contains(
      refused(R"(, "columns": {"labels": "a", "conts": ["b", "c"], "cats": ["d", "e"]})"),
      {"layers[0].columns.cats: expected 3 names (the slots of sparse), found 2"});
}

TEST_CASE("A Data layer without a format is Norm") {
  const DataConfig data = minimal({R"(layers[0]={"type": "Data", "source": "a", "eval_source": "b",
    "check": "Sum", "keys": "global", "label": {"top": "l", "label_dim": 1},
    "dense": {"top": "d", "dense_dim": 13}, "sparse": [{"top": "s", "type": "DistributedSlot",
    "max_feature_num_per_sample": 26, "slot_num": 26}]})",
                                   "solver.input_key_type=I64"})
                              ->data;
  CHECK(data.format == DataFormat::kNorm);
  CHECK(!data.is_raw());
  CHECK(data.checksums);
  CHECK(data.global_keys);
  CHECK(data.int64_keys);
  CHECK(!data.num_samples);
  CHECK(!data.async_param);
  CHECK(data.key_layout().is_one_hot());
  CHECK(!minimal()->data.int64_keys);
  CHECK(!minimal()->data.global_keys);
}

TEST_CASE("What label and dense features of raw data are") {
  const std::string one =
      R"({"top": "s", "type": "LocalizedSlot", "slot_num": 2, "nnz_per_slot": 1})";
  const std::string many =
      R"({"top": "s", "type": "LocalizedSlot", "slot_num": 2, "nnz_per_slot": 2})";
  const auto with = [](const std::string& param) {
    return R"("async_param": {"num_threads": 1, "num_batches_per_thread": 1, "io_block_size": 512,
      "io_depth": 1, "io_alignment": 512, )" +
           param + "}, ";
  };
  struct Row {
    std::string keys, sparse;
    bool float_label, float_dense;
  };
  const std::vector<Row> rows = {
      {"", one, false, false},
      {R"("float_label_dense": true, )", one, true, true},
      {with(R"("is_dense_float": true)"), one, false, true},
      {with(R"("multi_hot_reader": true)"), one, false, true},
      {with(R"("multi_hot_reader": true, "is_dense_float": false)"), one, false, false},
      {"", many, false, true},
      {with(R"("multi_hot_reader": true)"), many, false, true},
      {with(R"("is_dense_float": false)"), many, false, false},
      {R"("float_label_dense": true, )", many, true, true},
      {R"("float_label_dense": false, )", many, false, false},
      {R"("float_label_dense": false, )" + with(R"("is_dense_float": true)"), many, false, true}};
  for (const Row& row : rows) {
    INFO(row.keys << row.sparse);
    const DataConfig data = data_layer(kRaw, row.keys, row.sparse);
    CHECK(data.float_label == row.float_label);
    CHECK(data.float_dense == row.float_dense);
  }
}

TEST_CASE("What becomes of keys outside of their table") {
  CHECK(minimal()->data.key_policy.kind == KeyPolicy::kError);
  CHECK(minimal({"layers.data.key_policy=error"})->data.key_policy.kind == KeyPolicy::kError);
  CHECK(minimal({"layers.data.key_policy=clamp"})->data.key_policy.kind == KeyPolicy::kClamp);
  const auto oov = minimal({"layers.data.key_policy=oov"})->data.key_policy;
  CHECK(oov.kind == KeyPolicy::kOov);
  CHECK(oov.oov_key == 0);
  CHECK(minimal({"layers.data.key_policy=oov", "layers.data.oov_key=3"})->data.key_policy.oov_key ==
        3);
}

TEST_CASE("Criteo files have columns of their own, and tokens that are hashed") {
  const std::vector<std::string> columns = {
      "layers.data.format=Criteo",      "layers.data.label.label_dim=1",
      "layers.data.dense.dense_dim=13", R"(layers.data.sparse=[{"top": "keys", "slot_num": 26}])",
      "layers.data.slot_size_array=",   "layers.data.async_param.shuffle=false"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = columns;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const DataConfig data = minimal(columns)->data;
  CHECK(data.format == DataFormat::kCriteo);
  CHECK(data.key_policy.kind == KeyPolicy::kHash);
  CHECK(minimal(with({"layers.data.key_policy=hash"}))->data.key_policy.kind == KeyPolicy::kHash);
  const auto refused = [&](const std::vector<std::string>& changes) {
    return test::message_of<ConfigError>([&] { minimal(changes); });
  };
  test::check_contains(refused({"layers.data.key_policy=hash"}),
                       {"layers[0].key_policy", "only Criteo files have tokens"});
  test::check_contains(refused(with({"layers.data.key_policy=clamp"})),
                       {"layers[0].key_policy", "expected \"hash\"", "found \"clamp\""});
  test::check_contains(refused(with({"layers.data.dense.dense_dim=12"})),
                       {"layers[0].dense.dense_dim", "expected 13", "found 12"});
  test::check_contains(refused(with({R"(layers.data.sparse[0].slot_num=25)"})),
                       {"layers[0].sparse", "expected 26 slots of one key each", "found 25"});
  test::check_contains(refused(with({"layers.data.float_label_dense=true"})),
                       {"layers[0].float_label_dense", "Criteo files have integers"});
  for (const char* key : {"is_dense_float", "multi_hot_reader"})
    test::check_contains(
        refused(with({std::string("layers.data.async_param.") + key + "=true"})),
        {std::string("layers[0].async_param.") + key, "Criteo files have integers", "found true"});
  test::check_contains(refused(with({"layers.data.keys=global"})),
                       {"layers[0].keys", "keys of Criteo files are local"});
  test::check_contains(refused(with({"solver.input_key_type=I64"})),
                       {"solver.input_key_type", "Criteo"});
}

TEST_CASE("Table sizes are taken from a manifest beside the config") {
  const test::TemporaryDirectory folder;
  const auto sizes = [&](const std::string& manifest, const std::string& name = "manifest.json") {
    test::write_text(folder / "manifest.json", manifest);
    test::write_text(folder / "c.json", test::kMinimalConfig);
    return load_train_config(folder / "c.json", {"layers.data.slot_size_array=" + name})
        ->data.slot_size_array;
  };
  const std::string good = R"({"tool": "criteo_prep", "slot_size_array": [5, 6, 7]})";
  CHECK(sizes(good) == std::vector<int64_t>{5, 6, 7});
  CHECK(sizes(good, folder / "manifest.json") == std::vector<int64_t>{5, 6, 7});
  const auto broken = [&](const std::string& manifest) {
    const std::string message = test::message_of<ConfigError>([&] { sizes(manifest); });
    test::check_contains(message,
                         {"--set layers.data.slot_size_array: layers[0].slot_size_array: "});
    return message;
  };
  test::check_contains(
      test::message_of<ConfigError>([&] { sizes(good, folder / std::string(300, 'x')); }),
      {"x: expected a manifest, found: File name too long"});
  const std::string at = folder / "manifest.json";
  test::check_contains(broken("{}"), {at + ":1: missing key \"slot_size_array\""});
  test::check_contains(
      broken("{\n\"slot_size_array\": [5,\n0, 7]}"),
      {at + ":3: slot_size_array[1]: expected an integer in [1, 4294967295], found 0"});
  test::check_contains(broken(R"({"slot_size_array": 3})"),
                       {at + ":1: slot_size_array: expected a list of integers, found 3"});
  test::check_contains(broken("[1, 2"), {at + ":1"});
  test::check_contains(broken("[1, 2]"), {at + ":1: expected an object, found a list of 2"});
  test::check_contains(broken(R"({"slot_size_array": [1, 2]})"),
                       {"expected a list of slot_num (3) sizes, found 2"});
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
