// What a resumed run may change is known of every key, and found out between two configs.
#include "hugectr_lite/trainer/keys/resume_keys.h"

#include <fmt/format.h>

#include <functional>
#include <set>

#include "hugectr_lite/trainer/keys/config_keys.h"
#include "tests/support/catch.h"
#include "tests/support/small_config.h"

namespace hlite::test {
namespace {

using trainer::ResumeRule;

// All keys of the dialect as resume_rule() takes them, blocks too.
std::set<std::string> keys_of_dialect() {
  std::set<std::string> keys;
  const std::function<void(const config::BlockSchema&, const std::string&)> add =
      [&](const config::BlockSchema& block, const std::string& prefix) {
        for (const config::KeySchema& key : block.keys) {
          if (prefix.empty() && key.name == "layers") continue;
          keys.insert(prefix + key.name);
          if (key.block) add(*key.block, prefix + key.name + ".");
        }
      };
  const trainer::ConfigKeys all = trainer::config_keys();
  add(all.config, "");
  add(all.data, "data.");
  for (const auto& [type, block] : all.embeddings) add(block, "embedding.");
  for (const auto& [type, block] : all.layers) add(block, "layer.");
  return keys;
}

TEST_CASE("every key of a config has a rule for a resume, and every rule a key") {
  const std::set<std::string> keys = keys_of_dialect();
  CHECK(keys.size() > 200);
  for (const std::string& key : keys) {
    // A block whose keys all have rules needs none.
    const bool has_keys = keys.lower_bound(key + ".") != keys.end() &&
                          keys.lower_bound(key + ".")->starts_with(key + ".");
    INFO(key);
    CHECK((has_keys || trainer::resume_rule(key).has_value()));
  }
  std::set<std::string> ruled;
  for (const std::string& key : trainer::ruled_keys()) {
    INFO(key);
    CHECK((key == "layer" || keys.count(key) == 1));
    CHECK(ruled.insert(key).second);
  }
  CHECK(!trainer::resume_rule("solver.no_such_key").has_value());
  CHECK(!trainer::resume_rule("embedding.sparse_embedding_hparam.new").has_value());
  CHECK(trainer::resume_rule("optimizer.sgd_hparam.learning_rate") == ResumeRule::kLearning);
  CHECK(trainer::resume_rule("layer.new_param.x") == ResumeRule::kMetrics);
}

TEST_CASE("the changes between two configs are found by key, with both values") {
  const auto before = config::JsonNode::parse(small_config(), "checkpoint");
  const auto changed = [&](const std::vector<std::string>& changes) {
    const auto config = config::parse_train_config(small_config(), "config", changes);
    std::vector<std::string> found;
    for (const auto& of : trainer::changes_since(before, *config))
      found.push_back(
          fmt::format("{} {}: {} -> {}", static_cast<int>(of.rule), of.path, of.before, of.now));
    return found;
  };
  using List = std::vector<std::string>;
  CHECK(changed({}).empty());
  // Defaults, other spellings of a number and the two names of a combiner are the same.
  CHECK(changed({"solver.cuda_graph=true", "layers.drop.rate=0.10",
                 "layers.emb.sparse_embedding_hparam.combiner=sum", "solver.gradient_clip_norm=0"})
            .empty());
  CHECK(changed({"layers.loss.base_score=0.5"}).empty());
  CHECK(changed({"layers.loss.base_score=0.25"}) ==
        List{fmt::format("{} layers[7].base_score: 0.5 -> 0.25",
                         static_cast<int>(ResumeRule::kMetrics))});
  CHECK(changed({"solver.batchsize=64"}) == List{"4 solver.batchsize: 32 -> 64"});
  CHECK(changed({"layers.data.async_param.shuffle=false"}) ==
        List{"2 layers[0].async_param.shuffle: true -> false"});
  CHECK(changed({"layers.data.num_samples=100"}) ==
        List{"2 layers[0].num_samples: nothing -> 100"});
  CHECK(changed({"layers.data.eval_source=other.bin"}) ==
        List{R"(3 layers[0].eval_source: "eval.bin" -> "other.bin")"});
  CHECK(changed({"layers.emb.sparse_embedding_hparam.combiner=mean"}) ==
        List{R"(3 layers[1].sparse_embedding_hparam.combiner: 0 -> "mean")"});
  CHECK(changed({"layers.emb.type=LocalizedSlotSparseEmbeddingOneHot"}) ==
        List{"3 layers[1].type: \"HybridSparseEmbedding\" -> "
             "\"LocalizedSlotSparseEmbeddingOneHot\""});
  CHECK(changed({"layers.emb.optimizer.adam_hparam.beta1=0.8"}) ==
        List{"1 layers[1].optimizer.adam_hparam.beta1: 0.9 -> 0.8"});
  // Tables without an optimizer have the config's.
  CHECK(changed({"layers.emb.optimizer="}).at(0) ==
        R"(4 layers[1].optimizer.type: "Adam" -> "MomentumSGD")");
  CHECK(changed({"layers.t1.fc_param.num_output=8"}) ==
        List{"4 layers[5].fc_param.num_output: 16 -> 8"});
  CHECK(changed({"layers.b1.name=bottom"}).size() == 2);  // one layer came, one has gone
}

}  // namespace
}  // namespace hlite::test
