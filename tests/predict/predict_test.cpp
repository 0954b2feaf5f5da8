// The program on models that `train` trained.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "tests/end_to_end/golden_data.h"
#include "tests/predict/predict_case.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/program.h"

namespace hlite {
namespace {

using test::check_close;
using test::check_contains;
using test::predict;
using test::ProgramResult;
using test::scores_in;
using test::SmallRun;

// The number after `name` in the last line that has it.
double number_after(const std::string& text, const std::string& name) {
  const size_t at = text.rfind(name);
  INFO(text);
  REQUIRE(at != std::string::npos);
  return std::stod(text.substr(at + name.size()));
}

// Mean cross-entropy of the scores, by the labels of the records.
double log_loss(const std::vector<double>& scores, const std::string& records) {
  const size_t record = records.size() / scores.size();
  double sum = 0;
  for (size_t i = 0; i < scores.size(); ++i)
    sum -= std::log(records[i * record] != 0 ? scores[i] : 1 - scores[i]);
  return sum / static_cast<double>(scores.size());
}

TEST_CASE("scores are not written over what they come from") {
  const SmallRun run;
  std::filesystem::copy(run / "eval.bin", run / "samples.csv");
  std::filesystem::create_symlink(run / "config.json", run / "config.csv");
  for (const auto& [out, input] : {std::pair{"./samples.csv", "--input samples.csv"},
                                   std::pair{"config.csv", "--config config.json"}}) {
    const auto refused = predict(run, {"--model", "w.safetensors", "--config", "config.json",
                                       "--input", "samples.csv", "--out", out});
    CHECK(refused.code == 2);
    check_contains(
        refused.err,
        {fmt::format("--out {}: expected a place of its own, found the input {}", out, input)});
  }
  CHECK((test::read_text(run / "samples.csv") == test::read_text(run / "eval.bin")));
}

TEST_CASE("scores are those of the last evaluation, from a checkpoint or exported weights") {
  const SmallRun run;
  const ProgramResult trained = run.train(
      {"--save", run / "ck", "--export", run / "w.safetensors", "--set", "solver.gpu=[[0,1]]"});
  REQUIRE(trained.code == 0);
  const ProgramResult printed =
      predict(run, {"--model", "ck", "--input", "eval.bin", "--out", "-"});
  INFO(printed.err);
  REQUIRE(printed.code == 0);
  const std::vector<double> scores = scores_in(printed.out);
  REQUIRE(scores.size() == 333);
  const double auc = number_after(trained.err + trained.out, "AUC ");
  CHECK(number_after(printed.err, "AUC ") == Approx(auc).margin(1e-5));
  const std::string records = test::read_text(run / "eval.bin");
  CHECK(number_after(printed.err, "log loss ") == Approx(log_loss(scores, records)).margin(2e-6));

  const ProgramResult weights =
      predict(run, {"--model", "w.safetensors", "--config", "config.json", "--input", "eval.bin",
                    "--out", "s.csv", "--batch", "7", "--quiet"});
  CHECK(weights.code == 0);
  CHECK(weights.err.empty());
  CHECK(scores_in(test::read_text(run / "s.csv")) == scores);  // to the bit, in any batch

  setenv("HLITE_CUDA_LIBRARY", HLITE_EMULATED_PLUGIN, 1);
  const ProgramResult on_gpu =
      predict(run, {"--model", "ck", "--input", "eval.bin", "--out", "-", "--device", "cuda"});
  unsetenv("HLITE_CUDA_LIBRARY");
  CHECK(on_gpu.code == 0);
  check_close(scores_in(on_gpu.out), scores);
}

TEST_CASE("tables that slots share give their sizes to a config that names a manifest") {
  const SmallRun run;
  const std::string config = test::small_config(), sizes = R"("slot_size_array": [40, 5, 300])";
  const auto scores = [&](const std::string& given) {
    std::string text = config;
    text.replace(text.find(sizes), sizes.size(),
                 R"("slot_tables": [0, 1, 0], "slot_size_array": )" + given);
    test::write_text(run / "config.json", text);
    if (!std::filesystem::exists(run / "w.safetensors"))
      REQUIRE(run.train({"--export", run / "w.safetensors", "--set", "solver.max_iter=20"}).code ==
              0);
    const ProgramResult result = predict(run, {"--model", "w.safetensors", "--config",
                                               "config.json", "--input", "eval.bin", "--out", "-"});
    INFO(result.err);
    REQUIRE(result.code == 0);
    return result.out;
  };
  const std::string want = scores("[300, 5, 300]");
  CHECK(scores(R"("absent/manifest.json")") == want);
}

// A table of text of which csv_prep makes records, and a model trained on them.
class TextRun {
 public:
  TextRun() {
    test::write_text(run_ / "schema.json", R"({"header": true,
        "label": {"column": "y", "positive": "1"}, "dense": [{"column": "d1"},
        {"column": "d2", "transform": "standardize"}],
        "categorical": [{"column": "a"}, {"column": "b"}, {"column": "c"}]})");
    test::write_text(run_ / "a.csv", table(600, 1, true));
    test::write_text(run_ / "b.csv", table(301, 2, true));
    test::write_text(run_ / "bare.csv", table(301, 2, false));
    const auto prepared = test::run_program({HLITE_CSV_PREP, "--schema", "schema.json", "--train",
                                             "a.csv", "--val", "b.csv", "--out", "data"},
                                            run_.path());
    INFO(prepared.err);
    REQUIRE(prepared.code == 0);
    const ProgramResult trained = run_.train(
        {"--save", run_ / "ck", "--set", "layers.data.source=data/train.bin", "--set",
         "layers.data.eval_source=data/val.bin", "--set", "layers.data.float_label_dense=true",
         "--set", "layers.emb.sparse_embedding_hparam.slot_size_array=data/manifest.json", "--set",
         "solver.max_iter=60"});
    INFO(trained.err);
    REQUIRE(trained.code == 0);
  }
  [[nodiscard]] const SmallRun& run() const { return run_; }

 private:
  static std::string table(uint64_t rows, uint64_t seed, bool labels) {
    std::string text = labels ? "d1,a,y,b,d2,c\n" : "d1,a,b,d2,c\n";
    for (uint64_t i = 0; i < rows; ++i) {
      const auto draw = [&](uint64_t j, uint32_t below) {
        return random::word(seed, j, i) % below;
      };
      const uint32_t a = draw(0, 30);  // some come in b.csv only
      text += fmt::format("{},\"city {}\",", draw(1, 9), a);
      if (labels) text += fmt::format("{},", (a + draw(2, 10)) % 3 == 0 ? 1 : 0);
      text += fmt::format("{},{},t{}\n", draw(3, 4), draw(4, 100), draw(5, 200));
    }
    return text;
  }
  SmallRun run_;
};

TEST_CASE("lines of text are scored as the records that were prepared of them") {
  const TextRun text;
  const SmallRun& run = text.run();
  const auto binary = predict(run, {"--model", "ck", "--config", "config.json", "--set",
                                    "layers.data.float_label_dense=true", "--set",
                                    "layers.emb.sparse_embedding_hparam.slot_size_array=data/"
                                    "manifest.json",
                                    "--input", "data/val.bin", "--out", "-"});
  INFO(binary.err);
  REQUIRE(binary.code == 0);
  const std::vector<double> scores = scores_in(binary.out);
  REQUIRE(scores.size() == 301);
  // The checkpoint's own config names the manifest relative to the working directory.
  for (const char* batch : {"64", "8192"}) {
    const auto lines = predict(run, {"--model", "ck", "--prepared", "data", "--input", "b.csv",
                                     "--out", "-", "--batch", batch});
    INFO(lines.err);
    REQUIRE(lines.code == 0);
    check_close(scores_in(lines.out), scores);
    CHECK(number_after(lines.err, "AUC ") == number_after(binary.err, "AUC "));
  }
  // A checkpoint is enough: sizes that the config took from a manifest are those of its tables.
  std::filesystem::rename(run / "data/manifest.json", run / "data/gone.json");
  const auto alone = predict(run, {"--model", "ck", "--input", "data/val.bin", "--out", "-"});
  INFO(alone.err);
  REQUIRE(alone.code == 0);
  check_close(scores_in(alone.out), scores);
  std::filesystem::rename(run / "data/gone.json", run / "data/manifest.json");
  const auto bare = predict(run, {"--model", "ck", "--prepared", "data", "--no-label", "--input",
                                  "bare.csv", "--out", "-"});
  REQUIRE(bare.code == 0);
  check_close(scores_in(bare.out), scores);
  CHECK(bare.err.find("AUC") == std::string::npos);

  test::write_text(run / "bad.csv", "d1,a,y,b,d2,c\n1,x,1,2,3,t\n1,x,1,2,three,t\n");
  const auto bad =
      predict(run, {"--model", "ck", "--prepared", "data", "--input", "bad.csv", "--out", "s.csv"});
  CHECK(bad.code == 3);
  check_contains(bad.err, {"bad.csv:3", "expected a finite number", "three"});
  CHECK(predict(run, {"--model", "ck", "--input", "s.csv", "--out", "t.csv"}).code == 3);
}

TEST_CASE("a checkpoint that has the preparation in it scores text and records alone") {
  const TextRun text;
  const SmallRun& run = text.run();
  const ProgramResult trained = run.train(
      {"--resume", run / "ck", "--save", run / "own", "--with-preparation", "--set",
       "layers.data.source=data/train.bin", "--set", "layers.data.eval_source=data/val.bin",
       "--set", "layers.data.float_label_dense=true", "--set",
       "layers.emb.sparse_embedding_hparam.slot_size_array=data/manifest.json", "--set",
       "solver.max_iter=60"});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  const auto by_folder =
      predict(run, {"--model", "ck", "--prepared", "data", "--input", "b.csv", "--out", "-"});
  REQUIRE(by_folder.code == 0);
  // The data move away, as to another machine; gzip and records are distinguished from text.
  std::filesystem::rename(run / "data", run / "gone");
  REQUIRE(test::run_program({"/bin/sh", "-c", "gzip -k b.csv"}, run.path()).code == 0);
  for (const char* input : {"b.csv", "b.csv.gz", "gone/val.bin"}) {
    const auto own = predict(run, {"--model", "own", "--input", input, "--out", "-"});
    INFO(input << "\n" << own.err);
    REQUIRE(own.code == 0);
    check_close(scores_in(own.out), scores_in(by_folder.out));
  }
  const auto without = predict(run, {"--model", "ck", "--input", "b.csv", "--out", "-"});
  CHECK(without.code == 3);
}

TEST_CASE("keys that key_policy replaced are said as a share, and may be refused") {
  const SmallRun run;
  REQUIRE(run.train({"--save", run / "ck", "--set", "solver.max_iter=10"}).code == 0);
  // A third of the keys: all of slot 2.
  std::string records = test::read_text(run / "eval.bin");
  for (size_t at = 20; at < records.size(); at += 24) records[at + 3] = 1;
  test::write_text(run / "far.bin", records);
  const std::vector<std::string> arguments = {
      "--model", "ck",      "--set", "layers.data.key_policy=clamp",
      "--input", "far.bin", "--out", "s.csv"};
  const auto scored = predict(run, arguments);
  CHECK(scored.code == 0);
  check_contains(scored.err, {"warning: 333 keys (33.3 %) outside of their tables were replaced"});
  std::filesystem::remove(run / "s.csv");
  const auto with = [&](const char* option, const char* value) {
    std::vector<std::string> strict = arguments;
    strict.insert(strict.end(), {option, value});
    return predict(run, strict);
  };
  for (const char* share : {"0.3", "30%"}) {
    const auto refused = with("--max-unknown", share);
    CHECK(refused.code == 3);
    check_contains(refused.err, {"far.bin: expected at most 30.0 % of keys", "found 33.3 %"});
    CHECK_FALSE(std::filesystem::exists(run / "s.csv"));
  }
  for (const auto& [option, value, words] :
       {std::tuple{"--max-unknown", "50", "expected a share such as 0.01 or 1%"},
        {"--threads", "99999999999", "expected a whole number from 1 to 4096"},
        {"--batch", "1e3", "expected a whole number from 1 to 1048576"}}) {
    const auto refused = with(option, value);
    CHECK(refused.code == 2);
    check_contains(refused.err, {option, words});
  }
}

#ifdef HLITE_PYTHON_ONNX
// hugectr_model.py
ProgramResult hugectr(const SmallRun& run, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(),
                   {HLITE_PYTHON_ONNX, HLITE_SOURCE_DIR "/tools/hugectr_model.py"});
  return test::run_program(arguments, run.path());
}

TEST_CASE("weights go to HugeCTR's files and come back") {
  const std::string layout = GENERATE("folder", "file");
  const std::string type = GENERATE("HybridSparseEmbedding", "DistributedSlotSparseEmbeddingHash",
                                    "LocalizedSlotSparseEmbeddingOneHot");
  CAPTURE(layout, type);
  const SmallRun run;
  std::vector<std::string> more = {"--save",   run / "ck",
                                   "--export", run / "w.safetensors",
                                   "--set",    "layers.emb.type=" + type,
                                   "--set",    "solver.max_iter=3"};
  if (type == "DistributedSlotSparseEmbeddingHash")
    more.insert(more.end(),
                {"--set", "layers.emb.sparse_embedding_hparam.max_vocabulary_size_per_gpu=345"});
  const ProgramResult trained = run.train(more);
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  const ProgramResult to = hugectr(
      run, {"to", "--model", "ck", "--prefix", "out/m", "--iteration", "3", "--layout", layout});
  INFO(to.err);
  REQUIRE(to.code == 0);
  // b1, t1, t2: weights, then biases, in rows.
  const size_t dense = 8 * 4 + 4 + 11 * 16 + 16 + 16 + 1;
  CHECK(test::read_text(run / "out/m_dense_3.model").size() == 4 * dense);
  const std::string sparse = run / "out/m0_sparse_3.model";
  const bool localized = type != "DistributedSlotSparseEmbeddingHash";
  if (layout == "folder") {
    const size_t rows = test::read_text(sparse + "/key").size() / 8;
    CHECK(test::read_text(sparse + "/emb_vector").size() == rows * 16);
    CHECK(std::filesystem::exists(sparse + "/slot_id") == localized);
    if (localized) CHECK(rows == 40 + 5 + 300);
  } else {
    const std::string records = test::read_text(sparse);
    const size_t record = 4 + (localized ? 8 : 0) + 16;
    REQUIRE(records.size() % record == 0);
    if (localized) {  // key 41 is key 1 of slot 1
      uint32_t key = 0;
      uint64_t slot = 0;
      std::memcpy(&key, &records[41 * record], 4);
      std::memcpy(&slot, &records[41 * record + 4], 8);
      CHECK(key == 41);
      CHECK(slot == 1);
    }
  }
  test::write_text(run / "typed.json",
                   std::regex_replace(test::read_text(run / "config.json"),
                                      std::regex("HybridSparseEmbedding"), type));
  const std::vector<std::string> from = {
      "from",  "--config",    "typed.json", "--like", "w.safetensors",   "--prefix",
      "out/m", "--iteration", "3",          "--out",  "back.safetensors"};
  const ProgramResult back = hugectr(run, from);
  INFO(back.err);
  REQUIRE(back.code == 0);
  const std::string before = test::read_text(run / "w.safetensors");
  const std::string after = test::read_text(run / "back.safetensors");
  CHECK(before.size() == after.size());
  CHECK((before.substr(before.find('}')) == after.substr(after.find('}'))));

  test::write_text(run / "out/m_dense_3.model", "1234");
  const ProgramResult short_file = hugectr(run, from);
  CHECK(short_file.code == 2);
  check_contains(short_file.err,
                 {"m_dense_3.model", fmt::format("expected {} numbers", dense), "found 4 bytes"});
}

#endif

TEST_CASE("what cannot be predicted is an error that says why, and leaves no file") {
  const SmallRun run;
  REQUIRE(run.train({"--save", run / "ck", "--set", "solver.max_iter=2"}).code == 0);
  struct {
    std::vector<std::string> arguments;
    int code;
    const char* says;
  } const cases[] = {
      {{"--input", "eval.bin", "--out", "s.csv"}, 2, "--model"},
      {{"--model", "ck", "--out", "s.csv"}, 2, "--input"},
      {{"--model", "ck", "--input", "eval.bin"}, 2, "--out"},
      {{"--model", "ck", "--input", "eval.bin", "--out", "s.txt"}, 2, ".csv or .npy"},
      {{"--model", "eval.bin", "--input", "eval.bin", "--out", "s.csv"}, 2, "--config"},
      {{"--model", "none", "--input", "eval.bin", "--out", "s.csv"}, 3, "expected a checkpoint"},
      {{"--model", "none", "--config", "config.json", "--input", "eval.bin", "--out", "s.csv"},
       3,
       "found nothing"},
      {{"--model", "eval.bin", "--config", "config.json", "--input", "eval.bin", "--out", "s.csv"},
       3,
       "header"},
      {{"--model", "ck", "--input", "none.bin", "--out", "s.csv"}, 3, "none.bin"},
      {{"--model", "ck", "--input", "config.json", "--out", "s.csv"}, 3, "config.json"},
      {{"--model", "ck", "--input", "eval.bin", "--out", "none/s.csv"}, 3, "none/s.csv"},
      {{"--model", "ck", "--input", "eval.bin", "--no-label", "--out", "s.csv"}, 2, "--no-label"},
      {{"--model", "ck", "--input", "eval.bin", "--prepared", "none", "--out", "s.csv"}, 2, "none"},
      {{"--model", "ck", "--input", "eval.bin", "--out", "s.csv", "--batch", "0"}, 2, "--batch"},
      {{"--model", "ck", "--input", "eval.bin", "--out", "s.csv", "--set", "solver.x=1"}, 2, "x"},
      {{"--model", "ck", "--input", "eval.bin", "--out", "s.csv", "--set",
        "layers.t1.fc_param.num_output=17"},
       3,
       "t1"},
  };
  for (const auto& c : cases) {
    const ProgramResult result = predict(run, c.arguments);
    INFO(result.err);
    CHECK(result.code == c.code);
    check_contains(result.err, {c.says});
    CHECK(!std::filesystem::exists(run / "s.csv"));
    CHECK(!std::filesystem::exists(run / "s.csv.tmp"));
  }
}

// Of the last evaluation of a training run.
nlohmann::json last_evaluation(const SmallRun& run) {
  std::istringstream lines(test::read_text(run / "metrics.jsonl"));
  nlohmann::json last;
  for (std::string line; std::getline(lines, line);)
    if (const auto event = nlohmann::json::parse(line); event["event"] == "eval") last = event;
  return last;
}

const std::vector<std::string>& on_two_ranks() {
  static const std::vector<std::string> options = {"--save",    "ck",
                                                   "--metrics", "metrics.jsonl",
                                                   "--set",     "solver.gpu=[[0,1]]",
                                                   "--set",     "layers.data.eval_num_samples=333"};
  return options;
}

ProgramResult train_changed(const SmallRun& run, const std::vector<std::string>& changes) {
  std::vector<std::string> options = on_two_ranks();
  for (const std::string& change : changes) options.insert(options.end(), {"--set", change});
  std::vector<std::string> command = run.command(options);
  return test::run_program(command, run.path());
}

std::vector<double> scores_of_model(const SmallRun& run, ProgramResult& printed,
                                    const std::vector<std::string>& changes = {}) {
  std::vector<std::string> options = {"--model", "ck", "--input", "eval.bin", "--out", "-"};
  for (const std::string& change : changes) options.insert(options.end(), {"--set", change});
  printed = predict(run, options);
  INFO(printed.err);
  REQUIRE(printed.code == 0);
  std::vector<double> scores = scores_in(printed.out);
  REQUIRE(scores.size() == 333);
  return scores;
}

TEST_CASE("scores of a model that saw a share of the negatives are right for all of them") {
  constexpr double kShare = 0.2;
  const SmallRun run;
  const ProgramResult trained = train_changed(run, {"layers.data.negative_share=0.2"});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  ProgramResult printed, plain;
  const std::vector<double> scores = scores_of_model(run, printed);
  const std::vector<double> learnt = scores_of_model(run, plain, {"layers.data.negative_share=1"});
  for (size_t i = 0; i < scores.size(); ++i) {
    const double q = learnt[i];
    CHECK(scores[i] == Approx(q / (q + (1 - q) / kShare)).epsilon(2e-6));
  }
  const std::string records = test::read_text(run / "eval.bin");
  const double loss = log_loss(scores, records);
  CHECK(std::abs(loss - log_loss(learnt, records)) > 0.02);
  CHECK(number_after(printed.err, "log loss ") == Approx(loss).margin(2e-6));
  CHECK(last_evaluation(run)["loss"].get<double>() == Approx(loss).margin(2e-6));
  CHECK(number_after(printed.err, "AUC ") == number_after(plain.err, "AUC "));
}

TEST_CASE("a model with MSELoss scores values, and evaluations say their error") {
  const SmallRun run;
  std::string records[] = {test::read_text(run / "train.bin"), test::read_text(run / "eval.bin")};
  for (std::string& of : records)  // labels -1 to 2, by the first key
    for (size_t at = 0; at < of.size(); at += 24) {
      int32_t words[6];
      std::memcpy(words, of.data() + at, sizeof(words));
      words[0] = words[3] % 4 - 1;
      std::memcpy(of.data() + at, words, sizeof(words));
    }
  test::write_text(run / "train.bin", records[0]);
  test::write_text(run / "eval.bin", records[1]);
  const std::string type = "layers.loss.type=MSELoss";
  const ProgramResult refused = train_changed(run, {type});
  CHECK(refused.code == 3);
  check_contains(refused.err, {"train.bin: sample ", "label 0: expected a value in [0, 1]"});
  const ProgramResult trained = train_changed(run, {type, "layers.data.label.real=true"});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  ProgramResult printed;
  const std::vector<double> values = scores_of_model(run, printed);
  double squares = 0, around = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    int32_t label = 0;
    std::memcpy(&label, records[1].data() + 24 * i, sizeof(label));
    squares += (values[i] - label) * (values[i] - label) / 333;
    around += (0.5 - label) * (0.5 - label) / 333;
  }
  CHECK(squares < 0.8 * around);  // learnt
  CHECK(number_after(printed.err, "RMSE ") == Approx(std::sqrt(squares)).margin(2e-6));
  CHECK(number_after(printed.err, "mean squared error ") == Approx(squares).epsilon(1e-6));
  const nlohmann::json evaluation = last_evaluation(run);
  CHECK(evaluation["loss"].get<double>() == Approx(squares).epsilon(1e-6));
  CHECK(evaluation["rmse"].get<double>() == Approx(std::sqrt(squares)).epsilon(1e-6));
  CHECK(evaluation["auc"].is_null());
  check_contains(trained.out + trained.err, {"evaluation: loss ", "  RMSE "});
}

TEST_CASE("metrics of weighted samples are weighted, on any ranks and in predict") {
  const SmallRun run;
  const auto weighted = [](const std::string& records, std::vector<double>* weights) {
    std::string text;
    for (size_t at = 0; at < records.size(); at += 24) {
      const float weight = at / 24 % 5 == 0 ? 0.0f : 0.25f * static_cast<float>(at / 24 % 13);
      text += records.substr(at, 4);
      text.append(reinterpret_cast<const char*>(&weight), sizeof(weight));
      text += records.substr(at + 4, 20);
      if (weights) weights->push_back(static_cast<double>(weight));
    }
    return text;
  };
  const std::string labels = test::read_text(run / "eval.bin");
  std::vector<double> weights;
  test::write_text(run / "train.bin", weighted(test::read_text(run / "train.bin"), nullptr));
  test::write_text(run / "eval.bin", weighted(labels, &weights));
  const ProgramResult trained = train_changed(run, {"layers.data.label.sample_weight=true"});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  ProgramResult printed;
  const std::vector<double> scores = scores_of_model(run, printed);
  double loss = 0, all = 0, won = 0, pairs = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    const bool positive = labels[24 * i] != 0;
    loss -= weights[i] * std::log(positive ? scores[i] : 1 - scores[i]);
    all += weights[i];
    for (size_t j = 0; positive && j < scores.size(); ++j) {
      if (labels[24 * j] != 0) continue;
      pairs += weights[i] * weights[j];
      won += weights[i] * weights[j] *
             (scores[i] > scores[j]    ? 1
              : scores[i] == scores[j] ? 0.5
                                       : 0);
    }
  }
  const nlohmann::json evaluation = last_evaluation(run);
  CHECK(evaluation["loss"].get<double>() == Approx(loss / all).margin(2e-6));
  CHECK(evaluation["auc"].get<double>() == Approx(won / pairs).margin(1e-5));
  CHECK(number_after(printed.err, "log loss ") == Approx(loss / all).margin(2e-6));
  CHECK(number_after(printed.err, "AUC ") == Approx(won / pairs).margin(1e-5));
  // A weight that is none is named, in training as in predict.
  for (const char* file : {"train.bin", "eval.bin"})
    for (const float wrong : {-1.0f, std::numeric_limits<float>::quiet_NaN()}) {
      const std::string good = test::read_text(run / file);
      std::string bad = good;
      std::memcpy(&bad[28 * 222 + 4], &wrong, sizeof(wrong));
      test::write_text(run / file, bad);
      const ProgramResult refused = train_changed(run, {"layers.data.label.sample_weight=true"});
      CHECK(refused.code == 3);
      check_contains(refused.err,
                     {fmt::format("{}: sample 222 (byte {}), sample weight: expected a "
                                  "finite value >= 0, found {}",
                                  file, 28 * 222, wrong)});
      test::write_text(run / file, good);
    }
}

}  // namespace
}  // namespace hlite
