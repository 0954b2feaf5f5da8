// Temporary places of checkpoints: their names, and which of them are removed.
#include "hugectr_lite/checkpoint/temporary_place.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/catch.h"
#include "tests/support/temporary_directory.h"

namespace hlite::test {
namespace {

namespace fs = std::filesystem;

// Returns the id of a process that has ended.
pid_t ended_process() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  REQUIRE(child > 0);
  REQUIRE(waitpid(child, nullptr, 0) == child);
  return child;
}

}  // namespace

TEST_CASE("temporary places of processes that have ended are removed, others stay") {
  const TemporaryDirectory folder;
  const std::string place = folder / "run_300";
  CHECK(checkpoint::temporary_name(place) == fmt::format("{}.tmp.{}", place, getpid()));
  const std::string stale[] = {fmt::format("{}.tmp.{}", place, ended_process()),
                               checkpoint::temporary_name(place)};
  const std::string kept[] = {place,                                       // complete
                              fmt::format("{}.tmp.{}", place, getppid()),  // of a process that runs
                              place + ".tmp.",
                              place + ".tmp.0",
                              place + ".tmp.-5",
                              place + ".tmp.12x",                           // of no process
                              fmt::format("{}0.tmp.{}", place, getpid())};  // another place
  for (const std::string& dir : stale) fs::create_directories(dir + "/inside");
  for (const std::string& dir : kept) fs::create_directories(dir);
  checkpoint::remove_stale(place);
  for (const std::string& dir : stale) {
    INFO(dir);
    CHECK(!fs::exists(dir));
  }
  for (const std::string& dir : kept) {
    INFO(dir);
    CHECK(fs::exists(dir));
  }
  checkpoint::remove_stale(folder / "none/run_1");  // a folder that is not there
}

}  // namespace hlite::test
