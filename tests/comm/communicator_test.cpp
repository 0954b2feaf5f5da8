#include "hugectr_lite/comm/communicator.h"

#include <atomic>
#include <mutex>

#include "hugectr_lite/comm/thread_communicator.h"
#include "tests/comm/collective_checks.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;
using comm::CommError;
using comm::Communicator;
using comm::run_ranks;

TEST_CASE("collectives move and add exactly, whatever the number of ranks") {
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8}) {
    INFO(ranks << " ranks");
    CHECK_NOTHROW(run_ranks(ranks, test::check_everything));
  }
}

TEST_CASE("no rank passes a barrier before all have come") {
  std::atomic<int> arrived{0};
  run_ranks(5, [&](Communicator& c) {
    for (int round = 1; round <= 50; ++round) {
      ++arrived;
      c.barrier();
      if (arrived < 5 * round) raise("too early");
      c.barrier();
    }
  });
  CHECK(arrived == 250);
}

TEST_CASE("a rank that fails ends the others with its reason") {
  for (const int failing : {0, 2}) {
    std::mutex mutex;
    std::vector<std::string> reasons;
    const std::string thrown = test::message_of<DataError>([&] {
      run_ranks(4, [&](Communicator& c) {
        try {
          const auto half = c.split(c.rank() / 2);
          if (c.rank() == failing) raise<DataError>("the disk is on fire");
          half->barrier();  // the other half gets through, and is stopped at the next call
          for (;;) c.barrier();
        } catch (const CommError& error) {
          const std::lock_guard lock(mutex);
          reasons.emplace_back(error.what());
          throw;
        }
      });
    });
    CHECK(thrown == "the disk is on fire");
    REQUIRE(reasons.size() == 3);
    for (const std::string& reason : reasons)
      CHECK(reason == fmt::format("rank {}: the disk is on fire", failing));
  }
}

TEST_CASE("a message larger than its receiver allows is an error on all ranks") {
  const std::string reason = test::message_of<CommError>([] {
    run_ranks(3, [](Communicator& c) {
      const std::vector<std::byte> data(10);
      const std::vector<comm::ConstBytes> send(3, comm::ConstBytes(data));
      std::vector<std::vector<std::byte>> in(3, std::vector<std::byte>(c.rank() == 1 ? 9 : 10));
      const std::vector<comm::Bytes> receive(in.begin(), in.end());
      std::vector<size_t> received(3);
      c.all_to_all_v(send, receive, received);
    });
  });
  test::check_contains(reason, {"sent 10 bytes to rank 1, which expects at most 9"});
}

TEST_CASE("ranks that disagree on a size are told so") {
  test::check_contains(test::message_of<CommError>([] {
                         run_ranks(2, [](Communicator& c) {
                           std::vector<float> v(c.rank() == 0 ? 8 : 6);
                           c.all_reduce(v, comm::AllReduce::kOneShot);
                         });
                       }),
                       {"bytes"});
}

TEST_CASE("what is sent to others is counted, what stays is not") {
  run_ranks(4, [](Communicator& c) {
    std::vector<float> v(8, 1);
    c.all_reduce(v);  // a slice of 2 to each, twice
    for (int q = 0; q < 4; ++q) {
      const auto at = static_cast<size_t>(q);
      if (c.traffic().bytes[at] != (q == c.rank() ? 0 : 16)) raise("bytes to rank {}", q);
      if (c.traffic().messages[at] != (q == c.rank() ? 0 : 2)) raise("messages to rank {}", q);
    }
    c.all_reduce(v, comm::AllReduce::kOneShot);  // everything to each
    for (int q = 0; q < 4; ++q)
      if (c.traffic().bytes[static_cast<size_t>(q)] != (q == c.rank() ? 0 : 48))
        raise("bytes to rank {}", q);
  });
}
