#include "hugectr_lite/core/random.h"

#include <algorithm>
#include <cmath>

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define HLITE_PHILOX_AVX2 1
#else
#define HLITE_PHILOX_AVX2 0
#endif

namespace hlite::random {
namespace {
// Blocks worked on side by side, so that the compiler vectorises the rounds across them.
constexpr int kLanes = 16;

// words[4 * l + w] = word w of block first + l.
void philox_lanes(uint64_t seed, uint64_t stream, uint64_t first, uint32_t* words) {
  uint32_t a[kLanes], b[kLanes], c[kLanes], d[kLanes];
  for (int l = 0; l < kLanes; ++l) {
    a[l] = static_cast<uint32_t>(first + static_cast<uint64_t>(l));
    b[l] = static_cast<uint32_t>((first + static_cast<uint64_t>(l)) >> 32);
    c[l] = static_cast<uint32_t>(stream);
    d[l] = static_cast<uint32_t>(stream >> 32);
  }
  auto k0 = static_cast<uint32_t>(seed);
  auto k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int l = 0; l < kLanes; ++l) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * a[l];
      const uint64_t p1 = uint64_t{0xCD9E8D57u} * c[l];
      a[l] = static_cast<uint32_t>(p1 >> 32) ^ b[l] ^ k0;
      b[l] = static_cast<uint32_t>(p1);
      c[l] = static_cast<uint32_t>(p0 >> 32) ^ d[l] ^ k1;
      d[l] = static_cast<uint32_t>(p0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int l = 0; l < kLanes; ++l) {
    words[4 * l] = a[l];
    words[4 * l + 1] = b[l];
    words[4 * l + 2] = c[l];
    words[4 * l + 3] = d[l];
  }
}

// Calls use(i, word) for the elements first + i, i in [0, n).
template <typename Use>
void for_each_word(int64_t n, uint64_t seed, uint64_t stream, uint64_t first, Use use) {
  constexpr int64_t kChunk = 4 * kLanes;
  uint32_t words[kChunk];
  int64_t at = -static_cast<int64_t>(first % 4);  // start at a block's edge
  for (uint64_t block = first / 4; at < n; at += kChunk, block += kLanes) {
    philox_lanes(seed, stream, block, words);
    if (at >= 0 && at + kChunk <= n) {
      for (int64_t j = 0; j < kChunk; ++j) use(at + j, words[j]);
    } else {
      for (int64_t j = std::max<int64_t>(0, -at); j < kChunk && at + j < n; ++j)
        use(at + j, words[j]);
    }
  }
}

// The one formula of a uniform number; fused, so that every backend rounds once.
inline float scaled(uint32_t word, float low, float range) {
  return std::fma(range, uniform(word), low);
}

#if HLITE_PHILOX_AVX2
constexpr int64_t kVectorElements = 32;  // eight blocks of four words

// High and low halves of eight 32 x 32-bit products.
inline void multiply(__m256i x, __m256i by, __m256i& high, __m256i& low) {
  const __m256i even = _mm256_mul_epu32(x, by);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), by);
  low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
  high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
}

// out[0..32) = scaled words of the blocks first .. first + 7, which must not carry into the upper
// half of the counter. What the compiler makes of the plain loops takes five times as long, and
// gigabytes of tables wait for it at every start.
void uniform_vector(uint64_t seed, uint64_t stream, uint64_t first, float low, float range,
                    float* out) {
  const auto all = [](uint64_t x) { return _mm256_set1_epi32(static_cast<int>(x)); };
  __m256i a = _mm256_add_epi32(all(first & 0xffffffffu), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  __m256i b = all(first >> 32), c = all(stream & 0xffffffffu), d = all(stream >> 32);
  auto k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    __m256i high0, low0, high1, low1;
    multiply(a, all(0xD2511F53u), high0, low0);
    multiply(c, all(0xCD9E8D57u), high1, low1);
    a = _mm256_xor_si256(_mm256_xor_si256(high1, b), all(k0));
    b = low1;
    c = _mm256_xor_si256(_mm256_xor_si256(high0, d), all(k1));
    d = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const auto to_float = [&](__m256i word) {
    const __m256 u =
        _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_srli_epi32(word, 8)), _mm256_set1_ps(0x1p-24f));
    return _mm256_castps_pd(_mm256_fmadd_ps(_mm256_set1_ps(range), u, _mm256_set1_ps(low)));
  };
  const auto zip = [](__m256d x, __m256d y, bool upper) {
    const __m256 p = _mm256_castpd_ps(x), q = _mm256_castpd_ps(y);
    return _mm256_castps_pd(upper ? _mm256_unpackhi_ps(p, q) : _mm256_unpacklo_ps(p, q));
  };
  // Lane l holds block l: turn four vectors of eight into eight blocks of four.
  const __m256d fa = to_float(a), fb = to_float(b), fc = to_float(c), fd = to_float(d);
  const __m256d ab = zip(fa, fb, false), AB = zip(fa, fb, true), cd = zip(fc, fd, false),
                CD = zip(fc, fd, true);
  const __m256d r0 = _mm256_unpacklo_pd(ab, cd), r1 = _mm256_unpackhi_pd(ab, cd);
  const __m256d r2 = _mm256_unpacklo_pd(AB, CD), r3 = _mm256_unpackhi_pd(AB, CD);
  const auto store = [&](int at, __m256d v) { _mm256_storeu_ps(out + at, _mm256_castpd_ps(v)); };
  store(0, _mm256_permute2f128_pd(r0, r1, 0x20));
  store(8, _mm256_permute2f128_pd(r2, r3, 0x20));
  store(16, _mm256_permute2f128_pd(r0, r1, 0x31));
  store(24, _mm256_permute2f128_pd(r2, r3, 0x31));
}
#endif

// Inverse of the standard normal distribution function, relative error 1.15e-9 (P. J. Acklam's
// rational approximation), for p in (0, 1).
double normal_quantile(double p) {
  constexpr double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                          1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
  constexpr double b[] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02,
                          6.680131188771972e+01, -1.328068155288572e+01};
  // Truncation at two sigma leaves p in [0.0228, 0.9772]; the approximation's tails are used only
  // below 0.02425.
  constexpr double c[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                          -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
  constexpr double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                          3.754408661907416e+00};
  constexpr double kLow = 0.02425;
  const auto tail = [&](double q) {
    return (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
           ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
  };
  if (p < kLow) return tail(std::sqrt(-2 * std::log(p)));
  if (p > 1 - kLow) return -tail(std::sqrt(-2 * std::log(1 - p)));
  const double q = p - 0.5, r = q * q;
  return (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
         (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
}
}  // namespace

void fill_uniform(float* out, int64_t n, uint64_t seed, uint64_t stream, uint64_t first, float low,
                  float high) {
  const float range = high - low;
  int64_t done = 0;
  const auto plain = [&](int64_t until) {
    for_each_word(
        until - done, seed, stream, first + static_cast<uint64_t>(done),
        [=, to = out + done](int64_t i, uint32_t word) { to[i] = scaled(word, low, range); });
    done = until;
  };
#if HLITE_PHILOX_AVX2
  // Whole groups of eight blocks, aligned in the stream so that no counter carries within one.
  const auto aligned =
      static_cast<int64_t>((kVectorElements - first % kVectorElements) % kVectorElements);
  plain(std::min(n, aligned));
  for (; done + kVectorElements <= n; done += kVectorElements)
    uniform_vector(seed, stream, (first + static_cast<uint64_t>(done)) / 4, low, range, out + done);
#endif
  plain(n);
}

void fill_normal(float* out, int64_t n, uint64_t seed, uint64_t stream, uint64_t first,
                 float sigma) {
  for_each_word(n, seed, stream, first, [=](int64_t i, uint32_t word) {
    out[i] =
        sigma * static_cast<float>(normal_quantile((static_cast<double>(word) + 0.5) * 0x1p-32));
  });
}

void fill_truncated_normal(float* out, int64_t n, uint64_t seed, uint64_t stream, uint64_t first,
                           float sigma) {
  constexpr double kBelow = 0.022750131948179195;  // P(Z < -2)
  for_each_word(n, seed, stream, first, [=](int64_t i, uint32_t word) {
    const double u = (static_cast<double>(word) + 0.5) * 0x1p-32;
    out[i] = sigma * static_cast<float>(normal_quantile(kBelow + u * (1 - 2 * kBelow)));
  });
}

}  // namespace hlite::random
