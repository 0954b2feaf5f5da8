// KServe v2 ("Open Inference Protocol") over REST: the messages, without HTTP.
//
// A request is JSON, or JSON followed by the bytes of tensors (the binary tensor extension). Every
// departure is a RequestError that says what was expected and what was found.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hugectr_lite/core/error.h"

namespace hlite::serve {

// What is wrong with a request, and the status of its answer.
class RequestError final : public Error {
 public:
  RequestError(int status, const std::string& message) : Error(message), status_(status) {}
  [[nodiscard]] int status() const { return status_; }

 private:
  int status_;
};

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw RequestError(400, fmt::format(format, std::forward<Args>(args)...));
}

enum class DataType { kFp32, kInt64, kInt32, kUint32, kBytes };
std::string_view name_of(DataType type);

// An input or output of a model.
struct TensorSpec {
  std::string name;
  DataType type;                    // as metadata has it
  std::vector<DataType> also = {};  // types that requests may have beside it
  std::vector<int64_t> shape;       // -1: the number of samples
  std::vector<int64_t> rows = {};   // of keys: the rows of each column's table
};

// Which weights are served: after so many iterations, and the checksum of their file.
struct WeightsIdentity {
  int64_t iteration = 0;
  std::string xxh3_64;
};

struct ModelDescription {
  std::string name;
  std::vector<std::string> versions;
  std::vector<TensorSpec> inputs = {}, outputs = {};
  std::optional<WeightsIdentity> weights = {};  // of a checkpoint
};
// The answer to GET /v2/models/M.
std::string metadata_json(const ModelDescription& model);

// A tensor of a request, row-major.
struct InputTensor {
  const TensorSpec* spec = nullptr;
  std::vector<int64_t> shape;
  std::vector<float> floats;       // of FP32
  std::vector<int64_t> integers;   // of INT64, INT32 and UINT32
  std::vector<std::string> texts;  // of BYTES
};

struct InferRequest {
  std::string id;
  std::vector<InputTensor> inputs;  // in the order of the request; every one has a spec
  bool binary = false;              // whether the answer's tensor is to be binary
  int64_t timeout_us = 0;           // the request's own (parameter "timeout"); 0: none
};

// `body` must have kBodyPadding readable bytes beyond its end; `json_length`: the header
// Inference-Header-Content-Length, empty where there is none. Throws RequestError.
InferRequest parse_infer(const std::string& body, const std::string& json_length,
                         const ModelDescription& model);

// The version that a request to load a model names in its parameters; empty: none. Throws
// RequestError.
std::string parse_load(const std::string& body);

// The answer to an infer request: one output [samples, tasks], model.outputs[0]. A binary one has
// JSON of `json_length` bytes before the tensor.
struct InferAnswer {
  std::string body;
  int64_t json_length = 0;  // 0: all is JSON
};
// Throws RequestError (500) for a score that is NaN or infinite, which JSON cannot say.
InferAnswer infer_answer(const ModelDescription& model, const std::string& version,
                         const InferRequest& request, std::span<const float> scores, int64_t tasks);

}  // namespace hlite::serve
