// Races between threads of a kernel are found, and what is ordered is none, in any order of
// threads.
#include "tests/support/cuda_emulation/race_check.h"

#include <cstdlib>
#include <initializer_list>
#include <numeric>
#include <string_view>
#include <vector>

#include "tests/cuda/race_kernels.cuh"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

using emulation::EmulationError;
using emulation::Order;

// Not every program that runs these tests looks for races.
const int kLooks = setenv("HLITE_EMULATED_RACES", "1", 1);

// What a launch says, or nothing; the same in every order of threads.
template <typename Launch>
void check_race(Launch&& start, std::initializer_list<std::string_view> words) {
  REQUIRE(kLooks == 0);
  if (!emulation::kSeesAccesses) return;
  for (const Order order : {Order::kForward, Order::kReverse, Order::kShuffled}) {
    emulation::set_order(order, 3);
    check_contains(message_of<EmulationError>(start), words);
  }
  emulation::set_order(Order::kForward);
}
template <typename Launch>
void check_no_race(Launch&& start) {
  for (const Order order : {Order::kForward, Order::kReverse, Order::kShuffled}) {
    emulation::set_order(order, 3);
    CHECK_NOTHROW(start());
  }
  emulation::set_order(Order::kForward);
}

struct Numbers {
  std::vector<int> in = std::vector<int>(128, 1), out = std::vector<int>(128);
};

TEST_CASE("shared memory that threads pass on unmet is a race") {
  Numbers n;
  const auto pass = [&](int ahead, Barrier barrier) {
    return [&n, ahead, barrier] { pass_on(ahead, barrier, n.in.data(), n.out.data()); };
  };
  check_race(pass(1, Barrier::kNot),
             {"race in pass_on: thread ", " of block ", "a byte that thread ",
              "nothing orders the two: shared memory; addr2line 0x"});
  check_race(pass(1, Barrier::kWarp), {"race in pass_on"});  // from lane 0 of the next warp
  check_race(pass(1, Barrier::kShuffle), {"race in pass_on"});
  check_no_race(pass(1, Barrier::kBlock));
  check_no_race(pass(0, Barrier::kNot));
}

TEST_CASE("warps order their own threads, by __syncwarp alone") {
  Numbers n;
  const auto fetch = [&](Barrier barrier) {
    return [&n, barrier] { fetch_and_pass_on(barrier, n.in.data(), n.out.data()); };
  };
  check_no_race(fetch(Barrier::kWarp));
  check_no_race(fetch(Barrier::kBlock));
  check_race(fetch(Barrier::kNot), {"race in fetch: ", "shared memory"});
  check_race(fetch(Barrier::kShuffle), {"race in fetch: "});
}

TEST_CASE("shared memory that is written anew while others read it is a race") {
  Numbers n;
  const auto reuse = [&](Barrier barrier) {
    return [&n, barrier] { reuse_tile(barrier, n.in.data(), n.out.data()); };
  };
  check_race(reuse(Barrier::kNot), {"race in reuse_tile", "shared memory"});
  check_race(reuse(Barrier::kWarp), {"race in reuse_tile"});
  check_no_race(reuse(Barrier::kBlock));
}

TEST_CASE("blocks of a cluster pass on shared memory where they meet before, between and after") {
  std::vector<int> in(512), out(512);
  std::iota(in.begin(), in.end(), 1);
  for (const bool writes : {false, true}) {
    const auto pass = [&](int ahead, Unmet unmet) {
      return [&, ahead, unmet] { pass_on_in_cluster(ahead, writes, unmet, in.data(), out.data()); };
    };
    for (const int ahead : {0, 1, 3}) {
      check_no_race(pass(ahead, Unmet::kNone));
      const int from = writes ? 4 - ahead : ahead;
      for (int i = 0; i < 512; ++i) {
        const int block = i / 64, there = block / 4 * 4 + (block % 4 + from) % 4;
        REQUIRE(out[static_cast<size_t>(i)] == there * 64 + i % 64 + 1);
      }
    }
    check_race(pass(1, Unmet::kBetween),
               {"race in pass_on_in_cluster: thread ", "a byte that thread ",
                "nothing orders the two: shared memory"});
    check_race(pass(1, Unmet::kBlockOnly), {"race in pass_on_in_cluster: thread "});
    check_no_race(pass(0, Unmet::kBetween));
  }
  const auto pass = [&](bool writes, Unmet unmet) {
    return [&, writes, unmet] { pass_on_in_cluster(1, writes, unmet, in.data(), out.data()); };
  };
  check_race(pass(true, Unmet::kAtStart), {"another block, which may not have begun"});
  check_no_race(pass(false, Unmet::kAtStart));  // they meet before it reads
  check_race(pass(false, Unmet::kAtEnd), {"no cluster_sync follows", "may have ended"});
  check_no_race(pass(true, Unmet::kAtEnd));
}

TEST_CASE("blocks are ordered by nothing") {
  Numbers n;
  const auto pass = [&](int blocks, int ahead) {
    return [&n, blocks, ahead] {
      pass_on_globally(blocks, ahead, Barrier::kBlock, n.in.data(), n.out.data());
    };
  };
  check_no_race(pass(1, 7));
  check_no_race(pass(2, 0));
  check_race(pass(2, 7), {"race in pass_on_globally", " of block 1 ", " of block 0 "});
  check_race(pass(2, 64), {"race in pass_on_globally"});
}

TEST_CASE("atomics race with plain accesses, not with atomics or volatile ones") {
  Numbers n;
  check_no_race([&] { count_threads(2, true, n.out.data()); });
  check_race([&] { count_threads(2, false, n.out.data()); }, {"race in count_threads"});
  check_no_race([&] { look_and_set(true, n.in.data(), n.out.data()); });
  check_race([&] { look_and_set(false, n.in.data(), n.out.data()); }, {"race in look_and_set"});
}

TEST_CASE("a block that counts itself last, between fences, finds what all others wrote") {
  constexpr int kBlocks = 5;
  std::vector<int> parts(size_t{kBlocks} * 64), out(64);
  unsigned count = 0;
  const auto hand = [&](Missing missing) {
    return [&, missing] {
      count = 0;
      hand_to_last_block(kBlocks, missing, parts.data(), &count, out.data());
    };
  };
  check_no_race(hand(Missing::kNothing));
  CHECK(count == 0);
  for (int i = 0; i < 64; ++i) CHECK(out[static_cast<size_t>(i)] == 640 + 5 * ((i + 1) % 64));
  for (const Missing missing : {Missing::kBarrierBefore, Missing::kFenceBefore,
                                Missing::kFenceAfter, Missing::kBarrierAfter, Missing::kEarly})
    check_race(hand(missing), {"race in hand_to_last_block"});
  const auto hand_one = [&](Missing missing) {
    return [&, missing] {
      count = 0;
      hand_to_last_thread(kBlocks, missing, parts.data(), &count, out.data());
    };
  };
  check_no_race(hand_one(Missing::kNothing));
  CHECK(out[0] == kBlocks);
  for (const Missing missing : {Missing::kFenceBefore, Missing::kFenceAfter, Missing::kEarly})
    check_race(hand_one(missing), {"race in hand_to_last_thread"});
}

TEST_CASE("races are those of single bytes") {
  std::vector<char> bytes(64);
  check_no_race([&] { write_bytes(false, bytes.data()); });
  check_race([&] { write_bytes(true, bytes.data()); }, {"race in write_bytes", "has written"});
}

}  // namespace
}  // namespace hlite::test
