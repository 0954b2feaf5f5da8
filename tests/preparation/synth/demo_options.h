// Click data like the demo's, calibrated on few rows.
#pragma once

#include "hugectr_lite/preparation/synth/planted_model.h"

namespace hlite::prep {

inline PlantedOptions demo_options(uint64_t seed = 5) {
  PlantedOptions options;
  options.columns.seed = seed;
  options.columns.cards = named_cardinalities("demo");
  options.calibration_rows = 20000;
  return options;
}

}  // namespace hlite::prep
