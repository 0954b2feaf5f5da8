// The number of threads that a short prediction uses: to wake a second thread for every step takes
// longer than the work that it takes over, above all on a machine with other work. Scores do not
// depend on it.
#pragma once

#include <cstdint>
#include <string>

#include "hugectr_lite/config/data_config.h"

namespace hlite::predict {

// At least 1; at most `threads`. Fewer if `input` is a file of raw records that one thread scores
// within some 10 ms. `model`: a checkpoint or exported weights.
int useful_threads(int threads, const config::DataConfig& data, const std::string& input,
                   const std::string& model);
// The rule: multiplications of a sample, samples.
int useful_threads(int threads, int64_t multiplications, int64_t samples);

}  // namespace hlite::predict
