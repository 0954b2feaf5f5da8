#include "hugectr_lite/serve/infer_request.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "hugectr_lite/core/in_quotes.h"

namespace hlite::serve {

namespace {

constexpr struct {
  DataType type;
  std::string_view name;
  size_t bytes;
} kTypes[] = {{DataType::kFp32, "FP32", 4},
              {DataType::kInt64, "INT64", 8},
              {DataType::kInt32, "INT32", 4},
              {DataType::kUint32, "UINT32", 4},
              {DataType::kBytes, "BYTES", 0}};

size_t bytes_of(DataType type) { return kTypes[static_cast<size_t>(type)].bytes; }

// Elements of a shape that is this input's. Dimension 0 is the number of samples.
int64_t elements_of(const TensorSpec& spec, const std::vector<int64_t>& shape, int64_t max_bytes,
                    const std::string& place) {
  bool fits = shape.size() == spec.shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i)
    fits = spec.shape[i] < 0 || shape[i] == spec.shape[i] ||
           (i == 1 && shape[i] >= 0 && shape[i] == spec.other_columns);
  if (!fits)
    refuse("{}: expected shape [{}], found [{}]", place, fmt::join(spec.shape, ","),
           fmt::join(shape, ","));
  int64_t elements = 1;
  for (const int64_t size : shape) {
    if (size < 0) refuse("{}: shape: expected sizes of at least 0, found {}", place, size);
    // An element takes at least a byte of the request.
    if (size > max_bytes)
      refuse("{}: expected data for shape [{}], found a request of {} bytes", place,
             fmt::join(shape, ","), max_bytes);
    elements *= size;
    if (elements > max_bytes)
      refuse("{}: expected data for shape [{}], found a request of {} bytes", place,
             fmt::join(shape, ","), max_bytes);
  }
  return elements;
}

DataType type_of(const TensorSpec& spec, std::string_view found, const std::string& place) {
  std::vector<std::string_view> expected;
  for (const auto& type : kTypes)
    if (type.type == spec.type ||
        std::find(spec.also.begin(), spec.also.end(), type.type) != spec.also.end()) {
      if (type.name == found) return type.type;
      expected.push_back(type.name);
    }
  refuse("{}: expected datatype {}, found {}", place, fmt::join(expected, " or "),
         in_quotes(found));
}

template <typename From, typename To>
void append_values(std::string_view bytes, std::vector<To>& to) {
  const size_t n = bytes.size() / sizeof(From);
  to.resize(n);
  for (size_t i = 0; i < n; ++i) {
    From value;
    std::memcpy(&value, bytes.data() + i * sizeof(From), sizeof(From));
    to[i] = static_cast<To>(value);
  }
}

void append_texts(std::string_view bytes, InputTensor& to, const std::string& place) {
  while (!bytes.empty()) {
    uint32_t size = 0;
    if (bytes.size() >= sizeof size) std::memcpy(&size, bytes.data(), sizeof size);
    if (bytes.size() < sizeof size || bytes.size() - sizeof size < size)
      refuse(
          "{}: expected for each element 4 bytes of length and itself, found {} bytes at "
          "element {}",
          place, bytes.size(), to.texts.size());
    to.texts.emplace_back(bytes.substr(sizeof size, size));
    bytes.remove_prefix(sizeof size + size);
  }
}

}  // namespace

void check_samples(int64_t samples, const ModelDescription& model) {
  if (samples > model.max_samples)
    throw RequestError(413,
                       fmt::format("request: expected at most {} samples (serve --max-samples), "
                                   "found {}",
                                   model.max_samples, samples));
}

std::string_view name_of(DataType type) { return kTypes[static_cast<size_t>(type)].name; }

void InferBuilder::set_id(std::string_view id) {
  constexpr size_t kLongest = 1024;
  if (id.size() > kLongest) refuse("id: expected at most {} bytes, found {}", kLongest, id.size());
  request.id = id;
}

InferBuilder::Open InferBuilder::open(std::string_view name) const {
  const std::string place = fmt::format("inputs[{}]", request.inputs.size());
  std::vector<std::string_view> known;
  for (const TensorSpec& spec : model_.inputs) {
    known.push_back(spec.name);
    if (spec.name != name) continue;
    for (const InputTensor& other : request.inputs)
      if (other.spec == &spec)
        refuse("{}: expected each input once, found \"{}\" again", place, spec.name);
    Open input;
    input.tensor.spec = &spec;
    input.place = "input \"" + spec.name + "\"";
    return input;
  }
  refuse("{}: expected an input of the model ({}), found {}", place, fmt::join(known, ", "),
         in_quotes(name));
}

void InferBuilder::describe(Open& input, std::string_view datatype,
                            std::vector<int64_t> shape) const {
  input.type = type_of(*input.tensor.spec, datatype, input.place);
  input.elements = elements_of(*input.tensor.spec, shape, bytes_, input.place);
  check_samples(shape[0], model_);
  input.tensor.shape = std::move(shape);
}

void InferBuilder::append_binary(Open& input, std::string_view bytes) {
  InputTensor& to = input.tensor;
  const auto expected = static_cast<int64_t>(bytes_of(input.type)) * input.elements;
  if (input.type != DataType::kBytes && std::ssize(bytes) != expected)
    refuse("{}: expected {} bytes for shape [{}], found {}", input.place, expected,
           fmt::join(to.shape, ","), bytes.size());
  switch (input.type) {
    case DataType::kFp32:
      return append_values<float>(bytes, to.floats);
    case DataType::kInt64:
      return append_values<int64_t>(bytes, to.integers);
    case DataType::kInt32:
      return append_values<int32_t>(bytes, to.integers);
    case DataType::kUint32:
      return append_values<uint32_t>(bytes, to.integers);
    case DataType::kBytes:
      return append_texts(bytes, to, input.place);
  }
}

void InferBuilder::close(Open input) {
  const InputTensor& tensor = input.tensor;
  const size_t found = tensor.floats.size() + tensor.integers.size() + tensor.texts.size();
  if (found != static_cast<size_t>(input.elements))
    refuse("{}: expected {} elements for shape [{}], found {}", input.place, input.elements,
           fmt::join(tensor.shape, ","), found);
  request.inputs.push_back(std::move(input.tensor));
}

void InferBuilder::check_output(std::string_view name, bool classified) const {
  if (name != model_.outputs[0].name)
    refuse("outputs: expected \"{}\", found {}", model_.outputs[0].name, in_quotes(name));
  if (classified) refuse("outputs: expected no classification, which scores have no labels for");
}

}  // namespace hlite::serve
