#include "hugectr_lite/core/random.h"

#include <cmath>
#include <vector>

#include "tests/support/catch.h"

using namespace hlite;

TEST_CASE("philox gives the published known answers of Philox4x32-10") {
  // Random123 1.09, tests/kat_vectors: philox4x32, 10 rounds; counter, key, answer.
  struct KnownAnswer {
    uint32_t counter[4], key[2], answer[4];
  };
  const KnownAnswer known[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  for (const KnownAnswer& k : known) {
    const random::Block got = random::philox(
        {{k.counter[0], k.counter[1], k.counter[2], k.counter[3]}}, k.key[0], k.key[1]);
    for (int i = 0; i < 4; ++i) CHECK(got.word[i] == k.answer[i]);
  }
}

TEST_CASE("fill_uniform gives the numbers of word(), from any first element and at any length") {
  const uint64_t seed = 0x123456789abcdef, stream = random::stream_of("emb.table_3");
  const uint64_t firsts[] = {0, 1, 2, 3, 4, 61, 4095, (uint64_t{1} << 34) - 5};
  for (const uint64_t first : firsts) {
    for (const int64_t n : {0, 1, 3, 4, 63, 64, 65, 127, 1000}) {
      std::vector<float> got(static_cast<size_t>(n) + 1, -99.f);
      random::fill_uniform(got.data(), n, seed, stream, first, -0.3f, 0.45f);
      bool same = true;
      for (int64_t i = 0; i < n; ++i) {
        const uint32_t word = random::word(seed, stream, first + static_cast<uint64_t>(i));
        const float want = std::fma(0.45f - -0.3f, random::uniform(word), -0.3f);
        same = same && got[static_cast<size_t>(i)] == want;
      }
      INFO("first " << first << ", n " << n);
      CHECK(same);
      CHECK(got.back() == -99.f);
    }
  }
}

TEST_CASE("fill_uniform does not depend on how a range is cut") {
  std::vector<float> whole(1003), parts(1003);
  random::fill_uniform(whole.data(), 1003, 5, 6, 7, -0.1f, 0.1f);
  for (int64_t at = 0, n = 1; at < 1003; at += n, n = std::min<int64_t>(n * 2 + 1, 1003 - at))
    random::fill_uniform(parts.data() + at, n, 5, 6, 7 + static_cast<uint64_t>(at), -0.1f, 0.1f);
  CHECK(whole == parts);
}

TEST_CASE("fill_uniform fills its range evenly") {
  constexpr int64_t kCount = 100000;
  std::vector<float> x(kCount);
  random::fill_uniform(x.data(), kCount, 1, 2, 0, -2, 2);
  double sum = 0, squares = 0;
  bool inside = true;
  for (const float v : x) {
    inside = inside && v >= -2 && v < 2;
    sum += static_cast<double>(v);
    squares += static_cast<double>(v) * static_cast<double>(v);
  }
  CHECK(inside);
  CHECK(std::abs(sum / kCount) < 0.02);                // five standard errors
  CHECK(std::abs(squares / kCount - 4.0 / 3) < 0.02);  // variance of a width of 4
}

TEST_CASE("fill_truncated_normal stays within two sigma and has its spread") {
  constexpr int64_t kCount = 100000;
  std::vector<float> x(kCount);
  random::fill_truncated_normal(x.data(), kCount, 1, 2, 0, 0.5f);
  double sum = 0, squares = 0;
  bool inside = true;
  for (const float v : x) {
    inside = inside && std::abs(v) <= 1.f;
    sum += static_cast<double>(v);
    squares += static_cast<double>(v) * static_cast<double>(v);
  }
  CHECK(inside);
  CHECK(std::abs(sum / kCount) < 0.008);
  // Variance of a standard normal cut at two: 1 - 4 phi(2) / (1 - 2 Phi(-2)) = 0.7737.
  CHECK(std::abs(squares / kCount - 0.25 * 0.7737) < 0.004);
}

TEST_CASE("streams of different names and seeds differ") {
  CHECK(random::stream_of("") == 0xcbf29ce484222325u);
  CHECK(random::stream_of("a") == 0xaf63dc4c8601ec8cu);  // FNV-1a's published value
  CHECK(random::word(1, 2, 3) != random::word(1, 3, 3));
  CHECK(random::word(1, 2, 3) != random::word(2, 2, 3));
}
