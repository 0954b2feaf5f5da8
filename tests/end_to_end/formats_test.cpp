// The same samples in every format train the same weights, bit for bit.
#include <cmath>

#include "tests/data_reader/norm_file.h"
#include "tests/end_to_end/small_run.h"
#include "tests/preparation/criteo/criteo_oracle.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/metrics_events.h"
#if HLITE_PARQUET
#include "tests/support/parquet_writer.h"
#endif

namespace hlite::test {
namespace {

// Samples of the small run's shape: tables of 40, 5 and 300 rows, always `hotness` keys a slot.
NormShape shape_of(std::vector<int64_t> hotness, bool sum) {
  return {.dense = 2,
          .slot_rows = {40, 5, 300},
          .hotness = std::move(hotness),
          .sum = sum,
          .fixed_length = true};
}

// The bytes of sample i without its label and without the numbers of keys, which Norm has besides.
std::string dense_and_keys(const NormShape& shape, int64_t i) {
  std::string bytes;
  for (int64_t d = 0; d < shape.dense; ++d)
    put(bytes, std::log1p(static_cast<float>(dense_of(i, d))));
  int64_t column = 0;
  for (size_t s = 0; s < shape.slot_rows.size(); ++s)
    for (int64_t k = 0; k < shape.hotness[s]; ++k, ++column)
      put(bytes, key_of(i, column, shape.slot_rows[s]));
  return bytes;
}

std::string raw_samples(const NormShape& shape, int64_t begin, int64_t end, bool float_label) {
  std::string bytes;
  for (int64_t i = begin; i < end; ++i) {
    if (float_label)
      put(bytes, static_cast<float>(label_of(i)));
    else
      put(bytes, label_of(i));
    bytes += dense_and_keys(shape, i);
  }
  return bytes;
}

std::string norm_samples(const NormShape& shape, int64_t begin, int64_t end) {
  std::string bytes = norm_header(shape, end - begin);
  for (int64_t i = begin; i < end; ++i) {
    const std::string rest = dense_and_keys(shape, i);
    const auto dense_bytes = static_cast<size_t>(4 * shape.dense);
    std::string payload;
    put(payload, static_cast<float>(label_of(i)));
    payload += rest.substr(0, dense_bytes);
    size_t at = dense_bytes;
    for (const int64_t nnz : shape.hotness) {
      put(payload, static_cast<int32_t>(nnz));
      payload += rest.substr(at, static_cast<size_t>(4 * nnz));
      at += static_cast<size_t>(4 * nnz);
    }
    bytes += norm_block(shape.sum, payload);
  }
  return bytes;
}

constexpr int64_t kTrain = 500, kEval = 333;

// Trains 60 iterations on `train` and `eval` with these changes of the config; the weights,
// optimizer states and metrics that come of it.
std::string trained(const SmallRun& run, const std::string& train, const std::string& eval,
                    std::vector<std::string> changes) {
  changes.insert(changes.end(), {"solver.max_iter=60", "solver.eval_interval=30",
                                 "layers.data.async_param.shuffle=false",
                                 "layers.data.source=" + train, "layers.data.eval_source=" + eval});
  std::vector<std::string> arguments = {"--save", run / "out", "--threads", "2"};
  REQUIRE(run.train(arguments, changes).code == 0);
  return read_text(run / "out/weights.safetensors") + read_text(run / "out/optimizer.safetensors");
}

constexpr const char* kColumns =
    R"(layers.data.columns={"labels": ["click"], "conts": ["I0", "I1"], "cats": ["C0", "C1", "C2"]})";

#if HLITE_PARQUET
// Samples [begin, end) of shape_of(): 32-bit keys, lists of them where a slot has several.
void write_parquet_samples(const std::string& path, const NormShape& shape, int64_t begin,
                           int64_t end, int64_t rows_a_group) {
  ParquetFileText file{.columns = {}, .rows = end - begin, .rows_a_group = rows_a_group};
  std::vector<float> labels;
  for (int64_t i = begin; i < end; ++i) labels.push_back(static_cast<float>(label_of(i)));
  file.columns.push_back({"click", labels});
  for (int64_t d = 0; d < shape.dense; ++d) {
    std::vector<float> values;
    for (int64_t i = begin; i < end; ++i)
      values.push_back(std::log1p(static_cast<float>(dense_of(i, d))));
    file.columns.push_back({"I" + std::to_string(d), values});
  }
  int64_t column = 0;
  for (size_t s = 0; s < shape.slot_rows.size(); ++s) {
    std::vector<uint32_t> keys;
    std::vector<int64_t> lengths;
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t k = 0; k < shape.hotness[s]; ++k)
        keys.push_back(key_of(i, column + k, shape.slot_rows[s]));
      if (shape.hotness[s] > 1) lengths.push_back(shape.hotness[s]);
    }
    file.columns.push_back({.name = "C" + std::to_string(s), .values = keys, .lengths = lengths});
    column += shape.hotness[s];
  }
  write_parquet(path, file);
}
#endif

// The samples as two Norm files and their lists train.txt and eval.txt.
void write_norm(const SmallRun& run, const NormShape& shape) {
  write_text(run / "a.norm", norm_samples(shape, 0, 123));
  write_text(run / "b.norm", norm_samples(shape, 123, kTrain));
  write_text(run / "e.norm", norm_samples(shape, kTrain, kTrain + kEval));
  write_text(run / "train.txt", "2\na.norm\nb.norm\n");
  write_text(run / "eval.txt", "1\ne.norm\n");
}

}  // namespace

TEST_CASE("one-hot samples train the same weights from Raw, multi-hot raw and Norm") {
  const SmallRun run;
  const NormShape shape = shape_of({1, 1, 1}, true);
  write_text(run / "float.bin", raw_samples(shape, 0, kTrain, true));
  write_text(run / "float_eval.bin", raw_samples(shape, kTrain, kTrain + kEval, true));
  const std::string want =
      trained(run, "float.bin", "float_eval.bin", {"layers.data.float_label_dense=true"});

  write_text(run / "multi.bin", raw_samples(shape, 0, kTrain, false));
  write_text(run / "multi_eval.bin", raw_samples(shape, kTrain, kTrain + kEval, false));
  CHECK(trained(run, "multi.bin", "multi_eval.bin",
                {"layers.data.async_param.multi_hot_reader=true",
                 "layers.data.sparse[0].nnz_per_slot=1"}) == want);

  for (const bool sum : {false, true}) {
    write_norm(run, shape_of({1, 1, 1}, sum));
    CHECK(trained(run, "train.txt", "eval.txt",
                  {"layers.data.format=Norm",
                   std::string("layers.data.check=") + (sum ? "Sum" : "None")}) == want);
  }
}

TEST_CASE("samples of several keys a slot train the same weights from raw data and Norm") {
  const SmallRun run;
  const NormShape shape = shape_of({2, 1, 3}, false);
  const std::vector<std::string> sparse = {
      R"(layers.data.sparse=[{"top": "keys", "type": "DistributedSlot", "slot_num": 3, "nnz_per_slot": [2, 1, 3]}])"};
  write_text(run / "multi.bin", raw_samples(shape, 0, kTrain, false));
  write_text(run / "multi_eval.bin", raw_samples(shape, kTrain, kTrain + kEval, false));
  write_norm(run, shape);
  std::vector<std::string> weights;
  for (const char* combiner : {"0", "1"}) {
    std::vector<std::string> changes = sparse;
    changes.push_back(std::string("layers.emb.sparse_embedding_hparam.combiner=") + combiner);
    weights.push_back(trained(run, "multi.bin", "multi_eval.bin", changes));
    changes.emplace_back("layers.data.format=Norm");
    CHECK(trained(run, "train.txt", "eval.txt", changes) == weights.back());
  }
  CHECK(weights[0] != weights[1]);
}

TEST_CASE("lines of Criteo's logs train what criteo_prep --hash makes of them") {
  const TemporaryDirectory folder;
  write_text(folder / "train.tsv", prep::awkward_rows(1, 500));
  write_text(folder / "eval.tsv", prep::awkward_rows(2, 130, false));
  const auto run = [&](std::vector<std::string> command) {
    REQUIRE(run_program(command, folder.path()).code == 0);
  };
  run({HLITE_CRITEO_PREP, "--train", "train.tsv", "--val", "eval.tsv", "--hash", "1000", "--out",
       "prepared"});
  for (const char* ranks : {"[0]", "[[0,1]]"}) {
    INFO(ranks);
    const auto train = [&](const std::string& out, std::vector<std::string> changes) {
      changes.insert(changes.end(),
                     {gpu(ranks), "solver.batchsize=64", "solver.batchsize_eval=50",
                      "solver.eval_batches=2", "solver.eval_interval=6", "solver.max_iter=20"});
      std::vector<std::string> command = {
          HLITE_TRAIN, "--config",  std::string(HLITE_CONFIGS) + "/criteo_text.json",
          "--device",  "cpu",       "--threads",
          "2",         "--save",    out,
          "--metrics", out + ".log"};
      for (const std::string& change : changes) command.insert(command.end(), {"--set", change});
      run(command);
      run({HLITE_PREDICT, "--model", out, "--input",
           changes[0].find(".tsv") != std::string::npos ? "eval.tsv" : "prepared/val.bin", "--out",
           out + ".csv"});
      return read_text(folder / (out + "/weights.safetensors")) +
             read_text(folder / (out + "/optimizer.safetensors")) +
             read_text(folder / (out + ".csv"));
    };
    const auto at = [&](const char* file) { return folder / file; };
    const std::string sizes =
        fmt::format("layers.embedding.sparse_embedding_hparam.slot_size_array=[{}]",
                    fmt::join(std::vector<int>(26, 1000), ","));
    const std::string want =
        train("raw", {"layers.data.source=" + at("prepared/train.bin"),
                      "layers.data.eval_source=" + at("prepared/val.bin"),
                      "layers.data.format=RawAsync", "layers.data.key_policy=", sizes});
    CHECK((train("text", {"layers.data.source=" + at("train.tsv"),
                          "layers.data.eval_source=" + at("eval.tsv"), sizes}) == want));
    const auto evaluations = [&](const std::string& log) {
      std::vector<double> found;
      for (const auto& event : events_in(folder / log, "eval")) found.push_back(event["loss"]);
      return found;
    };
    CHECK(evaluations("text.log").size() == 3);
    CHECK(evaluations("text.log") == evaluations("raw.log"));
  }
}

#if HLITE_PARQUET
TEST_CASE("samples train the same weights from raw data and Parquet, on one rank and on two") {
  for (const std::vector<int64_t>& hotness : {std::vector<int64_t>{1, 1, 1}, {2, 1, 3}}) {
    const SmallRun run;
    const NormShape shape = shape_of(hotness, false);
    const std::string sparse = fmt::format(
        R"(layers.data.sparse=[{{"top": "keys", "type": "DistributedSlot", "slot_num": 3, "nnz_per_slot": [{}]}}])",
        fmt::join(hotness, ", "));
    write_text(run / "train.bin", raw_samples(shape, 0, kTrain, true));
    write_text(run / "eval.bin", raw_samples(shape, kTrain, kTrain + kEval, true));
    std::filesystem::create_directory(run / "train");
    write_parquet_samples(run / "train/a.parquet", shape, 0, 123, 50);
    write_parquet_samples(run / "train/b.parquet", shape, 123, kTrain, 1000);
    write_parquet_samples(run / "eval.parquet", shape, kTrain, kTrain + kEval, 64);
    const std::string ranks = gpu(shape.hotness[0] == 1 ? "[0]" : "[0,1]");
    const std::string want = trained(run, "train.bin", "eval.bin",
                                     {sparse, ranks, "layers.data.float_label_dense=true"});
    for (const char* workers : {"1", "3"})
      CHECK(trained(run, "train", "eval.parquet",
                    {sparse, ranks, "layers.data.format=Parquet", kColumns,
                     std::string("layers.data.num_workers=") + workers}) == want);
  }
}

TEST_CASE("check finds Parquet files whose columns are not the config's") {
  const SmallRun run;
  const NormShape shape = shape_of({2, 1, 1}, false);
  write_parquet_samples(run / "a.parquet", shape, 0, 100, 50);
  const auto check = [&](const std::string& columns) {
    return run.train({"--check", "--set", "layers.data.format=Parquet", "--set", columns, "--set",
                      "layers.data.async_param.shuffle=false", "--set",
                      "layers.data.source=a.parquet", "--set",
                      "layers.data.eval_source=a.parquet"});
  };
  const auto swapped = check(
      R"(layers.data.columns={"labels": ["I0"], "conts": ["click", "C0"], "cats": ["I1", "C1", "C2"]})");
  CHECK(swapped.code == 3);
  check_contains(swapped.err, {"a.parquet: column \"C0\": expected numbers, found list of INT32"});
  const auto lists = check(kColumns);  // of two keys, where the config has one a slot
  CHECK(lists.code == 3);
  check_contains(lists.err, {"a.parquet: row group 0, column \"C0\", row 0: expected 0 to 1 keys"});
}
#endif

TEST_CASE("without the Parquet plug-in it is said what to install") {
  const SmallRun run;
  write_text(run / "a.parquet", "PAR1");
  const auto with = [&](std::vector<std::string> more) {
    auto command =
        run.command({"--set", "layers.data.format=Parquet", "--set", kColumns, "--set",
                     "layers.data.async_param.shuffle=false", "--set",
                     "layers.data.source=a.parquet", "--set", "layers.data.eval_source=a.parquet"});
    command.insert(command.begin(), {"/usr/bin/env", "HLITE_PARQUET_LIBRARY=" + (run / "no.so")});
    command.insert(command.end(), more.begin(), more.end());
    return run_program(command);
  };
  const auto trained = with({});
  CHECK(trained.code == 3);
  check_contains(trained.err, {"cannot load the Parquet plug-in " + (run / "no.so"),
                               "tools/setup.sh --parquet"});
  const auto checked = with({"--check"});
  CHECK(checked.code == 0);
  check_contains(checked.out, {"training data: cannot load the Parquet plug-in"});
}

TEST_CASE("samples without dense features train the same weights from Raw and Norm, and on a GPU") {
  const SmallRun run;
  std::string config = small_config();
  const auto replace = [&](const std::string& from, const std::string& to) {
    config.replace(config.find(from), from.size(), to);
  };
  replace("\"dense_dim\": 2", "\"dense_dim\": 0");
  replace(
      R"({"name": "b1", "type": "FusedInnerProduct", "position": "Isolated", "bottom": "dense", "top": "b1",
   "fc_param": {"num_output": 4}},)",
      R"({"name": "b1", "type": "ReduceSum", "axis": 1, "bottom": "emb", "top": "sum"},
   {"name": "b2", "type": "Reshape", "bottom": "sum", "top": "b1"},)");
  write_text(run / "config.json", config);
  NormShape shape = shape_of({1, 1, 1}, false);
  shape.dense = 0;
  write_text(run / "float.bin", raw_samples(shape, 0, kTrain, true));
  write_text(run / "float_eval.bin", raw_samples(shape, kTrain, kTrain + kEval, true));
  write_norm(run, shape);
  CHECK(trained(run, "float.bin", "float_eval.bin", {"layers.data.float_label_dense=true"}) ==
        trained(run, "train.txt", "eval.txt", {"layers.data.format=Norm"}));
  for (const char* precision : {"fp32", "bf16"}) {
    INFO(precision);
    auto command =
        run.command({"--quiet", "--device", "cuda", "--set", "solver.max_iter=20", "--set",
                     std::string("solver.precision=") + precision, "--set",
                     "layers.data.float_label_dense=true", "--set", "layers.data.source=float.bin",
                     "--set", "layers.data.eval_source=float_eval.bin"});
    command.insert(command.begin(),
                   {"/usr/bin/env", std::string("HLITE_CUDA_LIBRARY=") + HLITE_EMULATED_PLUGIN});
    CHECK(run_program(command).code == 0);
  }
}

TEST_CASE("keys outside of their table train where the policy replaces them") {
  const SmallRun run;
  const NormShape shape = shape_of({1, 1, 1}, false);
  NormShape larger = shape;
  larger.slot_rows[1] = 9;  // the config's table has 5
  write_norm(run, larger);
  const auto refused = run.train(
      {"--set", "layers.data.format=Norm", "--set", "layers.data.async_param.shuffle=false",
       "--set", "layers.data.source=train.txt", "--set", "layers.data.eval_source=eval.txt"});
  CHECK(refused.code == 3);
  check_contains(
      refused.err,
      {"a.norm: record ", "key of slot 1: expected less than 5, the rows of its table, found "});
  const std::string clamped = trained(run, "train.txt", "eval.txt",
                                      {"layers.data.format=Norm", "layers.data.key_policy=clamp"});
  CHECK(trained(run, "train.txt", "eval.txt",
                {"layers.data.format=Norm", "layers.data.key_policy=oov"}) != clamped);
}

}  // namespace hlite::test
