// Names of layers that are not there.
#include "hugectr_lite/network/layer_registry.h"

#include "hugectr_lite/config/embedding_types.h"
#include "tests/network/refusal.h"

namespace hlite::test {

TEST_CASE("an error for an unknown type lists all types, and for a misspelt one the closest") {
  auto types = network::layer_types();
  for (const auto& embedding : config::kEmbeddingTypes) types.emplace_back(embedding.name);
  const auto said = [](const std::string& type) {
    return refused(R"({"type":")" + type + R"(","bottom":"dense","top":"x"},)" + kInteraction +
                   kTail);
  };
  const std::string unknown = said("Quux");
  for (const std::string& type : types) {
    INFO(type);
    CHECK(unknown.find(type) != std::string::npos);
    CHECK(said(type + "s").find("did you mean \"" + type + "\"") != std::string::npos);
  }
}

TEST_CASE("layers of the dialect that are not here are refused by name") {
  for (const char* type : {"CrossEntropyLoss", "Gather", "GroupFusedInnerProduct"}) {
    const std::string said = refused(std::string(R"({"type":")") + type +
                                     R"(","bottom":"dense","top":"x"},)" + kInteraction + kTail);
    INFO(said);
    CHECK(said.find(std::string("layer type \"") + type + "\" is known, but not supported yet") !=
          std::string::npos);
  }
}

TEST_CASE("an error for an embedding after a dense layer says where it belongs") {
  for (const auto& embedding : config::kEmbeddingTypes) {
    const std::string type = embedding.name;
    CHECK(refused(kBottom + R"({"type":")" + type + R"(","bottom":"x","top":"h"},)" + kTail)
              .find("layers[1].type: expected embedding layers before all dense layers, found \"" +
                    type + "\" after one") != std::string::npos);
  }
}

}  // namespace hlite::test
