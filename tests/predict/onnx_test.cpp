// Compares the scores of models that tools/export_onnx.py wrote with those of `predict`.
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/end_to_end/golden_data.h"
#include "tests/predict/predict_case.h"
#include "tests/support/errors.h"

#ifdef HLITE_PYTHON_ONNX
namespace hlite {
namespace {

using test::check_close;
using test::check_contains;
using test::ProgramResult;
using test::scores_in;
using test::SmallRun;

using Words = std::vector<std::string>;
constexpr const char* kExport = HLITE_SOURCE_DIR "/tools/export_onnx.py";

// A model of a run's folder, as an ONNX file and for `predict`.
struct OnnxModel {
  const SmallRun& run;
  std::string weights = "w.safetensors", config = "config.json";

  [[nodiscard]] ProgramResult with_model(Words command, const Words& more = {}) const {
    command.insert(command.end(), {"--model", weights, "--config", config});
    command.insert(command.end(), more.begin(), more.end());
    return test::run_program(command, run.path());
  }
  void write() const {
    REQUIRE(with_model({HLITE_PYTHON_ONNX, kExport}, {"--out", "m.onnx"}).code == 0);
  }
  [[nodiscard]] ProgramResult predict(const std::string& input) const {
    return with_model({HLITE_PREDICT, "--input", input, "--out", "-"});
  }
  [[nodiscard]] ProgramResult predict_by_onnx(const std::string& input) const {
    return test::run_program(
        {HLITE_PYTHON_ONNX, HLITE_SOURCE_DIR "/tests/predict/run_onnx.py", "m.onnx", config, input},
        run.path());
  }
  // Writes the model, and scores eval.bin.
  void check_scores(size_t samples) const {
    write();
    const ProgramResult ours = predict("eval.bin");
    REQUIRE(ours.code == 0);
    CHECK(scores_in(ours.out).size() == samples);
    const ProgramResult theirs = predict_by_onnx("eval.bin");
    REQUIRE(theirs.code == 0);
    check_close(scores_in(theirs.out), scores_in(ours.out));
  }
};

// Trains the small config with a text replaced, and exports w.safetensors.
void train_changed(const SmallRun& run,
                   const std::vector<std::pair<std::string, std::string>>& changes) {
  std::string text = test::small_config();
  for (const auto& [from, to] : changes) {
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
  }
  test::write_text(run / "config.json", text);
  REQUIRE(run.train({"--export", run / "w.safetensors", "--set", "solver.max_iter=20"}).code == 0);
}

TEST_CASE("a model written as ONNX gives the same scores") {
  // Golden run and the words of a record.
  const auto [name, words] = GENERATE(table<std::string, size_t>({{"dlrm_fused", 1 + 13 + 8},
                                                                  {"dcnv2_multihot", 1 + 13 + 29},
                                                                  {"deepfm", 1 + 6 + 8},
                                                                  {"dcn", 1 + 6 + 8}}));
  CAPTURE(name);
  const test::GoldenRun golden(name);
  const SmallRun run;
  test::write_text(run / "eval.bin",
                   test::read_text(golden / "eval.bin").substr(0, 4 * words * 211));
  OnnxModel{run, golden / "init.safetensors", golden / "config.json"}.check_scores(211);
}

// Records of `dense` numbers, a key of each of the tables `keys`, and a history of up to `most` keys
// of each of `histories`.
static std::string history_records(int64_t n, int64_t dense, const std::vector<uint32_t>& keys,
                                   const std::vector<uint32_t>& histories, uint32_t most,
                                   uint64_t seed) {
  std::string bytes;
  const auto put = [&](auto v) { bytes.append(reinterpret_cast<const char*>(&v), sizeof(v)); };
  for (uint64_t i = 0; i < static_cast<uint64_t>(n); ++i) {
    const auto draw = [&](uint64_t j, uint32_t below) { return random::word(seed, j, i) % below; };
    put(draw(0, 2));
    for (int64_t d = 0; d < dense; ++d) put(static_cast<float>(draw(1, 9)) / 8);
    for (const uint32_t rows : keys) put(draw(rows, rows));
    const uint32_t length = draw(2, most + 1);
    for (const uint32_t rows : histories)
      for (uint32_t t = 0; t < most; ++t) put(t < length ? draw(rows + t + 1, rows) : 0xffffffff);
  }
  return bytes;
}

TEST_CASE("histories, attention and recurrent layers, written as ONNX, give the same scores") {
  for (const auto& [name, dense, most] : {std::tuple("din", 0, 16), std::tuple("bst", 3, 12),
                                          std::tuple("gru", 0, 12), std::tuple("hstu", 3, 20)}) {
    CAPTURE(name);
    const bool is_hstu = std::string(name) == "hstu";
    using Tables = std::vector<uint32_t>;
    const Tables keys = is_hstu ? Tables{300, 500} : Tables{300, 500, 20};
    const Tables histories = is_hstu ? Tables{500, 4, 24} : Tables{500, 20};
    const test::GoldenRun golden(name);
    const SmallRun run;
    nlohmann::json config = nlohmann::json::parse(test::read_text(golden / "config.json"));
    nlohmann::json& data = config["layers"][0];
    data.erase("columns");
    data.update({{"format", "RawAsync"},
                 {"source", "train.bin"},
                 {"eval_source", "eval.bin"},
                 {"num_samples", 500},
                 {"eval_num_samples", 211},
                 {"async_param", {{"multi_hot_reader", true}, {"is_dense_float", true}}}});
    for (nlohmann::json& layer : config["layers"]) {
      nlohmann::json& param = layer["hstu_param"];
      if (layer["name"] == "hstu1")
        param.update({{"max_attn_len", 7}, {"contextual_seq_len", 2}, {"group_norm", true}});
      else if (layer["name"] == "hstu2")
        param.update({{"causal", false}, {"num_candidates", 1}, {"dropout", 0.1}});
      else
        layer.erase("hstu_param");
    }
    test::write_text(run / "config.json", config.dump());
    test::write_text(run / "train.bin", history_records(500, dense, keys, histories, most, 1));
    test::write_text(run / "eval.bin", history_records(211, dense, keys, histories, most, 2));
    REQUIRE(run.train({"--init", golden / "init.safetensors", "--export", run / "w.safetensors",
                       "--set", "solver.max_iter=20", "--set", "solver.eval_interval=0"})
                .code == 0);
    const OnnxModel model{run};
    model.check_scores(211);
    REQUIRE(model.with_model({HLITE_PYTHON_ONNX, kExport, "--split", "--out", "split"}).code == 0);
    CHECK(std::filesystem::exists(run / "split/goods_embedding.table_1.npy"));
    const ProgramResult refused =
        model.with_model({HLITE_PYTHON_ONNX, HLITE_SOURCE_DIR "/tools/hugectr_model.py", "to"},
                         {"--prefix", "out/m", "--iteration", "3"});
    CHECK(refused.code == 2);
    check_contains(refused.err,
                   {"embedding goods_embedding: expected one bottom", "target, history"});
  }
}

TEST_CASE("an MLP and a layer without a bias, written as ONNX, give the same scores") {
  const SmallRun run;
  const std::string text = test::small_config(), width = R"("num_output": 4)";
  const size_t begin = text.find(R"({"name": "t1")"), end = text.find(R"({"name": "loss")");
  train_changed(run, {{width, width + R"(, "use_bias": false)"},
                      {text.substr(begin, end - begin),
                       R"({"name": "t", "type": "MLP", "bottom": "drop", "top": "z", "mlp_param":
      {"num_outputs": [16, 6, 3], "activations": ["Relu", "Gelu", "None"], "biases": [true, false, true]}},
     {"name": "g", "type": "GELU", "bottom": "z", "top": "g"}, {"name": "s", "type": "SiLU", "bottom": "g", "top": "s"},
     {"name": "u", "type": "InnerProduct", "bottom": "s", "top": "z1", "fc_param": {"num_output": 1}},)"},
                      {R"(["z", "label"])", R"(["z1", "label"])"}});
  OnnxModel{run}.check_scores(333);
}

TEST_CASE(
    "values, and scores with a base or corrected for dropped negatives, are the same in ONNX") {
  const char* const loss = R"("type": "BinaryCrossEntropyLoss")";
  for (const auto& [what, by] :
       {std::pair(loss, R"("type": "MSELoss")"),
        std::pair(loss, R"("type": "MSELoss", "base_score": 0.25, "score_scale": 1.5)"),
        std::pair(loss, R"("type": "BinaryCrossEntropyLoss", "base_score": 0.03)"),
        std::pair(R"("check": "None")", R"("check": "None", "negative_share": 0.125)")}) {
    INFO(by);
    const SmallRun run;
    train_changed(run, {{what, by}});
    OnnxModel{run}.check_scores(333);
  }
}

TEST_CASE("a model whose slots share a table, written as ONNX, gives the same scores") {
  const SmallRun run;
  train_changed(run, {{R"("slot_size_array": [40, 5, 300])",
                       R"("slot_size_array": [300, 5, 300], "slot_tables": [0, 1, 0])"}});
  const OnnxModel model{run};
  model.check_scores(333);
  REQUIRE(model.with_model({HLITE_PYTHON_ONNX, kExport, "--split", "--out", "split"}).code == 0);
  CHECK(std::filesystem::exists(run / "split/emb.table_1.npy"));
  CHECK(!std::filesystem::exists(run / "split/emb.table_2.npy"));
  // HugeCTR has no such tables.
  const ProgramResult refused =
      model.with_model({HLITE_PYTHON_ONNX, HLITE_SOURCE_DIR "/tools/hugectr_model.py", "to"},
                       {"--prefix", "out/m", "--iteration", "3"});
  CHECK(refused.code == 2);
  check_contains(refused.err, {"embedding emb", "expected a table for each slot", "[0, 1, 0]"});
}

// Records whose keys are these, the other numbers those of the run's first samples.
static std::string with_keys(const SmallRun& run, const std::vector<std::vector<int32_t>>& keys) {
  std::string records;
  for (size_t i = 0; i < keys.size(); ++i) {
    records += test::read_text(run / "eval.bin").substr(24 * i, 12);
    records.append(reinterpret_cast<const char*>(keys[i].data()), 4 * keys[i].size());
  }
  return records;
}

TEST_CASE("keys that are absent or outside of their tables are in ONNX what they are in predict") {
  // The Data layer's way with them: of each the key_policy, nnz_per_slot if a sample may lack keys.
  for (const char* const policy : {"error", "clamp", "oov"})
    for (const bool may_lack : {false, true})
      for (const char* const combiner : {"0", "1"}) {
        CAPTURE(policy, may_lack, combiner);
        const SmallRun run;
        train_changed(
            run,
            {{R"("check": "None")",
              fmt::format(R"("check": "None", "key_policy": "{}"{})", policy,
                          std::string_view(policy) == "oov" ? R"(, "oov_key": 3)" : "")},
             {R"("max_nnz": 1, "slot_num": 3)",
              may_lack ? R"("nnz_per_slot": [1, 1, 1], "is_fixed_length": false, "slot_num": 3)"
                       : R"("slot_num": 3)"},
             {R"("combiner": 0)", fmt::format(R"("combiner": {})", combiner)},
             {"HybridSparseEmbedding", "LocalizedSlotSparseEmbeddingOneHot"}});
        const OnnxModel model{run};
        model.write();
        const auto both_give = [&](const std::vector<std::vector<int32_t>>& keys) {
          test::write_text(run / "keys.bin", with_keys(run, keys));
          const ProgramResult ours = model.predict("keys.bin"),
                              theirs = model.predict_by_onnx("keys.bin");
          INFO(ours.err << theirs.err);
          REQUIRE((ours.code == 0) == (theirs.code == 0));
          if (ours.code == 0) check_close(scores_in(theirs.out), scores_in(ours.out));
          return ours.code == 0;
        };
        const bool replaces = std::string_view(policy) != "error";
        CHECK(both_give({{0, 4, 299}, {39, 0, 7}}));
        CHECK(both_give({{0, -1, 299}, {-1, 0, 7}}) == (may_lack || replaces));
        CHECK(both_give({{0, -5, 299}}) == replaces);
        CHECK(both_give({{40, 0, 299}}) == replaces);
        CHECK(both_give({{0, 0, std::numeric_limits<int32_t>::min()}}) == replaces);
      }
}

TEST_CASE("what cannot be written as ONNX is an error that says why") {
  const SmallRun run;
  REQUIRE(run.train({"--save", run / "ck", "--set", "solver.max_iter=2"}).code == 0);
  const auto rejection = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {HLITE_PYTHON_ONNX, kExport, "--out", "m.onnx"});
    const ProgramResult result = test::run_program(arguments, run.path());
    CHECK(result.code == 2);
    CHECK(!std::filesystem::exists(run / "m.onnx"));
    CHECK(result.err.find("Traceback") == std::string::npos);
    return result.err;
  };
  check_contains(rejection({"--model", "none"}), {"none: expected a checkpoint"});
  check_contains(rejection({"--model", "eval.bin"}), {"--config", "eval.bin"});
  check_contains(rejection({"--model", "eval.bin", "--config", "config.json"}),
                 {"eval.bin", "safetensors"});
  check_contains(rejection({"--model", run.path()}), {"manifest.json"});
  test::write_text(run / "other.json",
                   std::regex_replace(test::read_text(run / "config.json"),
                                      std::regex("\"num_output\": 16"), "\"num_output\": 17"));
  check_contains(rejection({"--model", "ck", "--config", "other.json"}),
                 {"t1.weight", "expected [11, 17]", "found [11, 16]"});
}

}  // namespace
}  // namespace hlite
#endif
