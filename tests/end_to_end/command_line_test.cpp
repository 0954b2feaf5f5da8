// `train` as a user meets it: wrong flags, missing files, bad data, targets, reports.
#include <cstring>
#include <filesystem>

#include "hugectr_lite/core/error.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

// What is wrong on the command line, and what the error says.
struct Mistake {
  std::vector<std::string> arguments, says;
  int code = kExitConfig;
};

void check_says(const ProgramResult& result, int code, const std::vector<std::string>& says) {
  CHECK(result.code == code);
  for (const std::string& part : says) check_contains(result.err, {part});
}

}  // namespace

TEST_CASE("a run that takes more memory than there is is refused at its start, as the check says") {
  const SmallRun run;
  const std::string rows = "slot_size_array=[1400000000,1400000000,1400000000]";
  const std::vector<std::string> much = {"--set", "layers.emb.sparse_embedding_hparam." + rows,
                                         "--set", "layers.data." + rows};
  for (const char* ranks : {"[[0]]", "[[0,1]]", "[[0,1],[2,3]]"}) {
    INFO(ranks);
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.end(), much.begin(), much.end());
      more.insert(more.end(), {"--set", gpu(ranks)});
      return run.train(more);
    };
    const auto refused = with({"--save", run / "model"});
    INFO(refused.err);
    CHECK(refused.code == 2);
    CHECK(refused.out.empty());
    check_contains(refused.err, {"train: memory: expected 2", " GB available", ", found ",
                                 "--set solver.embedding_memory=auto", "embedding_vec_size",
                                 "emb.table_0 (1400000000 rows, 22.4 GB)"});
    CHECK_FALSE(std::filesystem::exists(run / "model"));
    const auto checked = with({"--check"});
    CHECK(checked.code == 0);
    // The numbers of what is free right now differ.
    check_contains(checked.out, {refused.err.substr(7, refused.err.find(", found ") - 7),
                                 "cannot start here yet"});
  }
}

// tests/config has the faults of single keys; these are of options, files and blocks together.
TEST_CASE("mistakes on the command line and in the config exit with 2 and say what is wrong") {
  const SmallRun run;
  const std::string emb = "layers.emb.sparse_embedding_hparam.";
  // clang-format off
  const std::vector<Mistake> list = {
      {{"--confg", "x"}, {"--confg"}},
      {{"--threads", "0"}, {"--threads"}},
      {{"--threads", "-5"}, {"--threads: expected a whole number from 1 to 4096, found \"-5\""}},
      {{"--device", "gpu"}, {"--device", "cuda"}},
      {{"--init", "a", "--resume", "b"}, {"--init"}},
      {{"--set", "solver.batchsize"}, {"solver.batchsize"}},
      {{"--set", "layers.emx.bottom=k"}, {"emx"}},
      // Several faults, in blocks and layers.
      {{"--check", "--set", "solver.display=-1", "--set", "optimizer.type=Sgd", "--set", "layers.t1.fc_param.num_output=0", "--set", "layers.loss.bottom=[\"label\",\"label\"]"},
       {"solver.display: expected an integer >= 0, found -1", "optimizer.type: expected one of", "fc_param.num_output: expected an integer in [1,", "expected logits as the first bottom"}},
      {{"--set", emb + "slot_size_array=[40,5]"}, {"slot_size_array", "3 sizes", "2"}},
      {{"--set", "layers.emb.bottom=key"}, {"layers[1].bottom", "keys", "key"}},
      {{"--set", emb + "combiner=2"}, {"combiner", "mean"}},
      {{"--set", emb + "sharding_param={\"memory_gb\":1}"}, {"sharding_param", "\"sharding\": \"auto\""}},
      {{"--set", "solver.gpu=[0,1]", "--set", emb + "sharding=auto", "--set", emb + "sharding_param={\"memory_gb\":0.000004,\"replicate_below_mb\":0}"},
       {"sharding", "emb.table_2 (300 rows) does not fit"}},
      {{"--set", "optimizer.update_type=LazyGlobal", "--set", "layers.emb.optimizer.update_type=LazyGlobal"}, {"LazyGlobal", "not supported yet"}},
      {{"--save", ""}, {"--save", "found an empty one"}},
      {{"--resume="}, {"--resume"}},
      {{"--metrics", ""}, {"--metrics", "found an empty one"}},
      {{"--resume", "/nonexistent"}, {"/nonexistent", "checkpoint", "nothing"}, kExitData},
      {{"--set", "layers.emb.type=HybridEmbedding"}, {"layers[1].type", "HybridSparseEmbedding", "found \"HybridEmbedding\""}},
      {{"--set", "layers.t1.name=emb"}, {"name of its own"}},
      {{"--save", run / "train.bin/x"}, {"--save", "train.bin/x: expected"}},
      {{"--export", "/nonexistent/x.safetensors"}, {"--export"}},
      {{"--metrics", "/nonexistent/x.jsonl"}, {"--metrics"}},
      {{"--export", run.path()}, {"--export", "found a directory"}},
      {{"--metrics", run / "x", "--report", run / "./x"}, {"--report", "file of its own", "--metrics"}},
      {{"--set", "solver.snapshot_prefix=nowhere/x"}, {"snapshot_prefix"}},
  };
  // clang-format on
  for (const Mistake& m : list) check_says(run.train(m.arguments), m.code, m.says);
  CHECK(run_program({HLITE_TRAIN}).code == 2);
  check_says(run_program({HLITE_TRAIN, "--confg", run / "config.json"}), 2,
             {"not expected: --confg"});
  check_says(run_program({HLITE_TRAIN, "--config", run / "nothing.json"}), 2, {"nothing.json"});
}

TEST_CASE("bad data exits with 3 and says where") {
  const SmallRun run;
  const std::string good = read_text(run / "train.bin");
  const auto with = [&](size_t sample, size_t column, uint32_t value) {
    std::string bytes = good;
    std::memcpy(bytes.data() + sample * 24 + column * 4, &value, 4);
    return bytes;
  };
  const std::vector<std::pair<std::string, std::vector<std::string>>> list = {
      {good.substr(0, good.size() - 7), {"train.bin", "24", "record"}},
      {"", {"train.bin"}},
      {with(123, 3, 40), {"train.bin", "sample 123", "slot 0", "40"}},
      {with(77, 0, 7), {"train.bin", "sample 77", "label", "7"}},
      {with(400, 2, static_cast<uint32_t>(-3)), {"train.bin", "sample 400", "-3"}}};
  for (const auto& [bytes, says] : list) {
    write_text(run / "train.bin", bytes);
    check_says(run.train(), 3, says);
  }
  std::filesystem::remove(run / "train.bin");
  check_says(run.train(), 3, {"train.bin", "No such file"});
  write_text(run / "train.bin", good);
  std::filesystem::remove(run / "eval.bin");
  check_says(run.train(), 3, {"eval.bin", "No such file"});
}

TEST_CASE("a loss that is NaN stops the run and names iteration, layer and sample") {
  const SmallRun run;
  const auto result = run.train({"--set", "optimizer.momentum_sgd_hparam.learning_rate=1e30",
                                 "--set", "optimizer.momentum_sgd_hparam.warmup_steps=1"});
  check_says(result, 3,
             {"iteration ", "expected a finite loss", "layer \"", "sample ", "train.bin"});
}

TEST_CASE("epochs count whole passes, partial batches included") {
  const SmallRun run;
  std::string config = small_config();
  const std::string from = R"("max_iter": 200)";
  config.replace(config.find(from), from.size(), R"("num_epochs": 3)");
  write_text(run / "config.json", config);
  REQUIRE(run.train({"--metrics", run / "m.jsonl"}).code == 0);
  const std::string metrics = read_text(run / "m.jsonl");
  CHECK(metrics.find(R"({"event":"end","iter":48,"samples":1500,)") !=
        std::string::npos);  // 3 x (15 x 32 + 20)
  CHECK(metrics.find(R"("event":"eval")") == std::string::npos);
  check_contains(metrics, {R"("reason":"epochs")"});
  const auto refused = run.train({"--set", "solver.drop_incomplete_batch=true"});
  CHECK(refused.code == 2);
  check_contains(refused.err, {"the incomplete last batch of an epoch is trained on"});
}

TEST_CASE("every optimizer of the dialect learns") {
  const SmallRun run;
  const std::vector<std::string> blocks = {
      R"({"type":"SGD","sgd_hparam":{"learning_rate":0.5}})",
      R"({"type":"MomentumSGD","momentum_sgd_hparam":{"learning_rate":0.05,"momentum_factor":0.9}})",
      R"({"type":"Nesterov","update_type":"Global","nesterov_hparam":{"learning_rate":0.05,"momentum_factor":0.9}})",
      R"({"type":"Adam","adam_hparam":{"learning_rate":0.01,"beta1":0.9,"beta2":0.999,"epsilon":1e-8}})",
      R"({"type":"AdaGrad","adagrad_hparam":{"learning_rate":0.1,"epsilon":1e-8,"initial_accumulator":0.01}})",
      R"({"type":"RowWiseAdaGrad","row_wise_adagrad_hparam":{"learning_rate":0.1,"epsilon":1e-8,"initial_accumulator":0.01}})",
      R"({"type":"Ftrl","update_type":"Local","ftrl_hparam":{"learning_rate":0.1,"beta":0.001,"lambda1":1e-5,"lambda2":1e-3}})"};
  for (const std::string& block : blocks) {
    INFO(block);
    CHECK(run.train({"--set", "optimizer=" + block, "--set", "layers.emb.optimizer=" + block,
                     "--set", R"(solver.eval_metrics=["AUC:0.7"])", "--set", "solver.max_iter=3000",
                     "--metrics", run / "m.jsonl"})
              .code == 0);
    check_contains(read_text(run / "m.jsonl"), {R"("reason":"target")"});
  }
}

TEST_CASE("asked to --check, it prints the model, its memory and whether the run can start") {
  const SmallRun run;
  const auto ok = run.train({"--check"});
  CHECK(ok.code == 0);
  check_contains(ok.out, {"HybridSparseEmbedding", "[B,3,4]", "1380", "embedding tables",
                          "500 samples", "333 samples", "the run can start here"});
  const auto missing = run.train({"--check", "--set", "layers.data.source=none.bin"});
  CHECK(missing.code == 0);
  check_contains(missing.out, {"none.bin is not there", "cannot start here"});
  const auto untested = run.train({"--check", "--set", "layers.data.test_source=none.bin"});
  CHECK(untested.code == 0);
  check_contains(untested.out, {"test data", "none.bin is not there"});
  CHECK(run.train({"--check", "--set", "layers.data.dense.dense_dim=3"}).code == 3);
  const std::string amid_file = run / "train.bin/x";
  const auto places = run.train({"--check", "--save", amid_file, "--resume", run / "none"});
  CHECK(places.code == 0);
  check_contains(places.out, {"cannot start here",
                              "--save " + amid_file + ": expected a place that can be written",
                              "none: expected a checkpoint, found nothing"});
  const auto init = run.train({"--check", "--init", run / "config.json"});
  CHECK(init.code == 0);
  check_contains(init.out, {"cannot start here", "config.json: expected a safetensors file"});
}

TEST_CASE("what cannot be printed is an error") {
  const auto full = run_program({"/bin/sh", "-c", "exec \"$0\" --keys >/dev/full", HLITE_TRAIN});
  check_says(full, 3, {"train: standard output: "});
}

TEST_CASE("a record that cannot be written does not cost the run") {
  const SmallRun run;
  const auto full = run.train({"--metrics", "/dev/full", "--save", run / "ck"});
  check_says(full, 3,
             {"/dev/full: cannot write the metrics file: No space left on device; the run goes on "
              "without it",
              "done after 200 iterations"});
  CHECK(run.train({"--resume", run / "ck", "--set", "solver.max_iter=201"}).code == 0);
}

TEST_CASE("asked to --plan, it prints steps, lanes and dependencies") {
  const SmallRun run;
  const auto result = run.train({"--plan"});
  CHECK(result.code == 0);
  check_contains(result.out, {"copy_in", "emb.lookup", "embedding", "inter.bprop", "dense_update",
                              "emb.update", "after"});
}

TEST_CASE("asked for several reports, it prints all of them") {
  const SmallRun run;
  const auto result = run.train({"--plan", "--check", "--estimate", "1x1 dgx_a100"});
  CHECK(result.code == 0);
  check_contains(result.out, {"estimate: ", "the config is valid", "training iteration: "});
}

TEST_CASE("asked to --plan for a GPU, it prints the GPU's steps, without one too") {
  const SmallRun run;
  CHECK(run.train({"--plan"}).out.find("weights ") == std::string::npos);
  const auto absent = run.train({"--plan", "--device", "cuda", "--set", "solver.precision=bf16"});
  CHECK(absent.code == 0);
  check_contains(absent.out, {"on a GPU", "dense.cast", "emb.sort", " weights,", "copy_in"});
  // What runs beside the iteration before, where nothing keeps it from that.
  const auto plan_of = [&](const char* rows, const char* graph) {
    return run.train({"--plan", "--device", "cuda"}, {gpu(rows), graph}).out;
  };
  const char *const graph = "solver.cuda_graph=true", *const keys = "keys of a batch, beside";
  check_contains(plan_of("[[0,1]]", graph),
                 {"keys of a batch, beside the iteration before: 5 steps", "emb.keys_exchange"});
  CHECK(plan_of("[[0],[1]]", graph).find(keys) == std::string::npos);
  CHECK(plan_of("[[0,1]]", "solver.cuda_graph=false").find(keys) == std::string::npos);
}

TEST_CASE("the configs of the wider family pass --check as they stand") {
  struct Family {
    const char* file;
    std::vector<std::string> says;
  };
  for (const Family& f :
       {Family{"mlperf_dcnv2.json",  // 26,135,627,264 in tables, 16,044,545 in the network
               {"26151671809", "3 layers of rank 512", "40000000 rows"}},
        // 19,667 rows copied, half of the hot table's shards on every rank.
        {"mlperf_dcnv2_1x8.json",
         {"tables spread by plan over 8 ranks", "copied everywhere: smaller than 8000000 bytes",
          "by key modulo 4 on 1,2,3,4", "rank   7:", "1 node x 8 ranks"}},
        {"mlperf_dcnv2_8x8.json",
         {"tables spread by plan over 8 nodes", "copied everywhere: smaller than 12500000 bytes",
          "by key modulo 4 on 1,2,3,4", "rank  63:", "8 nodes x 8 ranks"}},
        {"wdl.json", {"sparse_embedding1", "sparse_embedding2", "429 -> 1024"}},
        {"deepfm.json", {"[26 B,10]", "13 -> 13 x 10", "39 vectors of 10"}},
        {"dcn.json", {"6 layers", "1453 -> 1"}}}) {
    INFO(f.file);
    const auto check = run_program(
        {HLITE_TRAIN, "--config", std::string(HLITE_CONFIGS) + "/" + f.file, "--check"});
    CHECK(check.code == 0);
    check_contains(check.out, {"the config is valid"});
    for (const std::string& part : f.says) check_contains(check.out, {part});
  }
}

TEST_CASE("the MLPerf config passes --check as it stands, and trains on one rank with small tables",
          "[no-tsan]") {
  const std::string config = std::string(HLITE_CONFIGS) + "/mlperf_dgx_a100.json";
  const auto check = run_program({HLITE_TRAIN, "--config", config, "--check"});
  CHECK(check.code == 0);
  check_contains(check.out, {"187767399", "[B,480]", "12.0 GB", "total of 8 ranks",
                             "1 node x 8 ranks", "the config is valid"});

  const TemporaryDirectory data;
  std::string samples, sizes;
  for (uint64_t i = 0; i < 1024; ++i)
    for (uint64_t c = 0; c < 40; ++c) {
      const uint32_t v = random::word(3, c, i) % (c == 0 ? 2 : 50);
      samples.append(reinterpret_cast<const char*>(&v), 4);
    }
  for (int i = 0; i < 26; ++i) sizes += (i ? ",50" : "50");
  write_text(data / "d.bin", samples);
  const std::vector<std::string> changes = {
      "solver.gpu=[0]",
      "solver.batchsize=512",
      "solver.batchsize_eval=512",
      "solver.eval_batches=2",
      "solver.max_iter=4",
      "solver.eval_interval=2",
      "solver.display=1",
      "layers.data.source=" + (data / "d.bin"),
      "layers.data.eval_source=" + (data / "d.bin"),
      "layers[1].sparse_embedding_hparam.slot_size_array=[" + sizes + "]"};
  CHECK(run_program(
            with_changes({HLITE_TRAIN, "--config", config, "--metrics", data / "m.jsonl"}, changes))
            .code == 0);
  check_contains(read_text(data / "m.jsonl"), {R"({"event":"eval","iter":4,)"});
}

TEST_CASE("device cuda without a usable device exits with 4 and says why") {
  const SmallRun run;
  const auto result = run.train({"--device", "cuda"});
  check_says(result, 4, {"CUDA"});
}

TEST_CASE("weights leave and come back through --export and --init") {
  const SmallRun run;
  REQUIRE(run.train({"--export", run / "w.safetensors", "--set", "solver.max_iter=30"}).code == 0);
  // One iteration at learning rate 0 changes nothing.
  REQUIRE(run.train({"--init", run / "w.safetensors", "--export", run / "v.safetensors", "--set",
                     "solver.max_iter=1", "--set", "optimizer.momentum_sgd_hparam.learning_rate=0",
                     "--set", "layers.emb.optimizer.adam_hparam.learning_rate=0"})
              .code == 0);
  CHECK(read_text(run / "w.safetensors") == read_text(run / "v.safetensors"));
  REQUIRE(run.train({"--save", run / "ck", "--set", "solver.max_iter=30"}).code == 0);
  REQUIRE(run.train({"--init", run / "ck", "--export", run / "v.safetensors", "--set",
                     "solver.max_iter=1", "--set", "optimizer.momentum_sgd_hparam.learning_rate=0",
                     "--set", "layers.emb.optimizer.adam_hparam.learning_rate=0"})
              .code == 0);
  CHECK(read_text(run / "w.safetensors") == read_text(run / "v.safetensors"));
  const auto nothing_left = run.train({"--resume", run / "ck", "--set", "solver.max_iter=30"});
  CHECK(nothing_left.code == 0);
  check_contains(nothing_left.err, {"nothing to train: 30 iterations are done"});
  write_text(run / "w.safetensors", "not a weights file");
  const auto bad = run.train({"--init", run / "w.safetensors"});
  check_says(bad, 3, {"w.safetensors"});
}

}  // namespace hlite::test
