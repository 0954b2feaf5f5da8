// Stands in for NVIDIA's header of this name: products of 16 x 16 tiles by a warp, of bf16 or fp16
// with float sums, as far as the project's kernels use them.
//
// A lane holds 8 elements of a tile, in an order that is no device's. Loads and stores touch memory
// lane by lane without waiting for the others, so that a missing __syncwarp() before or after shows
// in one of the orders of threads; mma_sync waits for the whole warp. Sums run over ascending k.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <string>

#include "hugectr_lite/core/half.h"
#include "tests/support/cuda_emulation/block_fibers.h"

namespace nvcuda::wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

inline constexpr int kTile = 16, kLaneElements = kTile * kTile / 32;

// Without a value until it is filled or loaded: NaN.
template <typename Use, int m, int n, int k, typename T, typename Layout = void>
class fragment {
  static_assert(m == kTile && n == kTile && k == kTile, "tiles are 16 x 16");

 public:
  fragment() { std::memset(x, 0xFF, sizeof x); }

  static constexpr int num_elements = kLaneElements;
  T x[kLaneElements];
  // Where the tile was loaded from: the same in all lanes.
  const void* from = nullptr;
  unsigned stride = 0;
};

template <typename T>
using sum_of = fragment<accumulator, kTile, kTile, kTile, T>;

template <typename T>
void fill_fragment(sum_of<T>& tile, T value) {
  for (T& x : tile.x) x = value;
}

}  // namespace nvcuda::wmma

namespace hlite::emulation {

// Rules of the device for a tile in memory: 32 bytes of alignment, rows 16 bytes apart.
template <typename T>
void check_tile(const char* what, const T* tile, unsigned stride) {
  if (reinterpret_cast<uintptr_t>(tile) % 32 != 0 || stride * sizeof(T) % 16 != 0)
    throw EmulationError(std::string(what) + ": expected a tile at a multiple of 32 bytes, whose " +
                         "rows are multiples of 16 bytes apart, found address modulo 32 = " +
                         std::to_string(reinterpret_cast<uintptr_t>(tile) % 32) + ", " +
                         std::to_string(stride * sizeof(T)) + " bytes apart");
}

// Row and column of element e of the running lane, and who holds an element.
inline unsigned tile_row(int e) { return (static_cast<unsigned>(e) * 32 + lane()) / 16; }
inline unsigned tile_column(int) { return lane() % 16; }
template <typename Fragment>
auto element(const std::array<const Fragment*, 32>& lanes, unsigned row, unsigned column) {
  const unsigned index = row * 16 + column;
  return lanes[index % 32]->x[index / 32];
}

// Where the threads of the running block show each other their fragments.
inline std::array<const void*, 1024> shown;

}  // namespace hlite::emulation

namespace nvcuda::wmma {

template <typename Use, typename T, typename Layout>
void load_matrix_sync(fragment<Use, kTile, kTile, kTile, T, Layout>& tile, const T* from,
                      unsigned stride) {
  namespace emulation = hlite::emulation;
  emulation::check_tile("load_matrix_sync", from, stride);
  for (int e = 0; e < kLaneElements; ++e) {
    const unsigned row = emulation::tile_row(e), column = emulation::tile_column(e);
    tile.x[e] = std::is_same_v<Layout, row_major> ? from[size_t{row} * stride + column]
                                                  : from[size_t{column} * stride + row];
  }
  tile.from = from;
  tile.stride = stride;
}

template <typename T>
void store_matrix_sync(T* to, const sum_of<T>& tile, unsigned stride, layout_t layout) {
  namespace emulation = hlite::emulation;
  emulation::check_tile("store_matrix_sync", to, stride);
  for (int e = 0; e < kLaneElements; ++e) {
    const unsigned row = emulation::tile_row(e), column = emulation::tile_column(e);
    (layout == mem_row_major ? to[size_t{row} * stride + column]
                             : to[size_t{column} * stride + row]) = tile.x[e];
  }
}

// d = a b + c; d may be c.
template <typename T, typename LayoutA, typename LayoutB>
void mma_sync(sum_of<float>& d, const fragment<matrix_a, kTile, kTile, kTile, T, LayoutA>& a,
              const fragment<matrix_b, kTile, kTile, kTile, T, LayoutB>& b, const sum_of<float>& c,
              std::source_location site = std::source_location::current()) {
  namespace emulation = hlite::emulation;
  using A = fragment<matrix_a, kTile, kTile, kTile, T, LayoutA>;
  using B = fragment<matrix_b, kTile, kTile, kTile, T, LayoutB>;
  struct Operands {
    const A* a;
    const B* b;
  };
  const auto meet = [&] {
    constexpr unsigned kAll = 0xffffffffu;
    if (emulation::exchange("mma_sync", kAll, 0, emulation::lane(), false, site).lanes != kAll)
      throw emulation::EmulationError("mma_sync: expected all 32 lanes of the warp");
  };
  const unsigned thread = emulation::linear_thread(), first = thread - emulation::lane();
  const Operands mine{&a, &b};
  emulation::shown[thread] = &mine;
  meet();
  std::array<const A*, 32> as{};
  std::array<const B*, 32> bs{};
  for (unsigned l = 0; l < 32; ++l) {
    const auto* theirs = static_cast<const Operands*>(emulation::shown[first + l]);
    as[l] = theirs->a;
    bs[l] = theirs->b;
    if (as[l]->from != a.from || as[l]->stride != a.stride || bs[l]->from != b.from ||
        bs[l]->stride != b.stride)
      throw emulation::EmulationError("mma_sync: lane " + std::to_string(l) + " and lane " +
                                      std::to_string(emulation::lane()) +
                                      " hold parts of different tiles");
  }
  sum_of<float> sums = c;
  for (int e = 0; e < kLaneElements; ++e)
    for (unsigned k = 0; k < kTile; ++k)
      sums.x[e] += hlite::to_float(emulation::element(as, emulation::tile_row(e), k)) *
                   hlite::to_float(emulation::element(bs, k, emulation::tile_column(e)));
  meet();  // nobody changes a fragment that another lane still reads
  d = sums;
}

}  // namespace nvcuda::wmma
