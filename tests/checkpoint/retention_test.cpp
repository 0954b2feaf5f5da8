#include "hugectr_lite/checkpoint/retention.h"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::TemporaryDirectory;

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

void save(const std::string& dir, uint64_t run) {
  CheckpointMeta meta;
  meta.run = run;
  save_checkpoint(dir, meta, {}, {});
  CHECK(read_manifest(dir).run == run);
}

TEST_CASE("older snapshots of a run go, and nothing else") {
  TemporaryDirectory folder;
  for (const int i : {5, 10, 20, 100, 1000}) save(folder / ("s_" + std::to_string(i)), 7);
  save(folder / "s_40", 8);   // another run's
  save(folder / "s_50", 0);   // of a run without a number
  save(folder / "s_007", 7);  // no name of a snapshot
  save(folder / "s_best", 7);
  save(folder / "t_5", 7);
  fs::create_directory(folder / "s_60");
  test::write_text(folder / "s_70", "a file");
  save(folder / "s_80", 7);
  test::write_text(folder / "s_80/manifest.json", "damaged");
  const std::set<std::string> others = {"s_40", "s_50", "s_007", "s_best",
                                        "t_5",  "s_60", "s_70",  "s_80"};
  const auto expect = [&](std::set<std::string> left) {
    left.insert(others.begin(), others.end());
    CHECK(names_in(folder.path()) == left);
  };
  remove_older_snapshots({.prefix = folder / "s_", .run = 7, .keep = 5});
  expect({"s_5", "s_10", "s_20", "s_100", "s_1000"});
  remove_older_snapshots(
      {.prefix = folder / "s_", .run = 7, .keep = 2, .resumed = folder / "s_10"});
  expect({"s_10", "s_100", "s_1000"});
  remove_older_snapshots({.prefix = folder / "s_", .run = 7, .keep = 1});
  expect({"s_1000"});
  remove_older_snapshots({.prefix = folder / "s_", .run = 9, .keep = 1});
  expect({"s_1000"});
}

TEST_CASE("what a killed process had half removed goes with the next removal") {
  TemporaryDirectory folder;
  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  int status = 0;
  REQUIRE(waitpid(gone, &status, 0) == gone);
  const std::string dead = ".tmp." + std::to_string(gone),
                    alive = ".tmp." + std::to_string(getppid());
  save(folder / "5", 7);
  save(folder / "10", 7);
  fs::create_directory(folder / ("3" + dead));  // out of its place, its files being removed
  test::write_text(folder / ("3" + dead + "/weights.safetensors"), "");
  fs::create_directory(folder / ("8" + dead));  // or being written
  fs::create_directory(folder / ("9" + alive));
  remove_older_snapshots({.prefix = folder / "", .run = 7, .keep = 1});
  CHECK(names_in(folder.path()) == std::set<std::string>{"10", "9" + alive});
}

TEST_CASE("a table that has grown takes its first rows from a checkpoint") {
  TemporaryDirectory folder;
  std::vector<float> old = {1, 2, 3, 4}, states = {5, 6, 7, 8};
  const auto table = [](const char* name, std::vector<float>& values, bool grows = true) {
    return TensorRef{
        .name = name, .shape = {std::ssize(values) / 2, 2}, .data = values.data(), .grows = grows};
  };
  save_checkpoint(folder / "c", {}, std::vector{table("t", old)},
                  std::vector{table("t.m", states)});
  const CheckpointMeta meta = read_manifest(folder / "c");
  std::vector<float> now(8, -1), now_states(8, -2);
  const auto load = [&](TableSizes sizes, bool grows = true) {
    load_checkpoint(folder / "c", meta, std::vector{table("t", now, grows)},
                    std::vector{table("t.m", now_states, grows)}, sizes);
  };
  test::check_contains(test::message_of<DataError>([&] { load(TableSizes::kSame); }),
                       {"t: expected the 4 rows", "found 2", "--grow"});
  CHECK_THROWS_AS(load(TableSizes::kMayGrow, false), DataError);
  load(TableSizes::kMayGrow);
  CHECK(now == std::vector<float>{1, 2, 3, 4, -1, -1, -1, -1});
  CHECK(now_states == std::vector<float>{5, 6, 7, 8, -2, -2, -2, -2});
  now.resize(2);
  now_states.resize(2);
  test::check_contains(test::message_of<DataError>([&] { load(TableSizes::kMayGrow); }),
                       {"t: expected at most the 1 rows", "found 2", "cannot shrink"});
}

}  // namespace
}  // namespace hlite::checkpoint
