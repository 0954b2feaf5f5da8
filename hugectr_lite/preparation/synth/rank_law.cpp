#include "hugectr_lite/preparation/synth/rank_law.h"

#include <algorithm>
#include <cmath>

#include "hugectr_lite/core/error.h"

namespace hlite::prep {
namespace {

constexpr int64_t kSingleRanks = 128, kBucketsPerFold = 32;
constexpr double kSteepest = 4, kSteepestTail = 30;  // exponents

// Sum of (x / base)^-e for whole x - a in [0, b - a), by the midpoint rule; a single term is exact.
// At a >= 100 the rule is off by less than e (e + 1) / (24 a^2). `base` keeps powers in range.
double power_sum(double a, double b, double e, double base) {
  if (b - a == 1) return std::pow(a / base, -e);
  const double low = (a - 0.5) / base, high = (b - 0.5) / base;
  if (std::abs(e - 1) < 1e-9) return base * std::log(high / low);
  return base * (std::pow(high, 1 - e) - std::pow(low, 1 - e)) / (1 - e);
}

// Cuts the ranks [first, end) into buckets.
template <typename Visit>
void for_each_bucket(int64_t first, int64_t end, Visit&& visit) {
  while (first < end) {
    const int64_t width =
        first < kSingleRanks ? 1
                             : std::min(std::max<int64_t>(first / kBucketsPerFold, 1), end - first);
    visit(first, width);
    first += width;
  }
}

// Shares proportional to (rank + 1 + shift)^-exponent, from rank `first` on, whose share is 1.
struct PowerLaw {
  int64_t first;
  double exponent, shift;

  [[nodiscard]] double base() const { return static_cast<double>(first + 1) + shift; }
  [[nodiscard]] double at(int64_t rank) const {
    return std::pow((static_cast<double>(rank + 1) + shift) / base(), -exponent);
  }
  // Sums the ranks [begin, end) as one bucket; begin >= 100 or one rank.
  [[nodiscard]] double bucket_sum(int64_t begin, int64_t end) const {
    return power_sum(static_cast<double>(begin + 1) + shift, static_cast<double>(end + 1) + shift,
                     exponent, base());
  }
  // Sums the ranks [first, end), bucket by bucket.
  [[nodiscard]] double sum(int64_t end) const {
    double sum = 0;
    for_each_bucket(first, end,
                    [&](int64_t at, int64_t width) { sum += bucket_sum(at, at + width); });
    return sum;
  }
};

// The largest x in [low, high] with good(x), where good holds from `low` up to some point.
template <typename Good>
double last_good(double low, double high, Good&& good) {
  if (good(high)) return high;
  for (int step = 0; step < 50; ++step) {
    const double middle = (low + high) / 2;
    (good(middle) ? low : high) = middle;
  }
  return low;
}

// A stretch of ranks that follows one power law.
struct LawSegment {
  int64_t first, end;
  double total;
  [[nodiscard]] double mean() const { return total / static_cast<double>(end - first); }
  [[nodiscard]] double centre() const {
    return std::sqrt(static_cast<double>(first + 1) * static_cast<double>(end));
  }
  [[nodiscard]] double share(int64_t rank, double e, double shift = 0) const {
    const PowerLaw law{first, e, shift};
    return total * law.at(rank) / (first < 100 ? law.sum(end) : law.bucket_sum(first, end));
  }
  // The smallest shift with which the first share is at most `most`.
  [[nodiscard]] double shift_for(double e, double most) const {
    constexpr double kMaxShift = 1e9;
    if (share(first, e) <= most) return 0;
    double low = 0, high = 1;
    while (high < kMaxShift && share(first, e, high) > most) high *= 2;
    for (int step = 0; step < 40; ++step) {
      const double middle = (low + high) / 2;
      (share(first, e, middle) > most ? low : high) = middle;
    }
    return high;
  }
};

// Makes segments of falling means, with the shares that the profile has seen.
std::vector<LawSegment> segments_of(int64_t ranks, const SkewProfile& profile) {
  // A share of 1 that was seen on a sample allows half a value of it.
  const double unseen = profile.draws > 0 ? 0.5 / static_cast<double>(profile.draws) : 0.0;
  std::vector<LawSegment> segments;
  double before = 0;  // share of the segments so far
  int64_t first = 0;
  for (int i = 0; i <= 3 && first < ranks; ++i) {
    const int64_t end = i < 3 ? std::min(SkewProfile::kTop[i], ranks) : ranks;
    double upto = end == ranks ? 1.0 : std::min(profile.top_share[i < 3 ? i : 2], 1 - unseen);
    // Neither falling below the share that equal categories would have, nor rising in the mean.
    const auto width = static_cast<double>(end - first);
    upto = std::max(upto, before + (1 - before) * width / static_cast<double>(ranks - first));
    segments.push_back({first, end, upto - before});
    before = upto;
    first = end;
  }
  // No segment may have a higher mean than the one before: pool such with it.
  for (size_t i = segments.size(); i-- > 1;) {
    if (segments[i].mean() <= segments[i - 1].mean()) continue;
    segments[i - 1] = {segments[i - 1].first, segments[i].end,
                       segments[i - 1].total + segments[i].total};
    segments.erase(segments.begin() + static_cast<std::ptrdiff_t>(i));
    i = segments.size();
  }
  return segments;
}

}  // namespace

void RankLaw::append(int64_t first, int64_t end, double exponent, double shift, double total) {
  const PowerLaw law{first, exponent, shift};
  const double unit = total / law.sum(end);
  for_each_bucket(first, end, [&](int64_t at, int64_t width) {
    buckets_.push_back({at, width, unit * law.bucket_sum(at, at + width)});
  });
}

RankLaw RankLaw::zipf(int64_t ranks, double exponent) {
  HLITE_CHECK(ranks >= 1, "a law over {} ranks", ranks);
  RankLaw law;
  law.append(0, ranks, exponent, 0.0, 1.0);
  return law;
}

RankLaw RankLaw::fit(int64_t ranks, const SkewProfile& profile) {
  HLITE_CHECK(ranks >= 1, "a law over {} ranks", ranks);
  const std::vector<LawSegment> segments = segments_of(ranks, profile);
  RankLaw law;
  double last = 2;  // share of the last rank so far: what comes next may not exceed it
  for (size_t i = 0; i < segments.size(); ++i) {
    const LawSegment& s = segments[i];
    const double floor = i + 1 < segments.size() ? segments[i + 1].mean() : 0.0;
    const auto possible = [&](double e) {
      constexpr double kRounding = 1 + 1e-12;
      return s.share(s.first, e) <= last * kRounding && s.share(s.end - 1, e) * kRounding >= floor;
    };
    // Takes the steepness of the line between the middles of the neighbours.
    double steep = kSteepest;
    if (i > 0 && i + 1 < segments.size()) {
      const LawSegment &a = segments[i - 1], &b = segments[i + 1];
      steep = std::log(a.mean() / std::max(b.mean(), 1e-300)) / std::log(b.centre() / a.centre());
    }
    double e = last_good(0.0, std::clamp(steep, 0.0, kSteepest), possible), shift = 0;
    const bool tail = i + 1 == segments.size() || profile.distinct <= s.end;
    if (tail && s.first >= SkewProfile::kTop[1] && profile.draws > 0) {
      // The steeper, the fewer different values; beyond `e` only with a shift, which starts flat.
      e = last_good(0.0, kSteepestTail, [&](double steeper) {
        const double start = s.shift_for(steeper, last);
        RankLaw trial = law;
        trial.append(s.first, s.end, steeper, start, s.total);
        return s.share(s.end - 1, steeper, start) >= floor &&
               trial.expected_distinct(static_cast<double>(profile.draws)) >=
                   static_cast<double>(profile.distinct);
      });
      shift = s.shift_for(e, last);
    }
    law.append(s.first, s.end, e, shift, s.total);
    last = s.share(s.end - 1, e, shift);
  }
  return law;
}

double RankLaw::expected_distinct(double draws) const {
  double sum = 0;
  for (const RankBucket& b : buckets_) {
    const auto n = static_cast<double>(b.ranks);
    // 1 - (1 - p)^draws, without losing small p.
    const double p = std::min(b.share / n, 1.0);
    sum -= n * (p < 1 ? std::expm1(draws * std::log1p(-p)) : -1.0);
  }
  return sum;
}

// Vose's construction.
RankSampler::RankSampler(const RankLaw& law) {
  const auto& buckets = law.buckets();
  const auto n = static_cast<double>(buckets.size());
  std::vector<double> load;
  std::vector<uint32_t> small, large;
  for (const RankLaw::RankBucket& b : buckets) {
    const auto i = static_cast<uint32_t>(buckets_.size());
    buckets_.push_back(
        {UINT32_MAX, i, static_cast<uint32_t>(b.first), static_cast<uint32_t>(b.ranks)});
    load.push_back(b.share * n);
    (load.back() < 1 ? small : large).push_back(i);
  }
  while (!small.empty() && !large.empty()) {
    const uint32_t s = small.back(), l = large.back();
    small.pop_back();
    buckets_[s].keep = static_cast<uint32_t>(std::min(load[s] * kTwo32, kTwo32 - 1));
    buckets_[s].alias = l;
    load[l] -= 1 - load[s];
    if (load[l] < 1) {
      large.pop_back();
      small.push_back(l);
    }
  }
}

}  // namespace hlite::prep
