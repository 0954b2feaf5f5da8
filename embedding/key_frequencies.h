// Frequencies of the categories of a layer, in classes of equal frequency: they say what to expect
// of a batch before there is one. Counted, or assumed where nothing was counted.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "embedding/frequency.h"
#include "embedding/slot_layout.h"

namespace hlite::embedding {

class KeyFrequencies {
 public:
  static constexpr double kAny = std::numeric_limits<double>::infinity();

  // Takes counts of `samples` samples.
  static KeyFrequencies counted(const FrequencyStatistics& statistics, double samples);
  // Every key of a table as often as any other.
  static KeyFrequencies uniform(const SlotLayout& layout);
  // Skewed as the data of the MLPerf DLRM runs: of all lookups 89.2 % go to the 31,152 most
  // frequent rows, 90.1 % to 37,928, 91.1 % to 49,136, 91.9 % to 60,328 (start-up lines of
  // published logs), so the n-th row has a share of 0.0408 / n.
  static KeyFrequencies like_criteo(const SlotLayout& layout);

  // The categories of a layer that are looked up equally often.
  struct Class {
    double per_sample = 0;  // lookups of one category
    double categories = 0;
  };
  // From a histogram: (lookups in `samples` samples, categories with so many lookups).
  static KeyFrequencies counted(std::vector<std::pair<int64_t, int64_t>> histogram, double samples);

  [[nodiscard]] const std::vector<Class>& classes() const { return classes_; }
  // The samples that the counts were taken from; 0 if nothing was counted.
  [[nodiscard]] double counted_samples() const { return counted_samples_; }

  // Lookups of a sample to categories that are looked up less than `below` times in one.
  [[nodiscard]] double lookups(double below = kAny) const;
  // Returns how many of these are expected among the lookups of `samples` samples: each counted
  // once.
  [[nodiscard]] double distinct(double samples, double below = kAny) const;
  // The categories that are looked up `least` times in a sample or more, and the `more` next ones,
  // as a list with counts in `samples` samples. Which they are is not known: the first rows of each
  // table.
  [[nodiscard]] FrequencyStatistics as_statistics(const SlotLayout& layout, double least,
                                                  double samples, int64_t more = 0) const;

 private:
  std::vector<Class> classes_;  // by frequency descending
  double counted_samples_ = 0;
};

}  // namespace hlite::embedding
