// RankLaw: how often the 1st, 2nd, 3rd ... most frequent category of a column occurs.
//
// A law is a list of buckets of ranks, the ranks of a bucket equally likely: the first 128 ranks
// have a bucket each, later buckets are about 1/32 as wide as their first rank. That is exact where
// single categories matter, takes some 500 buckets for any number of categories, and a bucket can
// be drawn in constant time. Ranks are counted from 0.
#pragma once

#include <cstdint>
#include <vector>

namespace hlite::prep {

constexpr double kTwo32 = 4294967296.0;  // chances are words below it

// Measurements of a sample of a column, missing values aside.
struct SkewProfile {
  double top_share[3] = {0, 0, 0};  // of the 1, 10 and 100 most frequent categories
  int64_t draws = 0;                // values in the sample
  int64_t distinct = 0;             // categories among them
  static constexpr int64_t kTop[3] = {1, 10, 100};
};

class RankLaw {
 public:
  struct RankBucket {
    int64_t first, ranks;
    double share;  // of all of its ranks together
  };

  // share(rank) proportional to (rank + 1)^-exponent, over `ranks` >= 1 ranks.
  static RankLaw zipf(int64_t ranks, double exponent);
  // A law over `ranks` ranks with these shares of its top 1, 10 and 100: a power law on each of the
  // ranks 2-10 and 11-100, Zipf and Mandelbrot's (rank + shift)^-exponent on the rest, never
  // rising. Exponent and shift of the rest are found so that it goes on where the 100th rank ends
  // and a sample of `draws` values is expected to have `distinct` different ones, as near as can
  // be. Shares that cannot be are brought to the nearest possible (all of 20 ranks have share 1).
  static RankLaw fit(int64_t ranks, const SkewProfile& profile);

  [[nodiscard]] int64_t ranks() const { return buckets_.back().first + buckets_.back().ranks; }
  [[nodiscard]] const std::vector<RankBucket>& buckets() const { return buckets_; }
  // Expected number of different categories among `draws` independent values.
  [[nodiscard]] double expected_distinct(double draws) const;

 private:
  // Appends the ranks [first, end) with shares proportional to (rank + 1 + shift)^-exponent,
  // `total` in all.
  void append(int64_t first, int64_t end, double exponent, double shift, double total);

  std::vector<RankBucket> buckets_;
};

// Draws from a law by Walker's alias method: two table look-ups a draw.
class RankSampler {
 public:
  explicit RankSampler(const RankLaw& law);

  // `word`: 32 random bits; `unit`: uniform in [0, 1), independent of them.
  [[nodiscard]] uint32_t draw(uint32_t word, double unit) const {
    // The high half of word * n is uniform over the buckets, the low half over its fraction.
    const uint64_t scaled = uint64_t{word} * buckets_.size();
    const AliasEntry* e = &buckets_[scaled >> 32];
    if (static_cast<uint32_t>(scaled) >= e->keep) e = &buckets_[e->alias];
    return e->first + static_cast<uint32_t>(unit * e->ranks);
  }

 private:
  struct AliasEntry {
    uint32_t keep;  // stays with probability keep / 2^32, else goes to `alias`
    uint32_t alias;
    uint32_t first, ranks;
  };
  std::vector<AliasEntry> buckets_;
};

}  // namespace hlite::prep
