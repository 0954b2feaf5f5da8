// The share of a single rank of a law.
#pragma once

#include "hugectr_lite/preparation/synth/rank_law.h"

namespace hlite::prep {

inline double rank_share(const RankLaw& law, int64_t rank) {
  const RankLaw::RankBucket* of_rank = nullptr;
  for (const RankLaw::RankBucket& bucket : law.buckets())
    if (bucket.first <= rank) of_rank = &bucket;
  return of_rank->share / static_cast<double>(of_rank->ranks);
}

}  // namespace hlite::prep
