#include "hugectr_lite/comm/wait_limit.h"

#include <cstdlib>
#include <thread>

#include "hugectr_lite/comm/communicator.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/program.h"

using namespace hlite;
using namespace std::chrono_literals;

TEST_CASE("the limit of waits is a number of seconds, ten minutes without") {
  CHECK(comm::comm_time_limit() == 10min);
  setenv("HLITE_COMM_TIMEOUT", "0.25", 1);
  CHECK(comm::comm_time_limit() == 250ms);
  for (const char* wrong : {"soon", "0", "-3", "3s", "nan"}) {
    setenv("HLITE_COMM_TIMEOUT", wrong, 1);
    test::check_contains(test::message_of<comm::CommError>([] { (void)comm::comm_time_limit(); }),
                         {"HLITE_COMM_TIMEOUT", std::string("'") + wrong + "'"});
  }
  unsetenv("HLITE_COMM_TIMEOUT");
}

TEST_CASE("a wait that is longer than the limit says who waits for whom") {
  setenv("HLITE_COMM_TIMEOUT", "0.01", 1);
  comm::Wait wait;
  unsetenv("HLITE_COMM_TIMEOUT");
  CHECK_FALSE(wait.too_long(1h));
  std::this_thread::sleep_for(20ms);
  CHECK(wait.too_long());
  CHECK(test::message_of<TimeoutError>([&] { wait.check(3, comm::for_ranks(std::vector{1})); }) ==
        "rank 3 has waited 0.01 s for rank 1 (HLITE_COMM_TIMEOUT)");
  CHECK(comm::for_ranks(std::vector{1, 4}) == "for ranks 1, 4");
}

// The process was stopped in between: it is no wait for others.
TEST_CASE("a long time between two looks at a wait counts for a second") {
  comm::Wait wait;
  std::this_thread::sleep_for(1200ms);
  CHECK(wait.so_far() == 1s);
}

TEST_CASE("threads name the rank that does not come, and their process ends", "[slow]") {
  const auto result = test::run_program(
      {"/usr/bin/env", "HLITE_LIMIT=1", HLITE_COMM_RANKS, "hang", "LocalFirst", "3"});
  CHECK(result.code == kExitDevice);
  // On a busy machine another one may be as late.
  test::check_contains(result.err, {"has waited 1 s for rank", " 2 (HLITE_COMM_TIMEOUT)"});
}
