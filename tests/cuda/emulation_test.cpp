// The emulation runs kernels right, whatever the order of threads, and names what is wrong.
#include <numeric>
#include <vector>

#include "tests/cuda/emulation_kernels.cuh"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

using emulation::EmulationError;
using emulation::Order;

// Runs `body` under several orders of threads, and leaves the plain one.
template <typename Body>
void in_every_order(Body&& body) {
  emulation::set_order(Order::kForward);
  body();
  emulation::set_order(Order::kReverse);
  body();
  for (const uint64_t seed : {1, 2}) {
    emulation::set_order(Order::kShuffled, seed);
    body();
  }
  emulation::set_order(Order::kForward);
}

std::vector<int> counting(size_t n) {
  std::vector<int> values(n);
  std::iota(values.begin(), values.end(), 1);
  return values;
}

LaunchShape shape_of(unsigned grid, unsigned block) {
  return {.name = "self test", .grid = dim3(grid), .block = dim3(block)};
}

TEST_CASE("emulated barriers order the accesses to shared memory") {
  in_every_order([] {
    for (const unsigned block : {1u, 31u, 32u, 33u, 256u}) {
      const std::vector<int> in = counting(size_t{3} * block);
      std::vector<int> out(in.size());
      mirror(shape_of(3, block), in.data(), out.data());
      for (unsigned b = 0; b < 3; ++b)
        for (unsigned t = 0; t < block; ++t)
          REQUIRE(out[b * block + t] == in[b * block + block - 1 - t]);
    }
  });
}

// And as a race, where these are seen (race_check_test.cpp).
TEST_CASE("a missing barrier shows in one of the orders of threads") {
  const std::vector<int> first = counting(64);
  std::vector<int> second(64, -1), out(64);
  bool seen = false;
  in_every_order([&] {
    try {
      mirror_without_barrier(shape_of(1, 64), second.data(), out.data());
      mirror_without_barrier(shape_of(1, 64), first.data(), out.data());
    } catch (const EmulationError&) {
      seen = true;
    }
    for (size_t t = 0; t < 64; ++t) seen |= out[t] != first[63 - t];
  });
  CHECK(seen);
}

TEST_CASE("emulated shuffles reduce a block") {
  in_every_order([] {
    for (const unsigned block : {32u, 64u, 1024u}) {
      const std::vector<int> in = counting(size_t{2} * block);
      std::vector<int> out(2);
      block_sum(shape_of(2, block), in.data(), out.data());
      CHECK(out[0] == std::accumulate(in.begin(), in.begin() + block, 0));
      CHECK(out[1] == std::accumulate(in.begin() + block, in.end(), 0));
    }
  });
}

TEST_CASE("emulated atomics count every thread once") {
  in_every_order([] {
    std::vector<int> out{0, 0, 0, -1, 0};
    atomics(shape_of(5, 33), out.data());
    CHECK(out[0] == 165);
    CHECK(out[1] == 33 * (0 + 1 + 2 + 3 + 4));
    CHECK(out[2] == 164);
    CHECK((out[3] >= 0 && out[3] < 165));
    CHECK(out[4] == 1);
  });
}

TEST_CASE("emulated votes and exchanges see their warp") {
  in_every_order([] {
    std::vector<unsigned> out(4 * 64);
    votes(shape_of(1, 64), out.data());
    for (unsigned t = 0; t < 64; ++t) {
      REQUIRE(out[4 * t] == 0xaaaaaaaau);
      REQUIRE(out[4 * t + 1] == 1);
      REQUIRE(out[4 * t + 2] == 0);
      REQUIRE(out[4 * t + 3] == (t % 32 ^ 1));
    }
  });
  // 10 threads: the mask names lanes that do not exist.
  std::vector<unsigned> out(4 * 10);
  votes(shape_of(1, 10), out.data());
  CHECK(out[0] == 0x2aau);
  CHECK(out[2] == 1);
}

TEST_CASE("emulated shuffles keep to segments") {
  in_every_order([] {
    std::vector<int> before(64);
    std::vector<double> second(64);
    segments(shape_of(1, 64), before.data(), second.data());
    for (int t = 0; t < 64; ++t) {
      const int lane = t % 32, begin = lane / 8 * 8;
      int sum = 0;
      for (int i = begin; i < lane; ++i) sum += i;
      REQUIRE(before[static_cast<size_t>(t)] == sum);
      REQUIRE(second[static_cast<size_t>(t)] == (begin + 2) * 0.5);
    }
  });
}

TEST_CASE("emulated grids and blocks have three dimensions and dynamic shared memory") {
  const LaunchShape shape{.name = "dimensions",
                          .grid = dim3(2, 3, 2),
                          .block = dim3(3, 5, 2),
                          .shared_bytes = 30 * sizeof(int)};
  in_every_order([&] {
    std::vector<int> out(12 * 30);
    dimensions(shape, out.data());
    for (int b = 0; b < 12; ++b)
      for (int t = 0; t < 30; ++t) REQUIRE(out[static_cast<size_t>(b * 30 + t)] == b * 30 + 29 - t);
  });
}

TEST_CASE("a barrier that some threads never reach names block and threads") {
  const std::string text = message_of<EmulationError>([] { half_barrier(shape_of(2, 40)); });
  check_contains(text, {"block (0,0,0)", "thread (0,0,0) waits at __syncthreads",
                        "emulation_kernels.cu:", "thread (5,0,0) has ended"});
}

TEST_CASE("barriers on different lines are divergent") {
  const std::string text = message_of<EmulationError>([] { two_barriers(shape_of(1, 4)); });
  check_contains(text, {"divergent barrier", "thread (0,0,0) waits at __syncthreads",
                        "thread (1,0,0) waits at __syncthreads"});
}

TEST_CASE("a shuffle that a lane of its mask misses names the lane") {
  std::vector<int> out(64);
  const std::string text =
      message_of<EmulationError>([&] { half_shuffle(shape_of(1, 64), out.data()); });
  check_contains(text,
                 {"thread (0,0,0) waits at __shfl_sync", "thread (3,0,0) waits at __syncthreads"});
}

TEST_CASE("a shuffle from or by a lane outside its mask is an error") {
  std::vector<int> out(32);
  check_contains(message_of<EmulationError>([&] { absent_lane(shape_of(1, 32), out.data()); }),
                 {"reads lane 20, which does not take part"});
  check_contains(message_of<EmulationError>([&] { unnamed_lane(shape_of(1, 32), out.data()); }),
                 {"thread (3,0,0)", "mask 0x00000007, which lacks its own lane 3"});
}

TEST_CASE("the emulation works on after an error") {
  CHECK_THROWS_AS(half_barrier(shape_of(1, 40)), EmulationError);
  const std::vector<int> in = counting(40);
  std::vector<int> out(40);
  mirror(shape_of(1, 40), in.data(), out.data());
  CHECK(out[0] == 40);
  CHECK(out[39] == 1);
}

}  // namespace
}  // namespace hlite::test
