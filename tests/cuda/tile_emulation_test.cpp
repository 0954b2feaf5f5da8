// The emulated tensor cores multiply, the emulated asynchronous copies come late, and both name
// what a device would not take.
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

template <typename T>
std::vector<T> random_tile(uint64_t seed) {
  std::vector<float> values(256);
  fill_random(values, seed);
  std::vector<T> tile;
  for (const float x : values) tile.push_back(from_float<T>(x));
  return tile;
}

// Products of two 16-bit numbers are exact in float, so the sums' order alone decides the bits.
template <typename T>
void check_tile_product() {
  const std::vector<T> a = random_tile<T>(1), b = random_tile<T>(2);
  for (int layouts = 0; layouts < 8; ++layouts) {
    const bool d_by_columns = (layouts & 4) != 0;
    CAPTURE(layouts);
    for (const Order order : {Order::kForward, Order::kReverse, Order::kShuffled}) {
      emulation::set_order(order, 3);
      std::vector<float> d(256);
      LaunchShape shape = one_warp(2 * 16 * kTileStride * sizeof(T) + 16 * 20 * sizeof(float));
      shape.grid = dim3(2);
      tile_product(shape, a.data(), b.data(), (layouts & 1) != 0, (layouts & 2) != 0, d_by_columns,
                   d.data());
      for (size_t i = 0; i < 16; ++i)
        for (size_t j = 0; j < 16; ++j) {
          float want = 0.5f;
          for (size_t k = 0; k < 32; ++k)
            want += to_float(a[i * 16 + k % 16]) * to_float(b[k % 16 * 16 + j]);
          REQUIRE(d[d_by_columns ? j * 16 + i : i * 16 + j] == want);
        }
    }
    emulation::set_order(Order::kForward);
  }
}

TEST_CASE("emulated tensor cores multiply tiles of either layout") {
  check_tile_product<bf16>();
  check_tile_product<fp16>();
}

TEST_CASE("emulated tensor cores refuse what a device would not take") {
  const auto message = [](auto&& body) { return message_of<EmulationError>(body); };
  const size_t bytes = 64 * kTileStride * sizeof(float);
  tile_at(one_warp(bytes), 16, 24);
  check_contains(message([&] { tile_at(one_warp(bytes), 8, 24); }),
                 {"load_matrix_sync", "32 bytes", "address modulo 32 = 16, 48 bytes apart"});
  check_contains(message([&] { tile_at(one_warp(bytes), 0, 20); }), {"40 bytes apart"});
  tile_store_at(one_warp(bytes), 8, 20);
  check_contains(message([&] { tile_store_at(one_warp(bytes), 4, 20); }),
                 {"store_matrix_sync", "address modulo 32 = 16"});
  check_contains(message([&] { tile_store_at(one_warp(bytes), 0, 18); }), {"72 bytes apart"});
  check_contains(message([&] { tiles_of_two_places(one_warp(bytes)); }),
                 {"mma_sync: lane", "parts of different tiles"});
  check_contains(message([&] { tile_without_a_lane(one_warp(bytes)); }),
                 {"mma_sync: expected all 32 lanes"});
}

TEST_CASE("emulated asynchronous copies take place when they are waited for") {
  std::vector<int> in(32), out(64);
  std::iota(in.begin(), in.end(), 1);
  for (const bool wait : {true, false}) {
    copy_later(one_warp(64 * sizeof(int)), in.data(), out.data(), wait);
    for (size_t t = 0; t < 32; ++t) {
      REQUIRE(out[t] == in[t]);
      REQUIRE(out[t + 32] == (wait ? in[t] : -1));
    }
  }
  check_contains(message_of<EmulationError>([&] { copy_unaligned(one_warp(16), in.data()); }),
                 {"asynchronous copy: expected 4, 8 or 16 bytes, so aligned"});
  check_contains(message_of<EmulationError>([&] { copy_forgotten(one_warp(16), in.data()); }),
                 {"thread (0,0,0) has ended without waiting for its copies"});
}

}  // namespace
}  // namespace hlite::test
