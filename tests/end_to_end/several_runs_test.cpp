// Several runs of one config at the same time, in one folder.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "tests/end_to_end/small_run.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// Evaluated after each epoch of 16 iterations, of which few are the best.
Words early_stop(int seed, const std::string& exported) {
  return with_changes(
      {"--quiet", "--threads", "1", "--export", exported},
      {fmt::format("solver.seed={}", seed), "solver.max_iter=96", "solver.eval_interval=16",
       "solver.snapshot=32", R"(solver.early_stop={"patience":3})",
       "optimizer.momentum_sgd_hparam.learning_rate=0.3"});
}

Words hidden_files(const std::string& folder) {
  Words names;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with(".")) names.push_back(entry.path());
  return names;
}

std::string weights_of(const fs::path& checkpoint) {
  return read_text((checkpoint / "weights.safetensors").string()) +
         read_text((checkpoint / "optimizer.safetensors").string());
}

}  // namespace

TEST_CASE("ten runs of one config at once end with the weights that each has alone") {
  constexpr int kRuns = 10;
  const SmallRun alone, together;
  for (int seed = 1; seed <= kRuns; ++seed) {
    REQUIRE(alone.train(early_stop(seed, alone / std::to_string(seed))).code == 0);
    for (const char* iteration : {"32", "64", "96"})
      if (fs::exists(alone / (std::string("snap_") + iteration)))
        fs::rename(alone / (std::string("snap_") + iteration),
                   alone / fmt::format("{}_{}", seed, iteration));
  }
  std::vector<std::unique_ptr<RunningProgram>> runs;
  for (int seed = 1; seed <= kRuns; ++seed)
    runs.push_back(std::make_unique<RunningProgram>(
        together.command(early_stop(seed, together / std::to_string(seed))), ""));
  for (const auto& run : runs) {
    CHECK(run->wait().code == 0);
  }
  for (int seed = 1; seed <= kRuns; ++seed) {
    INFO("seed " << seed);
    CHECK((read_text(together / std::to_string(seed)) == read_text(alone / std::to_string(seed))));
  }
  // Every snapshot is that of one run.
  int snapshots = 0;
  for (const auto& entry : fs::directory_iterator(together.path())) {
    if (!entry.is_directory()) continue;
    ++snapshots;
    const auto manifest =
        nlohmann::json::parse(read_text((entry.path() / "manifest.json").string()));
    INFO(entry.path());
    CHECK((weights_of(entry.path()) ==
           weights_of(alone / fmt::format("{}_{}", manifest["seed"].get<std::string>(),
                                          manifest["iteration"].get<int>()))));
  }
  CHECK(snapshots >= 2);
  CHECK(hidden_files(together.path()) == Words{});
}

TEST_CASE("a place that a live run writes to is refused, by the name of its process") {
  const SmallRun run;
  const std::vector<Words> places = {{"--save", run / "checkpoint"},
                                     {"--export", run / "weights"},
                                     {"--metrics", run / "m.jsonl"},
                                     {"--report", run / "r.html"},
                                     {"--tensorboard", run / "events"}};
  Words all = {"--set", kEndless, "--set", "solver.snapshot=900000000"};
  for (const Words& place : places) all.insert(all.end(), place.begin(), place.end());
  for (const int ending : {SIGINT, SIGKILL}) {
    RunningProgram first(run.command(all), "");
    first.await_text(run / "m.jsonl");
    for (const Words& place : places) {
      const auto second = run.train(place);
      INFO(second.err);
      CHECK(second.code == 2);
      check_contains(second.err,
                     {fmt::format("{} {}: expected a place that no other run writes to, "
                                  "found that of process ",
                                  place[0], place[1])});
    }
    // The first one has the config's prefix, too.
    const auto third = run.train({"--quiet", "--set", "solver.snapshot=150"});
    CHECK(third.code == 0);
    check_contains(third.err, {"writes snapshots as"});
    CHECK(!fs::exists(run / "snap_150"));
    first.signal(ending);
    CHECK(first.wait().code == (ending == SIGINT ? 5 : 128 + SIGKILL));
    CHECK(hidden_files(run.path()).empty() == (ending == SIGINT));
    fs::remove(run / "m.jsonl");
  }
  // The files of the killed run do not disturb others, and are removed.
  all[1] = "solver.max_iter=3";
  CHECK(run.train(all).code == 0);
  REQUIRE(run.train({"--quiet", "--set", "solver.snapshot=150"}).code == 0);
  CHECK(fs::exists(run / "snap_150"));
  CHECK(hidden_files(run.path()) == Words{});
}

TEST_CASE("a run says that its model will not be kept, and which of two files of a name it reads") {
  const SmallRun run;
  const std::string unkept = "the trained model will not be kept";
  const auto nothing = run.train({"--set", "solver.max_iter=3"});
  CHECK(nothing.code == 0);
  CHECK(nothing.err.find(unkept) < nothing.err.find("done after 3 iterations"));
  check_contains(nothing.err, {"the trained model was not kept"});
  for (const Words& kept : {Words{"--save", run / "c"}, Words{"--export", run / "w"},
                            Words{"--set", "solver.snapshot=2"}}) {
    Words arguments = {"--set", "solver.max_iter=3"};
    arguments.insert(arguments.end(), kept.begin(), kept.end());
    CHECK(run.train(arguments).err.find("kept") == std::string::npos);
  }

  fs::create_directory(run / "work");
  const auto in_work = [&](const Words& more) {
    return run_program(run.command(more), run / "work");
  };
  const std::string warned = "source: " + run / "train.bin" + " of the config's folder is taken";
  CHECK(in_work({"--set", "solver.max_iter=3"}).err.find(warned) == std::string::npos);
  write_text(run / "work/train.bin", small_samples(64, 9));
  const auto both = in_work({"--quiet", "--set", "solver.max_iter=3"});
  check_contains(both.err, {warned});
  CHECK(in_work({"--check"}).out.find(warned) != std::string::npos);
  // An input that is only there is taken from there; outputs stay with the config.
  fs::remove(run / "train.bin");
  const auto from_work = in_work({"--set", "solver.max_iter=3", "--set", "solver.snapshot=2"});
  INFO(from_work.err);
  check_contains(from_work.err, {"training train.bin of 64 samples"});
  CHECK(fs::exists(run / "snap_2"));
}

TEST_CASE("a checkpoint's place that cannot be replaced is refused before training") {
  const SmallRun run;
  fs::create_directory(run / "work");
  const auto here = run_program(run.command({"--save", "."}), run / "work");
  CHECK(here.code == 3);
  check_contains(here.err, {".: expected a directory that can be replaced, found the working"});
  CHECK(here.err.find("training ") == std::string::npos);
  const auto mounted = run.train({"--save", "/proc"});
  CHECK(mounted.code == 3);
  check_contains(mounted.err, {"found one where a file system is mounted"});
}

}  // namespace hlite::test
