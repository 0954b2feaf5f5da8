// The emulated tensor cores load and multiply as PTX defines, and emulated asynchronous copies are
// delayed. Both report operations that a GPU would reject.
#include <array>
#include <numeric>
#include <vector>

#include "tests/cuda/tile_kernels.cuh"
#include "tests/support/compare.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

using emulation::EmulationError;
using emulation::Order;

LaunchShape one_warp(size_t shared_bytes) {
  return {.name = "self test", .block = dim3(32), .shared_bytes = shared_bytes};
}

constexpr size_t kLoadBytes = 32 * kRowElements * sizeof(uint16_t);

// By the figures of "ldmatrix" in the PTX manual, register i of every thread holds elements of
// matrix i. Threads 8i to 8i + 7 give the addresses of the rows of this matrix.
TEST_CASE("emulated matrix loads give each lane the elements that the PTX manual defines") {
  std::vector<uint16_t> from(256);
  std::iota(from.begin(), from.end(), uint16_t{1000});
  std::array<int, 32> in_order{}, mixed{};  // mixed has row 6 twice
  for (int l = 0; l < 32; ++l) {
    in_order[static_cast<size_t>(l)] = l;
    mixed[static_cast<size_t>(l)] = l == 31 ? 6 : l * 13 % 32;
  }
  for (const auto& rows : {in_order, mixed})
    for (const Order order : {Order::kForward, Order::kReverse, Order::kShuffled})
      for (const bool transposed : {false, true}) {
        emulation::set_order(order, 3);
        std::vector<uint32_t> got(128);
        load(one_warp(kLoadBytes), from.data(), transposed, rows.data(), got.data());
        for (size_t t = 0; t < 32; ++t)
          for (size_t i = 0; i < 4; ++i) {
            const auto element = [&](size_t row, size_t column) -> uint32_t {
              return from[static_cast<size_t>(rows[8 * i + row]) * 8 + column];
            };
            const size_t group = t / 4, pair = t % 4 * 2;
            const uint32_t low = transposed ? element(pair, group) : element(group, pair);
            const uint32_t high = transposed ? element(pair + 1, group) : element(group, pair + 1);
            REQUIRE(got[t * 4 + i] == (high << 16 | low));
          }
      }
  emulation::set_order(Order::kForward);
}

TEST_CASE("emulated matrix loads count bank conflicts") {
  const std::vector<uint16_t> from(256);
  std::array<int, 32> rows{};
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<uint32_t> to(128);
  const auto conflicts = [&] {
    emulation::matrix_bank_conflicts = 0;
    load(one_warp(kLoadBytes), from.data(), false, rows.data(), to.data());
    return emulation::matrix_bank_conflicts;
  };
  // Eight rows of 16 bytes that begin 80 bytes apart use each of the 32 banks once.
  CHECK(conflicts() == 0);
  rows[7] = 6;  // the same address twice is not a conflict
  CHECK(conflicts() == 0);
  rows[7] = 14;  // 8 * 80 bytes after row 6: the same banks
  CHECK(conflicts() == 1);
}

// Products of two 16-bit floats are exact in float, so only the order of sums affects the bits.
template <typename T>
void check_product() {
  std::vector<float> random(16 * 16 + 16 * 8);
  fill_random(random, 1);
  const auto bits = [&](size_t i) -> uint32_t { return from_float<T>(random[i]).bits; };
  const auto value = [&](size_t i) { return to_float(from_float<T>(random[i])); };
  // Distributes the factors over the threads by the figures of "mma.m16n8k16" for .bf16 and .f16 in
  // the PTX manual.
  std::vector<Factors> factors(32);
  for (size_t t = 0; t < 32; ++t) {
    const size_t group = t / 4, in_group = t % 4;
    for (size_t i = 0; i < 8; ++i) {
      const size_t row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
      const size_t column = in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0);
      factors[t].a[i / 2] |= bits(row * 16 + column) << (16 * (i & 1));
    }
    for (size_t i = 0; i < 4; ++i) {
      const size_t row = in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0);
      factors[t].b[i / 2] |= bits(256 + row * 8 + group) << (16 * (i & 1));
    }
  }
  for (const Order order : {Order::kForward, Order::kReverse, Order::kShuffled}) {
    emulation::set_order(order, 3);
    std::vector<float> sums(128, 0.5f);
    multiply_twice<T>(one_warp(0), factors.data(), sums.data());
    for (size_t t = 0; t < 32; ++t)
      for (size_t i = 0; i < 4; ++i) {
        const size_t row = i < 2 ? t / 4 : t / 4 + 8, column = t % 4 * 2 + (i & 1);
        float want = 0.5f;
        for (size_t k = 0; k < 32; ++k)
          want += value(row * 16 + k % 16) * value(256 + k % 16 * 8 + column);
        REQUIRE(sums[t * 4 + i] == want);
      }
  }
  emulation::set_order(Order::kForward);
}

TEST_CASE("emulated tensor cores multiply fragments laid out as in the PTX manual") {
  check_product<bf16>();
  check_product<fp16>();
}

TEST_CASE("emulated tensor cores report operations that a GPU would reject") {
  const auto message = [](auto&& body) { return message_of<EmulationError>(body); };
  load_at(one_warp(128), 112);
  check_contains(message([&] { load_at(one_warp(128), 24); }),
                 {"load_matrices: expected a row at a multiple of 16 bytes, found 8"});
  for (const int outside : {-16, 128})
    check_contains(message([&] { load_at(one_warp(128), outside); }),
                   {"load_matrices: expected a row in shared memory"});
  check_contains(message([&] { load_elsewhere(one_warp(128)); }),
                 {"load_transposed_matrices: expected a row in shared memory"});
  check_contains(message([&] { multiply_without_a_lane(one_warp(0)); }),
                 {"multiply_add", "expected all 32 lanes"});
}

TEST_CASE("emulated asynchronous copies complete when waited for, or at once in reverse order") {
  std::vector<int> in(32), out(64);
  std::iota(in.begin(), in.end(), 1);
  for (const bool wait : {true, false}) {
    copy_later(one_warp(64 * sizeof(int)), in.data(), out.data(), wait);
    for (size_t t = 0; t < 32; ++t) {
      REQUIRE(out[t] == in[t]);
      REQUIRE(out[t + 32] == (wait ? in[t] : -1));
    }
  }
  emulation::set_order(Order::kReverse);
  copy_later(one_warp(64 * sizeof(int)), in.data(), out.data(), /*wait=*/false);
  emulation::set_order(Order::kForward);
  for (size_t t = 0; t < 64; ++t) REQUIRE(out[t] == in[t % 32]);
  check_contains(message_of<EmulationError>([&] { copy_unaligned(one_warp(16), in.data()); }),
                 {"asynchronous copy: expected 4, 8 or 16 bytes, aligned to their size"});
  check_contains(message_of<EmulationError>([&] { copy_forgotten(one_warp(16), in.data()); }),
                 {"thread (0,0,0) has ended without waiting for its copies"});
}

}  // namespace
}  // namespace hlite::test
