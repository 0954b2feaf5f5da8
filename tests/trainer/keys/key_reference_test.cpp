// docs/configs.md is what the program prints.
#include "hugectr_lite/trainer/keys/key_reference.h"

#include <functional>

#include "hugectr_lite/config/embedding_types.h"
#include "hugectr_lite/network/layer_registry.h"
#include "tests/support/errors.h"
#include "tests/support/program.h"
#include "tests/support/temporary_directory.h"

namespace hlite::test {
namespace {

using config::BlockSchema;
using config::KeySchema;

TEST_CASE("docs/configs.md is what train --keys prints") {
  const ProgramResult printed = run_program({HLITE_TRAIN, "--keys"}, "");
  REQUIRE(printed.code == 0);
  INFO("train --keys > docs/configs.md makes it anew");
  CHECK(printed.out == read_text(HLITE_SOURCE_DIR "/docs/configs.md"));
}

TEST_CASE("the reference says what a key takes, and what an absent key stands for") {
  const std::string page = trainer::key_reference();
  check_contains(
      page,
      {"| `batchsize` | an integer in [1, 2147483647] | required |",
       "| `batchsize_eval` | an integer in [1, 2147483647] | `batchsize` |",
       "| `lr_policy` | \"fixed\" | `\"fixed\"` |", "| `cuda_graph` | true or false | `true` |",
       "| `gpu` | a non-empty list of GPU ids, or of such lists, one for each node; each a GPU id "
       "in [0, 65535] | `[0]` |",
       "| `beta1` (Adam, AdamW, RowWiseAdam) | a number in [0, 1) | `0.9` |",
       "| `learning_rate` | a number >= 0 (SGD, MomentumSGD, Nesterov, Adam, AdamW, AdaGrad, "
       "RowWiseAdaGrad, RowWiseAdam); a number > 0 (Ftrl) | required |",
       "| `epsilon` (Adam, AdamW, AdaGrad, RowWiseAdaGrad, RowWiseAdam) | a number > 0 | `1e-08` |",
       "| `beta` (Ftrl) | a number >= 0 | required |",
       "| `sgd_hparam`, `momentum_sgd_hparam`, `nesterov_hparam`, `adam_hparam`, "
       "`adamw_hparam`, `adagrad_hparam`, `row_wise_adagrad_hparam`, `row_wise_adam_hparam`, "
       "`ftrl_hparam` | an object | required |",
       "| `io_alignment` | a power of two >= 512 | `512` |", "### `solver.lr_plateau`",
       "### `optimizer.<type>_hparam`", "| `exchange_capacity` (HybridSparseEmbedding) |",
       "| `fc_param.num_output` | an integer in [1,",
       "| `embedding_vec_size` | an integer in [1, 1024] (HybridSparseEmbedding); an integer in "
       "[1, 65536] (",
       "| `max_eval_batches` | an integer in [0, 2147483647] | none |",
       "| `name` | a string | the first `top` |", "| `vvgpu` | use gpu |"});
  // Σ|w| would end a cell of the table.
  CHECK(page.find("Σ|w|") == std::string::npos);
}

TEST_CASE("every key has a meaning, and every layer says what it does") {
  const trainer::ConfigKeys keys = trainer::config_keys();
  size_t count = 0;
  const std::function<void(const BlockSchema&)> look = [&](const BlockSchema& block) {
    for (const KeySchema& key : block.keys) {
      INFO(key.name);
      CHECK(key.meaning.ends_with('.'));
      CHECK(!key.takes.empty());
      ++count;
      if (key.block) look(*key.block);
    }
  };
  look(keys.config);
  look(keys.data);
  for (const auto* blocks : {&keys.embeddings, &keys.layers})
    for (const auto& [type, block] : *blocks) look(block);
  CHECK(count > 400);
  CHECK(keys.embeddings.size() == std::size(config::kEmbeddingTypes));
  CHECK(keys.layers.size() == network::layer_types().size());
  for (const auto& [type, block] : keys.layers) {
    INFO(type);
    CHECK(block.text.ends_with('.'));
  }
}

KeySchema key(const char* name, const char* takes, const char* meaning = "m") {
  KeySchema schema;
  schema.name = name;
  schema.takes = takes;
  schema.meaning = meaning;
  return schema;
}
KeySchema required(KeySchema schema, const char* variant = "") {
  schema.required = true;
  schema.variant = variant;
  return schema;
}

TEST_CASE("where types differ, a row says which") {
  BlockSchema a, b;
  a.keys = {key("old", "a number", "x | y"), key("depends", "anything"), key("said", "x"),
            required(key("a_param", "an object"), "A")};
  b.keys = {required(key("depends", "anything")), key("said", "y"),
            required(key("b_param", "an object"), "B")};
  a.keys[1].otherwise = "1";
  a.keys[2].in_words = b.keys[1].in_words = "as `old`";
  CHECK(trainer::key_table({{"A", a}, {"B", b}}) ==
        "| key | takes | default | meaning |\n|---|---|---|---|\n"
        "| `old` (A) | a number | none | x \\| y |\n"
        "| `depends` | anything | `1` (A); required (B) | m |\n"
        "| `said` | x (A); y (B) | as `old` | m |\n"
        "| `a_param`, `b_param` | an object | required | m |\n");
}

}  // namespace
}  // namespace hlite::test
