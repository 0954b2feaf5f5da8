// The samples have every kind of object that a config may have, and what is left out of one is.
#include "hugectr_lite/trainer/keys/key_samples.h"

#include <set>
#include <string>

#include "hugectr_lite/config/embedding_types.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/network/layer_registry.h"
#include "tests/support/catch.h"

namespace hlite::test {
namespace {

using trainer::Json;

std::set<std::string> strings_at(const char* pointer) {
  std::set<std::string> found;
  for (const Json& json : trainer::config_samples())
    found.insert(json.at(Json::json_pointer(pointer)));
  return found;
}

TEST_CASE("samples have every format, optimizer and embedding") {
  CHECK(strings_at("/layers/0/format") ==
        std::set<std::string>{"Norm", "Parquet", "Raw", "RawAsync"});
  CHECK(strings_at("/optimizer/type") ==
        std::set<std::string>{"AdaGrad", "Adam", "Ftrl", "MomentumSGD", "Nesterov", "SGD"});
  std::set<std::string> embeddings;
  for (const auto& known : config::kEmbeddingTypes) embeddings.insert(known.name);
  CHECK(strings_at("/layers/1/type") == embeddings);
}

TEST_CASE("every sample is a config, and each differs from the first") {
  const std::vector<Json> samples = trainer::config_samples();
  REQUIRE(samples.size() == 9);
  for (size_t i = 0; i < samples.size(); ++i) {
    CAPTURE(i);
    CHECK_NOTHROW(config::parse_train_config(samples[i].dump(), "sample", {}));
    if (i > 0) CHECK(samples[i] != samples[0]);
  }
  // An empty change takes the key away.
  CHECK(samples[0].at("solver").contains("eval_batches"));
  CHECK(!samples[1].at("solver").contains("eval_batches"));
  CHECK(samples[1].at("solver").at("max_eval_batches") == 2);
}

TEST_CASE("every type of dense layer has a sample, which names its top") {
  std::set<std::string> types;
  for (const Json& layer : trainer::layer_samples()) {
    CAPTURE(layer.dump());
    types.insert(layer.at("type").get<std::string>());
    CHECK(layer.contains("top"));
    CHECK(layer.contains("bottom"));
  }
  const auto& all = network::layer_types();
  CHECK(types == std::set<std::string>(all.begin(), all.end()));
}

}  // namespace
}  // namespace hlite::test
