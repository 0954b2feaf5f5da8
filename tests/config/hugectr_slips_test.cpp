#include "hugectr_lite/config/hugectr_slips.h"

#include "hugectr_lite/core/error.h"
#include "tests/data_reader/log_capture.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::config {
namespace {

// The Data layer and an embedding of 3 slots "e" and one of 1 slot "w", and `layers` above.
std::string config_of(const std::string& layers) {
  return R"({"layers": [
{"type": "Data", "label": {"top": "label"}, "dense": {"top": "dense"},
 "sparse": [{"top": "k", "slot_num": 3}, {"top": "one", "slot_num": 1}]},
{"type": "DistributedSlotSparseEmbeddingHash", "bottom": "k", "top": "e",
 "sparse_embedding_hparam": {"embedding_vec_size": 4}},
{"type": "HybridSparseEmbedding", "bottom": "one", "top": "w",
 "sparse_embedding_hparam": {"embedding_vec_size": 5}},
)" + layers +
         "]}";
}

struct Corrected {
  std::string config, log;
};
Corrected corrected(const std::string& layers) {
  JsonNode node = JsonNode::parse(config_of(layers), "slips.json");
  const test::LogCapture log;
  correct_hugectr_slips(node);
  return {node.dump(), log.text()};
}

// Written as `layers`, it is taken as `wanted`, with one warning that has `warning`.
void check_corrected(const std::string& layers, const std::string& wanted,
                     const std::string& warning) {
  const Corrected result = corrected(layers);
  CHECK(result.config == JsonNode::parse(config_of(wanted), "wanted").dump());
  INFO(result.log);
  test::check_contains(result.log, {warning});
  CHECK(result.log.find("warning") == result.log.rfind("warning"));
}

void check_same(const std::string& layers) {
  const Corrected result = corrected(layers);
  INFO(layers);
  CHECK(result.config == JsonNode::parse(config_of(layers), "same").dump());
  CHECK(result.log.empty());
}

}  // namespace

TEST_CASE("A Reshape whose ends are exchanged is taken as it is meant") {
  check_corrected(
      R"({"name": "m", "type": "ReduceMean", "bottom": ["e"], "top": "m"},
{"name": "m", "type": "Reshape", "bottom": "flat", "top": "m", "leading_dim": 4},
{"type": "Concat", "bottom": ["w", "flat"], "top": "all"})",
      R"({"name": "m", "type": "ReduceMean", "bottom": ["e"], "top": "m"},
{"name": "flat", "type": "Reshape", "bottom": "m", "top": "flat", "leading_dim": 4},
{"type": "Concat", "bottom": ["w", "flat"], "top": "all"})",
      "slips.json:9: layers[4]: no layer makes its bottom \"flat\", and its top \"m\" is "
      "made above: taken as exchanged");
}

TEST_CASE("A Reshape is not exchanged where it could mean something else") {
  const std::string mean = R"({"type": "ReduceMean", "bottom": "e", "top": "m"},)";
  // Its bottom is read by no layer, is made below, or its top is made by no other layer.
  check_same(mean + R"({"type": "Reshape", "bottom": "flat", "top": "m"})");
  check_same(mean + R"({"type": "Reshape", "bottom": "flat", "top": "m"},
{"type": "ReLU", "bottom": "m", "top": "flat"}, {"type": "ReLU", "bottom": "flat", "top": "z"})");
  check_same(R"({"type": "Reshape", "bottom": "flat", "top": "m"},
{"type": "ReLU", "bottom": "flat", "top": "z"})");
  // Only a Reshape.
  check_same(mean + R"({"type": "ReLU", "bottom": "flat", "top": "m"},
{"type": "ReLU", "bottom": "flat", "top": "z"})");
}

namespace {

// Layers from a Reshape of "e" with `width` to a loss.
std::string rows(const std::string& width, const std::string& more = "") {
  return R"({"type": "Reshape", "bottom": "e", "top": "rows", "leading_dim": )" + width + R"(},
{"type": "InnerProduct", "bottom": "rows", "top": "fc1", "fc_param": {"num_output": 2}},
{"type": "ReLU", "bottom": ["fc1"], "top": "relu"},
{"type": "InnerProduct", "bottom": "relu", "top": "z", "fc_param": {"num_output": 1}},
{"type": "BinaryCrossEntropyLoss", "bottom": ["z", "label"], "top": "loss"})" +
         more;
}

}  // namespace

TEST_CASE("Vectors that become rows under a loss are taken as one row for each sample") {
  check_corrected(
      rows("4"), rows("12"),
      "slips.json:8: layers[3].leading_dim: 4 makes 3 rows of each sample, and the loss "
      "has one label for them: taken as 12, one row for each sample");
}

TEST_CASE("Rows stay where they are not all that a loss has") {
  check_same(rows("12"));
  check_same(rows("6"));  // refused later, as it may mean several things
  // Another layer reads them too.
  check_same(rows("4", R"(, {"type": "ReLU", "bottom": "rows", "top": "other"})"));
  // One slot has one row.
  check_same(R"({"type": "Reshape", "bottom": "w", "top": "rows", "leading_dim": 5},
{"type": "BinaryCrossEntropyLoss", "bottom": ["rows", "label"], "top": "loss"})");
  // A Slice reads the rows, as in DeepFM.
  check_same(R"({"type": "Reshape", "bottom": "e", "top": "rows", "leading_dim": 4},
{"type": "Slice", "bottom": "rows", "top": ["a", "b"], "ranges": [[0, 3], [3, 4]]},
{"type": "Reshape", "bottom": "a", "top": "z", "leading_dim": 9},
{"type": "BinaryCrossEntropyLoss", "bottom": ["z", "label"], "top": "loss"})");
}

TEST_CASE("Malformed configs are left to what reads them") {
  for (const char* text :
       {"3", "{}", R"({"layers": 3})", R"({"layers": []})", R"({"layers": [3, null, []]})",
        R"({"layers": [{"type": "Data", "sparse": [3, {"top": 4, "slot_num": "x"}]},
            {"type": "Reshape"}, {"type": 5, "bottom": {}, "top": [1]}]})"}) {
    JsonNode node = JsonNode::parse(text, "bad.json");
    correct_hugectr_slips(node);
    CHECK(node.dump() == JsonNode::parse(text, "bad.json").dump());
  }
}

}  // namespace hlite::config
