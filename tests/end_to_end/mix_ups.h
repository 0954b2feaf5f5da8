// A small data set prepared in many ways, and models trained on it: what can be mixed up.
#pragma once

#include <fmt/ranges.h>

#include <filesystem>
#include <string>
#include <vector>

#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"
#include "tests/support/program.h"
#include "tests/support/temporary_directory.h"

namespace hlite::test {

using Words = std::vector<std::string>;

// Lines of click,age,price,user,item,kind. User and item have 30 categories each, so that their
// tables have the same sizes.
inline std::string click_lines(int64_t n, uint64_t seed, int older = 0, bool header = true) {
  std::string text = header ? "click,age,price,user,item,kind\n" : "";
  for (uint64_t i = 0; i < static_cast<uint64_t>(n); ++i) {
    const auto draw = [&](uint64_t j, uint32_t below) { return random::word(seed, j, i) % below; };
    const uint32_t user = draw(0, 30), item = draw(1, 30);
    const bool click = (user + item) % 2 == 0 ? draw(2, 10) < 8 : draw(2, 10) < 2;
    text += fmt::format("{},{},{}.5,u{:05},i{:02},{}\n", click ? "yes" : "no",
                        18 + older + draw(3, 60), draw(4, 300), user, item, 1 + draw(5, 5));
  }
  return text;
}

inline std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

class MixUps {
 public:
  MixUps();
  [[nodiscard]] const std::string& path() const { return folder_.path(); }
  [[nodiscard]] std::string operator/(const std::string& name) const { return folder_ / name; }

  // `train` of the config with data of these folders.
  [[nodiscard]] static Words train(const std::string& source, const std::string& eval_source,
                                   Words more = {}) {
    return with({HLITE_TRAIN, "--config", "config.json", "--threads", "1", "--set",
                 "layers.data.source=" + source, "--set", "layers.data.eval_source=" + eval_source},
                std::move(more));
  }
  [[nodiscard]] static Words predict(Words more) {
    return with({HLITE_PREDICT, "--threads", "1", "--out", "scores.csv"}, std::move(more));
  }
  [[nodiscard]] ProgramResult run(const Words& command) const {
    return run_program(command, folder_.path());
  }
  void must_run(const Words& command) const {
    const ProgramResult result = run(command);
    INFO(fmt::format("{}", fmt::join(command, " ")) << "\n" << result.out << result.err);
    REQUIRE(result.code == 0);
  }
  // A fresh copy, for what is going to be damaged.
  void copy(const std::string& from, const std::string& to) const {
    std::filesystem::remove_all(folder_ / to);
    std::filesystem::copy(folder_ / from, folder_ / to, std::filesystem::copy_options::recursive);
  }

 private:
  static Words with(Words words, Words more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  void prepare(const std::string& out, const std::string& schema, const std::string& train,
               Words more = {}) const;

  TemporaryDirectory folder_;
};

inline const char* mix_ups_schema() {
  return R"({"header": true, "label": {"column": "click", "positive": ["yes"], "negative": ["no"]},
 "dense": [{"column": "age", "transform": "standardize"}, {"column": "price", "transform": "log1p"}],
 "categorical": [{"column": "user"}, {"column": "item"}, {"column": "kind"}]})";
}

inline const char* mix_ups_config() {
  return R"({"solver": {"seed": 7, "lr_policy": "fixed", "display": 10, "max_iter": 12, "gpu": [0],
  "batchsize": 32, "batchsize_eval": 32, "eval_batches": 2, "eval_interval": 12,
  "snapshot": 1000000, "snapshot_prefix": "./snap_"},
 "optimizer": {"type": "SGD", "update_type": "Local", "sgd_hparam": {"learning_rate": 0.05}},
 "layers": [
  {"name": "data", "type": "Data", "format": "RawAsync", "source": "a/train.bin", "eval_source": "a/val.bin",
   "check": "None", "float_label_dense": true, "label": {"top": "label", "label_dim": 1},
   "dense": {"top": "dense", "dense_dim": 2},
   "sparse": [{"top": "keys", "type": "DistributedSlot", "max_feature_num_per_sample": 3, "max_nnz": 1, "slot_num": 3}],
   "async_param": {"num_threads": 1, "num_batches_per_thread": 2, "io_block_size": 4096, "io_depth": 2,
    "io_alignment": 512, "shuffle": false}},
  {"name": "emb", "type": "LocalizedSlotSparseEmbeddingOneHot", "bottom": "keys", "top": "emb",
   "sparse_embedding_hparam": {"slot_size_array": [31, 31, 6], "embedding_vec_size": 4, "combiner": 0}},
  {"name": "b1", "type": "InnerProduct", "bottom": "dense", "top": "b1", "fc_param": {"num_output": 4}},
  {"name": "inter", "type": "Interaction", "bottom": ["b1", "emb"], "top": "inter"},
  {"name": "t1", "type": "InnerProduct", "bottom": "inter", "top": "z", "fc_param": {"num_output": 1}},
  {"name": "loss", "type": "BinaryCrossEntropyLoss", "bottom": ["z", "label"], "top": "loss"}]})";
}

inline void MixUps::prepare(const std::string& out, const std::string& schema,
                            const std::string& train, Words more) const {
  write_text(*this / (out + ".schema.json"), schema);
  if (train != "plain.csv") more.insert(more.end(), {"--val", "val.csv", "--test", "test.csv"});
  must_run(with({HLITE_CSV_PREP, "--schema", out + ".schema.json", "--train", train, "--out", out,
                 "--threads", "1", "--quiet"},
                std::move(more)));
}

inline MixUps::MixUps() {
  write_text(*this / "config.json", mix_ups_config());
  write_text(*this / "train.csv", click_lines(400, 1));
  write_text(*this / "other.csv",
             click_lines(400, 2));  // the same categories, met in another order
  write_text(*this / "older.csv", click_lines(400, 1, 10));  // the same, all ages 10 more
  write_text(*this / "plain.csv", click_lines(400, 1, 0, false));
  write_text(*this / "val.csv", click_lines(128, 3));
  write_text(*this / "test.csv", click_lines(128, 4));
  const std::string schema = mix_ups_schema();
  prepare("a", schema, "train.csv");
  prepare("b", schema, "other.csv");
  prepare("older", schema, "older.csv");
  prepare("order",
          replaced(schema, R"({"column": "user"}, {"column": "item"})",
                   R"({"column": "item"}, {"column": "user"})"),
          "train.csv");
  prepare("none", replaced(schema, "standardize", "none"), "train.csv");
  prepare("label", replaced(replaced(replaced(schema, "yes", "x"), "no\"]", "yes\"]"), "x", "no"),
          "train.csv");
  prepare("missing", replaced(schema, "\"header\": true", R"("header": true, "missing": "?")"),
          "train.csv");
  prepare("shuffled", schema, "train.csv", {"--shuffle"});
  prepare("rare", schema, "train.csv", {"--min-count", "14"});
  prepare("norm", schema, "train.csv", {"--format", "norm"});
  prepare("lists", schema, "train.csv", {"--multi-hot", "2,1,1"});
  prepare("lists2", schema, "train.csv", {"--multi-hot", "2,1,1", "--seed", "1"});
  std::string plain = replaced(schema, "\"header\": true", "\"header\": false");
  int column = 0;
  for (const char* name : {"click", "age", "price", "user", "item", "kind"})
    plain = replaced(plain, fmt::format("\"column\": \"{}\"", name),
                     fmt::format("\"column\": {}, \"name\": \"{}\"", column++, name));
  plain = replaced(plain, R"("column": 0, "name": "click")", R"("column": 0)");
  prepare("plain", plain, "plain.csv");
  must_run(train("a/train.bin", "a/val.bin", {"--save", "model", "--export", "model.safetensors"}));
  must_run(train("b/train.bin", "b/val.bin", {"--save", "model_b"}));
}

}  // namespace hlite::test
