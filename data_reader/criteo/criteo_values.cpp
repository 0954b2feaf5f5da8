#include "data_reader/criteo/criteo_values.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "data_reader/criteo/criteo_words.h"
#include "hugectr_lite/core/wide.h"

namespace hlite::criteo {

using data::parquet::Text;

namespace {

// Values whose characters are summed in 32 bits.
constexpr int64_t kValueChunk = 4096;
constexpr int kTileTexts = 16;  // converted together
static_assert(kTileTexts <= kValuesBeyond);

template <typename T>
uint32_t decimal_digits(T magnitude) {
  uint32_t digits = 1;
  for (T power = 10; power <= 1'000'000'000; power *= 10) digits += magnitude >= power;
  return digits;
}

// Calls convert(i, characters, wrong), which adds to both, for all values.
template <typename Convert>
ConvertedValues convert_all(int64_t count, const Convert& convert) {
  ConvertedValues result;
  uint32_t wrong = 0;
  wide([&] {
    for (int64_t at = 0; at < count; at += kValueChunk) {
      const int64_t end = std::min(at + kValueChunk, count);
      uint32_t characters = 0, odd = 0;
      for (int64_t i = at; i < end; ++i) convert(i, characters, odd);
      result.characters += characters;
      wrong |= odd;
    }
  });
  result.good = wrong == 0;
  return result;
}

// The fields of a tile as words (criteo_words.h); texts that are too long have nonsense in
// `halves`.
struct TextTile {
  alignas(64) uint64_t words[kTileTexts], halves[kTileTexts];

  void set(int i, const char* data, uint64_t size) {
    halves[i] = 4 * (kLongest - size);
    words[i] = 0;
    if (size == kLongest) {
      std::memcpy(&words[i], data, kLongest);
    } else if (size < kLongest && size > 0) {
      std::memcpy(&words[i], data, size);
    }
  }
};

}  // namespace

template <typename T>
ConvertedValues labels_of_numbers(const T* from, int64_t count, uint32_t* to) {
  return convert_all(count, [=](int64_t i, uint32_t& characters, uint32_t& wrong) {
    const T x = from[i];
    if constexpr (!std::is_same_v<T, bool>) wrong |= static_cast<uint32_t>(x != 0 && x != 1);
    to[i] = static_cast<uint32_t>(x);
    ++characters;
  });
}

template <typename T>
ConvertedValues integers_of_numbers(const T* from, int64_t count, uint32_t* to) {
  if constexpr (std::is_same_v<T, bool>) {
    return labels_of_numbers(from, count, to);
  } else {
    return convert_all(count, [=](int64_t i, uint32_t& characters, uint32_t& wrong) {
      const T x = from[i];
      const bool negative = std::cmp_less(x, 0);
      wrong |= static_cast<uint32_t>(std::cmp_greater(x, std::numeric_limits<int32_t>::max()) ||
                                     std::cmp_less(x, std::numeric_limits<int32_t>::min()));
      const auto bits = static_cast<uint32_t>(x);
      const uint32_t magnitude = negative ? 0 - bits : bits;
      characters += decimal_digits(magnitude) + negative;
      to[i] = negative ? 0 : magnitude;
    });
  }
}

template <typename T>
ConvertedValues tokens_of_numbers(const T* from, int64_t count, const KeyRange& range,
                                  uint32_t* to) {
  return convert_all(count, [=](int64_t i, uint32_t& characters, uint32_t& wrong) {
    const auto bits = static_cast<uint32_t>(from[i]);
    if constexpr (sizeof(T) > 4) wrong |= static_cast<uint32_t>(static_cast<T>(bits) != from[i]);
    uint32_t digits = 1;
    for (int nibble = 4; nibble < 32; nibble += 4) digits += bits >> nibble != 0;
    characters += digits;
    to[i] = range(bits);
  });
}

ConvertedValues tokens_of_texts(const Text* from, int64_t count, const KeyRange& range,
                                uint32_t* to) {
  ConvertedValues result;
  uint64_t wrong = 0, shortest = kLongest;
  wide([&, range]<int kLanes>() {
    constexpr int kVectorTexts = kLanes / 2;
    static_assert(kTileTexts % kVectorTexts == 0);
    using Words = typename Vector<uint64_t, kVectorTexts>::Type;
    using Values = typename Vector<uint32_t, kVectorTexts>::Type;
    Words bad = {};
    uint64_t characters = 0, least = kLongest;
    TextTile tile;
    for (int64_t at = 0; at < count; at += kTileTexts) {
      const auto texts = static_cast<int>(std::min<int64_t>(count - at, kTileTexts));
      for (int i = 0; i < texts; ++i) {
        const uint64_t size = from[at + i].size;
        tile.set(i, from[at + i].data, size);
        characters += size;
        least = std::min(least, size);
      }
      for (int i = texts; i < kTileTexts; ++i) tile.set(i, nullptr, 0);
      for (int i = 0; i < kTileTexts; i += kVectorTexts) {
        Words words, halves;
        std::memcpy(&words, &tile.words[i], sizeof(words));
        std::memcpy(&halves, &tile.halves[i], sizeof(halves));
        bad |= halves & ~uint64_t{63};
        convert_tokens(words, halves, bad);
        range.reduce(words);
        const Values values = __builtin_convertvector(words, Values);
        std::memcpy(to + at + i, &values, sizeof(values));
      }
    }
    for (int i = 0; i < kVectorTexts; ++i) wrong |= bad[i];
    result.characters = static_cast<int64_t>(characters);
    shortest = least;
  });
  result.good = wrong == 0;
  result.any_empty = shortest == 0;
  return result;
}

template ConvertedValues labels_of_numbers(const bool*, int64_t, uint32_t*);
template ConvertedValues labels_of_numbers(const int32_t*, int64_t, uint32_t*);
template ConvertedValues labels_of_numbers(const uint32_t*, int64_t, uint32_t*);
template ConvertedValues labels_of_numbers(const int64_t*, int64_t, uint32_t*);
template ConvertedValues labels_of_numbers(const uint64_t*, int64_t, uint32_t*);
template ConvertedValues integers_of_numbers(const bool*, int64_t, uint32_t*);
template ConvertedValues integers_of_numbers(const int32_t*, int64_t, uint32_t*);
template ConvertedValues integers_of_numbers(const uint32_t*, int64_t, uint32_t*);
template ConvertedValues integers_of_numbers(const int64_t*, int64_t, uint32_t*);
template ConvertedValues integers_of_numbers(const uint64_t*, int64_t, uint32_t*);
template ConvertedValues tokens_of_numbers(const int32_t*, int64_t, const KeyRange&, uint32_t*);
template ConvertedValues tokens_of_numbers(const uint32_t*, int64_t, const KeyRange&, uint32_t*);
template ConvertedValues tokens_of_numbers(const int64_t*, int64_t, const KeyRange&, uint32_t*);
template ConvertedValues tokens_of_numbers(const uint64_t*, int64_t, const KeyRange&, uint32_t*);

}  // namespace hlite::criteo
