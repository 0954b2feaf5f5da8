// The functions of core/tensor_core.cuh on the emulated device.
//
// Loads touch memory lane by lane without waiting for the others, so that a missing __syncwarp()
// before or after shows in one of the orders of threads; products wait for the whole warp. Sums run
// over ascending k.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <string>

#include "hugectr_lite/core/half.h"
#include "tests/support/cuda_emulation/block_fibers.h"

namespace hlite::emulation {

// Loads of eight rows at once that had to wait for each other's banks; to be reset by tests.
inline int64_t matrix_bank_conflicts = 0;
// No access of a kernel.
__attribute__((noinline, no_sanitize_thread)) inline void count_bank_conflict() {
  ++matrix_bank_conflicts;
}

// The values of all lanes.
template <typename V>
std::array<V, kWarpSize> from_all_lanes(const char* what, const V& mine,
                                        std::source_location site) {
  std::array<V, kWarpSize> all;
  gather(what, &mine, all.data(), sizeof(V), site);
  return all;
}

using MatrixRows = std::array<const std::byte*, kWarpSize>;

// Rules of the device, and a count of conflicts by lane 0.
inline MatrixRows matrix_rows(const char* what, const void* row, std::source_location site) {
  const auto* const mine = static_cast<const std::byte*>(row);
  const MatrixRows rows = from_all_lanes(what, mine, site);
  if (reinterpret_cast<uintptr_t>(mine) % 16 != 0)
    throw EmulationError(std::string(what) + ": expected a row at a multiple of 16 bytes, found " +
                         std::to_string(reinterpret_cast<uintptr_t>(mine) % 16) + " bytes more");
  if (mine < here.shared || mine + 16 > here.shared + here.shared_bytes)
    throw EmulationError(std::string(what) + ": expected a row in shared memory");
  if (lane() != 0) return rows;
  for (unsigned l = 0; l < kWarpSize; ++l)
    for (unsigned before = l / 8 * 8; before < l; ++before)
      if (rows[l] != rows[before] && (rows[l] - rows[before]) % 128 == 0) count_bank_conflict();
  return rows;
}

inline uint32_t element_at(const std::byte* row, unsigned column) {
  uint16_t element = 0;
  std::memcpy(&element, row + column * sizeof element, sizeof element);
  return element;
}

}  // namespace hlite::emulation

namespace hlite {

inline void load_matrices(uint32_t (&to)[4], const void* row,
                          std::source_location site = std::source_location::current()) {
  const auto rows = emulation::matrix_rows("load_matrices", row, site);
  const unsigned g = emulation::lane() / 4, q = emulation::lane() % 4;
  for (unsigned m = 0; m < 4; ++m)
    to[m] = emulation::element_at(rows[8 * m + g], 2 * q) |
            emulation::element_at(rows[8 * m + g], 2 * q + 1) << 16;
}

inline void load_transposed_matrices(uint32_t (&to)[4], const void* row,
                                     std::source_location site = std::source_location::current()) {
  const auto rows = emulation::matrix_rows("load_transposed_matrices", row, site);
  const unsigned g = emulation::lane() / 4, q = emulation::lane() % 4;
  for (unsigned m = 0; m < 4; ++m)
    to[m] = emulation::element_at(rows[8 * m + 2 * q], g) |
            emulation::element_at(rows[8 * m + 2 * q + 1], g) << 16;
}

template <typename T>
void multiply_add(float (&sums)[4], const uint32_t (&a)[4], uint32_t b_top, uint32_t b_bottom,
                  std::source_location site = std::source_location::current()) {
  struct Factors {
    uint32_t a[4], b[2];
  };
  const auto lanes = emulation::from_all_lanes(
      "multiply_add", Factors{{a[0], a[1], a[2], a[3]}, {b_top, b_bottom}}, site);
  const auto value = [](uint32_t pair, unsigned half) {
    return to_float(T{static_cast<uint16_t>(pair >> (16 * half))});
  };
  const auto factor_a = [&](unsigned row, unsigned k) {
    return value(lanes[row % 8 * 4 + k % 8 / 2].a[row / 8 + k / 8 * 2], k % 2);
  };
  const auto factor_b = [&](unsigned k, unsigned column) {
    return value(lanes[column * 4 + k % 8 / 2].b[k / 8], k % 2);
  };
  const unsigned g = emulation::lane() / 4, q = emulation::lane() % 4;
  for (unsigned i = 0; i < 4; ++i)
    for (unsigned k = 0; k < 16; ++k)
      sums[i] += factor_a(g + i / 2 * 8, k) * factor_b(k, 2 * q + i % 2);
}

}  // namespace hlite
