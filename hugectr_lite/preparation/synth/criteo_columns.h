// The contents of the columns of generated rows, labels aside: values of the integers, cardinality
// and skew of the categories, how much is missing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data_reader/criteo/criteo_record.h"
#include "hugectr_lite/preparation/synth/criteo_profile.h"
#include "hugectr_lite/preparation/synth/rank_law.h"

namespace hlite::prep {

struct IntegerColumn {
  static constexpr int kValues = 4096;
  std::vector<int32_t> values;  // [kValues], rising, equally likely
  double missing = 0;
};

struct TokenColumn {
  RankLaw law;  // of the values that are there
  double missing = 0;
};

struct CriteoColumns {
  std::vector<IntegerColumn> integers;  // kDense
  std::vector<TokenColumn> tokens;      // kSlots
};

struct ColumnOptions {
  uint64_t seed = 1;
  std::vector<int64_t> cards;  // categories a column, kSlots of them, missing not counted
  int64_t cap = INT64_MAX;     // upper bound on each
  // Without one: a Zipf law everywhere, log-normal integers, random shares of missing values.
  std::optional<CriteoProfile> profile;
};

// Cardinalities by name: "demo" (small, learnable from a million rows), "kaggle", "terabyte"
// (those of the public Criteo data sets). Throws ConfigError for another name.
std::vector<int64_t> named_cardinalities(const std::string& name);

// Follows a profile if there is one: integers its quantiles, shares of zeros and of negative
// values; token columns its shares and distinct values (RankLaw::fit). Columns of other
// cardinalities than the profile's take the skew and missing share of the profile's column that has
// the same place in the order of cardinalities (the columns of Kaggle and Terabyte data come in
// different orders). Throws ConfigError naming the option that makes no sense.
CriteoColumns make_columns(const ColumnOptions& options);

}  // namespace hlite::prep
