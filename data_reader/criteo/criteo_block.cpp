#include "data_reader/criteo/criteo_block.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>

#include "data_reader/criteo/criteo_words.h"
#include "hugectr_lite/core/wide.h"

namespace hlite::criteo {

using data::ColumnArrays;
using data::KeepLine;
using data::ParsedFront;

namespace {

constexpr int kFields = kDense + kSlots;     // besides the label
constexpr int kTileRows = 16;                // converted together
constexpr size_t kWindow = size_t{1} << 14;  // characters whose separators are found together
constexpr size_t kChunk = 64;                // characters that are compared together
constexpr uint16_t kBeyond = UINT16_MAX;     // after every character of a window
static_assert(kTileRows <= ColumnArrays::kRowsBeyond && kWindow <= kBeyond);

// Places in a window, ascending.
struct Places {
  size_t count;
  // Its size allows what put() writes beyond, and kBeyond as often as a line has separators.
  uint16_t at[kWindow + 2 * kChunk];

  // The places of the bits, from `first` on. Writes kUsual of them without a branch.
  template <int kUsual>
  void put(uint64_t bits, size_t first) {
    constexpr uint64_t kTop = uint64_t{1} << 63;  // what is written beyond does not matter
    const size_t end = count + static_cast<size_t>(std::popcount(bits));
    uint16_t* to = at + count;
    do {
      for (int i = 0; i < kUsual; ++i, bits &= bits - 1)
        *to++ = static_cast<uint16_t>(first + static_cast<size_t>(std::countr_zero(bits | kTop)));
    } while (to < at + end);
    count = end;
  }
  void end() { std::fill_n(at + count, kFields + 1, kBeyond); }
};

// Bit i: character i of a chunk is c.
uint64_t equal_bits(const char* chunk, char c) {
#ifdef __AVX2__
  const auto half = [&](const char* p) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return static_cast<uint32_t>(
        _mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(c))));
  };
  return half(chunk) | uint64_t{half(chunk + 32)} << 32;
#else
  uint64_t bits = 0;
  for (size_t i = 0; i < kChunk; ++i) bits |= uint64_t{chunk[i] == c} << i;
  return bits;
#endif
}

// Works in whole chunks.
void find_separators(std::string_view window, Places& tabs, Places& feeds) {
  tabs.count = feeds.count = 0;
  for (size_t at = 0; at + kChunk <= window.size(); at += kChunk) {
    tabs.put<12>(equal_bits(window.data() + at, '\t'), at);
    feeds.put<1>(equal_bits(window.data() + at, '\n'), at);
  }
  tabs.end();
}

// Fields of rows, before they are converted.
struct Tile {
  int rows = 0;
  // Characters from the beginning of the field on, also those after it, and half the bits of the
  // latter: 4 (8 - length), nonsense for a field that is too long.
  alignas(64) uint64_t words[kFields][kTileRows], halves[kFields][kTileRows];

  // Adds a line whose first field begins at `begin`, whose fields but for the last end at `tabs`.
  void add(const char* text, size_t begin, const uint16_t* tabs, size_t end) {
    uint64_t *word = &words[0][rows], *half = &halves[0][rows];
    const auto put = [&](size_t first, size_t last) {
      std::memcpy(word, text + first, sizeof(uint64_t));
      *half = 4 * (kLongest + first - last);
      word += kTileRows;
      half += kTileRows;
    };
    for (int k = 0; k < kFields - 1; ++k) {
      put(begin, tabs[k]);
      begin = size_t{tabs[k]} + 1;
    }
    put(begin, end - (end > begin && text[end - 1] == '\r'));
    ++rows;
  }
};

// Returns false if a field is not of the format.
bool convert(const Tile& tile, const KeyRange& range, const ColumnArrays& out, int64_t row) {
  uint64_t any = 0;
  wide([&, range]<int kLanes>() {
    constexpr int kVectorRows = kLanes / 2;
    static_assert(kTileRows % kVectorRows == 0);
    using Words = typename Vector<uint64_t, kVectorRows>::Type;
    using Values = typename Vector<uint32_t, kVectorRows>::Type;
    Words bad = {};
    for (int k = 0; k < kFields; ++k) {
      uint32_t* to = (k < kDense ? out.dense<uint32_t>(k) : out.key<uint32_t>(k - kDense)) + row;
      for (int r = 0; r < kTileRows; r += kVectorRows, to += kVectorRows) {
        Words words, halves;
        std::memcpy(&words, &tile.words[k][r], sizeof(words));
        std::memcpy(&halves, &tile.halves[k][r], sizeof(halves));
        bad |= halves & ~uint64_t{63};
        if (k < kDense) {
          convert_integers(words, halves, bad);
        } else {
          convert_tokens(words, halves, bad);
          range.reduce(words);
        }
        const Values values = __builtin_convertvector(words, Values);
        std::memcpy(to, &values, sizeof(values));
      }
    }
    for (int i = 0; i < kVectorRows; ++i) any |= bad[i];
  });
  return any == 0;
}

// The rows of a tile into the arrays, or false.
bool empty(Tile& tile, const KeyRange& range, const ColumnArrays& out, int64_t row) {
  constexpr uint64_t kMissing = 4 * kLongest;
  const int rows = std::exchange(tile.rows, 0);
  for (auto& halves : tile.halves) std::fill(halves + rows, halves + kTileRows, kMissing);
  if (!convert(tile, range, out, row)) return false;
  for (int slot = 0; slot < kSlots; ++slot) {
    const uint64_t* halves = tile.halves[kDense + slot];
    out.count_missing(slot, std::count(halves, halves + rows, kMissing));
  }
  return true;
}

}  // namespace

ParsedFront parse_front(int64_t number, std::string_view text, const KeyRange& range, bool labelled,
                        const ColumnArrays& out, int64_t row, const KeepLine& keeps) {
  struct Scratch {
    Places tabs, feeds;
    Tile tile;
  };
  const auto scratch = std::make_unique_for_overwrite<Scratch>();
  Places &tabs = scratch->tabs, &feeds = scratch->feeds;
  Tile& tile = scratch->tile;
  ParsedFront done, next;  // without and with what is in the tile
  tile.rows = 0;
  const auto empty_tile = [&] {
    if (tile.rows > 0 && !empty(tile, range, out, row + done.rows)) return false;
    done = next;
    return true;
  };
  const size_t tabs_of_line = labelled ? kFields : kFields - 1;
  for (;;) {
    const char* const window = text.data() + next.bytes;
    const size_t left = text.size() - next.bytes;
    find_separators({window, std::min(left, kWindow)}, tabs, feeds);
    const uint16_t* tab = tabs.at;
    size_t begin = 0;
    for (size_t i = 0; i < feeds.count; ++i, tab += tabs_of_line) {
      const size_t end = feeds.at[i];
      const bool good = tab[tabs_of_line - 1] < end && tab[tabs_of_line] > end &&
                        end + kLongest <= left &&
                        (!labelled || (tab[0] == begin + 1 && (window[begin] | 1) == '1'));
      if (!good) return empty_tile(), done;
      if (keeps(number + next.lines)) {
        out.label()[row + next.rows++] = labelled ? static_cast<uint32_t>(window[begin] - '0') : 0;
        tile.add(window, labelled ? begin + 2 : begin, tab + labelled, end);
      }
      begin = end + 1;
      ++next.lines;
      next.bytes = static_cast<size_t>(window - text.data()) + begin;
      if (tile.rows == kTileRows && !empty_tile()) return done;
    }
    if (begin == 0) return empty_tile(), done;
  }
}

}  // namespace hlite::criteo
