// The programs themselves: exit codes and what they print.
#include <sys/wait.h>

#include <cstdlib>

#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::tools {
namespace {

using test::TemporaryDirectory;

struct Run {
  int code;
  std::string output;  // standard output and error
};
Run run(const TemporaryDirectory& folder, const std::string& command) {
  const std::string log = folder / "log";
  const int status =
      std::system(("cd '" + folder.path() + "' && " + command + " >log 2>&1").c_str());
  REQUIRE(WIFEXITED(status));
  return {WEXITSTATUS(status), test::read_text(log)};
}

TEST_CASE("every program has help with examples, a version, and exit code 2 for wrong usage") {
  TemporaryDirectory folder;
  for (const std::string program : {HLITE_CRITEO_PREP, HLITE_CRITEO_SYNTH, HLITE_CSV_PREP}) {
    INFO(program);
    const Run help = run(folder, program + " --help");
    CHECK(help.code == 0);
    test::check_contains(help.output, {"Examples:", "--out"});
    const Run version = run(folder, program + " --version");
    CHECK(version.code == 0);
    CHECK(version.output.find("0.") != std::string::npos);
    const Run wrong = run(folder, program + " --nonsense");
    CHECK(wrong.code == 2);
    CHECK_FALSE(wrong.output.empty());
  }
  CHECK(run(folder, std::string(HLITE_CRITEO_PREP)).code == 2);
  CHECK(run(folder, std::string(HLITE_CRITEO_SYNTH) + " --train -5").code == 2);
  CHECK(run(folder, std::string(HLITE_CRITEO_SYNTH) + " --cards 1,2,x").code == 2);
  CHECK(run(folder, std::string(HLITE_CRITEO_SYNTH) + " --cards 1,2,3").code == 2);
}

TEST_CASE("synthetic rows go through criteo_prep, from a file and from standard input") {
  TemporaryDirectory folder;
  const Run synth =
      run(folder, std::string(HLITE_CRITEO_SYNTH) + " --train 500 --test 100 --out deep/er/s");
  CHECK(synth.code == 0);
  test::check_contains(synth.output, {"Bayes AUC", "log loss", "label rate"});
  const std::string prep = HLITE_CRITEO_PREP;
  const Run piped =
      run(folder, prep + " --train - --val deep/er/s.test.tsv --out a/b <deep/er/s.train.tsv");
  INFO(piped.output);
  CHECK(piped.code == 0);
  const Run direct =
      run(folder, prep + " --train deep/er/s.train.tsv --val deep/er/s.test.tsv --out c");
  CHECK(direct.code == 0);
  test::check_contains(direct.output, {"train.bin: 500 rows", "val.bin: 100 rows", "26 tables"});
  CHECK((test::read_text(folder / "a/b/train.bin") == test::read_text(folder / "c/train.bin")));
  CHECK(test::read_text(folder / "c/val.bin").size() == 100 * 160);
}

TEST_CASE("bad data is exit code 3 with file and line") {
  TemporaryDirectory folder;
  test::write_text(folder / "bad.tsv", "0\t1\n");
  const Run bad = run(folder, std::string(HLITE_CRITEO_PREP) + " --train bad.tsv --out out");
  CHECK(bad.code == 3);
  test::check_contains(bad.output, {"criteo_prep: bad.tsv:1: expected 40", "found 2"});
  CHECK(run(folder, std::string(HLITE_CRITEO_PREP) + " --train none.tsv").code == 3);
  test::write_text(folder / "schema.json", "{\"label\": 3}");
  const Run schema =
      run(folder, std::string(HLITE_CSV_PREP) + " --schema schema.json --train bad.tsv");
  CHECK(schema.code == 2);
  test::check_contains(schema.output, {"schema.json:1"});
}

}  // namespace
}  // namespace hlite::tools
