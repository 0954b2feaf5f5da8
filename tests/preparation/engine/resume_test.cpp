// Preparations that are killed, interrupted, run out of disk, or find their inputs changed.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/preparation/criteo/criteo_prep.h"
#include "hugectr_lite/preparation/engine/work_folder.h"
#include "tests/preparation/criteo/criteo_oracle.h"
#include "tests/preparation/io/gzip_file.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_directory.h"

namespace hlite::prep {
namespace {

namespace fs = std::filesystem;
using test::check_contains;
using test::message_of;
using test::read_text;
using test::TemporaryDirectory;
using test::write_text;

constexpr int kKilled = 99;

// Two training files, one of them compressed, and a validation file.
struct Inputs {
  TemporaryDirectory folder;
  Inputs() {
    write_text(folder / "a.tsv", awkward_rows(21, 150));
    test::write_gzip(folder / "b.gz", awkward_rows(22, 90));
    write_text(folder / "v.tsv", awkward_rows(23, 40));
  }
  [[nodiscard]] CriteoPrepOptions options(const std::string& out, int threads = 2) const {
    CriteoPrepOptions options;
    options.train = {folder / "a.tsv", folder / "b.gz"};
    options.val = {folder / "v.tsv"};
    options.min_count = 2;
    options.output.folder = folder / out;
    options.run.threads = threads;
    options.run.quiet = true;
    options.run.block_bytes = 6000;
    options.run.checkpoint_seconds = 0;
    return options;
  }
  [[nodiscard]] std::string result(const std::string& out) const {
    std::string all;
    for (const char* name : {"train.bin", "val.bin", "key_counts.bin", "manifest.json"})
      all += read_text(folder / (out + "/" + name));
    return all;
  }
  // Names in the folder of results, but for the work folder.
  [[nodiscard]] std::set<std::string> names(const std::string& out) const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder / out))
      names.insert(entry.path().filename());
    for (const char* hidden : {".prep", ".prep.lock", ".complete"}) names.erase(hidden);
    return names;
  }
};

// Runs in a process of its own, where `at_point(n, name)` is called for the n-th point, from 1 on,
// and returns its exit code.
template <typename AtPoint>
int run_in_child(CriteoPrepOptions options, AtPoint&& at_point) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::atomic<int64_t> points{0};
    options.run.at_point = [&](std::string_view name) { at_point(++points, name); };
    try {
      const InterruptGuard interrupts;
      criteo_prep(options);
      ::_exit(0);
    } catch (const Error& error) {
      ::_exit(error.exit_code());
    }
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

int run_killed_at(const CriteoPrepOptions& options, int64_t last_point) {
  return run_in_child(options, [=](int64_t point, std::string_view) {
    if (point == last_point) ::_exit(kKilled);
  });
}

// How far the n-th point is depends on how threads take turns; that there is a state does not.
// Killed so many points after the n-th state.
int run_killed_once_saved(const CriteoPrepOptions& options, int states = 1, int points_after = 0) {
  std::atomic<int> saved{0}, passed{0};
  return run_in_child(options, [&](int64_t, std::string_view name) {
    if (name == "saved") ++saved;
    if (saved >= states && passed++ == points_after) ::_exit(kKilled);
  });
}

TEST_CASE("a preparation that is killed anywhere goes on to the same bytes", "[threads]") {
  const Inputs inputs;
  // Columns of blocks are as many in each run; how often a run saves depends on how threads take
  // turns.
  std::atomic<int64_t> columns{0};
  CriteoPrepOptions whole = inputs.options("whole");
  whole.run.at_point = [&](std::string_view name) { columns += name == "column" ? 1 : 0; };
  criteo_prep(whole);
  CHECK(columns >= 200);
  const std::string expected = inputs.result("whole");
  int64_t point = 1;
  for (;; point += 1 + point / (test::kSanitized ? 3 : 7)) {
    INFO("killed at point " << point);
    const std::string out = "out" + std::to_string(point);
    const int code = run_killed_at(inputs.options(out, 1 + static_cast<int>(point % 3)), point);
    if (code == 0) break;
    REQUIRE(code == kKilled);
    for (const std::string& name : inputs.names(out))
      CHECK((name.find(".tmp.") != std::string::npos ||
             fs::exists(inputs.folder / (out + "/manifest.json"))));
    criteo_prep(inputs.options(out, 1 + static_cast<int>((point + 1) % 3)));
    CHECK((inputs.result(out) == expected));
    CHECK(inputs.names(out) ==
          std::set<std::string>{"train.bin", "val.bin", "key_counts.bin", "manifest.json"});
    CHECK_FALSE(fs::exists(inputs.folder / (out + "/.prep")));
    fs::remove_all(inputs.folder / out);
  }
  CHECK(point > columns);
}

TEST_CASE("a preparation that is complete ends with success again, whatever is left of its work",
          "[threads]") {
  const Inputs inputs;
  criteo_prep(inputs.options("whole"));
  const std::string expected = inputs.result("whole");
  for (const std::string_view place : {"published", "noted", "removed"}) {
    INFO("killed where it has " << place);
    const CriteoPrepOptions options = inputs.options("out");
    REQUIRE(run_in_child(options, [&](int64_t, std::string_view name) {
              if (name == place) ::_exit(kKilled);
            }) == kKilled);
    if (place == "noted")  // the state goes first
      for (const char* state : {"done.cbor", "publishing"})
        fs::remove(inputs.folder / ("out/.prep/" + std::string(state)));
    for (int repeat = 0; repeat < 2; ++repeat) {
      criteo_prep(options);
      CHECK((inputs.result("out") == expected));
      CHECK_FALSE(fs::exists(inputs.folder / "out/.prep"));
    }
    fs::remove_all(inputs.folder / "out");
  }
  // Rows of one pass that were saved now and then, and not since the first file.
  CriteoPrepOptions rarely = inputs.options("rarely");
  rarely.min_count = 0;
  criteo_prep(rarely);
  const std::string rows = inputs.result("rarely");
  fs::remove_all(inputs.folder / "rarely");
  rarely.run.checkpoint_seconds = 1;
  REQUIRE(run_in_child(rarely, [waited = false](int64_t, std::string_view name) mutable {
            if (name == "rows" && !std::exchange(waited, true)) ::usleep(1'100'000);
            if (name == "published") ::_exit(kKilled);
          }) == kKilled);
  criteo_prep(rarely);
  CHECK((inputs.result("rarely") == rows));
  // Results of other options, or that have changed, are as before.
  CriteoPrepOptions other = inputs.options("whole");
  other.min_count += 1;
  CHECK_THROWS_AS(criteo_prep(other), ConfigError);
  fs::resize_file(inputs.folder / "whole/train.bin", 4);
  CHECK_THROWS_AS(criteo_prep(inputs.options("whole")), ConfigError);
  CriteoPrepOptions again = inputs.options("whole");
  again.run.force = true;
  criteo_prep(again);
  CHECK((inputs.result("whole") == expected));
}

TEST_CASE("a preparation in one pass that is killed anywhere goes on to the same bytes",
          "[threads]") {
  const Inputs inputs;
  const auto with = [&](int variant, const std::string& out, int threads) {
    CriteoPrepOptions options = inputs.options(out, threads);
    options.min_count = 0;
    options.save_vocabulary = variant == 0;  // many files, hence few places
    options.output.shuffle = variant == 1;
    options.hash = variant == 2 ? 50 : 0;
    return options;
  };
  const auto all = [&](const std::string& out, int variant) {
    std::string text = inputs.result(out);
    if (variant == 0) text += read_text(inputs.folder / (out + "/vocabulary/25_C26.npy"));
    return text;
  };
  for (int variant = 0; variant < 3; ++variant) {
    const std::string name = "by_columns" + std::to_string(variant);
    CriteoPrepOptions by_columns = with(variant, name, 2);
    by_columns.run.numbering_bytes = 20000;
    std::atomic<int64_t> columns{0}, rows{0};
    by_columns.run.at_point = [&](std::string_view point) { columns += point == "column"; };
    criteo_prep(by_columns);
    CHECK(columns >= 200);
    CriteoPrepOptions whole = with(variant, "whole" + std::to_string(variant), 3);
    whole.run.at_point = [&](std::string_view point) { rows += point == "rows"; };
    criteo_prep(whole);
    CHECK(rows >= 5);
    const std::string expected = all(name, variant);
    CHECK((all("whole" + std::to_string(variant), variant) == expected));
    int64_t point = 1;
    for (;; point += 1 + point / (test::kSanitized || variant == 0 ? 2 : 8)) {
      INFO("variant " << variant << " killed at point " << point);
      const std::string out = "one" + std::to_string(point);
      const int code = run_killed_at(with(variant, out, 1 + static_cast<int>(point % 3)), point);
      if (code == 0) break;
      REQUIRE(code == kKilled);
      criteo_prep(with(variant, out, 1 + static_cast<int>((point + 1) % 3)));
      CHECK((all(out, variant) == expected));
      CHECK_FALSE(fs::exists(inputs.folder / (out + "/.prep")));
      fs::remove_all(inputs.folder / out);
    }
    CHECK(point > 10);
    fs::remove_all(inputs.folder / ("one" + std::to_string(point)));
  }
}

TEST_CASE("a preparation that is killed again and again arrives", "[threads]") {
  const Inputs inputs;
  criteo_prep(inputs.options("whole"));
  // Each of the 26 slots is saved once, by one thread at a time and with a point before it: a run
  // that gets two states further, and then seven points, saves at most five of them.
  int runs = 0;
  while (run_killed_once_saved(inputs.options("often"), 2, 7) == kKilled) REQUIRE(++runs < 100);
  CHECK(runs >= 5);
  CHECK((inputs.result("often") == inputs.result("whole")));
}

TEST_CASE("Ctrl-C ends a preparation with code 5, and the same command goes on", "[threads]") {
  const Inputs inputs;
  criteo_prep(inputs.options("whole"));
  for (const int64_t when : {1, 100, 300, 500, 600}) {
    const std::string out = "out" + std::to_string(when);
    const int code = run_in_child(inputs.options(out), [=](int64_t point, std::string_view) {
      if (point == when) ::raise(SIGINT);
    });
    INFO("at point " << when);
    CHECK((code == kExitInterrupted || code == 0));
    if (code == 0) continue;
    CHECK_FALSE(fs::exists(inputs.folder / (out + "/manifest.json")));
    criteo_prep(inputs.options(out));
    CHECK((inputs.result(out) == inputs.result("whole")));
  }
}

TEST_CASE("a full disk is an error that names the file, and later the run goes on", "[threads]") {
  const Inputs inputs;
  criteo_prep(inputs.options("whole"));
  for (const rlim_t most : {100, 500, 900, 20000}) {
    const std::string out = "out" + std::to_string(most);
    const int code = run_in_child(inputs.options(out), [=](int64_t point, std::string_view) {
      if (point != 1) return;
      // The nearest thing to a full disk that a process can have for itself.
      std::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{most, most};
      ::setrlimit(RLIMIT_FSIZE, &limit);
    });
    INFO("files of " << most << " bytes");
    CHECK(code == kExitData);
    CHECK_FALSE(fs::exists(inputs.folder / (out + "/manifest.json")));
    criteo_prep(inputs.options(out));
    CHECK((inputs.result(out) == inputs.result("whole")));
  }
}

TEST_CASE("other options or inputs do not go on with an unfinished run, unless it is forgotten",
          "[threads]") {
  const Inputs inputs;
  REQUIRE(run_killed_once_saved(inputs.options("out")) == kKilled);
  CriteoPrepOptions other = inputs.options("out");
  other.min_count = 3;
  other.val.clear();
  check_contains(message_of<ConfigError>([&] { criteo_prep(other); }),
                 {"unfinished run", "min_count: 2 then, 3 now", "v.tsv", "--restart"});
  write_text(inputs.folder / "v.tsv", awkward_rows(24, 41));
  check_contains(message_of<ConfigError>([&] { criteo_prep(inputs.options("out")); }),
                 {"v.tsv has changed", "--restart"});
  CriteoPrepOptions restart = inputs.options("out");
  restart.run.restart = true;
  criteo_prep(restart);
  criteo_prep(inputs.options("whole"));
  CHECK((inputs.result("out") == inputs.result("whole")));
}

TEST_CASE("a run that got nowhere is forgotten when its options or inputs change", "[threads]") {
  const Inputs inputs;
  CriteoPrepOptions slip = inputs.options("out");
  slip.train = {inputs.folder / "a.tvs"};
  check_contains(message_of<FileError>([&] { criteo_prep(slip); }), {"a.tvs", "No such file"});
  const std::string good = read_text(inputs.folder / "a.tsv");
  write_text(inputs.folder / "a.tsv", "bad\n" + good);
  check_contains(message_of<DataError>([&] { criteo_prep(inputs.options("out")); }), {"a.tsv:1:"});
  write_text(inputs.folder / "a.tsv", good);
  criteo_prep(inputs.options("out"));
  criteo_prep(inputs.options("whole"));
  CHECK((inputs.result("out") == inputs.result("whole")));
}

TEST_CASE("after too many bad rows, the run goes on under a higher limit", "[threads]") {
  Inputs inputs;
  std::string text = awkward_rows(25, 60);
  text.insert(text.find('\n', text.size() / 2) + 1, "bad\n");
  write_text(inputs.folder / "v.tsv", text);
  check_contains(message_of<DataError>([&] { criteo_prep(inputs.options("out")); }),
                 {"v.tsv:", "expected 40"});
  CHECK(inputs.names("out").empty());
  CriteoPrepOptions tolerant = inputs.options("out");
  tolerant.run.max_bad_rows = 1;
  const data::Manifest manifest = criteo_prep(tolerant);
  CHECK(manifest.sources[2].bad_rows == 1);
  CHECK(manifest.sources[2].rows == 60);
}

TEST_CASE("a gzip file that is cut short is an error with its place, and leaves no results",
          "[threads]") {
  const Inputs inputs;
  const std::string whole = read_text(inputs.folder / "b.gz");
  write_text(inputs.folder / "b.gz", whole.substr(0, whole.size() * 2 / 3));
  check_contains(message_of<FileError>([&] { criteo_prep(inputs.options("out")); }), {"b.gz"});
  CHECK(inputs.names("out").empty());
}

TEST_CASE("two runs do not work in one folder", "[threads]") {
  const Inputs inputs;
  fs::create_directories(inputs.folder / "out");
  {
    const WorkFolder held(inputs.folder / "out");
    check_contains(message_of<FileError>([&] { criteo_prep(inputs.options("out")); }),
                   {"another run"});
  }
  criteo_prep(inputs.options("out"));
}

}  // namespace
}  // namespace hlite::prep
