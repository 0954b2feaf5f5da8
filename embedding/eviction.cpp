#include "embedding/eviction.h"

#include <algorithm>
#include <tuple>

namespace hlite::embedding {

bool is_expired(const VocabularyRules& rules, const RowUse& use, int64_t iteration) {
  const int64_t to_live = rules.eviction.steps_to_live;
  return to_live > 0 && iteration - use.last >= to_live;
}

std::vector<uint32_t> choose_evicted(const VocabularyRules& rules, const EvictionInput& input,
                                     VocabularyCounts& counts) {
  const Eviction& of = rules.eviction;
  const auto rows = static_cast<uint32_t>(input.keys.size());
  const std::vector<float> norms =
      of.min_l2_norm > 0 && rows > 0 ? input.norms() : std::vector<float>();
  std::vector<uint32_t> evicted, kept;
  for (uint32_t row = 0; row < rows; ++row) {
    const RowUse& use = input.uses[row];
    const bool idle = int64_t{use.last} <= input.before;
    if (is_expired(rules, use, input.iteration))
      ++counts.expired;
    else if (idle && of.min_count > 0 && use.count < of.min_count)
      ++counts.rare;
    else if (idle && of.min_l2_norm > 0 && norms[row] < of.min_l2_norm)
      ++counts.small;
    else {
      kept.push_back(row);
      continue;
    }
    evicted.push_back(row);
  }
  const auto capacity = static_cast<double>(input.capacity);
  if (rules.when_full == WhenFull::kEvict &&
      static_cast<double>(kept.size()) > kMaxFillShare * capacity) {
    const auto stay = static_cast<size_t>(kTargetFillShare * capacity);
    const auto least_used = [&](uint32_t a, uint32_t b) {
      const auto order = [&](uint32_t row) {
        return std::tuple(input.uses[row].last, input.uses[row].count, input.keys[row]);
      };
      return order(a) < order(b);
    };
    const auto leave = static_cast<std::ptrdiff_t>(kept.size() - stay);
    std::nth_element(kept.begin(), kept.begin() + leave, kept.end(), least_used);
    evicted.insert(evicted.end(), kept.begin(), kept.begin() + leave);
    counts.displaced += leave;
    std::sort(evicted.begin(), evicted.end());
  }
  return evicted;
}

std::vector<CountedKey> kept_candidates(const VocabularyRules& rules,
                                        std::vector<CountedKey> candidates, int64_t iteration,
                                        int64_t capacity) {
  std::erase_if(candidates,
                [&](const CountedKey& of) { return is_expired(rules, of.use, iteration); });
  if (std::ssize(candidates) * 4 <= capacity * 3) return candidates;
  const auto keep = static_cast<std::ptrdiff_t>(capacity / 2);
  std::nth_element(candidates.begin(), candidates.begin() + keep, candidates.end(),
                   [](const CountedKey& a, const CountedKey& b) {
                     return std::tuple(b.use.last, b.use.count, a.key) <
                            std::tuple(a.use.last, a.use.count, b.key);
                   });
  candidates.resize(static_cast<size_t>(keep));
  return candidates;
}

}  // namespace hlite::embedding
