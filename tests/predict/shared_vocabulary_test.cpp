// Columns of text that share a vocabulary and a table, from csv_prep to scores.
#include <cstring>
#include <filesystem>
#include <map>
#include <regex>

#include "tests/end_to_end/golden_run.h"
#include "tests/predict/predict_case.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

constexpr const char* kSharedSchema = R"({"header": true, "label": {"column": "y", "positive": "1"},
  "dense": [{"column": "d1"}, {"column": "d2"}],
  "categorical": [{"column": "seen", "vocabulary": "item"}, {"column": "city"},
                  {"column": "shown", "vocabulary": "item"}]})";

struct SharedRow {
  uint32_t y, dense[2];
  std::string tokens[3];
};

// Items of the second column that the first one has too, others, and some of later rows only.
SharedRow shared_row(uint64_t i) {
  const auto draw = [&](uint64_t j, uint32_t below) { return random::word(3, j, i) % below; };
  const uint32_t seen = draw(0, 30), shown = 10 + draw(1, i < 600 ? 40 : 60);
  return {(seen + shown) % 3 == 0,
          {draw(2, 4), draw(3, 50)},
          {fmt::format("i{}", seen), fmt::format("c{}", draw(4, 4)), fmt::format("i{}", shown)}};
}

std::string shared_lines(uint64_t begin, uint64_t end) {
  std::string text = "d1,seen,y,city,d2,shown\n";
  for (uint64_t i = begin; i < end; ++i) {
    const SharedRow r = shared_row(i);
    text += fmt::format("{},{},{},{},{},{}\n", r.dense[0], r.tokens[0], r.y, r.tokens[1],
                        r.dense[1], r.tokens[2]);
  }
  return text;
}

// The same rows as raw records, with ids by their definition. `rows`: of the two tables.
std::string shared_records(uint64_t begin, uint64_t end, std::vector<size_t>* rows = nullptr) {
  std::map<std::string, uint32_t> ids[2];
  for (uint64_t i = 0; i < 600; ++i)
    for (const size_t slot : {0, 1, 2}) {
      auto& of = ids[slot % 2];
      of.emplace(shared_row(i).tokens[slot], static_cast<uint32_t>(of.size() + 1));
    }
  if (rows) *rows = {ids[0].size() + 1, ids[1].size() + 1};
  std::string bytes;
  const auto put = [&](auto word) { bytes.append(reinterpret_cast<const char*>(&word), 4); };
  for (uint64_t i = begin; i < end; ++i) {
    const SharedRow r = shared_row(i);
    put(static_cast<float>(r.y));
    for (const uint32_t x : r.dense) put(static_cast<float>(x));
    for (const size_t slot : {0, 1, 2}) {
      const auto found = ids[slot % 2].find(r.tokens[slot]);
      put(found == ids[slot % 2].end() ? 0u : found->second);
    }
  }
  return bytes;
}

class SharedText {
 public:
  explicit SharedText(std::vector<std::string> more = {}) {
    write_text(run_ / "schema.json", kSharedSchema);
    write_text(run_ / "a.csv", shared_lines(0, 600));
    write_text(run_ / "b.csv", shared_lines(600, 800));
    more.insert(more.begin(), {HLITE_CSV_PREP, "--schema", "schema.json", "--train", "a.csv",
                               "--val", "b.csv", "--out", "data"});
    const ProgramResult prepared = run_program(more, run_.path());
    REQUIRE(prepared.code == 0);
    check_contains(prepared.out, {"2 tables", "\"slot_tables\": [0,1,0]"});
  }
  [[nodiscard]] const SmallRun& run() const { return run_; }
  // A config for data in `folder` with tables of these sizes and this "slot_tables" (or none).
  [[nodiscard]] std::string config(const std::string& folder, const std::string& sizes,
                                   const std::string& tables, const std::string& more = "") const {
    std::string text = small_config();
    const auto replace = [&](const std::string& what, const std::string& by) {
      text.replace(text.find(what), what.size(), by);
    };
    replace("\"train.bin\"", "\"" + folder + "/train.bin\"");
    replace("\"eval.bin\"", "\"" + folder + "/val.bin\"");
    replace("\"check\": \"None\"", "\"check\": \"None\", \"float_label_dense\": true");
    replace("\"max_iter\": 200", "\"max_iter\": 60");
    replace("[40, 5, 300]", sizes + (tables.empty() ? "" : ", \"slot_tables\": " + tables));
    if (!more.empty()) replace("\"max_feature_num_per_sample\": 3, \"max_nnz\": 1", more);
    return text;
  }
  [[nodiscard]] ProgramResult train(const std::string& config,
                                    std::vector<std::string> more) const {
    write_text(run_ / "config.json", config);
    return run_.train(std::move(more));
  }

 private:
  SmallRun run_;
};

constexpr const char* kManifestSizes = "\"data/manifest.json\"";

}  // namespace

TEST_CASE("columns of one vocabulary train one table, and text is scored as its ids are") {
  const SharedText text;
  const SmallRun& run = text.run();
  const ProgramResult trained = text.train(text.config("data", kManifestSizes, "[0, 1, 0]"),
                                           {"--save", run / "ck", "--with-preparation"});
  REQUIRE(trained.code == 0);
  CHECK(trained.err.find("share a vocabulary") == std::string::npos);
  const auto scores = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--out", "-"});
    const ProgramResult result = predict(run, more);
    REQUIRE(result.code == 0);
    CHECK(scores_in(result.out).size() == 200);
    return result.out;
  };
  const std::string of_text = scores({"--model", "ck", "--input", "b.csv"});
  CHECK(of_text == scores({"--model", "ck", "--prepared", "data", "--input", "b.csv"}));

  std::vector<size_t> rows;
  std::filesystem::create_directory(run / "hand");
  write_text(run / "hand/train.bin", shared_records(0, 600, &rows));
  write_text(run / "hand/val.bin", shared_records(600, 800));
  CHECK((read_text(run / "data/val.bin") == read_text(run / "hand/val.bin")));
  const std::string sizes = fmt::format("[{}, {}, {}]", rows[0], rows[1], rows[0]);
  const ProgramResult by_hand =
      text.train(text.config("hand", sizes, "[0, 1, 0]"), {"--save", run / "by_hand"});
  REQUIRE(by_hand.code == 0);
  CHECK((everything(run / "ck") == everything(run / "by_hand")));
  CHECK(scores({"--model", "by_hand", "--input", "hand/val.bin"}) == of_text);
}

TEST_CASE("a warning names the slots that can share a table, and those that cannot") {
  const SharedText text;
  const auto with = [&](const std::string& tables, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"--check"});
    return text.train(text.config("data", kManifestSizes, tables), more);
  };
  const ProgramResult warned = with("");
  CHECK(warned.code == 0);
  check_contains(
      warned.out + warned.err,
      {"data/manifest.json: some slots of \"emb\" share a vocabulary", "\"slot_tables\": [0,1,0]"});
  const ProgramResult apart = with("[0, 1, 2]");
  CHECK(apart.code == 0);
  CHECK((apart.out + apart.err).find("share a vocabulary") == std::string::npos);
  // Columns "seen" and "city" have tables of one size but different vocabularies.
  write_text(text.run() / "config.json", "");
  const ProgramResult mixed =
      text.train(text.config("data", "[90, 90, 90]", "[0, 0, 1]"), {"--check"});
  CHECK(mixed.code == 3);
  check_contains(mixed.err, {"data/manifest.json: expected one vocabulary for slots 0 (seen) and 1 "
                             "(city), which share table 0 of \"emb\"",
                             "\"vocabulary\" in the schema"});
}

#ifdef HLITE_PYTHON_ONNX
TEST_CASE("lists of keys of a shared table are scored alike from text, records and ONNX") {
  const SharedText text({"--multi-hot", "2,1,3", "--seed", "4"});
  const SmallRun& run = text.run();
  std::string config = text.config("data", kManifestSizes, "[0, 1, 0]",
                                   "\"max_feature_num_per_sample\": 6, \"max_nnz\": 3, "
                                   "\"nnz_per_slot\": [2, 1, 3], \"is_fixed_length\": true");
  // Multi-hot records have integer labels and float features.
  config = std::regex_replace(config, std::regex(", \"float_label_dense\": true"), "");
  config = std::regex_replace(config, std::regex("\"async_param\": \\{"),
                              "\"async_param\": {\"multi_hot_reader\": true, "
                              "\"is_dense_float\": true, ");
  REQUIRE(text.train(config, {"--save", run / "ck"}).code == 0);
  const auto with = [&](std::vector<std::string> command) {
    const ProgramResult result = run_program(command, run.path());
    REQUIRE(result.code == 0);
    return result.out;
  };
  const std::vector<double> ours =
      scores_in(with({HLITE_PREDICT, "--model", "ck", "--input", "data/val.bin", "--out", "-"}));
  REQUIRE(ours.size() == 200);
  check_close(scores_in(with({HLITE_PREDICT, "--model", "ck", "--prepared", "data", "--input",
                              "b.csv", "--out", "-"})),
              ours);
  with({HLITE_PYTHON_ONNX, HLITE_SOURCE_DIR "/tools/export_onnx.py", "--model", "ck", "--out",
        "m.onnx"});
  check_close(scores_in(with({HLITE_PYTHON_ONNX, HLITE_SOURCE_DIR "/tests/predict/run_onnx.py",
                              "m.onnx", "config.json", "data/val.bin"})),
              ours);
}
#endif

}  // namespace hlite::test
