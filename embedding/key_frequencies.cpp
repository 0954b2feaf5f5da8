#include "embedding/key_frequencies.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace hlite::embedding {

KeyFrequencies KeyFrequencies::counted(const FrequencyStatistics& statistics, double samples) {
  KeyFrequencies f;
  f.counted_samples_ = samples;
  for (size_t i = 0; i < statistics.counts.size();) {
    size_t end = i;
    while (end < statistics.counts.size() && statistics.counts[end] == statistics.counts[i]) ++end;
    f.classes_.push_back(
        {static_cast<double>(statistics.counts[i]) / samples, static_cast<double>(end - i)});
    i = end;
  }
  return f;
}

KeyFrequencies KeyFrequencies::counted(std::vector<std::pair<int64_t, int64_t>> histogram,
                                       double samples) {
  std::sort(histogram.begin(), histogram.end(), std::greater<>());
  KeyFrequencies f;
  f.counted_samples_ = samples;
  for (const auto& [count, categories] : histogram)
    if (count > 0)
      f.classes_.push_back({static_cast<double>(count) / samples, static_cast<double>(categories)});
  return f;
}

KeyFrequencies KeyFrequencies::uniform(const SlotLayout& layout) {
  KeyFrequencies f;
  for (int64_t t = 0; t < layout.tables(); ++t) {
    const auto rows = static_cast<double>(layout.table_rows[static_cast<size_t>(t)]);
    f.classes_.push_back({static_cast<double>(layout.table_lookups(t)) / rows, rows});
  }
  std::sort(f.classes_.begin(), f.classes_.end(),
            [](const Class& a, const Class& b) { return a.per_sample > b.per_sample; });
  return f;
}

KeyFrequencies KeyFrequencies::like_criteo(const SlotLayout& layout) {
  // Share of the n-th row times n; the row by which 89.2 % + kShare ln(n / 31152) come to 100 %.
  constexpr double kShare = 0.0408, kLastRow = 439e3, kStep = 1.01;
  const auto lookups = static_cast<double>(layout.columns()),
             tables = static_cast<double>(layout.tables());
  const double last = std::min(kLastRow, static_cast<double>(layout.total_rows));
  KeyFrequencies f;
  double left = lookups;
  for (double n = 1; n <= last;) {
    const double end = std::min(last + 1, std::ceil(n * kStep));
    f.classes_.push_back({lookups * kShare / (0.5 * (n + end)), end - n});
    left -= f.classes_.back().per_sample * f.classes_.back().categories;
    n = end;
  }
  // The rest goes to the first row of each table, which nearly all samples look up.
  f.classes_.insert(f.classes_.begin(), {left / tables, tables});
  return f;
}

double KeyFrequencies::lookups(double below) const {
  double sum = 0;
  for (const Class& c : classes_)
    if (c.per_sample < below) sum += c.per_sample * c.categories;
  return sum;
}

double KeyFrequencies::distinct(double samples, double below) const {
  double sum = 0;
  for (const Class& c : classes_)
    if (c.per_sample < below) sum -= c.categories * std::expm1(-samples * c.per_sample);
  return sum;
}

FrequencyStatistics KeyFrequencies::as_statistics(const SlotLayout& layout, double least,
                                                  double samples, int64_t more) const {
  FrequencyStatistics statistics;
  int64_t key = 0, table = -1;
  const auto next_category = [&] {
    do {
      if (++table == layout.tables()) table = 0, ++key;
    } while (key >= layout.table_rows[static_cast<size_t>(table)]);
    return layout.table_offset[static_cast<size_t>(table)] + key;
  };
  statistics.rare_lookups = std::llround(lookups(least) * samples);
  for (const Class& c : classes_)
    for (double i = 0; i < c.categories && std::ssize(statistics.counts) < layout.total_rows; ++i) {
      const int64_t count = std::llround(c.per_sample * samples);
      if (c.per_sample < least) {
        if (more-- <= 0) return statistics;
        statistics.rare_lookups -= count;
      }
      statistics.categories.push_back(next_category());
      statistics.counts.push_back(count);
    }
  return statistics;
}

}  // namespace hlite::embedding
