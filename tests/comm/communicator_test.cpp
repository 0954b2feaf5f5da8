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

TEST_CASE("collectives move and add exactly, whatever the number of ranks", "[threads]") {
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8}) {
    INFO(ranks << " ranks");
    CHECK_NOTHROW(run_ranks(ranks, test::check_everything));
  }
}

TEST_CASE("collectives are the same when ranks are spread over nodes", "[threads]") {
  for (const auto& rows : {std::vector<int>{1, 1, 1}, {2, 2}, {1, 3}, {4, 1, 2}})
    CHECK_NOTHROW(run_ranks(comm::Topology(rows), test::check_everything));
}

TEST_CASE("no rank passes a barrier before all have come", "[threads]") {
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

TEST_CASE("a rank that fails ends the others with its reason", "[threads]") {
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

TEST_CASE("the error of the rank that failed is thrown, though others were notified of it first",
          "[threads]") {
  std::atomic<bool> notified = false;
  CHECK_THROWS_AS(run_ranks(2,
                            [&](Communicator& c) {
                              if (c.rank() == 1) {
                                c.abort("row 7 is no row");
                                while (!notified) std::this_thread::yield();
                                raise<DataError>("row 7 is no row");
                              }
                              try {
                                c.barrier();
                              } catch (const CommError&) {
                                notified = true;
                                throw;
                              }
                            }),
                  DataError);
}

TEST_CASE("a message larger than its receiver allows is an error on all ranks", "[threads]") {
  const std::string reason = test::message_of<CommError>([] {
    run_ranks(3, [](Communicator& c) {
      const std::vector<char> data(c.rank() == 1 ? 9 : 10);
      test::RankBlocks<char> blocks(3, data.size());
      for (int q = 0; q < 3; ++q) blocks.set(q, data);
      c.all_to_all_v(test::RankExec(c), blocks.blocks());
    });
  });
  test::check_contains(reason, {"sent 10 bytes to rank 1, which expects at most 9"});
}

TEST_CASE("ranks that disagree on a size get an error that says so", "[threads]") {
  test::check_contains(test::message_of<CommError>([] {
                         run_ranks(2, [](Communicator& c) {
                           std::vector<float> v(c.rank() == 0 ? 8 : 6);
                           c.all_reduce(test::RankExec(c), v, comm::AllReduce::kOneShot);
                         });
                       }),
                       {"bytes"});
}

TEST_CASE("what is sent to others is counted, what stays is not", "[threads]") {
  run_ranks(comm::Topology({2, 2}), [](Communicator& c) {
    test::RankExec exec(c);
    std::vector<float> v(8, 1);
    c.all_reduce(exec, v);  // a slice of 2 to each, twice
    comm::TrafficTotals t = c.traffic();
    if (t.intra_bytes != 16 || t.inter_bytes != 32) raise("bytes of rank {}", c.rank());
    if (t.intra_messages != 2 || t.inter_messages != 4) raise("messages of rank {}", c.rank());
    if (t.intra_received != 16 || t.inter_received != 32) raise("bytes got by {}", c.rank());
    c.all_reduce(exec, v, comm::AllReduce::kOneShot);  // everything to each
    t = c.traffic();
    if (t.intra_bytes != 48 || t.inter_bytes != 96) raise("bytes of rank {}", c.rank());
    const auto copy = c.copy(comm::Route::kFlat);
    if (copy->traffic().intra_bytes != 0) raise("a copy counts for itself");
  });
}
