// Shares of the ranks of a law.
#pragma once

#include <algorithm>

#include "hugectr_lite/preparation/synth/rank_law.h"

namespace hlite::prep {

inline double rank_share(const RankLaw& law, int64_t rank) {
  const RankLaw::RankBucket* of_rank = nullptr;
  for (const RankLaw::RankBucket& bucket : law.buckets())
    if (bucket.first <= rank) of_rank = &bucket;
  return of_rank->share / static_cast<double>(of_rank->ranks);
}

// Of the `k` most frequent categories.
inline double top_share(const RankLaw& law, int64_t k) {
  double sum = 0;
  for (const RankLaw::RankBucket& b : law.buckets())
    if (const int64_t taken = std::clamp<int64_t>(k - b.first, 0, b.ranks); taken > 0)
      sum += b.share * static_cast<double>(taken) / static_cast<double>(b.ranks);
  return std::min(sum, 1.0);
}

}  // namespace hlite::prep
