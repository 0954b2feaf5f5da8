// Places that are written: links that others plant, and temporary places and their removal.
#include "hugectr_lite/core/output_place.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
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

void write_through(const std::string& path) {
  WriteFile file(path);
  file.write(std::as_bytes(std::span("new", 3)));
  file.close();
}

}  // namespace

TEST_CASE("a link of somebody else's in a folder that others can write is not followed") {
  if (geteuid() != 0) return;  // only root can give a link to another user
  constexpr uid_t kOther = 65534;
  const TemporaryDirectory folder;
  const std::string shared = folder / "shared", victim = folder / "victim";
  fs::create_directory(shared);
  write_text(victim, "precious");
  fs::create_symlink(victim, shared + "/planted");
  fs::create_symlink(folder / "absent", shared + "/dangling");
  fs::create_symlink("planted", shared + "/own");  // leads to it
  for (const char* name : {"/planted", "/dangling"})
    REQUIRE(lchown((shared + name).c_str(), kOther, kOther) == 0);
  for (const mode_t mode : {01777, 0777, 0775}) {
    REQUIRE(chmod(shared.c_str(), mode) == 0);
    for (const char* name : {"/planted", "/dangling", "/own"}) {
      INFO(name);
      const std::string path = shared + name;
      for (const std::string& message :
           {message_of<FileError>([&] { write_through(path); }),
            message_of<FileError>([&] { open_output(path, O_WRONLY | O_CREAT | O_APPEND); }),
            message_of<FileError>([&] { expect_output_place(path); }),
            message_of<FileError>([&] { expect_output_place(path + "/"); })})
        check_contains(message, {shared, "found a link of user 65534"});
    }
  }
  CHECK(read_text(victim) == "precious");
  CHECK(!fs::exists(folder / "absent"));
  // Nobody but its owner could have put it there.
  REQUIRE(chmod(shared.c_str(), 0755) == 0);
  write_through(shared + "/planted");
  CHECK(read_text(victim) == "new");
}

TEST_CASE("links of this user's are followed, to files that are there or not") {
  const TemporaryDirectory folder;
  const std::string shared = folder / "shared";
  fs::create_directory(shared);
  REQUIRE(chmod(shared.c_str(), 01777) == 0);
  fs::create_symlink(folder / "absolute", shared + "/a");
  fs::create_symlink("../relative", shared + "/r");
  fs::create_symlink("a", shared + "/second");
  write_through(shared + "/a");
  write_through(shared + "/r");
  CHECK(read_text(folder / "absolute") == "new");
  CHECK(read_text(folder / "relative") == "new");
  write_text(folder / "absolute", "longer than before");
  write_through(shared + "/second");
  CHECK(read_text(folder / "absolute") == "new");
  CHECK(fs::is_symlink(shared + "/second"));
  CHECK(open_output("/dev/stdout", O_WRONLY).get() >= 0);
  CHECK(open_output("/dev/null", O_WRONLY | O_CREAT | O_TRUNC).get() >= 0);
  fs::create_symlink("b", shared + "/c");
  fs::create_symlink("c", shared + "/b");
  check_contains(message_of<FileError>([&] { open_output(shared + "/b", O_WRONLY); }),
                 {"links that lead round in a circle"});
}

TEST_CASE("what only another user can replace in a sticky folder is refused before it is written") {
  if (geteuid() != 0) return;  // only root can be another user
  const TemporaryDirectory folder;
  REQUIRE(chmod((folder / ".").c_str(), 01777) == 0);
  write_text(folder / "theirs", "");
  REQUIRE(chown((folder / "theirs").c_str(), 65533, 65533) == 0);
  CHECK_NOTHROW(expect_output_place(folder / "theirs"));  // root may
  const pid_t child = fork();
  if (child == 0) {
    if (setresuid(65534, 65534, 65534) != 0) _exit(2);
    try {
      expect_output_place(folder / "theirs");
      _exit(1);
    } catch (const FileError&) {
      _exit(0);
    }
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("temporary places are new, and what lies under names of this process is in no way") {
  const TemporaryDirectory folder;
  const std::string place = folder / "m", victim = folder / "victim";
  write_text(victim, "precious");
  for (const std::string& name : {place + ".tmp", fmt::format("{}.tmp.{}", place, getppid())})
    fs::create_symlink(victim, name);
  const std::string file = temporary_file(place);
  CHECK(fs::is_regular_file(fs::symlink_status(file)));
  CHECK(file.starts_with(fmt::format("{}.tmp.{}.", place, getpid())));
  const std::string directory = temporary_directory(folder / "d");
  CHECK(fs::is_directory(directory));
  CHECK(temporary_name(place) != temporary_name(place));
  CHECK(read_text(victim) == "precious");
  check_contains(message_of<FileError>([&] { temporary_file(folder / "none/m"); }),
                 {"none/m.tmp.", ": cannot create: No such file"});
}

TEST_CASE("temporary places of processes that have ended are removed, others stay") {
  const TemporaryDirectory folder;
  const std::string place = folder / "run_300";
  const std::string stale[] = {fmt::format("{}.tmp.{}", place, ended_process()),
                               fmt::format("{}.tmp.{}", place, getpid()), temporary_name(place)};
  const std::string kept[] = {place,                                       // complete
                              fmt::format("{}.tmp.{}", place, getppid()),  // of a process that runs
                              fmt::format("{}.tmp.{}.0123456789abcdef", place, getppid()),
                              fmt::format("{}.tmp.{}.old", place, getpid()),
                              place + ".tmp.",
                              place + ".tmp.0",
                              place + ".tmp.-5",
                              place + ".tmp.12x",                           // of no process
                              fmt::format("{}0.tmp.{}", place, getpid())};  // another place
  for (const std::string& dir : stale) fs::create_directories(dir + "/inside");
  for (const std::string& dir : kept) fs::create_directories(dir);
  remove_stale(place);
  for (const std::string& dir : stale) {
    INFO(dir);
    CHECK(!fs::exists(dir));
  }
  for (const std::string& dir : kept) {
    INFO(dir);
    CHECK(fs::exists(dir));
  }
  remove_stale(folder / "none/run_1");  // a folder that is not there
}

TEST_CASE("a file is replaced as a whole or not at all, and a link under its name goes") {
  const TemporaryDirectory folder;
  const std::string place = folder / "a";
  write_text(folder / "other", "theirs");
  fs::create_symlink(folder / "other", place);
  replace_file(place, "old");
  CHECK(read_text(place) == "old");
  CHECK(read_text(folder / "other") == "theirs");
  CHECK_THROWS(replace_file(place, [](const std::string& temporary) {
    write_text(temporary, "half");
    throw FileError("full");
  }));
  CHECK(read_text(place) == "old");
  fs::create_directories(folder / "taken/full");
  CHECK_THROWS_AS(replace_file(folder / "taken", "new"), FileError);
  CHECK(folder.entries() == 3);
}

}  // namespace hlite::test
