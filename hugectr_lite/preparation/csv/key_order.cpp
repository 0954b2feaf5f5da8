#include "hugectr_lite/preparation/csv/key_order.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace hlite::prep {

KeyOrder::KeyOrder(const std::string& path)
    : file_(path), rows_(file_.size() / static_cast<int64_t>(sizeof(uint64_t))) {}

// A digit of 16 bits after the other: counts the keys that begin with the digits so far.
KeyOrder::Place KeyOrder::key_at(int64_t rank) const {
  constexpr int kDigitBits = 16;
  constexpr uint64_t kDigit = (uint64_t{1} << kDigitBits) - 1;
  Place place;
  int64_t equal = rows_;
  for (int shift = 64 - kDigitBits; shift >= 0; shift -= kDigitBits) {
    std::vector<int64_t> counts(kDigit + 1);
    const uint64_t known = shift == 64 - kDigitBits ? 0 : ~uint64_t{0} << (shift + kDigitBits);
    read_pieces(file_, [&](std::span<const std::byte> piece) {
      for (size_t at = 0; at + sizeof(uint64_t) <= piece.size(); at += sizeof(uint64_t)) {
        uint64_t key = 0;
        std::memcpy(&key, piece.data() + at, sizeof key);
        if ((key & known) == place.key) ++counts[key >> shift & kDigit];
      }
    });
    uint64_t digit = 0;
    while (place.below + counts[digit] <= rank) place.below += counts[digit++];
    place.key |= digit << shift;
    equal = counts[digit];
  }
  place.up_to = place.below + equal;
  return place;
}

KeyOrder::Cut KeyOrder::last_rows(double share) const {
  const auto wanted = std::clamp<int64_t>(std::llround(share * static_cast<double>(rows_)), 1,
                                          std::max<int64_t>(rows_ - 1, 1));
  constexpr Cut kNone{.from = std::numeric_limits<uint64_t>::max(), .rows = 0};
  if (rows_ < 2) return kNone;
  const Place place = key_at(rows_ - wanted);
  const int64_t with = rows_ - place.below, without = rows_ - place.up_to;
  const bool all = with == rows_, none = without == 0;
  if (all && none) return kNone;
  if (!all && (none || with - wanted < wanted - without)) return {.from = place.key, .rows = with};
  return {.from = place.key + 1, .rows = without};
}

KeyOrder::Cut KeyOrder::one_key_more(const Cut& cut) const {
  const Place place = key_at(rows_ - cut.rows - 1);
  return {.from = place.key, .rows = rows_ - place.below};
}

}  // namespace hlite::prep
