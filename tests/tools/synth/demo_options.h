// Click data like the demo's, calibrated on few rows.
#pragma once

#include "tools/synth/planted_model.h"

namespace hlite::tools {

inline PlantedOptions demo_options(uint64_t seed = 5) {
  PlantedOptions options;
  options.columns.seed = seed;
  options.columns.cards = named_cardinalities("demo");
  options.calibration_rows = 20000;
  return options;
}

}  // namespace hlite::tools
