#include "hugectr_lite/predict/useful_threads.h"

#include <algorithm>

#include "data_reader/record_format.h"
#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/checkpoint/safetensors.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/preparation/io/input_stream.h"

namespace hlite::predict {

namespace {
// One thread makes these in about 10 ms.
constexpr int64_t kMultiplicationsOfThread = 100'000'000;
// A looked-up vector is multiplied with some 30 others by an interaction or a cross layer.
constexpr int64_t kOfLookedUp = 32;

int64_t multiplications_of_sample(const std::string& model) {
  const ReadFile file(checkpoint::weights_in(model).path);
  const checkpoint::SafetensorsReader weights(file);
  int64_t all = 0;
  for (const auto& tensor : weights.tensors()) {
    if (tensor.shape.empty()) continue;
    if (tensor.name.find(".table_") != std::string::npos) {
      all += kOfLookedUp * tensor.shape.back();
    } else {
      int64_t elements = 1;
      for (const int64_t dim : tensor.shape) elements *= dim;
      all += elements;
    }
  }
  return all;
}
}  // namespace

int useful_threads(int threads, int64_t multiplications, int64_t samples) {
  // Without overflow: what a thread is for, in samples.
  const int64_t each =
      std::max<int64_t>(1, kMultiplicationsOfThread / std::max<int64_t>(1, multiplications));
  return static_cast<int>(std::clamp<int64_t>(samples / each, 1, threads));
}

int useful_threads(int threads, const config::DataConfig& data, const std::string& input,
                   const std::string& model) {
  const int64_t record = data::record_format(data).record_bytes(data);
  if (threads == 1 || record == 0 || prep::is_read_once(input)) return threads;
  return useful_threads(threads, multiplications_of_sample(model), ReadFile(input).size() / record);
}

}  // namespace hlite::predict
