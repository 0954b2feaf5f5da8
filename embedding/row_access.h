// How rows of embedding tables are walked on the CPU: fetched ahead of use, with the usual widths
// known to the compiler.
#pragma once

#include <cstdint>
#include <type_traits>

namespace hlite::embedding {

// Calls body.template operator()<kWidth>() with kWidth = width for the usual widths, else 0.
template <typename Body>
void with_width(int64_t width, Body&& body) {
  switch (width) {
    case 16:
      return body.template operator()<16>();
    case 32:
      return body.template operator()<32>();
    case 64:
      return body.template operator()<64>();
    case 128:
      return body.template operator()<128>();
    default:
      return body.template operator()<0>();
  }
}

// Asks for every cache line of row[0, width). Rows lie at random places of arrays far larger than
// the caches: without this each row costs a whole memory latency.
template <int kWriteSoon, typename T>
inline void prefetch_row(T* row, int64_t width) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t j = 0; j < width; j += kLine) __builtin_prefetch(row + j, kWriteSoon);
}

}  // namespace hlite::embedding
