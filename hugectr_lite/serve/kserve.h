// KServe v2 ("Open Inference Protocol") over REST: the messages, without HTTP.
//
// A request is JSON, or JSON followed by the bytes of tensors (the binary tensor extension). Every
// departure is a RequestError that says what was expected and what was found.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "hugectr_lite/serve/infer_request.h"
#include "hugectr_lite/serve/inference_stats.h"

namespace hlite::serve {

// The answer to GET /v2/models/M.
std::string metadata_json(const ModelDescription& model);

// The answer to GET /v2/models/M/config: Triton's ModelConfig, as far as it means something here.
std::string config_json(const ModelDescription& model);

// The answer to GET /v2/models/M/stats and /v2/models/stats: Triton's statistics extension.
struct VersionStats {
  std::string model, version;
  InferenceStats::Counts counts;
  int64_t executions = 0;
};
std::string stats_json(std::span<const VersionStats> versions);

// `body` must have kBodyPadding readable bytes beyond its end; `json_length`: the header
// Inference-Header-Content-Length, empty where there is none. Throws RequestError.
InferRequest parse_infer(const std::string& body, const std::string& json_length,
                         const ModelDescription& model);

// The version that a request to load a model names in its parameters; empty: none. `body` as above.
// Throws RequestError.
std::string parse_load(const std::string& body);

// The answer to an infer request: one output [samples, tasks], model.outputs[0]. A binary one has
// JSON of `json_length` bytes before the tensor.
struct InferAnswer {
  std::string body;
  int64_t json_length = 0;  // 0: all is JSON
};
// REQUIRES finite scores, as JSON has no others.
InferAnswer infer_answer(const ModelDescription& model, const std::string& version,
                         const InferRequest& request, std::span<const float> scores, int64_t tasks);

}  // namespace hlite::serve
