// What asking the parser finds, for keys of each kind.
#include "hugectr_lite/trainer/keys/key_facts.h"

#include <algorithm>

#include "tests/support/catch.h"

namespace hlite::test {
namespace {

using trainer::ConfigFacts;
using trainer::KeyFacts;

const ConfigFacts& facts() {
  static const ConfigFacts all = trainer::ask_parser();
  return all;
}

const KeyFacts::Variant& fact(const char* block, const char* key, const char* variant = "") {
  return facts().blocks.at(block).keys.at(key).variants.at(variant);
}

TEST_CASE("a key that must be there is found to be, with what it takes") {
  CHECK(fact("solver", "batchsize").takes == "an integer in [1, 2147483647]");
  CHECK(fact("solver", "batchsize").required);
  CHECK(fact("solver", "batchsize").otherwise.empty());
  // What a list takes, and its elements.
  CHECK(fact("solver", "gpu").takes.find("; each a GPU id in [0, 65535]") != std::string::npos);
}

TEST_CASE("what an absent key stands for is its default, or several where it depends") {
  CHECK(!fact("solver", "cuda_graph").required);
  CHECK(fact("solver", "cuda_graph").otherwise == std::vector<std::string>{"true"});
  CHECK(fact("solver", "batchsize_eval").otherwise == std::vector<std::string>{"64", "128"});
  CHECK(fact("solver", "max_eval_batches").otherwise.empty());
}

TEST_CASE("variants are told from each other") {
  const auto& beta = facts().blocks.at("hparam").keys.at("beta1").variants;
  REQUIRE(beta.size() == 1);
  CHECK(beta.begin()->first == "Adam");
  CHECK(fact("hparam", "epsilon", "Adam").required);
  CHECK(!fact("hparam", "epsilon", "AdaGrad").required);
  CHECK(fact("Data", "source", "Norm").required);
  const auto& optimizers = facts().blocks.at("optimizer").variants;
  CHECK(optimizers.size() == 6);
  CHECK(std::count(optimizers.begin(), optimizers.end(), "Ftrl") == 1);
  // Objects that are named after a type have one name.
  CHECK(facts().blocks.at("optimizer").keys.contains("<type>_hparam"));
  CHECK(facts().blocks.at("layer").keys.contains("<type>_param"));
  CHECK(facts().blocks.at("layer").variants == std::vector<std::string>{""});
  CHECK(fact("FusedInnerProduct", "position", "FusedInnerProduct").required == false);
}

TEST_CASE("keys of other versions come with what to do instead") {
  CHECK(facts().refused.at("vvgpu") == "use gpu");
  for (const auto& [name, block] : facts().blocks) {
    CAPTURE(name);
    CHECK(!block.keys.contains("vvgpu"));
  }
}

}  // namespace
}  // namespace hlite::test
