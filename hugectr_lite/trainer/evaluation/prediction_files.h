// Text files with the scores and labels of an evaluation (solver.export_predictions_prefix).
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace hlite::trainer {

// The two files of a prefix.
std::string prediction_file(const std::string& prefix);
std::string label_file(const std::string& prefix);

// Writes [samples, tasks] scores and labels: a line for each sample, its numbers separated by
// spaces, each the shortest text that reads back as the same float. Both files replace those of
// before once they are complete. Throws FileError.
void write_predictions(const std::string& prefix, std::span<const float> scores,
                       std::span<const float> labels, int64_t tasks);

}  // namespace hlite::trainer
