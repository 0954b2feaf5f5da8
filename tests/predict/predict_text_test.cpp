// Scores of lines of text, by the preparation of the data that the model was trained on.
#include <filesystem>
#include <vector>

#include "hugectr_lite/core/random.h"
#include "tests/predict/predict_case.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/program.h"

namespace hlite {
namespace {

using test::check_close;
using test::check_contains;
using test::number_after;
using test::predict;
using test::ProgramResult;
using test::scores_in;
using test::SmallRun;

// A table of text of which csv_prep makes records, and a model trained on them.
class TextRun {
 public:
  TextRun() {
    test::write_text(run_ / "schema.json", R"({"header": true,
        "label": {"column": "y", "positive": "1"}, "dense": [{"column": "d1"},
        {"column": "d2", "transform": "standardize"}],
        "categorical": [{"column": "a"}, {"column": "b"}, {"column": "c"}]})");
    test::write_text(run_ / "a.csv", table(600, 1, true));
    test::write_text(run_ / "b.csv", table(301, 2, true));
    test::write_text(run_ / "bare.csv", table(301, 2, false));
    REQUIRE(test::run_program({HLITE_CSV_PREP, "--schema", "schema.json", "--train", "a.csv",
                               "--val", "b.csv", "--out", "data"},
                              run_.path())
                .code == 0);
    REQUIRE(run_.train({"--save", run_ / "ck", "--set", "layers.data.source=data/train.bin",
                        "--set", "layers.data.eval_source=data/val.bin", "--set",
                        "layers.data.float_label_dense=true", "--set",
                        "layers.emb.sparse_embedding_hparam.slot_size_array=data/manifest.json",
                        "--set", "solver.max_iter=60"})
                .code == 0);
  }
  [[nodiscard]] const SmallRun& run() const { return run_; }

 private:
  static std::string table(uint64_t rows, uint64_t seed, bool labels) {
    std::string text = labels ? "d1,a,y,b,d2,c\n" : "d1,a,b,d2,c\n";
    for (uint64_t i = 0; i < rows; ++i) {
      const auto draw = [&](uint64_t j, uint32_t below) {
        return random::word(seed, j, i) % below;
      };
      const uint32_t a = draw(0, 30);  // some come in b.csv only
      text += fmt::format("{},\"city {}\",", draw(1, 9), a);
      if (labels) text += fmt::format("{},", (a + draw(2, 10)) % 3 == 0 ? 1 : 0);
      text += fmt::format("{},{},t{}\n", draw(3, 4), draw(4, 100), draw(5, 200));
    }
    return text;
  }
  SmallRun run_;
};

TEST_CASE("lines of text are scored as the records that were prepared of them") {
  const TextRun text;
  const SmallRun& run = text.run();
  const auto binary = predict(run, {"--model", "ck", "--config", "config.json", "--set",
                                    "layers.data.float_label_dense=true", "--set",
                                    "layers.emb.sparse_embedding_hparam.slot_size_array=data/"
                                    "manifest.json",
                                    "--input", "data/val.bin", "--out", "-"});
  REQUIRE(binary.code == 0);
  const std::vector<double> scores = scores_in(binary.out);
  REQUIRE(scores.size() == 301);
  // The checkpoint's own config names the manifest relative to the working directory.
  for (const char* batch : {"64", "8192"}) {
    const auto lines = predict(run, {"--model", "ck", "--prepared", "data", "--input", "b.csv",
                                     "--out", "-", "--batch", batch});
    REQUIRE(lines.code == 0);
    check_close(scores_in(lines.out), scores);
    CHECK(number_after(lines.err, "AUC ") == number_after(binary.err, "AUC "));
  }
  // A checkpoint is enough: sizes that the config took from a manifest are those of its tables.
  std::filesystem::rename(run / "data/manifest.json", run / "data/gone.json");
  const auto alone = predict(run, {"--model", "ck", "--input", "data/val.bin", "--out", "-"});
  REQUIRE(alone.code == 0);
  check_close(scores_in(alone.out), scores);
  std::filesystem::rename(run / "data/gone.json", run / "data/manifest.json");
  const auto bare = predict(run, {"--model", "ck", "--prepared", "data", "--no-label", "--input",
                                  "bare.csv", "--out", "-"});
  REQUIRE(bare.code == 0);
  check_close(scores_in(bare.out), scores);
  CHECK(bare.err.find("AUC") == std::string::npos);
  CHECK(bare.err.find("first line") == std::string::npos);
  const std::string with_header = test::read_text(run / "bare.csv");
  test::write_text(run / "rows.csv", with_header.substr(with_header.find('\n') + 1));
  const auto rows = predict(run, {"--model", "ck", "--prepared", "data", "--no-label", "--input",
                                  "rows.csv", "--out", "-"});
  REQUIRE(rows.code == 0);
  check_close(scores_in(rows.out), scores);
  check_contains(rows.err, {"rows.csv: its first line has no name of the training file's columns"});
  test::write_text(run / "renamed.csv", "d1,a,other,d2,c\n1,x,2,3,t\n");
  const auto renamed = predict(run, {"--model", "ck", "--prepared", "data", "--no-label", "--input",
                                     "renamed.csv", "--out", "-"});
  CHECK(renamed.code == 3);
  check_contains(renamed.err, {"renamed.csv:1: expected a column \"b\" in the header"});

  test::write_text(run / "bad.csv", "d1,a,y,b,d2,c\n1,x,1,2,3,t\n1,x,1,2,three,t\n");
  const auto bad =
      predict(run, {"--model", "ck", "--prepared", "data", "--input", "bad.csv", "--out", "s.csv"});
  CHECK(bad.code == 3);
  check_contains(bad.err, {"bad.csv:3", "expected a finite number", "three"});
  CHECK(predict(run, {"--model", "ck", "--input", "s.csv", "--out", "t.csv"}).code == 3);
  // As where files with headers were joined.
  test::write_text(run / "two.csv", "d1,a,b,d2,c\n1,x,2,3,t\nd1,a,b,d2,c\n1,x,2,3,t\n");
  const auto two = predict(run, {"--model", "ck", "--prepared", "data", "--no-label", "--input",
                                 "two.csv", "--out", "s.csv"});
  CHECK(two.code == 3);
  check_contains(two.err, {"two.csv:3: expected a row, found the names of the columns"});
}

TEST_CASE("a checkpoint that has the preparation in it scores text and records alone") {
  const TextRun text;
  const SmallRun& run = text.run();
  const ProgramResult trained = run.train(
      {"--resume", run / "ck", "--save", run / "own", "--with-preparation", "--set",
       "layers.data.source=data/train.bin", "--set", "layers.data.eval_source=data/val.bin",
       "--set", "layers.data.float_label_dense=true", "--set",
       "layers.emb.sparse_embedding_hparam.slot_size_array=data/manifest.json", "--set",
       "solver.max_iter=60"});
  REQUIRE(trained.code == 0);
  const auto by_folder =
      predict(run, {"--model", "ck", "--prepared", "data", "--input", "b.csv", "--out", "-"});
  REQUIRE(by_folder.code == 0);
  // The data move away, as to another machine; gzip and records are distinguished from text.
  std::filesystem::rename(run / "data", run / "gone");
  REQUIRE(test::run_program({"/bin/sh", "-c", "gzip -k b.csv"}, run.path()).code == 0);
  for (const char* input : {"b.csv", "b.csv.gz", "gone/val.bin"}) {
    const auto own = predict(run, {"--model", "own", "--input", input, "--out", "-"});
    INFO(input << "\n" << own.err);
    REQUIRE(own.code == 0);
    check_close(scores_in(own.out), scores_in(by_folder.out));
  }
  const auto pipe =
      test::run_program({"/bin/sh", "-c",
                         std::string("mkfifo p && { cat b.csv > p & ") + HLITE_PREDICT +
                             " --model own --input p --out - --threads 2 && wait $!; }"},
                        run.path());
  CHECK(pipe.code == 0);  // also the writer's
  CHECK(pipe.out == by_folder.out);
  CHECK(predict(run, {"--model", "ck", "--input", "b.csv", "--out", "-"}).code == 3);
}

}  // namespace
}  // namespace hlite
