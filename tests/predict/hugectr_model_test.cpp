// tools/hugectr_model.py: a model's weights as HugeCTR's files, and back.
#ifdef HLITE_PYTHON_ONNX
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <regex>
#include <vector>

#include "tests/end_to_end/small_run.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/program.h"

namespace hlite {
namespace {

using test::check_contains;
using test::ProgramResult;
using test::SmallRun;

ProgramResult hugectr(const SmallRun& run, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(),
                   {HLITE_PYTHON_ONNX, HLITE_SOURCE_DIR "/tools/hugectr_model.py"});
  return test::run_program(arguments, run.path());
}

TEST_CASE("weights go to HugeCTR's files and come back") {
  const std::string layout = GENERATE("folder", "file");
  const std::string type = GENERATE("HybridSparseEmbedding", "DistributedSlotSparseEmbeddingHash",
                                    "LocalizedSlotSparseEmbeddingOneHot");
  CAPTURE(layout, type);
  const SmallRun run;
  std::vector<std::string> more = {"--save",   run / "ck",
                                   "--export", run / "w.safetensors",
                                   "--set",    "layers.emb.type=" + type,
                                   "--set",    "solver.max_iter=3"};
  if (type == "DistributedSlotSparseEmbeddingHash")
    more.insert(more.end(),
                {"--set", "layers.emb.sparse_embedding_hparam.max_vocabulary_size_per_gpu=345"});
  const ProgramResult trained = run.train(more);
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  const ProgramResult to = hugectr(
      run, {"to", "--model", "ck", "--prefix", "out/m", "--iteration", "3", "--layout", layout});
  INFO(to.err);
  REQUIRE(to.code == 0);
  // b1, t1, t2: weights, then biases, in rows.
  const size_t dense = 8 * 4 + 4 + 11 * 16 + 16 + 16 + 1;
  CHECK(test::read_text(run / "out/m_dense_3.model").size() == 4 * dense);
  const std::string sparse = run / "out/m0_sparse_3.model";
  const bool localized = type != "DistributedSlotSparseEmbeddingHash";
  if (layout == "folder") {
    const size_t rows = test::read_text(sparse + "/key").size() / 8;
    CHECK(test::read_text(sparse + "/emb_vector").size() == rows * 16);
    CHECK(std::filesystem::exists(sparse + "/slot_id") == localized);
    if (localized) CHECK(rows == 40 + 5 + 300);
  } else {
    const std::string records = test::read_text(sparse);
    const size_t record = 4 + (localized ? 8 : 0) + 16;
    REQUIRE(records.size() % record == 0);
    if (localized) {  // key 41 is key 1 of slot 1
      uint32_t key = 0;
      uint64_t slot = 0;
      std::memcpy(&key, &records[41 * record], 4);
      std::memcpy(&slot, &records[41 * record + 4], 8);
      CHECK(key == 41);
      CHECK(slot == 1);
    }
  }
  test::write_text(run / "typed.json",
                   std::regex_replace(test::read_text(run / "config.json"),
                                      std::regex("HybridSparseEmbedding"), type));
  const std::vector<std::string> from = {
      "from",  "--config",    "typed.json", "--like", "w.safetensors",   "--prefix",
      "out/m", "--iteration", "3",          "--out",  "back.safetensors"};
  const ProgramResult back = hugectr(run, from);
  INFO(back.err);
  REQUIRE(back.code == 0);
  const std::string before = test::read_text(run / "w.safetensors");
  const std::string after = test::read_text(run / "back.safetensors");
  CHECK(before.size() == after.size());
  CHECK((before.substr(before.find('}')) == after.substr(after.find('}'))));

  test::write_text(run / "out/m_dense_3.model", "1234");
  const ProgramResult short_file = hugectr(run, from);
  CHECK(short_file.code == 2);
  check_contains(short_file.err,
                 {"m_dense_3.model", fmt::format("expected {} numbers", dense), "found 4 bytes"});
}

}  // namespace
}  // namespace hlite
#endif
