// What --tune varies in a config, and the points that it tries.
//
// A config tells by its keys what may be varied: learning rates, the penalty of tables, the rates
// of Dropout layers, the widths of hidden layers. Each kind is one axis: all its values change
// together.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hugectr_lite/config/json_node.h"

namespace hlite::trainer {

// A place on each axis, from 0 to 1.
using Point = std::vector<double>;

// A kind of value.
struct Axis {
  std::string name;            // "learning_rate"
  std::vector<double> steps;   // the values that it takes, or factors of the config's
  bool replaces = false;       // steps are values, and not factors
  bool whole = false;          // values are whole numbers, at least 1
  double least = 0, most = 0;  // steps is empty: any factor in between, evenly by its logarithm
  std::vector<std::pair<std::string, double>> values = {};  // paths in the config, and what it has

  // The factor or value at a place from 0 to 1, and the place of what the config has.
  [[nodiscard]] double at(double place) const;
  [[nodiscard]] double own() const;
};

// The object that a learning rate is in.
struct RateBlock {
  std::string path = {};
  int64_t warmup_steps = 0;
  bool has_decay = false;
};

class SearchSpace {
 public:
  // The axes of a config in the form of ours; empty where it has none of the keys.
  explicit SearchSpace(const config::JsonNode& root);

  [[nodiscard]] const std::vector<Axis>& axes() const { return axes_; }
  // The place of the config itself.
  [[nodiscard]] Point own() const;
  // The n-th point, n >= 1, of a sequence that fills the space evenly wherever it ends: the
  // additive recurrence with powers of the generalised golden ratio (Roberts, "The Unreasonable
  // Effectiveness of Quasirandom Sequences", 2018).
  [[nodiscard]] Point even(int64_t n) const;
  // The same in the part of the space, half as long on each axis, that lies around a point.
  [[nodiscard]] Point even_around(const Point& centre, int64_t n) const;
  // What the config gets there: "PATH=VALUE" of --set. Values have two significant digits.
  [[nodiscard]] std::vector<std::string> changes(const Point& point) const;
  // The changes that follow those, for a run of so many iterations: learning rates are constant for
  // `constant` of them (and for warm-up), then decay to a hundredth at the end, and no evaluation
  // cuts them.
  [[nodiscard]] std::vector<std::string> schedule(const Point& point, int64_t iterations,
                                                  int64_t constant) const;
  // "learning_rate 0.0013, lambda 0.02, Dropout rate 0.2, widths x 2"; of several values of a kind,
  // the factor.
  [[nodiscard]] std::string text(const Point& point) const;

 private:
  std::vector<Axis> axes_;
  std::vector<RateBlock> blocks_;     // of the first axis's values
  std::vector<std::string> removed_;  // "PATH=" of keys that a schedule has no use for
};

}  // namespace hlite::trainer
