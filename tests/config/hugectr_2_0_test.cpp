#include "hugectr_lite/config/hugectr_2_0.h"

#include "tests/config/broken_config.h"
#include "tests/support/errors.h"

namespace hlite::config {
namespace {

constexpr const char* kOld = R"({
  "solver": {"batchsize": 8, "max_iter": 2},
  "optimizer": {"type": "Adam", "adam_hparam": {"alpha": 0.5}},
  "data": {
    "source": "train.txt",
    "eval_source": "test.txt",
    "max_feature_num_per_sample": 5,
    "label_dim": 1,
    "slot_num": 3
  },
  "layers": [
    {"type": "SparseEmbeddingHash", "top": "e",
     "sparse_embedding_hparam": {"embedding_vec_size": 4, "slot_num": 3, "vocabulary_size": 7}},
    {"type": "Concat", "bottom": "e", "top": "flat"},
    {"type": "Concat", "bottom": ["flat", "flat"], "top": "both"},
    {"type": "InnerProduct", "bottom": "both", "top": "z", "fc_param": {"num_output": 1}},
    {"type": "BinaryCrossEntropyLoss", "bottom": "z", "top": "loss"}
  ]
})";

// The config that it stands for, in the form of 2.1.
constexpr const char* kNew = R"({
  "solver": {"batchsize": 8, "max_iter": 2},
  "optimizer": {"type": "Adam", "adam_hparam": {"alpha": 0.5}},
  "layers": [
    {"name": "data", "type": "Data",
     "label": {"top": "label", "label_dim": 1}, "dense": {"top": "dense", "dense_dim": 0},
     "sparse": [{"top": "keys", "type": "DistributedSlot", "max_feature_num_per_sample": 5,
                 "slot_num": 3}],
     "source": "train.txt", "eval_source": "test.txt", "format": "Norm", "check": "None"},
    {"type": "SparseEmbeddingHash", "top": "e",
     "sparse_embedding_hparam": {"embedding_vec_size": 4, "vocabulary_size": 7},
     "bottom": "keys"},
    {"type": "Reshape", "bottom": "e", "top": "flat"},
    {"type": "Concat", "bottom": ["flat", "flat"], "top": "both"},
    {"type": "InnerProduct", "bottom": "both", "top": "z", "fc_param": {"num_output": 1}},
    {"type": "BinaryCrossEntropyLoss", "bottom": ["z", "label"], "top": "loss"}
  ]
})";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string message_of(const std::string& text) {
  try {
    parse_train_config(text, "old.json", {});
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("A config of HugeCTR 2.0 becomes one of 2.1, which stays as it is") {
  JsonNode node = JsonNode::parse(kOld, "old.json");
  translate_hugectr_2_0(node);
  const std::string wanted = JsonNode::parse(kNew, "new.json").dump();
  CHECK(node.dump() == wanted);
  translate_hugectr_2_0(node);
  CHECK(node.dump() == wanted);
}

TEST_CASE("A config of HugeCTR 2.0 is read, with changes of the Data layer") {
  const auto config = parse_train_config(kOld, "old.json", {"layers.data.check=Sum"});
  CHECK(config->data.source == "train.txt");
  CHECK(config->data.eval_source == "test.txt");
  CHECK(config->data.format == &data_format("Norm"));
  CHECK(config->data.checksums);
  CHECK(config->data.label_dim == 1);
  CHECK(config->data.dense_dim == 0);
  REQUIRE(config->data.sparse.size() == 1);
  CHECK(config->data.sparse[0].slot_num == 3);
  CHECK(config->data.sparse[0].max_nnz == 3);
  CHECK(config->layers.size() == 5);
  // `data` may say how its files are.
  const auto raw = parse_train_config(
      replaced(replaced(kOld, "\"label_dim\"", "\"format\": \"RawAsync\", \"label_dim\""),
               "sample\": 5", "sample\": 3"),
      "old.json", {});
  CHECK(raw->data.format == &data_format("RawAsync"));
}

TEST_CASE("Faults of a config of HugeCTR 2.0 are named where they are in the file") {
  CHECK(message_of(replaced(kOld, "    \"label_dim\": 1,\n", ""))
            .find("old.json:4: data.label: missing key \"label_dim\"") != std::string::npos);
  CHECK(message_of(replaced(kOld, "\"label_dim\": 1", "\"label_dim\": 0"))
            .find("old.json:8: data.label_dim: expected an integer in [1, 64], found 0") !=
        std::string::npos);
  CHECK(message_of(replaced(kOld, "\"eval_source\"", "\"eval_sources\""))
            .find("old.json:6: data.eval_sources: unknown key; did you mean \"eval_source\"?") !=
        std::string::npos);
  CHECK(
      message_of(replaced(kOld, "\"label_dim\": 1", "\"label\": {}, \"label_dim\": 1")) ==
      "old.json:8: data.label: expected the keys of HugeCTR 2.0, found \"label\" of a Data layer");
  CHECK(message_of(replaced(kOld, "\"slot_num\": 3, \"voc", "\"slot_num\": 4, \"voc")) ==
        "old.json:13: layers[0].sparse_embedding_hparam.slot_num: expected 3, the slot_num of "
        "data, found 4");
}

TEST_CASE("data beside a Data layer, or instead of layers, is refused") {
  CHECK(message_of(replaced(kNew, "\"solver\"", "\"data\": {\"source\": \"x\"}, \"solver\""))
            .find("old.json:2: data: known but not supported: it is of HugeCTR 2.0") !=
        std::string::npos);
  const std::string other = message_of(replaced(kOld, "\"layers\"", "\"layer\""));
  test::check_contains(other, {"old.json:11: layer: unknown key; did you mean \"layers\"?",
                               "old.json:4: data: known but not supported"});
}

}  // namespace hlite::config
