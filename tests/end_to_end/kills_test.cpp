// A command that was killed ends with success when it is given again, and with the bytes of one
// that nothing has happened to: saving, deltas, snapshots that are kept, folds. The kill comes in
// the place of the Nth call that makes, renames or removes a name (tests/support/failing_disk.cpp).
//
// HLITE_KILLS=all in the environment: at every such call; else at some of them, evenly spread.
#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>

#include "tests/end_to_end/small_run.h"
#include "tests/support/catch.h"

namespace hlite::test {
namespace {

namespace fs = std::filesystem;
using Command = std::vector<std::string>;
using Tree = std::map<std::string, std::string>;

// The bytes of a file; of a checkpoint's manifest without the number that each run draws, and the
// checksum of the manifest, which follows from it.
std::string bytes_of(const fs::path& file) {
  std::string text = read_text(file);
  if (file.filename() != "manifest.json") return text;
  text = std::regex_replace(text, std::regex("\"run\": \"[0-9]+\""), "");
  if (const size_t sum = text.rfind("\"xxh3_64\""); sum != std::string::npos) text.resize(sum);
  return text;
}

// All files below the outputs, hidden ones too: nothing of a killed command may stay.
Tree tree_of(const fs::path& folder) {
  Tree tree;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    tree[entry.path().lexically_relative(folder)] =
        entry.is_regular_file() ? bytes_of(entry.path()) : "";
  return tree;
}
std::string names_of(const Tree& tree) {
  std::string names;
  for (const auto& [name, bytes] : tree) names += name + "\n";
  return names;
}

// `command` writes into `outputs` only, which it finds as in `before`.
void check_kills(const std::string& outputs, const std::string& before, const Command& command,
                 long kills) {
  const auto begin_anew = [&] {
    fs::remove_all(outputs);
    fs::copy(before, outputs, fs::copy_options::recursive);
  };
  const std::string counts = before + ".calls";
  const auto run = [&](const std::string& fault) {
    Command all = {"/usr/bin/env", std::string("LD_PRELOAD=") + HLITE_FAILING_DISK_LIBRARY,
                   "HLITE_FAILING_DISK=" + fault, "HLITE_COUNTED_CALLS=" + counts};
    all.insert(all.end(), command.begin(), command.end());
    return run_program(all);
  };
  begin_anew();
  REQUIRE(run("none:0:0").code == 0);
  const Tree expected = tree_of(outputs);
  std::istringstream text(read_text(counts));
  std::string name;
  long changes = 0;
  for (long n = 0; text >> name >> n;)
    if (name == "change") changes = n;
  REQUIRE(changes > 10);
  const char* const wish = std::getenv("HLITE_KILLS");
  if (wish && std::string(wish) == "all") kills = changes;
  long killed = 0;
  for (long i = 0; i < kills; ++i) {
    const long at = 1 + i * changes / kills;
    begin_anew();
    // Threads may make a call less or more: one that comes to its end was not killed.
    if (run(fmt::format("change:{}:kill", at)).code != 0) ++killed;
    const ProgramResult again = run_program(command);
    INFO("killed at change " << at << " of " << changes << "\n" << again.err);
    REQUIRE(again.code == 0);
    const Tree found = tree_of(outputs);
    REQUIRE(names_of(found) == names_of(expected));
    for (const auto& [file, bytes] : expected) {
      INFO(file);
      REQUIRE((found.at(file) == bytes));
    }
  }
  CHECK(killed > kills * 3 / 4);
  if (wish) fmt::print("{} kills, {} changes\n", killed, changes);
}

}  // namespace

TEST_CASE("a training that was killed while it saves ends the same when it is given again",
          "[no-asan][no-tsan]") {
  const SmallRun run;
  const std::string outputs = run / "outputs", before = run / "before";
  fs::create_directory(before);
  REQUIRE(
      run.train({"--quiet", "--save", run / "before/day1", "--set", "solver.max_iter=20"}).code ==
      0);
  check_kills(outputs, before,
              run.command({"--quiet", "--resume", outputs + "/day1", "--save", outputs + "/day2",
                           "--save-delta", outputs + "/chain", "--set", "solver.max_iter=60",
                           "--set", "solver.snapshot=10", "--set", "solver.keep_checkpoints=2",
                           "--set", "solver.snapshot_prefix=" + outputs + "/snap_"}),
              16);
}

TEST_CASE("a preparation of folds that was killed ends the same when it is given again",
          "[no-asan][no-tsan]") {
  const TemporaryDirectory folder;
  fs::create_directory(folder / "before");
  std::string rows = "label,x,a\n";
  for (int i = 0; i < 600; ++i) rows += fmt::format("{},{},c{}\n", i % 3 == 0, i % 7, i % 11);
  write_text(folder / "a.csv", rows);
  check_kills(folder / "outputs", folder / "before",
              {HLITE_CSV_PREP, folder / "a.csv", "--label", "label", "--folds", "3", "--out",
               folder / "outputs/data", "--write-config", "deepfm", "--threads", "1", "--quiet"},
              16);
}

TEST_CASE("a preparation of Criteo's lines that was killed ends the same when it is given again",
          "[no-asan][no-tsan]") {
  const TemporaryDirectory folder;
  fs::create_directory(folder / "before");
  REQUIRE(
      run_program({HLITE_CRITEO_SYNTH, "--train", "500", "--test", "100", "--out", folder / "s"})
          .code == 0);
  check_kills(folder / "outputs", folder / "before",
              {HLITE_CRITEO_PREP, "--train", folder / "s.train.tsv", "--val", folder / "s.test.tsv",
               "--out", folder / "outputs/data", "--threads", "1", "--quiet"},
              12);
}

TEST_CASE("what a killed prediction leaves of joined weights is nobody else's to read",
          "[no-asan][no-tsan]") {
  const SmallRun run;
  fs::create_directory(run / "temporary");
  REQUIRE(run.train({"--quiet", "--save", run / "day1", "--set", "solver.max_iter=20"}).code == 0);
  REQUIRE(run.train({"--quiet", "--resume", run / "day1", "--save", run / "day2", "--save-delta",
                     run / "chain", "--set", "solver.max_iter=30"})
              .code == 0);
  int left = 0;
  for (int at = 1;; ++at) {
    const ProgramResult result = run_program(
        {"/usr/bin/env", std::string("LD_PRELOAD=") + HLITE_FAILING_DISK_LIBRARY,
         fmt::format("HLITE_FAILING_DISK=change:{}:kill", at), "TMPDIR=" + (run / "temporary"),
         HLITE_PREDICT, "--model", run / "day1", "--delta", run / "chain", "--input",
         run / "eval.bin", "--out", run / "scores.npy", "--quiet"});
    for (const auto& entry : fs::directory_iterator(run / "temporary")) {
      ++left;
      CHECK((entry.status().permissions() & (fs::perms::group_all | fs::perms::others_all)) ==
            fs::perms::none);
      fs::remove_all(entry);
    }
    if (result.code == 0) break;
  }
  CHECK(left > 0);
}

}  // namespace hlite::test
