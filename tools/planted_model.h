// A click model with hidden parameters: rows, and the true probability of each row's label.
//
//   logit = bias + scale * (sqrt(share_linear)   * z(linear)
//                         + sqrt(share_pairwise) * z(pairwise)
//                         + sqrt(share_dense)    * z(dense))
//   linear    sum over the slots of w_slot[category]                 w ~ normal
//   pairwise  sum over hidden pairs (a, b) of +-<v_a[category], v_b[category]>,  v of `dim` normals
//   dense     sum over the integers of c_k * log(1 + max(x_k, 0)), missing as 0
//
// z() shifts and scales each part to mean 0, variance 1 over the first rows; scale and bias are
// then found so that the expected AUC of the true probabilities and the click rate are as asked.
// The vectors of a slot have mean 0 under its category distribution: what a pair contributes cannot
// be seen from either slot alone, so a model without interactions cannot learn it.
//
// Categories follow a Zipf law, integers a rounded log-normal one. Everything is a function of
// (seed, row): core/random.h's counter-based generator.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/criteo_record.h"

namespace hlite::tools {

struct PlantedOptions {
  uint64_t seed = 1;
  std::vector<int64_t> cards;  // categories a slot, kSlots of them, missing not counted
  double zipf = 1.2;
  double missing = 0.08;  // mean share of missing values in the columns that have some
  int dim = 2;
  int pairs = 4;
  int fields = 4;  // slots that take part in pairs; pairs <= fields * (fields - 1) / 2
  double share_linear = 0.3, share_pairwise = 0.55, share_dense = 0.15;
  double auc = 0.87;
  double click_rate = 0.25;
  int64_t calibration_rows = 50000;
};

// Cardinalities by name: "demo" (small, learnable from a million rows), "kaggle", "terabyte"
// (those of the public Criteo data sets). Throws ConfigError for another name.
std::vector<int64_t> named_cardinalities(const std::string& name);

// A generated row. Category 0 is "missing", 1..card the categories.
struct PlantedRow {
  uint8_t label;
  std::array<uint16_t, criteo::kDense> dense;  // index into the column's values
  std::array<uint32_t, criteo::kSlots> category;
  double probability;
};

class PlantedModel {
 public:
  // Throws ConfigError naming the option that makes no sense.
  explicit PlantedModel(const PlantedOptions& options);

  [[nodiscard]] PlantedRow row(uint64_t index) const;

  static constexpr int32_t kMissingValue = INT32_MIN;
  // The integer behind an index of `dense`, or kMissingValue.
  [[nodiscard]] int32_t dense_value(int column, uint16_t index) const {
    return dense_[static_cast<size_t>(column)].values[index];
  }
  // The token of a category > 0: distinct within the slot, also modulo 40,000,000.
  [[nodiscard]] uint32_t token(int slot, uint32_t category) const;

  [[nodiscard]] double scale() const { return scale_; }
  [[nodiscard]] double bias() const { return bias_; }
  [[nodiscard]] const std::vector<std::array<int, 2>>& pairs() const { return pairs_; }

 private:
  struct Parts {
    double linear, pairwise, dense;
  };
  struct Slot {
    // Walker's alias tables over ranks: rank r stays r with probability keep[r] / 2^32.
    std::vector<uint32_t> keep, alias;
    uint32_t missing = 0;        // probability * 2^32
    std::vector<float> weight;   // [card + 1]
    std::vector<float> vectors;  // [card + 1, dim] in interacting slots, else empty
    uint64_t token_multiplier = 1, token_offset = 0;
  };
  struct DenseColumn {
    std::vector<int32_t> values;   // [kQuantiles], equally likely, then kMissingValue
    std::vector<float> transform;  // log(1 + max(x, 0)) of each
    uint32_t missing = 0;
    double coefficient = 0;
  };

  void build_slot(int slot);
  void build_dense(int column);
  void choose_pairs();
  void calibrate();
  void draw(uint64_t index, PlantedRow& row) const;
  [[nodiscard]] Parts parts(const PlantedRow& row) const;
  [[nodiscard]] double combine(const Parts& parts) const;

  PlantedOptions options_;
  std::array<Slot, criteo::kSlots> slots_;
  std::array<DenseColumn, criteo::kDense> dense_;
  std::vector<std::array<int, 2>> pairs_;
  std::vector<float> signs_;
  Parts mean_{0, 0, 0}, factor_{1, 1, 1};  // z(x) * sqrt(share) = (x - mean) * factor
  double scale_ = 1, bias_ = 0;
};

}  // namespace hlite::tools
