// docs/configs.md is what the program prints, and nothing that the parser reads is missing there.
#include "hugectr_lite/trainer/keys/key_reference.h"

#include <filesystem>
#include <regex>
#include <set>

#include "hugectr_lite/core/error.h"
#include "tests/support/errors.h"
#include "tests/support/program.h"
#include "tests/support/temporary_directory.h"

namespace hlite::test {
namespace {

namespace fs = std::filesystem;
using trainer::BlockFacts;
using trainer::BlockMeaning;

TEST_CASE("docs/configs.md is what train --keys prints") {
  const ProgramResult printed = run_program({HLITE_TRAIN, "--keys"}, "");
  INFO(printed.err);
  REQUIRE(printed.code == 0);
  INFO("train --keys > docs/configs.md makes it anew");
  CHECK(printed.out == read_text(HLITE_SOURCE_DIR "/docs/configs.md"));
}

// Keys that `text` asks a reader for by name.
std::set<std::string> keys_asked_for(const std::string& text) {
  static const std::regex call(
      R"re((?:reader|param|hparam|solver|layer|label|dense|block|fc)\s*\.\s*)re"
      R"re((?:integers?|number|boolean|strings?|choice|value|member|object|find|accept|has|)re"
      R"re(list_or_empty|\w+_or)(?:<[^>()]*>)?\(\s*"(\w+)")re");
  std::set<std::string> keys;
  for (std::sregex_iterator at(text.begin(), text.end(), call), end; at != end; ++at)
    keys.insert((*at)[1]);
  return keys;
}

TEST_CASE("every key that a reader is asked for is in the reference") {
  const std::string page = trainer::key_reference();
  const fs::path root = HLITE_SOURCE_DIR;
  std::set<std::string> keys;
  for (const char* folder : {"hugectr_lite/config", "hugectr_lite/network", "embedding"})
    for (const auto& entry : fs::recursive_directory_iterator(root / folder))
      if (entry.path().extension() == ".cpp") keys.merge(keys_asked_for(read_text(entry.path())));
  CHECK(keys.size() > 80);
  for (const std::string& key : keys) {
    CAPTURE(key);
    const bool row = page.find("| `" + key + "`") != std::string::npos;
    const bool table = page.find("### `" + key + "`") != std::string::npos;
    CHECK((row || table));
  }
  CHECK(keys_asked_for("x = reader.value_or<T>(\n  \"a\", b); fc.has(\"c\"); other(\"d\");") ==
        std::set<std::string>{"a", "c"});
}

TEST_CASE("the reference says what the parser takes, and what an absent key stands for") {
  const std::string page = trainer::key_reference();
  check_contains(
      page,
      {"| `batchsize` | an integer in [1, 2147483647] | required |",
       "| `batchsize_eval` | an integer in [1, 2147483647] | `batchsize` |",
       "| `lr_policy` | \"fixed\" | required |", "| `cuda_graph` | true or false | `true` |",
       "| `gpu` | a non-empty list of GPU ids, or of such lists, one for each node; each a GPU id "
       "in "
       "[0, 65535] | required |",
       "| `beta1` (Adam) | a number in [0, 1) | required |",
       "| `epsilon` (Adam, AdaGrad) | a number > 0 | required (Adam); `1e-08` (AdaGrad) |",
       "| `io_alignment` | a power of two >= 512 | required |",
       "| `is_fixed_length` | true or false | `true` (Raw, RawAsync); `false` (Norm, Parquet) |",
       "| `exchange_capacity` (HybridSparseEmbedding) |", "| `num_output` | an integer in [1,",
       "| `embedding_vec_size` | an integer in [1, 1024] (HybridSparseEmbedding); an integer in "
       "[1, "
       "65536] (",
       "| `max_eval_batches` | an integer in [0, 2147483647] | none |",
       "| `name` | a string | `top` | Of its tables in files. |",
       "Of `InnerProduct`, `FusedInnerProduct`.", "| `vvgpu` | use gpu |"});
}

TEST_CASE("a key without a meaning, and a meaning without a key, are named") {
  BlockFacts facts;
  facts.variants = {"A", "B"};
  facts.keys["old"].variants = {{"A", {.takes = "a number", .required = false}}};
  facts.keys["novel"].variants = {{"A", {.takes = "a number"}}};
  facts.keys["depends"].variants = {{"A", {"", false, {"1", "2"}}}, {"B", {"", false, {"3"}}}};
  facts.keys["said"].variants = {{"A", {"x", false, {"1"}}}, {"B", {"y", false, {"1"}}}};
  const BlockMeaning meaning = {
      "block", "", "", {{"old", "x | y"}, {"gone", ""}, {"depends", ""}, {"said", "", "`2`"}}};
  std::string problems;
  const std::string text = trainer::block_reference(meaning, facts, problems);
  CHECK(text ==
        "| key | takes | default | meaning |\n|---|---|---|---|\n"
        "| `old` (A) | a number | none | x \\| y |\n"
        "| `depends` | anything | none (A); `3` (B) |  |\n| `said` | x (A); y (B) | `1` |  |\n");
  CHECK(problems ==
        "block.gone: expected a key that the parser knows, found none\n"
        "block.depends: expected what its default depends on, found nothing\n"
        "block.said: expected no default, as the parser says it, found \"`2`\"\n"
        "block.novel: expected a meaning (key_meanings.h), found none\n");
}

}  // namespace
}  // namespace hlite::test
