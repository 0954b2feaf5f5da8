// The program on models that `train` trained.
#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <tuple>
#include <vector>

#include "tests/end_to_end/golden_data.h"
#include "tests/predict/predict_case.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/program.h"

namespace hlite {
namespace {

using test::check_close;
using test::check_contains;
using test::log_loss;
using test::number_after;
using test::predict;
using test::ProgramResult;
using test::run_program;
using test::scores_in;
using test::SmallRun;

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

TEST_CASE("an evaluation exports the scores that predict gives") {
  const auto lines_of = [](const std::string& text) {
    std::istringstream lines(text);
    std::vector<float> numbers;
    for (std::string line; std::getline(lines, line);) numbers.push_back(std::stof(line));
    return numbers;
  };
  for (const auto& [what, by, ranks] :
       {std::tuple("\"None\"", "\"None\"", "[0,1]"),
        std::tuple("\"None\"", "\"None\", \"negative_share\": 0.125", "[0]"),
        std::tuple("BinaryCrossEntropyLoss", "MSELoss", "[0]"),
        std::tuple("\"BinaryCrossEntropyLoss\"", "\"BinaryCrossEntropyLoss\", \"base_score\": 0.03",
                   "[0,1]"),
        std::tuple("\"BinaryCrossEntropyLoss\"",
                   "\"MSELoss\", \"base_score\": 0.3, \"score_scale\": 2", "[0,1]")}) {
    CAPTURE(by);
    const SmallRun run;
    std::string text = test::small_config();
    text.replace(text.find(what), std::string_view(what).size(), by);
    test::write_text(run / "config.json", text);
    REQUIRE(run.train({"--save", run / "ck", "--set", test::gpu(ranks), "--set",
                       "solver.export_predictions_prefix=" + (run / "of_")})
                .code == 0);
    const ProgramResult printed =
        predict(run, {"--model", "ck", "--input", "eval.bin", "--out", "-"});
    REQUIRE(printed.code == 0);
    std::vector<float> scores;
    for (const double score : scores_in(printed.out)) scores.push_back(static_cast<float>(score));
    CHECK(lines_of(test::read_text(run / "of_prediction")) == scores);  // to the bit
    const std::string records = test::read_text(run / "eval.bin");
    std::vector<float> labels;
    for (size_t i = 0; i < 333; ++i) labels.push_back(records[24 * i] != 0 ? 1.0f : 0.0f);
    CHECK(lines_of(test::read_text(run / "of_label")) == labels);
  }
}

TEST_CASE("the last evaluation is of the model as it is saved and read") {
  const std::string narrow = "solver.wire_precision=bf16", two = "solver.gpu=[[0,1]]";
  const std::vector<std::string> forgetful = {
      "layers.emb.type=DistributedSlotSparseEmbeddingHash",
      R"(layers.emb.sparse_embedding_hparam={"embedding_vec_size":4,)"
      R"("max_vocabulary_size_per_gpu":500,"eviction":{"interval":0,"steps_to_live":1}})"};
  const auto with = [](std::vector<std::string> all, const std::vector<std::string>& more) {
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  for (const bool on_gpu : {false, true})
    for (const std::vector<std::string>& changes :
         {std::vector{narrow, two}, forgetful, with(forgetful, {narrow, two}),
          with(forgetful, {"solver.snapshot=50"}),
          with(forgetful, {"solver.auc_threshold=0.5", "solver.max_iter=300"})}) {
      CAPTURE(on_gpu, fmt::format("{}", fmt::join(changes, " ")));
      const SmallRun run;
      const std::vector<std::string> command = test::with_changes(
          {"--save", run / "ck", "--quiet", "--threads", "2", "--device", on_gpu ? "cuda" : "cpu",
           "--set", "solver.export_predictions_prefix=" + (run / "of_")},
          changes);
      setenv("HLITE_CUDA_LIBRARY", HLITE_EMULATED_PLUGIN, 1);
      setenv("HLITE_EMULATED_DEVICES", "2", 1);
      const ProgramResult trained = run_program(run.command(command), run.path());
      unsetenv("HLITE_EMULATED_DEVICES");
      unsetenv("HLITE_CUDA_LIBRARY");
      REQUIRE(trained.code == 0);
      const ProgramResult printed =
          predict(run, {"--model", "ck", "--input", "eval.bin", "--out", "-"});
      REQUIRE(printed.code == 0);
      std::istringstream lines(test::read_text(run / "of_prediction"));
      for (const double score : scores_in(printed.out)) {
        std::string line;
        REQUIRE(std::getline(lines, line));
        CHECK(std::abs(std::stof(line) - static_cast<float>(score)) <= (on_gpu ? 2e-6f : 0.0f));
      }
    }
}

TEST_CASE("scores are those of the last evaluation, from a checkpoint or exported weights") {
  const SmallRun run;
  const ProgramResult trained = run.train(
      {"--save", run / "ck", "--export", run / "w.safetensors", "--set", "solver.gpu=[[0,1]]"});
  REQUIRE(trained.code == 0);
  const ProgramResult printed =
      predict(run, {"--model", "ck", "--input", "eval.bin", "--out", "-"});
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

TEST_CASE("hash tables of any number of ranks are read by one, with the rows of deltas") {
  const SmallRun run;
  const auto train = [&](const char* type, const std::string& size, const char* iterations,
                         std::vector<std::string> more) {
    more.insert(more.end(),
                {"--set", "solver.gpu=[[0,1,2,3]]", "--set", std::string("layers.emb.type=") + type,
                 "--set", std::string("solver.max_iter=") + iterations, "--set",
                 "layers.emb.sparse_embedding_hparam={\"embedding_vec_size\":4," + size + "}"});
    const ProgramResult trained = run.train(more);
    REQUIRE(trained.code == 0);
    return number_after(trained.err + trained.out, "AUC ");
  };
  const auto auc = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--input", "eval.bin", "--out", "-"});
    const ProgramResult result = predict(run, more);
    REQUIRE(result.code == 0);
    return number_after(result.err, "AUC ");
  };
  for (const auto& [type, size] :
       {std::pair("DistributedSlotSparseEmbeddingHash", "\"max_vocabulary_size_per_gpu\":100"),
        std::pair("DistributedSlotSparseEmbeddingHash", "\"max_vocabulary_size\":400"),
        std::pair("LocalizedSlotSparseEmbeddingHash", "\"max_vocabulary_size_per_gpu\":260")}) {
    CAPTURE(type, size);
    // After one iteration most keys of the evaluation have no row.
    const double few =
        train(type, size, "1", {"--save", run / "ck", "--set", "solver.eval_interval=1"});
    const double many =
        train(type, size, "50",
              {"--resume", run / "ck", "--save", run / "more", "--save-delta", run / "chain"});
    CHECK(auc({"--model", "ck"}) == Approx(few).margin(1e-5));
    CHECK(auc({"--model", "more"}) == Approx(many).margin(1e-5));
    CHECK(auc({"--model", "ck", "--delta", "chain"}) == Approx(many).margin(1e-5));
    setenv("HLITE_CUDA_LIBRARY", HLITE_EMULATED_PLUGIN, 1);
    CHECK(auc({"--model", "more", "--device", "cuda"}) == Approx(many).margin(1e-4));
    unsetenv("HLITE_CUDA_LIBRARY");
    std::filesystem::remove_all(run / "chain");
  }
  // Keys without a row get their vectors by the seed that training has drawn.
  const double drawn =
      train("DistributedSlotSparseEmbeddingHash", "\"max_vocabulary_size_per_gpu\":100", "1",
            {"--save", run / "drawn", "--set", "solver.eval_interval=1", "--set", "solver.seed=0"});
  CHECK(auc({"--model", "drawn"}) == Approx(drawn).margin(1e-5));
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
    REQUIRE(result.code == 0);
    return result.out;
  };
  const std::string want = scores("[300, 5, 300]");
  CHECK(scores(R"("absent/manifest.json")") == want);
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
    for (const auto& entry : std::filesystem::directory_iterator(run / "."))
      CHECK(!entry.path().filename().string().starts_with("s.csv"));
  }
}

}  // namespace
}  // namespace hlite
