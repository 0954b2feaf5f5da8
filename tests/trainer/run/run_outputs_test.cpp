#include "hugectr_lite/trainer/run/run_outputs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "hugectr_lite/core/error.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::trainer {
namespace {

TensorRef of_size(int64_t elements) { return {.name = "w", .shape = {elements}}; }

struct Place {
  test::SmallRun run;
  std::unique_ptr<config::TrainConfig> config;
  explicit Place(const std::vector<std::string>& changes = {})
      : config(config::load_train_config(run / "config.json", changes)) {}
};

}  // namespace

TEST_CASE("what a run will write must fit its file system, as far as that is known") {
  constexpr int64_t kHuge = int64_t{1} << 50;
  const Place place;
  const std::vector<TensorRef> huge = {of_size(kHuge)}, none;
  const auto problem = [&](const Options& options, int64_t last) {
    const RunOutputs outputs(*place.config, options);
    return test::message_of<FileError>([&] { outputs.check_free_space(huge, none, 0, last); });
  };
  const std::string save = place.run / "c", exported = place.run / "w";
  test::check_contains(problem({.save = save}, 100),
                       {place.run.path() + ": expected 4503599.6 GB of free space", "GB"});
  test::check_contains(problem({.export_path = exported}, 100), {"4503599.6 GB"});
  test::check_contains(problem({.export_path = exported, .save = save}, 100), {"9007199.3 GB"});
  test::check_contains(problem({}, 1000000), {"4503599.6 GB"});  // a snapshot
  const Options nothing;
  const RunOutputs outputs(*place.config, nothing);
  outputs.check_free_space(huge, none, 0, 100);  // writes nothing
  const Options small = {.save = save};
  RunOutputs(*place.config, small)
      .check_free_space(std::vector<TensorRef>{of_size(10)}, none, 0, 100);
}

TEST_CASE("a link that somebody else has planted is refused before training, by each option") {
  if (geteuid() != 0) return;  // only root can give a link to another user
  const Place place;
  const std::string shared = place.run / "shared", planted = shared + "/planted";
  std::filesystem::create_directory(shared);
  REQUIRE(chmod(shared.c_str(), 01777) == 0);
  std::filesystem::create_symlink(place.run / "victim", planted);
  REQUIRE(lchown(planted.c_str(), 65534, 65534) == 0);
  Options options[4];
  options[0].metrics = options[1].mllog = options[2].report = options[3].export_path = planted;
  for (Options& option : options) {
    option.check = true;
    test::check_contains(
        test::message_of<ConfigError>([&] { RunOutputs(*place.config, option); }),
        {planted + ": expected a place that can be written", "found a link of user 65534"});
  }
  const Options saves = {.save = planted, .check = true};
  test::check_contains(test::message_of<ConfigError>([&] { RunOutputs(*place.config, saves); }),
                       {planted, "found a link of user 65534"});
  CHECK(!std::filesystem::exists(place.run / "victim"));
}

TEST_CASE("a run does not write over what it reads") {
  Place place({"layers.data.test_source=test.bin"});
  const std::string folder = place.run.path();
  const auto& path = [&](const char* name) { return place.run / name; };
  const auto text = [&](const char* name) { return test::read_text(path(name)); };
  test::write_text(path("test.bin"), "x");
  test::write_text(path("init"), "x");
  std::filesystem::create_directory(path("checkpoint"));
  test::write_text(path("checkpoint/weights.safetensors"), "x");
  test::write_text(path("manifest.json"), R"({"format": "hugectr_lite raw", "version": 1,
    "tool": "csv_prep 0.1.0", "dense_dim": 2, "slot_size_array": [40, 5, 300],
    "columns": [{"name": "a", "rows": 40, "distinct": 40}, {"name": "b", "rows": 5, "distinct": 5},
                {"name": "c", "rows": 300, "distinct": 300}],
    "files": {"train": {"name": "train.bin", "rows": 500}}})");
  std::filesystem::create_symlink("eval.bin", path("link"));
  const std::string config = text("config.json");
  struct Case {
    const char *file, *input;
  };
  for (const Case& c : {Case{"config.json", "--config"},
                        {"train.bin", "source"},
                        {"link", "eval_source"},
                        {"test.bin", "test_source"},
                        {"manifest.json", "manifest of source"},
                        {"init", "--init"},
                        {"checkpoint", "--resume"},
                        {"checkpoint/weights.safetensors", "--resume"}}) {
    for (const char* option : {"--metrics", "--mllog", "--report", "--export", "--save"}) {
      INFO(option << " " << c.file);
      Options options{.config = path("config.json"),
                      .init = path("init"),
                      .resume = path("checkpoint"),
                      .metrics = path("free")};
      (option == std::string("--metrics")  ? options.metrics
       : option == std::string("--mllog")  ? options.mllog
       : option == std::string("--report") ? options.report
       : option == std::string("--export") ? options.export_path
                                           : options.save) = folder + "/./" + c.file;
      if (options.save == folder + "/./checkpoint") {  // which is none here
        CHECK_THROWS_AS(RunOutputs(*place.config, options), DataError);
        continue;
      }
      test::check_contains(
          test::message_of<ConfigError>([&] { const RunOutputs outputs(*place.config, options); }),
          {fmt::format("{} {}/./{}: expected a place of its own, found the input {} {}", option,
                       folder, c.file, c.input, folder)});
      CHECK_FALSE(std::filesystem::exists(path(".free.lock")));
    }
  }
  CHECK(text("config.json") == config);
}

TEST_CASE("a device or pipe is written to by as many runs as want to") {
  const Place place;
  REQUIRE(mkfifo((place.run / "fifo").c_str(), 0600) == 0);
  for (const std::string& path : {std::string("/dev/null"), place.run / "fifo"}) {
    const Options streams{.metrics = path, .mllog = path};
    const RunOutputs first(*place.config, streams), second(*place.config, streams);
    for (const Options& options : {Options{.export_path = path}, Options{.report = path}})
      test::check_contains(
          test::message_of<ConfigError>([&] { const RunOutputs none(*place.config, options); }),
          {path + ": expected the name of a file, found a device or pipe"});
  }
  CHECK_FALSE(std::filesystem::exists("/dev/.null.lock"));
  CHECK_FALSE(std::filesystem::exists(place.run / ".fifo.lock"));
}

TEST_CASE("the folders above a checkpoint and a chain of deltas are made, not by a check") {
  const Place place;
  const std::string save = place.run / "of/this/model/", deltas = place.run / "and/that/chain";
  RunOutputs(*place.config, Options{.save = save, .check = true});
  CHECK_FALSE(std::filesystem::exists(place.run / "of"));
  const Options options{.save = save, .save_delta = deltas};
  const RunOutputs outputs(*place.config, options);
  CHECK(std::filesystem::is_directory(place.run / "of/this"));
  CHECK(std::filesystem::is_directory(place.run / "and/that"));
}

TEST_CASE("a check of a run makes no folder for its events") {
  const Place place;
  const std::string folder = place.run / "events";
  const Options check{.tensorboard = folder + "/of/this", .check = true},
      run{.tensorboard = folder + "/of/this"};
  RunOutputs(*place.config, check);
  CHECK_FALSE(std::filesystem::exists(folder));
  RunOutputs(*place.config, run);
  CHECK(std::filesystem::is_directory(folder + "/of/this"));
  test::write_text(place.run / "file", "x");
  test::check_contains(test::message_of<Error>([&] {
                         const Options none{.tensorboard = place.run / "file/a", .check = true};
                         RunOutputs(*place.config, none);
                       }),
                       {"--tensorboard"});
}

TEST_CASE("a second run of a process has a snapshot prefix of its own while the first one lives") {
  const Place place;
  const Options options;
  {
    RunOutputs first(*place.config, options), second(*place.config, options),
        third(*place.config, options);
    CHECK(first.snapshot("10") == place.run / "snap_10");
    const std::string own = second.snapshot("10"), other = third.snapshot("10");
    CHECK(own.starts_with(place.run / "snap_run"));
    CHECK(other.starts_with(place.run / "snap_run"));
    CHECK(own != other);
  }
  RunOutputs next(*place.config, options);
  CHECK(next.snapshot("20") == place.run / "snap_20");
}

TEST_CASE("scratch files lie next to the model that is written, else among temporary files") {
  const Place place;
  const Options save{.save = place.run / "model/"}, exports{.export_path = place.run / "w"}, none;
  for (const Options* options : {&save, &exports}) {
    const RunOutputs outputs(*place.config, *options);
    const std::string one = outputs.scratch("best"), other = outputs.scratch("best");
    CHECK(one.starts_with(place.run / ".hlite_"));
    CHECK(one != other);
  }
  const RunOutputs outputs(*place.config, none);
  CHECK(std::filesystem::path(outputs.scratch("best")).parent_path() ==
        std::filesystem::temp_directory_path());
  const Place stops({R"(solver.early_stop={"patience":1})"});
  setenv("TMPDIR", "/no/such/folder", 1);
  const std::string message =
      test::message_of<ConfigError>([&] { RunOutputs(*stops.config, none); });
  unsetenv("TMPDIR");
  test::check_contains(message, {"TMPDIR: expected a directory", "solver.early_stop"});
}

TEST_CASE("a model is kept by a checkpoint, exported weights or a snapshot") {
  const auto keeps = [](const std::vector<std::string>& changes, const char* save) {
    const Place place(changes);
    const Options options{.save = *save ? place.run / save : ""};
    return RunOutputs(*place.config, options).keeps_model(10, 200);
  };
  CHECK(!keeps({}, ""));
  CHECK(keeps({}, "c"));
  CHECK(keeps({"solver.snapshot=200"}, ""));
  CHECK(!keeps({"solver.snapshot=201"}, ""));
  CHECK(!keeps({R"(solver.early_stop={"patience":1})"}, ""));
}

}  // namespace hlite::trainer
