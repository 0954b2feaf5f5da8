// A click model with hidden parameters: rows, and the true probability of each row's label.
//
//   logit = bias + scale * (sqrt(0.3) * z(linear) + sqrt(0.55) * z(pairwise) + sqrt(0.15) * z(dense))
//   linear    sum over the slots of w_slot[category]                 w ~ normal
//   pairwise  sum over 4 hidden pairs (a, b) of +-<v_a[category], v_b[category]>,  v of 2 normals
//   dense     sum over the integers of c_k * log(1 + max(x_k, 0)), missing as 0
//
// z() shifts and scales each part to mean 0, variance 1 over the first rows; scale and bias are
// then found so that the expected AUC of the true probabilities is 0.87 and the click rate as asked.
// The vectors of a slot have mean 0 under its category distribution: what a pair contributes cannot
// be seen from either slot alone, so a model without interactions cannot learn it.
//
// Everything is a function of (seed, row): core/random.h's counter-based generator. Hidden values
// are computed, not stored ("normal" is a sum of four uniform numbers), so that memory does not
// grow with the number of categories.
//
// Vocabularies may change from day to day: on each day the share `turnover` of a slot's categories
// retires, and a new one takes the place of each in the order of frequencies, with a token and
// hidden values of its own. Scale, bias and the centre of the vectors stay those of the first day.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "data_reader/criteo/criteo_record.h"
#include "hugectr_lite/preparation/synth/criteo_columns.h"

namespace hlite::prep {

struct PlantedOptions {
  ColumnOptions columns;
  double click_rate = 0.25;
  int64_t calibration_rows = 50000;
  int64_t days = 1;
  double turnover = 0;
};

// A generated row. Category 0 is "missing", c in 1..card the c-th most frequent category of the
// first day, c + g * card the g-th that came in its place.
struct PlantedRow {
  uint8_t label;
  std::array<uint16_t, criteo::kDense> dense;  // index into the column's values
  std::array<uint32_t, criteo::kSlots> category;
  double logit;  // of the true probability
};

class PlantedModel {
 public:
  // Throws ConfigError naming the option that makes no sense.
  explicit PlantedModel(const PlantedOptions& options);

  [[nodiscard]] PlantedRow row(uint64_t index, int64_t day = 0) const;

  static constexpr int32_t kMissingValue = INT32_MIN;
  // The integer of an index of `dense`, or kMissingValue.
  [[nodiscard]] int32_t dense_value(int column, uint16_t index) const {
    return dense_[static_cast<size_t>(column)].values[index];
  }
  // The token of a category > 0: distinct within the slot, also modulo 40,000,000.
  [[nodiscard]] uint32_t token(int slot, uint32_t category) const;

  [[nodiscard]] int64_t categories(int slot) const {
    return columns_.tokens[static_cast<size_t>(slot)].law.ranks();
  }

 private:
  static constexpr size_t kFields = 4;  // slots that interact, each with the next
  using HiddenVector = std::array<double, 2>;
  struct LogitParts {
    double linear, pairwise, dense;
  };
  // "Missing" from a random word, and what is left of it as a number in [0, 1).
  struct Presence {
    explicit Presence(double missing);
    uint32_t below;  // words below are missing
    double unit;     // 1 / the number of others
  };
  struct SlotModel {
    RankSampler sampler;
    Presence presence;
    std::vector<float> head;  // weights of categories 0, 1, ..., those drawn most
    // Of the vectors, in slots that interact: what is taken off and multiplied with.
    HiddenVector mean{};
    double factor = 1;
    uint64_t token_multiplier = 1, token_offset = 0;
    uint32_t turnover_phase = 0;
  };
  struct DenseColumn {
    std::vector<int32_t> values;  // [kValues], equally likely, then kMissingValue
    std::vector<float> effect;    // each one's term of LogitParts::dense
    uint32_t missing = 0;
  };

  void build_slot(int slot);
  void build_dense(int column);
  void choose_fields();
  void calibrate();
  [[nodiscard]] double weight(int slot, uint32_t category) const;
  // The vector before centring.
  [[nodiscard]] HiddenVector raw_vector(int slot, uint32_t category) const;
  // The category that is the `rank`-th most frequent on a day.
  [[nodiscard]] uint32_t category_on(int64_t day, int slot, uint32_t rank) const;
  // Returns the label's coin, uniform in [0, 1). The categories are those of the first day.
  double draw(uint64_t index, PlantedRow& row) const;
  [[nodiscard]] LogitParts parts(const PlantedRow& row) const;
  [[nodiscard]] double combine(const LogitParts& parts) const;

  PlantedOptions options_;
  uint64_t seed_;
  CriteoColumns columns_;
  std::vector<SlotModel> slots_;
  std::array<DenseColumn, criteo::kDense> dense_;
  std::array<int, kFields> fields_;
  std::array<double, kFields> signs_;           // of the pair (field i, field i + 1)
  LogitParts mean_{0, 0, 0}, factor_{1, 1, 1};  // z(x) * sqrt(share) = (x - mean) * factor
  double scale_ = 1, bias_ = 0;
};

}  // namespace hlite::prep
