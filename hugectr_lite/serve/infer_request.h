// A request for scores and the model that it is for, in KServe v2's terms, whatever protocol it
// comes by. The checks of its tensors are here, so that all protocols refuse the same in the same
// words.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hugectr_lite/core/error.h"

namespace hlite::serve {

// Says what is wrong with a request, and has the status of its answer.
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
  std::vector<DataType> also = {};  // further types that requests may have
  std::vector<int64_t> shape;       // -1: any size, first the number of samples
  std::vector<int64_t> rows = {};   // of keys: the rows of each column's table
  // Of a history [samples, slots, keys], which may come by itself: its first key column and the
  // most keys that a slot keeps.
  int64_t first_column = 0, max_len = 0;
  // Of keys: the columns of a request in which histories come by themselves; -1: there are none.
  int64_t other_columns = -1;
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
  int64_t max_samples = 65'536;                 // of a request
  int64_t max_batch = 256;                      // samples that are scored at once
  int64_t max_delay_us = 0;                     // that a batch waits for more
  std::string example_line = {};                // of text, where the model takes it
  std::string example_names = {};               // of its columns; empty: they have none
};

// Throws RequestError (413) for more samples than a request may have.
void check_samples(int64_t samples, const ModelDescription& model);

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
  bool binary = false;              // whether the answer's tensor is to be bytes
  int64_t timeout_us = 0;           // the request's own (parameter "timeout"); 0: none
};

// Puts a request together, a tensor at a time. Throws RequestError.
class InferBuilder {
 public:
  // `bytes`: the size of the whole request, which no shape may exceed.
  InferBuilder(const ModelDescription& model, int64_t bytes) : model_(model), bytes_(bytes) {}

  // What the answer repeats: at most 1024 bytes.
  void set_id(std::string_view id);
  // A tensor whose elements are not complete.
  struct Open {
    InputTensor tensor;
    std::string place;  // for messages
    DataType type = DataType::kFp32;
    int64_t elements = 0;
  };
  [[nodiscard]] Open open(std::string_view name) const;
  void describe(Open& input, std::string_view datatype, std::vector<int64_t> shape) const;
  // All elements as they lie in memory (little-endian); before each of BYTES 4 bytes of its size.
  static void append_binary(Open& input, std::string_view bytes);
  // Checks that all elements are there.
  void close(Open input);
  void check_output(std::string_view name, bool classified) const;

  InferRequest request;

 private:
  const ModelDescription& model_;
  const int64_t bytes_;
};

}  // namespace hlite::serve
