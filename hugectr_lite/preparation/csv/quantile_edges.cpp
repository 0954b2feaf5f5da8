#include "hugectr_lite/preparation/csv/quantile_edges.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <numeric>
#include <span>

#include "hugectr_lite/preparation/csv/column_transform.h"

namespace hlite::prep {

namespace {

constexpr int64_t kRowsAtOnce = 1 << 16;
constexpr int kDigitBits = 8;
using DigitCounts = std::array<int64_t, 1 << kDigitBits>;

// Counts the values with each digit after `shift` bits, of those whose bits before it are one of
// `prefixes`, which are sorted. Missing values do not count.
std::vector<DigitCounts> count_digits(const ByteSource& column, int64_t rows, ThreadPool& pool,
                                      const std::vector<uint64_t>& prefixes, int shift) {
  std::vector<DigitCounts> all(prefixes.size());
  std::mutex mutex;
  pool.run((rows + kRowsAtOnce - 1) / kRowsAtOnce, [&](int64_t block, int) {
    const int64_t first = block * kRowsAtOnce, count = std::min(kRowsAtOnce, rows - first);
    std::vector<uint64_t> values(static_cast<size_t>(count));
    column.read(first * static_cast<int64_t>(sizeof(uint64_t)),
                std::as_writable_bytes(std::span(values)));
    std::vector<DigitCounts> counts(prefixes.size());
    for (const uint64_t value : values) {
      const uint64_t digits = value >> shift, prefix = digits >> kDigitBits;
      const auto at = std::lower_bound(prefixes.begin(), prefixes.end(), prefix);
      if (value == 0 || at == prefixes.end() || *at != prefix) continue;
      ++counts[static_cast<size_t>(at - prefixes.begin())][digits % counts[0].size()];
    }
    const std::lock_guard lock(mutex);
    for (size_t p = 0; p < all.size(); ++p)
      for (size_t d = 0; d < all[p].size(); ++d) all[p][d] += counts[p][d];
  });
  return all;
}

}  // namespace

std::vector<double> quantile_edges(const ByteSource& column, int64_t rows, int64_t quantiles,
                                   ThreadPool& pool) {
  // The edges as far as they are known, and the rank of each among the values that begin so.
  std::vector<uint64_t> found(static_cast<size_t>(quantiles - 1));
  std::vector<int64_t> ranks(found.size());
  for (int shift = 64 - kDigitBits; shift >= 0; shift -= kDigitBits) {
    std::vector<uint64_t> prefixes = found;
    prefixes.erase(std::unique(prefixes.begin(), prefixes.end()), prefixes.end());
    const std::vector<DigitCounts> counts = count_digits(column, rows, pool, prefixes, shift);
    if (shift == 64 - kDigitBits) {
      const int64_t values = std::accumulate(counts[0].begin(), counts[0].end(), int64_t{0});
      if (values == 0) return {};
      for (size_t e = 0; e < ranks.size(); ++e)
        ranks[e] = static_cast<int64_t>(e + 1) * values / quantiles;
    }
    for (size_t e = 0; e < found.size(); ++e) {
      const auto at = std::lower_bound(prefixes.begin(), prefixes.end(), found[e]);
      const DigitCounts& of = counts[static_cast<size_t>(at - prefixes.begin())];
      size_t digit = 0;
      while (ranks[e] >= of[digit]) ranks[e] -= of[digit++];
      found[e] = found[e] << kDigitBits | digit;
    }
  }
  std::vector<double> edges;
  for (const uint64_t bits : found) edges.push_back(number_of_bits(bits));
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return edges;
}

}  // namespace hlite::prep
