#include "embedding/residency_forecast.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace hlite::embedding {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

class Residency {
 public:
  Residency(const KeyFrequencies& keys, const ResidentRows& rows)
      : rows_(rows), counted_(keys.counted_samples() > 0 ? keys.counted_samples() : kForever) {
    double replicated = rows.replicated_rows;
    for (KeyFrequencies::Class c : keys.classes()) {  // the most frequent first
      const double left = std::min(replicated, c.categories);
      replicated -= left;
      c.categories = (c.categories - left) * rows.rows_share;
      if (c.categories > 0) classes_.push_back(c);
    }
    samples_ = rows.batches > 0 ? rows.batches * rows.batch : kForever;
    window_ = find_window();
  }

  [[nodiscard]] ResidencyForecast forecast() const {
    // Batches until lines are full, or all rows have been looked up; then nothing changes any more.
    const double changes = std::min({window_, samples_, counted_});
    if (changes == kForever) return after(kForever);
    constexpr double kMaxParts = 200;
    const double parts = std::clamp(std::ceil(changes / rows_.batch), 1.0, kMaxParts);
    const double share = samples_ == kForever ? 0 : changes / samples_;
    ResidencyForecast mean;
    for (double part = 0; part < parts && share > 0; ++part)
      add(mean, after(std::max(0.0, (part + 0.5) * changes / parts - rows_.batch / 2)),
          share / parts);
    if (share < 1) add(mean, after(kForever), 1 - share);
    if (samples_ == kForever) {
      mean.displaced = window_ == kForever ? 0 : mean.missing;
      return mean;
    }
    mean.first = std::min(mean.missing, distinct(samples_) / rows_.batches);
    mean.displaced = std::max(0.0, mean.missing - rows_.lines / rows_.batches);
    return mean;
  }

 private:
  // The probability that none of `lookups` is among so many samples.
  [[nodiscard]] double none(double lookups, double samples) const {
    return samples >= counted_ ? 0 : std::exp(lookups * std::log1p(-samples / counted_));
  }
  [[nodiscard]] double unseen(const KeyFrequencies::Class& c, double samples) const {
    if (counted_ == kForever) return std::exp(-c.per_sample * samples);
    return none(c.per_sample * counted_, samples);
  }
  // The same probability for the other lookups of a category, without the current one.
  [[nodiscard]] double others_unseen(const KeyFrequencies::Class& c, double samples) const {
    if (counted_ == kForever) return std::exp(-c.per_sample * samples);
    return none(std::max(0.0, c.per_sample * counted_ - 1), samples);
  }
  [[nodiscard]] double distinct(double samples) const {
    double sum = 0;
    for (const auto& c : classes_) sum += c.categories * (1 - unseen(c, samples));
    return sum;
  }
  // The samples whose rows fill the lines; for ever if all rows have one.
  [[nodiscard]] double find_window() const {
    double all = 0;
    for (const auto& c : classes_) all += c.categories;
    if (all <= rows_.lines) return kForever;
    double low = 0, high = counted_;
    if (high == kForever)
      for (high = rows_.batch; distinct(high) < rows_.lines; high *= 2) low = high;
    for (int i = 0; i < 60; ++i) {
      const double middle = 0.5 * (low + high);
      (distinct(middle) < rows_.lines ? low : high) = middle;
    }
    return high;
  }

  // The forecast for a batch that comes after so many samples.
  [[nodiscard]] ResidencyForecast after(double samples) const {
    const double window = std::min(window_, samples), share = rows_.batch / rows_.ranks;
    ResidencyForecast sum;
    for (const auto& c : classes_) {
      const double lookups =
                       c.categories * (rows_.ranks == 1 ? c.per_sample * rows_.batch
                                                        : rows_.ranks * (1 - unseen(c, share))),
                   absent = others_unseen(c, window);
      sum.lookups += lookups;
      sum.resident += lookups * (1 - absent);
      sum.missing += c.categories * (1 - unseen(c, rows_.batch)) * absent;
    }
    return sum;
  }

  static void add(ResidencyForecast& sum, const ResidencyForecast& of, double weight) {
    sum.lookups += weight * of.lookups;
    sum.resident += weight * of.resident;
    sum.missing += weight * of.missing;
  }

  const ResidentRows rows_;
  const double counted_;
  std::vector<KeyFrequencies::Class> classes_;
  double samples_ = 0, window_ = 0;
};

}  // namespace

ResidencyForecast forecast_residency(const KeyFrequencies& keys, const ResidentRows& rows) {
  return Residency(keys, rows).forecast();
}

}  // namespace hlite::embedding
