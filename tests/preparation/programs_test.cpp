// The programs themselves: exit codes and what they print.
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>

#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::prep {
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
    test::check_contains(version.output, {"0."});
    const Run wrong = run(folder, program + " --nonsense");
    CHECK(wrong.code == 2);
    CHECK_FALSE(wrong.output.empty());
  }
  // No folder of results is taken for granted.
  for (const std::string& program : {std::string(HLITE_CRITEO_PREP) + " --train x",
                                     std::string(HLITE_CRITEO_SYNTH) + " --train 5",
                                     std::string(HLITE_CSV_PREP) + " --schema s --train x"}) {
    const Run without = run(folder, program);
    CHECK(without.code == 2);
    test::check_contains(without.output, {"--out is required"});
  }
  CHECK(run(folder, std::string(HLITE_CRITEO_SYNTH) + " --train -5 --out s").code == 2);
  CHECK(run(folder, std::string(HLITE_CRITEO_SYNTH) + " --cards 1,2,x --out s").code == 2);
  CHECK(run(folder, std::string(HLITE_CRITEO_SYNTH) + " --cards 1,2,3 --out s").code == 2);
}

TEST_CASE("numbers that cannot be are refused in a few words, and nothing is written") {
  TemporaryDirectory folder;
  test::write_text(folder / "a.tsv", "");
  const std::string criteo = std::string(HLITE_CRITEO_PREP) + " --train a.tsv --out o ",
                    csv = std::string(HLITE_CSV_PREP) + " --schema s --train a.tsv --out o ",
                    synth = std::string(HLITE_CRITEO_SYNTH) + " --out o ";
  const std::string huge = "99999999999999999999";
  const std::vector<std::string> commands = {criteo + "--min-count -1",
                                             criteo + "--min-count " + huge,
                                             criteo + "--hash -1",
                                             criteo + "--hash 4294967297",
                                             criteo + "--max-ind-range 5000000000",
                                             criteo + "--seed -1",
                                             criteo + "--threads -5",
                                             criteo + "--threads 1000000",
                                             criteo + "--memory 0",
                                             criteo + "--sample nan",
                                             criteo + "--max-unknown 50",
                                             criteo + "--max-bad-rows " + huge,
                                             criteo + "--norm-rows-per-file 0",
                                             csv + "--min-count 0",
                                             csv + "--threads 1.5",
                                             synth + "--train -5",
                                             synth + "--train " + huge,
                                             synth + "--train 9223372036854775807",
                                             synth + "--train 0 --test 0",
                                             synth + "--cap 0",
                                             synth + "--seed " + huge,
                                             synth + "--like kaggle",
                                             synth + "--format csv"};
  for (const std::string& command : commands) {
    INFO(command);
    const Run refused = run(folder, command);
    CHECK(refused.code == 2);
    CHECK(refused.output.size() < 200);
    const size_t option = command.find(" --", command.find("--out o")) + 1;
    test::check_contains(refused.output,
                         {command.substr(option, command.find(' ', option) - option)});
    CHECK_FALSE(std::filesystem::exists(folder / "o"));
  }
  // The option that follows is no file.
  const Run swallowed = run(folder, std::string(HLITE_CRITEO_PREP) + " --train --out o");
  CHECK(swallowed.code == 2);
  test::check_contains(swallowed.output, {"--train: expected a value, found the option --out"});
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
  const Run again = run(folder, prep + " --train deep/er/s.train.tsv --out c");
  CHECK(again.code == 2);
  test::check_contains(again.output, {"criteo_prep: c: expected no files", "val.bin", "--force"});
  const Run other =
      run(folder, std::string(HLITE_CRITEO_SYNTH) + " --train 50 --test 0 --out deep/er/s");
  CHECK(other.code == 2);
  test::check_contains(other.output, {"criteo_synth: deep/er/s: expected no files", "s.test.tsv"});
  CHECK((test::read_text(folder / "a/b/train.bin") == test::read_text(folder / "c/train.bin")));
  CHECK(test::read_text(folder / "c/val.bin").size() == 100 * 160);
}

TEST_CASE("bad data is exit code 3 with file and line") {
  TemporaryDirectory folder;
  test::write_text(folder / "bad.tsv", "0\t1\n");
  const Run bad = run(folder, std::string(HLITE_CRITEO_PREP) + " --train bad.tsv --out out");
  CHECK(bad.code == 3);
  test::check_contains(bad.output, {"criteo_prep: bad.tsv:1: expected 40", "found 2"});
  CHECK(run(folder, std::string(HLITE_CRITEO_PREP) + " --train none.tsv --out o").code == 3);
  test::write_text(folder / "schema.json", "{\"label\": 3}");
  const Run schema =
      run(folder, std::string(HLITE_CSV_PREP) + " --schema schema.json --train bad.tsv --out o");
  CHECK(schema.code == 2);
  test::check_contains(schema.output, {"schema.json:1"});
}

}  // namespace
}  // namespace hlite::prep
