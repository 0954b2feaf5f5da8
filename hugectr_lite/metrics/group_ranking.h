// The samples of an evaluation set, sorted for metrics that rank the samples of each group (one
// user or one query) separately.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hlite::metrics {

struct GroupRanking {
  // The samples of one group that have the same score.
  struct Tie {
    int64_t samples = 0, positives = 0;
  };
  struct Group {
    size_t first = 0, end = 0;  // its range of ties, by descending score
    int64_t samples = 0, positives = 0;
  };
  // All spans are [n]. Samples with the same value in `of_samples` form a group. Throws DataError
  // if a score is NaN.
  GroupRanking(std::span<const float> scores, std::span<const float> labels,
               std::span<const uint32_t> of_samples);

  std::vector<Tie> ties;
  std::vector<Group> groups;  // in the order of their keys
};

}  // namespace hlite::metrics
