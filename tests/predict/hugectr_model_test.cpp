// tools/hugectr_model.py: a model's weights as HugeCTR's files, and back.
#ifdef HLITE_PYTHON_ONNX
#include <cmath>
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
  REQUIRE(run.train(more).code == 0);
  REQUIRE(hugectr(run, {"to", "--model", "ck", "--prefix", "out/m", "--iteration", "3", "--layout",
                        layout})
              .code == 0);
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

TEST_CASE("the base score goes to the last bias of HugeCTR's files, and comes back from it") {
  const SmallRun run;
  REQUIRE(run.train({"--save", run / "ck", "--export", run / "w.safetensors", "--set",
                     "layers.loss.base_score=0.1", "--set", "solver.max_iter=3"})
              .code == 0);
  const auto convert = [&](std::vector<std::string> how) {
    how.insert(how.end(), {"--prefix", "out/m", "--iteration", "3"});
    return hugectr(run, std::move(how));
  };
  const auto last_float = [](const std::string& bytes) {
    float value = 0;
    std::memcpy(&value, bytes.data() + bytes.size() - sizeof(value), sizeof(value));
    return static_cast<double>(value);
  };
  const std::string model = run / "out/m_dense_3.model";
  test::write_text(run / "plain.json", test::small_config());  // the same weights without a base
  REQUIRE(convert({"to", "--model", "ck", "--config", "plain.json"}).code == 0);
  const std::string plain = test::read_text(model);
  REQUIRE(convert({"to", "--model", "ck"}).code == 0);
  const std::string with_base = test::read_text(model);
  CHECK((with_base.substr(0, with_base.size() - 4) == plain.substr(0, plain.size() - 4)));
  CHECK(last_float(with_base) == Approx(last_float(plain) + std::log(1.0 / 9)).epsilon(1e-6));

  const std::string loss = R"("BinaryCrossEntropyLoss")";
  const auto config_with = [&](const std::string& by) {
    std::string text = test::small_config();
    test::write_text(run / "other.json", text.replace(text.find(loss), loss.size(), by));
  };
  config_with(loss + R"(, "base_score": 0.1)");
  REQUIRE(convert({"from", "--config", "other.json", "--like", "w.safetensors", "--out",
                   "back.safetensors"})
              .code == 0);
  const std::vector<std::string> again = {"to", "--model", "back.safetensors", "--config",
                                          "other.json"};
  REQUIRE(convert(again).code == 0);
  CHECK(last_float(test::read_text(model)) == Approx(last_float(with_base)).epsilon(1e-6));
  config_with(R"("MSELoss", "score_scale": 2)");
  const ProgramResult refused = convert(again);
  CHECK(refused.code == 2);
  check_contains(refused.err, {"layer loss: expected no score_scale", "found 2"});
}

}  // namespace
}  // namespace hlite
#endif
