// predict --report: starts the page's maker, the Python module hugectr_lite.report. It is Python
// because its metrics and shuffles need no speed of their own, and scores come from the same
// Predictor.
#pragma once

#include <string>

#include "hugectr_lite/predict/prediction.h"

namespace hlite::predict {

// Throws ConfigError where the page cannot be made of such a prediction: it needs lines of text
// with labels in a file, and a checkpoint as it is.
void check_report(const PredictionOptions& options, const std::string& file);

// Writes the page, with the further metrics of `result`. Starts Python for it: HLITE_PYTHON, else
// python3 in the program's folder, else python3 on PATH. Throws ConfigError if that cannot be
// started, DataError if it fails, after its message.
void write_report(const PredictionOptions& options, const PredictionResult& result,
                  const std::string& file);

}  // namespace hlite::predict
