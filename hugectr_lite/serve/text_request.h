// Scores of lines of text without JSON: for curl and other small clients. One line is one sample,
// as the training files had it, without the label; the answer has a line for each.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "hugectr_lite/serve/infer_request.h"

namespace hlite::serve {

// Throws RequestError if the model takes no text, or for a body without a line.
InferRequest parse_lines(const std::string& body, const ModelDescription& model);

// `scores`: [samples, tasks]. Of a sample, those of its tasks with commas between them, each with
// as many digits as its bits need.
std::string scores_as_lines(std::span<const float> scores, int64_t tasks);

}  // namespace hlite::serve
