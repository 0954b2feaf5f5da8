#include "hugectr_lite/core/file_lock.h"

#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <optional>

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::test {

TEST_CASE("a path is claimed once, by any name, and a refused claim names the holder") {
  const TemporaryDirectory dir;
  std::filesystem::create_directory(dir / "run");
  std::filesystem::create_directory_symlink(dir / "run", dir / "link");
  {
    const FileLock first(dir / "run");
    REQUIRE(first.held());
    CHECK(std::filesystem::exists(dir / ".run.lock"));
    for (const char* name : {"run", "run/", "./run", "link"}) {
      const FileLock second(dir / name);
      CHECK(!second.held());
      CHECK(second.holder() == fmt::format("process {} on host {}", getpid(), host_name()));
    }
    CHECK(FileLock(dir / "other").held());
  }
  CHECK(!std::filesystem::exists(dir / ".run.lock"));
  CHECK(FileLock(dir / "run").held());
}

TEST_CASE("a link in the place of the lock file is not followed") {
  const TemporaryDirectory dir;
  write_text(dir / "precious", "text");
  std::filesystem::create_symlink(dir / "precious", dir / ".run.lock");
  check_contains(message_of<FileError>([&] { FileLock(dir / "run"); }),
                 {dir / ".run.lock", "cannot create"});
  CHECK(read_text(dir / "precious") == "text");
}

TEST_CASE("the claim of a process that is killed ends with it") {
  const TemporaryDirectory dir;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const FileLock lock(dir / "run");
    write_text(dir / "claimed", "");
    for (;;) pause();
  }
  while (!std::filesystem::exists(dir / "claimed")) usleep(1000);
  CHECK(FileLock(dir / "run").holder() == fmt::format("process {} on host {}", child, host_name()));
  kill(child, SIGKILL);
  REQUIRE(waitpid(child, nullptr, 0) == child);
  CHECK(std::filesystem::exists(dir / ".run.lock"));  // not removed
  {
    const FileLock lock(dir / "run");
    CHECK(lock.held());
  }
  CHECK(!std::filesystem::exists(dir / ".run.lock"));
}

TEST_CASE("a claim waits for the child of a process that is killed, and for no live one") {
  const TemporaryDirectory dir;
  const pid_t parent = fork();
  REQUIRE(parent >= 0);
  if (parent == 0) {
    const FileLock lock(dir / "run");
    if (fork() == 0) {
      usleep(300'000);
      _exit(0);
    }
    write_text(dir / "claimed", "");
    for (;;) pause();
  }
  while (!std::filesystem::exists(dir / "claimed")) usleep(1000);
  CHECK(!FileLock(dir / "run").held());
  kill(parent, SIGKILL);
  REQUIRE(waitpid(parent, nullptr, 0) == parent);
  CHECK(FileLock(dir / "run").held());
}

TEST_CASE("a claim where nothing can be created is an error that names the place") {
  const TemporaryDirectory dir;
  write_text(dir / "file", "");
  check_contains(message_of<FileError>([&] { FileLock lock(dir / "file/below"); }),
                 {"file/.below.lock: cannot create"});
}

}  // namespace hlite::test
