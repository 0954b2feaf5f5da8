// A profile of real Criteo rows, column by column: aggregates only.
//
// Measured on 45,840 random rows (integers), 4,584 random rows (missing tokens) and the first
// 10,000 rows (distinct tokens, shares) of the Kaggle data set's training rows; its click rate is
// 0.2566. Cardinalities: those of the full data set.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "data_reader/criteo/criteo_record.h"

namespace hlite::prep {

struct IntegerProfile {
  // Shares of all rows.
  double missing = 0, negative = 0, zero = 0;
  // Quantiles of the values that are there, at kProbability.
  std::array<int32_t, 9> quantile{};
  static constexpr double kProbability[9] = {0, 0.01, 0.10, 0.25, 0.50, 0.75, 0.90, 0.99, 1};
};

struct TokenProfile {
  int64_t cardinality = 0;  // of the full data set
  double missing = 0;       // of 4,584 rows
  int64_t distinct = 0;     // tokens in 10,000 rows
  // Rows of those 10,000 whose token is among the 1, 10, 100 most frequent, as shares of all rows.
  double top_share[3] = {0, 0, 0};
};

struct CriteoProfile {
  std::array<IntegerProfile, criteo::kDense> integers;
  std::array<TokenProfile, criteo::kSlots> tokens;
  static constexpr double kClickRate = 0.2566;
  static constexpr int64_t kTokenRows = 10000;

  // Share of rows without a token in the 10,000 rows, which lie at the start of the data and differ
  // from random ones: where the top 100 are all tokens there are, what these leave; columns that
  // are missing together (the same share of the random rows) share the number.
  [[nodiscard]] double missing_in_token_rows(int slot) const;
};

// The table of the public data set.
const CriteoProfile& criteo_profile();

}  // namespace hlite::prep
