// `train` as a user meets it: wrong flags, missing files, bad data, targets, reports.
#include <cstring>
#include <filesystem>

#include "tests/end_to_end/small_run.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

struct Mistake {
  const char* what;
  std::vector<std::string> arguments;
  int code;
  std::vector<std::string> says;
};

void check_says(const ProgramResult& result, const Mistake& m) {
  INFO(m.what);
  INFO(result.err);
  CHECK(result.code == m.code);
  for (const std::string& part : m.says) {
    INFO(part);
    CHECK(result.err.find(part) != std::string::npos);
  }
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

TEST_CASE("mistakes on the command line and in the config exit with 2 and say what is wrong") {
  const SmallRun run;
  const std::vector<Mistake> list = {
      {"unknown flag", {"--confg", "x"}, 2, {"--confg"}},
      {"threads 0", {"--threads", "0"}, 2, {"--threads"}},
      {"threads below 0",
       {"--threads", "-5"},
       2,
       {"--threads: expected a whole number from 1 to 4096, found \"-5\""}},
      {"device", {"--device", "gpu"}, 2, {"--device", "cuda"}},
      {"init and resume", {"--init", "a", "--resume", "b"}, 2, {"--init"}},
      {"set without =", {"--set", "solver.batchsize"}, 2, {"solver.batchsize"}},
      {"set of an unknown layer", {"--set", "layers.emx.bottom=k"}, 2, {"emx"}},
      {"set of a wrong type",
       {"--set", "solver.batchsize=many"},
       2,
       {"--set", "solver.batchsize", "integer", "many"}},
      {"unknown key", {"--set", "solver.batch_size=3"}, 2, {"solver.batch_size", "did you mean"}},
      {"several faults, in blocks and layers",
       {"--check", "--set", "solver.display=-1", "--set", "optimizer.type=Sgd", "--set",
        "layers.t1.fc_param.num_output=0", "--set", "layers.loss.bottom=[\"label\",\"label\"]"},
       2,
       {"solver.display: expected an integer >= 0, found -1", "optimizer.type: expected one of",
        "fc_param.num_output: expected an integer in [1,", "expected logits as the first bottom"}},
      {"slots and sizes",
       {"--set", "layers.emb.sparse_embedding_hparam.slot_size_array=[40,5]"},
       2,
       {"slot_size_array", "3 sizes", "2"}},
      {"vector size",
       {"--set", "layers.emb.sparse_embedding_hparam.embedding_vec_size=2000"},
       2,
       {"embedding_vec_size", "2000"}},
      {"embedding bottom",
       {"--set", "layers.emb.bottom=key"},
       2,
       {"layers[1].bottom", "keys", "key"}},
      {"combiner",
       {"--set", "layers.emb.sparse_embedding_hparam.combiner=2"},
       2,
       {"combiner", "mean"}},
      {"sharding",
       {"--set", "layers.emb.sparse_embedding_hparam.sharding=tables"},
       2,
       {"layers[1].sparse_embedding_hparam.sharding", "\"frequency\"", "tables"}},
      {"sharding_param of nothing",
       {"--set", "layers.emb.sparse_embedding_hparam.sharding_param={\"memory_gb\":1}"},
       2,
       {"sharding_param", "\"sharding\": \"auto\""}},
      {"sharding_param",
       {"--set", "layers.emb.sparse_embedding_hparam.sharding=auto", "--set",
        "layers.emb.sparse_embedding_hparam.sharding_param={\"memory\":1}"},
       2,
       {"sharding_param.memory", "unknown key", "memory_gb, replicate_below_mb"}},
      {"tables that fit nowhere",
       {"--set", "solver.gpu=[0,1]", "--set", "layers.emb.sparse_embedding_hparam.sharding=auto",
        "--set",
        "layers.emb.sparse_embedding_hparam.sharding_param={\"memory_gb\":0.000004,"
        "\"replicate_below_mb\":0}"},
       2,
       {"sharding", "emb.table_2 (300 rows) does not fit"}},
      {"LazyGlobal",
       {"--set", "optimizer.update_type=LazyGlobal", "--set",
        "layers.emb.optimizer.update_type=LazyGlobal"},
       2,
       {"LazyGlobal", "not supported yet"}},
      {"a folder of a variable that is not set",
       {"--save", ""},
       2,
       {"--save", "found an empty one"}},
      {"a checkpoint of one", {"--resume="}, 2, {"--resume"}},
      {"metrics of one", {"--metrics", ""}, 2, {"--metrics", "found an empty one"}},
      {"no checkpoint", {"--resume", "/nonexistent"}, 3, {"/nonexistent", "checkpoint", "nothing"}},
      {"embedding type",
       {"--set", "layers.emb.type=HybridEmbedding"},
       2,
       {"layers[1].type", "HybridSparseEmbedding", "found \"HybridEmbedding\""}},
      {"layer name of the embedding", {"--set", "layers.t1.name=emb"}, 2, {"name of its own"}},
      {"save amid a file", {"--save", run / "train.bin/x"}, 2, {"--save", "train.bin/x: expected"}},
      {"export into nowhere", {"--export", "/nonexistent/x.safetensors"}, 2, {"--export"}},
      {"metrics into nowhere", {"--metrics", "/nonexistent/x.jsonl"}, 2, {"--metrics"}},
      {"export over a folder", {"--export", run.path()}, 2, {"--export", "found a directory"}},
      {"two results in one file",
       {"--metrics", run / "x", "--report", run / "./x"},
       2,
       {"--report", "file of its own", "--metrics"}},
      {"snapshots into nowhere",
       {"--set", "solver.snapshot_prefix=nowhere/x"},
       2,
       {"snapshot_prefix"}},
  };
  for (const Mistake& m : list) check_says(run.train(m.arguments), m);
  CHECK(run_program({HLITE_TRAIN}).code == 2);
  const auto slip = run_program({HLITE_TRAIN, "--confg", run / "config.json"});
  CHECK(slip.code == 2);
  CHECK(slip.err.find("not expected: --confg") != std::string::npos);
  const auto missing = run_program({HLITE_TRAIN, "--config", run / "nothing.json"});
  CHECK(missing.code == 2);
  CHECK(missing.err.find("nothing.json") != std::string::npos);
}

TEST_CASE("bad data exits with 3 and says where") {
  const SmallRun run;
  const std::string good = read_text(run / "train.bin");
  const auto with = [&](size_t sample, size_t column, uint32_t value) {
    std::string bytes = good;
    std::memcpy(bytes.data() + sample * 24 + column * 4, &value, 4);
    return bytes;
  };
  struct Damage {
    const char* what;
    std::string bytes;
    std::vector<std::string> says;
  };
  const std::vector<Damage> list = {
      {"cut", good.substr(0, good.size() - 7), {"train.bin", "24", "record"}},
      {"empty", "", {"train.bin"}},
      {"key beyond its table", with(123, 3, 40), {"train.bin", "sample 123", "slot 0", "40"}},
      {"label", with(77, 0, 7), {"train.bin", "sample 77", "label", "7"}},
      {"dense below zero",
       with(400, 2, static_cast<uint32_t>(-3)),
       {"train.bin", "sample 400", "-3"}},
  };
  for (const Damage& d : list) {
    write_text(run / "train.bin", d.bytes);
    check_says(run.train(), {d.what, {}, 3, d.says});
  }
  std::filesystem::remove(run / "train.bin");
  check_says(run.train(), {"missing", {}, 3, {"train.bin", "No such file"}});
  write_text(run / "train.bin", good);
  std::filesystem::remove(run / "eval.bin");
  check_says(run.train(), {"missing evaluation data", {}, 3, {"eval.bin", "No such file"}});
}

TEST_CASE("a loss that is NaN stops the run and names iteration, layer and sample") {
  const SmallRun run;
  const auto result = run.train({"--set", "optimizer.momentum_sgd_hparam.learning_rate=1e30",
                                 "--set", "optimizer.momentum_sgd_hparam.warmup_steps=1"});
  INFO(result.err);
  CHECK(result.code == 3);
  for (const char* part :
       {"iteration ", "expected a finite loss", "layer \"", "sample ", "train.bin"})
    CHECK(result.err.find(part) != std::string::npos);
}

TEST_CASE("the run stops at its AUC target") {
  const SmallRun run;
  const auto result = run.train({"--set", R"(solver.eval_metrics=["AUC:0.55"])", "--set",
                                 "solver.max_iter=5000", "--metrics", run / "m.jsonl"});
  INFO(result.err);
  CHECK(result.code == 0);
  CHECK(read_text(run / "m.jsonl").find(R"("reason":"target")") != std::string::npos);
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
  CHECK(metrics.find(R"("reason":"epochs")") != std::string::npos);
  const auto refused = run.train({"--set", "solver.drop_incomplete_batch=true"});
  CHECK(refused.code == 2);
  CHECK(refused.err.find("the incomplete last batch of an epoch is trained on") !=
        std::string::npos);
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
    const auto result =
        run.train({"--set", "optimizer=" + block, "--set", "layers.emb.optimizer=" + block, "--set",
                   R"(solver.eval_metrics=["AUC:0.7"])", "--set", "solver.max_iter=3000",
                   "--metrics", run / "m.jsonl"});
    INFO(result.err);
    CHECK(result.code == 0);
    CHECK(read_text(run / "m.jsonl").find(R"("reason":"target")") != std::string::npos);
  }
}

TEST_CASE("asked to --check, it prints the model, its memory and whether the run can start") {
  const SmallRun run;
  const auto ok = run.train({"--check"});
  INFO(ok.err);
  CHECK(ok.code == 0);
  for (const char* part : {"HybridSparseEmbedding", "[B,3,4]", "1380", "embedding tables",
                           "500 samples", "333 samples", "the run can start here"})
    CHECK(ok.out.find(part) != std::string::npos);
  const auto missing = run.train({"--check", "--set", "layers.data.source=none.bin"});
  CHECK(missing.code == 0);
  CHECK(missing.out.find("none.bin is not there") != std::string::npos);
  CHECK(missing.out.find("cannot start here") != std::string::npos);
  const auto untested = run.train({"--check", "--set", "layers.data.test_source=none.bin"});
  CHECK(untested.code == 0);
  check_contains(untested.out, {"test data", "none.bin is not there"});
  const auto other = run.train({"--check", "--set", "layers.data.dense.dense_dim=3"});
  CHECK(other.code == 3);
  const std::string amid_file = run / "train.bin/x";
  const auto places = run.train({"--check", "--save", amid_file, "--resume", run / "none"});
  CHECK(places.code == 0);
  check_contains(places.out, {"cannot start here",
                              "--save " + amid_file + ": expected a place that can be written",
                              "none: expected a checkpoint, found nothing"});
  const auto init = run.train({"--check", "--init", run / "config.json"});
  CHECK(init.code == 0);
  for (const char* part : {"cannot start here", "config.json: expected a safetensors file"})
    CHECK(init.out.find(part) != std::string::npos);
}

TEST_CASE("what cannot be printed is an error") {
  const auto full = run_program({"/bin/sh", "-c", "exec \"$0\" --keys >/dev/full", HLITE_TRAIN});
  CHECK(full.code == 3);
  CHECK(full.err.find("train: standard output: ") != std::string::npos);
}

TEST_CASE("a record that cannot be written does not cost the run") {
  const SmallRun run;
  const auto full = run.train({"--metrics", "/dev/full", "--save", run / "ck"});
  INFO(full.err);
  CHECK(full.code == 3);
  CHECK(full.err.find("/dev/full: cannot write the metrics file: No space left on device; the run "
                      "goes on without it") != std::string::npos);
  CHECK(full.err.find("done after 200 iterations") != std::string::npos);
  CHECK(run.train({"--resume", run / "ck", "--set", "solver.max_iter=201"}).code == 0);
}

TEST_CASE("asked to --plan, it prints steps, lanes and dependencies") {
  const SmallRun run;
  const auto result = run.train({"--plan"});
  CHECK(result.code == 0);
  for (const char* part :
       {"copy_in", "emb.lookup", "embedding", "inter.bprop", "dense_update", "emb.update", "after"})
    CHECK(result.out.find(part) != std::string::npos);
}

TEST_CASE("asked for several reports, it prints all of them") {
  const SmallRun run;
  const auto result = run.train({"--plan", "--check", "--estimate", "1x1 dgx_a100"});
  INFO(result.err);
  CHECK(result.code == 0);
  for (const char* part : {"estimate: ", "the config is valid", "training iteration: "})
    CHECK(result.out.find(part) != std::string::npos);
}

TEST_CASE("asked to --plan for a GPU, it prints the GPU's steps, without one too") {
  const SmallRun run;
  CHECK(run.train({"--plan"}).out.find("weights ") == std::string::npos);
  const auto absent = run.train({"--plan", "--device", "cuda", "--set", "solver.precision=bf16"});
  CHECK(absent.code == 0);
  for (const char* part : {"on a GPU", "dense.cast", "emb.sort", " weights,", "copy_in"}) {
    INFO(absent.out << part);
    CHECK(absent.out.find(part) != std::string::npos);
  }
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
    INFO(check.out << check.err);
    CHECK(check.code == 0);
    CHECK(check.out.find("the config is valid") != std::string::npos);
    for (const std::string& part : f.says) CHECK(check.out.find(part) != std::string::npos);
  }
}

TEST_CASE("the MLPerf config passes --check as it stands, and trains on one rank with small tables",
          "[no-tsan]") {
  const std::string config = std::string(HLITE_CONFIGS) + "/mlperf_dgx_a100.json";
  const auto check = run_program({HLITE_TRAIN, "--config", config, "--check"});
  INFO(check.err);
  CHECK(check.code == 0);
  for (const char* part : {"187767399", "[B,480]", "12.0 GB", "total of 8 ranks",
                           "1 node x 8 ranks", "the config is valid"})
    CHECK(check.out.find(part) != std::string::npos);

  const TemporaryDirectory data;
  std::string samples, sizes;
  for (uint64_t i = 0; i < 1024; ++i)
    for (uint64_t c = 0; c < 40; ++c) {
      const uint32_t v = random::word(3, c, i) % (c == 0 ? 2 : 50);
      samples.append(reinterpret_cast<const char*>(&v), 4);
    }
  for (int i = 0; i < 26; ++i) sizes += (i ? ",50" : "50");
  write_text(data / "d.bin", samples);
  const auto train =
      run_program({HLITE_TRAIN,
                   "--config",
                   config,
                   "--set",
                   "solver.gpu=[0]",
                   "--set",
                   "solver.batchsize=512",
                   "--set",
                   "solver.batchsize_eval=512",
                   "--set",
                   "solver.eval_batches=2",
                   "--set",
                   "solver.max_iter=4",
                   "--set",
                   "solver.eval_interval=2",
                   "--set",
                   "solver.display=1",
                   "--set",
                   "layers.data.source=" + (data / "d.bin"),
                   "--set",
                   "layers.data.eval_source=" + (data / "d.bin"),
                   "--set",
                   "layers[1].sparse_embedding_hparam.slot_size_array=[" + sizes + "]",
                   "--metrics",
                   data / "m.jsonl"});
  INFO(train.err);
  CHECK(train.code == 0);
  CHECK(read_text(data / "m.jsonl").find(R"({"event":"eval","iter":4,)") != std::string::npos);
}

TEST_CASE("device cuda without a usable device exits with 4 and says why") {
  const SmallRun run;
  const auto result = run.train({"--device", "cuda"});
  INFO(result.err);
  CHECK(result.code == 4);
  CHECK(result.err.find("CUDA") != std::string::npos);
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
  CHECK(nothing_left.err.find("nothing to train: 30 iterations are done") != std::string::npos);
  write_text(run / "w.safetensors", "not a weights file");
  const auto bad = run.train({"--init", run / "w.safetensors"});
  CHECK(bad.code == 3);
  CHECK(bad.err.find("w.safetensors") != std::string::npos);
}

}  // namespace hlite::test
