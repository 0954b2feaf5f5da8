#include "hugectr_lite/core/forked_task.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_directory.h"

namespace hlite::test {

TEST_CASE("a forked task works on the memory as it was when the task began") {
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  std::vector<int> values(1 << 20, 7);
  auto task = ForkedTask::start([&] {
    char byte = 0;
    if (read(ready[0], &byte, 1) != 1) raise("no byte");
    for (const int v : values)
      if (v != 7) raise("found {}", v);
    values.assign(values.size(), 9);
    return std::string("all 7");
  });
  REQUIRE(task);
  CHECK(!task->poll());
  values.assign(values.size(), 8);
  REQUIRE(write(ready[1], "x", 1) == 1);
  const auto result = task->wait();
  CHECK(result.done);
  CHECK(result.text == "all 7");
  CHECK(values.front() == 8);
  for (const int end : ready) close(end);
}

TEST_CASE("a forked task reports why it failed, in at most a pipe's capacity") {
  const auto run = [](const std::function<std::string()>& body) {
    auto task = ForkedTask::start(body);
    REQUIRE(task);
    return task->wait();
  };
  const auto failed = run([]() -> std::string { throw DataError("no space"); });
  CHECK(!failed.done);
  CHECK(!failed.killed);
  CHECK(failed.text == "no space");
  const auto killed = run([]() -> std::string {
    for (;;) kill(getpid(), SIGKILL);
  });
  CHECK(!killed.done);
  CHECK(killed.killed);
  CHECK(killed.text.find("signal 9") != std::string::npos);
  CHECK(run([] { return std::string(1 << 20, 'x'); }).text == std::string(3072, 'x'));
}

TEST_CASE("a forked task finishes although its process group is asked to stop") {
  const TemporaryDirectory directory;
  auto task = ForkedTask::start([&] {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) kill(getpid(), signal);
    write_text(directory / "file", "whole");
    return std::string();
  });
  REQUIRE(task);
  CHECK(task->wait().done);
  CHECK(read_text(directory / "file") == "whole");
}

TEST_CASE("a forked task that is not waited for has ended with its owner") {
  const TemporaryDirectory directory;
  {
    REQUIRE(ForkedTask::start([&] {
      write_text(directory / "file", "whole");
      return std::string();
    }));
  }
  CHECK(read_text(directory / "file") == "whole");
}

// The middle one of three processes is killed while its task waits for a byte that never comes. A
// pipe that both hold reports their end.
TEST_CASE("a forked task does not outlive its process") {
  int alive[2];
  REQUIRE(pipe(alive) == 0);
  const pid_t middle = fork();
  REQUIRE(middle >= 0);
  if (middle == 0) {
    close(alive[0]);
    const auto task = ForkedTask::start([&]() -> std::string {
      if (write(alive[1], "x", 1) != 1) return "no pipe";
      for (;;) pause();
    });
    for (;;) pause();
  }
  close(alive[1]);
  char byte = 0;
  REQUIRE(read(alive[0], &byte, 1) == 1);
  REQUIRE(kill(middle, SIGKILL) == 0);
  CHECK(read(alive[0], &byte, 1) == 0);  // returns when no process has the other end
  CHECK(waitpid(middle, nullptr, 0) == middle);
  close(alive[0]);
}

}  // namespace hlite::test
