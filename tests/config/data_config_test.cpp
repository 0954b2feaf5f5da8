#include "hugectr_lite/config/data_config.h"

#include <algorithm>

#include "hugectr_lite/core/file.h"
#include "tests/config/minimal_config.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::config {

TEST_CASE("The Data layer arrives whole") {
  const DataConfig data = minimal()->data;
  CHECK(data.name == "data");
  CHECK(data.format == &data_format("RawAsync"));
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
  CHECK(data.sparse[0].type == SlotDistribution::kDistributed);
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
  CHECK(data.format == &data_format("Raw"));
  CHECK(data.float_label);
  CHECK(data.float_dense);
  CHECK(data.slot_size_array.empty());
  CHECK(!data.async_param);
  CHECK(!data.shuffle);
  CHECK(data.cache_eval_data == 0);
  CHECK(data.dense_width() == 13);
  CHECK(data.sparse[0].max_nnz == 1);
  CHECK(data.sparse[0].type == SlotDistribution::kLocalized);
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

TEST_CASE("How many keys a slot has is given in one of three ways, or is one") {
  const auto hotness = [](const std::string& format, const std::string& keys) {
    const DataConfig data = data_layer(
        format, "", R"({"top": "s", "type": "LocalizedSlot", "slot_num": 3, )" + keys + "}");
    CHECK(data.sparse[0].max_nnz ==
          *std::max_element(data.sparse[0].hotness.begin(), data.sparse[0].hotness.end()));
    CHECK(data.sparse[0].is_fixed_length == data.format->fixed_records);
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
  CHECK(hotness(kRaw, R"("is_fixed_length": false)") == List{1, 1, 1});
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
  CHECK(data.format == &data_format("Parquet"));
  CHECK(!data.format->fixed_records);
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
  CHECK(data.format == &data_format("Norm"));
  CHECK(!data.format->fixed_records);
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
  CHECK(data.format == &data_format("Criteo"));
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

TEST_CASE("Table sizes are taken from a manifest in the config's folder") {
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

}  // namespace hlite::config
