#include "hugectr_lite/core/interrupt.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <thread>

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

// Restores the handler of a signal after a test.
class Restored {
 public:
  explicit Restored(int number) : number_(number) { sigaction(number, nullptr, &before_); }
  ~Restored() { sigaction(number_, &before_, nullptr); }

 private:
  int number_;
  struct sigaction before_ = {};
};

}  // namespace

TEST_CASE("interrupt, termination, a terminal that is gone and SIGUSR1 ask to stop") {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    INFO(number);
    const InterruptGuard guard;
    CHECK_FALSE(InterruptGuard::requested());
    std::raise(number);
    CHECK(InterruptGuard::requested());
  }
}

TEST_CASE("a request is there until the outermost guard ends") {
  {
    const InterruptGuard outer;
    std::raise(SIGINT);
    {
      const InterruptGuard inner;
      CHECK(InterruptGuard::requested());
    }
    CHECK(InterruptGuard::requested());
  }
  CHECK_FALSE(InterruptGuard::requested());
  const InterruptGuard next;
  CHECK_FALSE(InterruptGuard::requested());
}

TEST_CASE("under nohup a terminal that is gone is no matter") {
  const Restored before(SIGHUP);
  std::signal(SIGHUP, SIG_IGN);
  const InterruptGuard guard;
  std::raise(SIGHUP);
  CHECK_FALSE(InterruptGuard::requested());
}

TEST_CASE("a wait for a pipe ends with its bytes, its end, or a signal to any thread",
          "[threads]") {
  const InterruptGuard guard;
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  std::thread writer([&] { REQUIRE(write(ends[1], "x", 1) == 1); });
  wait_readable(ends[0], "p");
  writer.join();
  char byte = 0;
  REQUIRE(read(ends[0], &byte, 1) == 1);
  std::thread other([] { std::raise(SIGTERM); });  // which raises it for its own thread
  CHECK(message_of<InterruptedError>([&] { wait_readable(ends[0], "p"); }) ==
        "p: interrupted while waiting for more of it");
  other.join();
  close(ends[1]);
  wait_readable(ends[0], "p");  // at its end
  close(ends[0]);
}

TEST_CASE("a closed pipe is an error of writing, and the end outside of the guard") {
  const Restored before(SIGPIPE);
  std::signal(SIGPIPE, SIG_DFL);
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  close(ends[0]);
  {
    const BrokenPipeGuard guard;
    errno = 0;
    CHECK(write(ends[1], "x", 1) == -1);
    CHECK(errno == EPIPE);
  }
  struct sigaction now {};
  sigaction(SIGPIPE, nullptr, &now);
  CHECK(now.sa_handler == SIG_DFL);
  close(ends[1]);
}

}  // namespace hlite::test
