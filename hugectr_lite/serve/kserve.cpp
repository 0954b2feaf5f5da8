#include "hugectr_lite/serve/kserve.h"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

namespace hlite::serve {

namespace dom = simdjson::dom;
using nlohmann::json;

namespace {

constexpr size_t kMaxDepth = 16;        // of brackets
constexpr size_t kLargeText = 4 << 20;  // of JSON: the parser's memory is not kept

const char* kind_of(const dom::element& value) {
  switch (value.type()) {
    case dom::element_type::ARRAY:
      return "an array";
    case dom::element_type::OBJECT:
      return "an object";
    case dom::element_type::STRING:
      return "a string";
    case dom::element_type::BOOL:
      return "true or false";
    case dom::element_type::NULL_VALUE:
      return "null";
    default:
      return "a number";
  }
}

// The member of that name, if there is one; twice is refused.
std::optional<dom::element> member(const dom::object& object, std::string_view key,
                                   const std::string& place) {
  std::optional<dom::element> found;
  for (const auto& [name, value] : object)
    if (name == key) {
      if (found) refuse("{}: expected one \"{}\", found two", place, key);
      found = value;
    }
  return found;
}

template <typename T>
T as(const dom::element& value, const std::string& place, const char* expected) {
  T result;
  if (value.get<T>().get(result) != simdjson::SUCCESS)
    refuse("{}: expected {}, found {}", place, expected, kind_of(value));
  return result;
}

std::string_view text_of(const dom::element& value, const std::string& place) {
  return as<std::string_view>(value, place, "a string");
}

std::vector<int64_t> shape_of(const dom::element& value, const std::string& place) {
  std::vector<int64_t> shape;
  for (const dom::element size : as<dom::array>(value, place, "an array of sizes")) {
    shape.push_back(as<int64_t>(size, place, "whole numbers"));
    if (shape.size() > 8) refuse("{}: expected at most 8 sizes, found more", place);
  }
  return shape;
}

// Appends the elements of `data`, flat or nested.
void append_json(const dom::array& data, DataType type, InputTensor& to, const std::string& place) {
  for (const dom::element value : data) {
    if (value.type() == dom::element_type::ARRAY) {
      append_json(dom::array(value), type, to, place);
    } else if (type == DataType::kFp32) {
      to.floats.push_back(static_cast<float>(as<double>(value, place, "numbers")));
    } else if (type == DataType::kBytes) {
      to.texts.emplace_back(text_of(value, place));
    } else {
      to.integers.push_back(as<int64_t>(value, place, "whole numbers"));
    }
  }
}

size_t json_bytes(const std::string& body, const std::string& json_length) {
  if (json_length.empty()) return body.size();
  size_t length = 0;
  const char* const end = json_length.data() + json_length.size();
  const auto [stop, error] = std::from_chars(json_length.data(), end, length);
  if (error != std::errc() || stop != end)
    refuse("Inference-Header-Content-Length: expected a number of bytes, found {}",
           in_quotes(json_length));
  if (length > body.size())
    refuse("Inference-Header-Content-Length: expected at most the body's {} bytes, found {}",
           body.size(), length);
  return length;
}

// Parses JSON in the thread's memory, which the element then lies in. Throws RequestError.
class JsonReader {
 public:
  // `values`: commas and brackets that a right request has at most. The parser takes some 20 bytes
  // for each, so they are counted before.
  dom::element parse(std::string_view text, int64_t values) {
    check_size(text, values);
    large_ = text.size() > kLargeText;
    if (!parser_) parser_.emplace();
    if (parser_->capacity() < text.size() || parser_->max_depth() != kMaxDepth)
      if (parser_->allocate(std::max<size_t>(text.size(), 4096), kMaxDepth) != simdjson::SUCCESS)
        throw RequestError(503, "too little memory for a request");
    dom::element root;
    if (const auto error = parser_->parse(text.data(), text.size(), false).get(root))
      refuse(
          "request: expected JSON (at most {} brackets deep), found {} bytes of which the parser "
          "says: {}",
          kMaxDepth, text.size(), simdjson::error_message(error));
    return root;
  }
  ~JsonReader() {
    if (large_) parser_.reset();
  }

 private:
  static void check_size(std::string_view text, int64_t values) {
    const auto counts = [](char c) { return c == ',' || c == '[' || c == '{'; };
    // A quick look suffices for nearly all; only the careful one knows strings.
    if (std::count_if(text.begin(), text.end(), counts) <= values) return;
    int64_t found = 0;
    bool in_text = false;
    for (size_t i = 0; i < text.size() && found <= values; ++i) {
      if (text[i] == '"') in_text = !in_text;
      if (in_text && text[i] == '\\') ++i;
      if (!in_text && counts(text[i])) ++found;
    }
    if (found > values)
      throw RequestError(413, fmt::format("request: expected at most {} values and brackets, "
                                          "found more",
                                          values));
  }

  static thread_local std::optional<dom::parser> parser_;  // grown once
  bool large_ = false;
};
thread_local std::optional<dom::parser> JsonReader::parser_;

// Of a request with as many samples as the model takes at once.
int64_t most_values(const ModelDescription& model) {
  constexpr int64_t kOther = 4096;  // names, shapes and parameters
  int64_t of_sample = 0;
  for (const TensorSpec& spec : model.inputs) {
    int64_t width = 1;
    for (size_t i = 1; i < spec.shape.size(); ++i)
      width *= spec.shape[i] < 0 ? spec.max_len : spec.shape[i];
    of_sample += width + 1;
  }
  return kOther + model.max_samples * of_sample;
}

// One infer request.
class RequestParser {
 public:
  RequestParser(std::string_view binary, int64_t body_bytes, const ModelDescription& model)
      : binary_(binary), builder_(model, body_bytes) {}

  InferRequest parse(const dom::element& root) {
    const auto object = as<dom::object>(root, "request", "an object");
    if (const auto id = member(object, "id", "request")) builder_.set_id(text_of(*id, "id"));
    if (const auto parameters = member(object, "parameters", "request"))
      parse_parameters(as<dom::object>(*parameters, "parameters", "an object"));
    const auto inputs = member(object, "inputs", "request");
    if (!inputs) refuse("request: \"inputs\" is required");
    for (const dom::element input : as<dom::array>(*inputs, "inputs", "an array"))
      parse_input(as<dom::object>(input, place(), "an object"));
    if (!binary_.empty())
      refuse("expected the bytes of binary tensors and no more, found {} after the last",
             binary_.size());
    if (const auto outputs = member(object, "outputs", "request"))
      for (const dom::element output : as<dom::array>(*outputs, "outputs", "an array"))
        parse_output(as<dom::object>(output, "outputs", "objects"));
    return std::move(builder_.request);
  }

 private:
  [[nodiscard]] std::string place() const {
    return fmt::format("inputs[{}]", builder_.request.inputs.size());
  }

  void parse_parameters(const dom::object& parameters) {
    InferRequest& request = builder_.request;
    if (const auto binary = member(parameters, "binary_data_output", "parameters"))
      request.binary = as<bool>(*binary, "parameters.binary_data_output", "true or false");
    if (const auto timeout = member(parameters, "timeout", "parameters")) {
      request.timeout_us = as<int64_t>(*timeout, "parameters.timeout", "microseconds");
      if (request.timeout_us < 0)
        refuse("parameters.timeout: expected microseconds, found {}", request.timeout_us);
    }
  }

  void parse_input(const dom::object& input) {
    const auto required = [&](std::string_view key) {
      if (const auto value = member(input, key, place())) return *value;
      refuse("{}: \"{}\" is required", place(), key);
    };
    auto open = builder_.open(text_of(required("name"), place() + ".name"));
    const std::string name = open.place;
    const std::string_view datatype = text_of(required("datatype"), name);
    builder_.describe(open, datatype, shape_of(required("shape"), name + ": shape"));
    std::optional<int64_t> size;
    if (const auto parameters = member(input, "parameters", name))
      if (const auto value =
              member(as<dom::object>(*parameters, name, "an object"), "binary_data_size", name))
        size = as<int64_t>(*value, name + ": binary_data_size", "a number of bytes");
    const auto data = member(input, "data", name);
    if (data && size) refuse("{}: expected \"data\" or binary_data_size, found both", name);
    if (size) {
      if (*size < 0 || *size > std::ssize(binary_))
        refuse("{}: expected binary_data_size of at most the {} bytes that are left, found {}",
               name, binary_.size(), *size);
      InferBuilder::append_binary(open, binary_.substr(0, static_cast<size_t>(*size)));
      binary_.remove_prefix(static_cast<size_t>(*size));
    } else if (data) {
      append_json(as<dom::array>(*data, name + ": data", "an array"), open.type, open.tensor,
                  name + ": data");
    } else {
      refuse("{}: \"data\" or binary_data_size is required", name);
    }
    builder_.close(std::move(open));
  }

  void parse_output(const dom::object& output) {
    const auto name = member(output, "name", "outputs");
    builder_.check_output(name ? text_of(*name, "outputs: name") : "", false);
    const auto given = member(output, "parameters", "outputs");
    if (!given) return;
    const auto parameters = as<dom::object>(*given, "outputs: parameters", "an object");
    if (const auto binary = member(parameters, "binary_data", "outputs: parameters"))
      builder_.request.binary = as<bool>(*binary, "outputs: binary_data", "true or false");
    if (const auto classes = member(parameters, "classification", "outputs: parameters"))
      builder_.check_output(text_of(*name, "outputs: name"),
                            classes->type() != dom::element_type::INT64 || int64_t(*classes) != 0);
  }

  std::string_view binary_;
  InferBuilder builder_;
};

json tensor_json(const TensorSpec& spec) {
  json tensor = {{"name", spec.name}, {"datatype", name_of(spec.type)}, {"shape", spec.shape}};
  if (!spec.rows.empty()) tensor["parameters"] = {{"rows", spec.rows}};
  if (spec.max_len > 0) tensor["parameters"] = {{"max_len", spec.max_len}};
  return tensor;
}

std::string escaped(const std::string& text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

std::string metadata_json(const ModelDescription& model) {
  json inputs = json::array(), outputs = json::array();
  for (const TensorSpec& spec : model.inputs) inputs.push_back(tensor_json(spec));
  for (const TensorSpec& spec : model.outputs) outputs.push_back(tensor_json(spec));
  json metadata{{"name", model.name},
                {"versions", model.versions},
                {"platform", "hugectr_lite"},
                {"inputs", inputs},
                {"outputs", outputs}};
  if (model.weights)
    metadata["parameters"] = {{"iteration", model.weights->iteration},
                              {"weights_xxh3_64", model.weights->xxh3_64}};
  return metadata.dump();
}

std::string config_json(const ModelDescription& model) {
  const bool takes_text = !model.example_line.empty();
  const auto tensor = [](const TensorSpec& spec) {
    return json{
        {"name", spec.name},
        {"data_type",
         spec.type == DataType::kBytes ? "TYPE_STRING" : "TYPE_" + std::string(name_of(spec.type))},
        {"dims", std::vector<int64_t>(spec.shape.begin() + 1, spec.shape.end())},
        {"is_shape_tensor", false}};
  };
  json inputs = json::array(), outputs = json::array();
  for (const TensorSpec& spec : model.inputs) {
    json input = tensor(spec);
    input["format"] = "FORMAT_NONE";
    input["allow_ragged_batch"] = false;
    // Text, or all the others; histories by themselves, or all keys in one.
    input["optional"] = takes_text || spec.max_len > 0;
    inputs.push_back(std::move(input));
  }
  for (const TensorSpec& spec : model.outputs) {
    json output = tensor(spec);
    output["label_filename"] = "";
    outputs.push_back(std::move(output));
  }
  json config{{"name", model.name},
              {"platform", "hugectr_lite"},
              {"backend", "hugectr_lite"},
              {"version_policy", {{"latest", {{"num_versions", 1}}}}},
              {"max_batch_size", model.max_samples},
              {"input", inputs},
              {"output", outputs},
              {"dynamic_batching",
               {{"preferred_batch_size", {model.max_batch}},
                {"max_queue_delay_microseconds", model.max_delay_us}}}};
  if (model.weights)
    config["parameters"] = {
        {"iteration", {{"string_value", std::to_string(model.weights->iteration)}}},
        {"weights_xxh3_64", {{"string_value", model.weights->xxh3_64}}}};
  return config.dump();
}

std::string stats_json(std::span<const VersionStats> versions) {
  const auto sum = [](const InferenceStats::Sum& of) {
    return json{{"count", of.count}, {"ns", of.time.count()}};
  };
  json list = json::array();
  for (const auto& [model, version, counts, executions] : versions)
    list.push_back({{"name", model},
                    {"version", version},
                    {"last_inference", counts.last_unix},
                    {"inference_count", counts.samples},
                    {"execution_count", executions},
                    {"inference_stats",
                     {{"success", sum(counts.success)},
                      {"fail", sum(counts.fail)},
                      {"queue", sum(counts.queue)},
                      {"compute_input", sum(counts.input)},
                      {"compute_infer", sum(counts.infer)},
                      {"compute_output", sum(counts.output)},
                      {"cache_hit", sum({})},
                      {"cache_miss", sum({})}}},
                    {"batch_stats", json::array()}});
  return json{{"model_stats", list}}.dump();
}

InferRequest parse_infer(const std::string& body, const std::string& json_length,
                         const ModelDescription& model) {
  const size_t length = json_bytes(body, json_length);
  if (const size_t first = body.find_first_not_of(" \t\r\n");
      !model.example_line.empty() && first != std::string::npos && body[first] != '{')
    refuse("request: expected JSON, found {}: lines of text go to /v2/models/{}/text",
           in_quotes(body), model.name);
  JsonReader reader;
  const dom::element root =
      reader.parse(std::string_view(body).substr(0, length), most_values(model));
  return RequestParser(std::string_view(body).substr(length), std::ssize(body), model).parse(root);
}

std::string parse_load(const std::string& body) {
  constexpr int64_t kValues = 64;
  if (body.empty()) return {};
  JsonReader reader;
  const auto request = as<dom::object>(reader.parse(body, kValues), "request", "an object");
  const auto given = member(request, "parameters", "request");
  if (!given) return {};
  const auto version =
      member(as<dom::object>(*given, "parameters", "an object"), "version", "parameters");
  return version ? std::string(text_of(*version, "parameters.version")) : "";
}

InferAnswer infer_answer(const ModelDescription& model, const std::string& version,
                         const InferRequest& request, std::span<const float> scores,
                         int64_t tasks) {
  InferAnswer answer;
  std::string& text = answer.body;
  const auto add = [&]<typename... Args>(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
  };
  add("{{\"model_name\":{},\"model_version\":\"{}\",", escaped(model.name), version);
  if (!request.id.empty()) add("\"id\":{},", escaped(request.id));
  add("\"outputs\":[{{\"name\":\"{}\",\"datatype\":\"FP32\",\"shape\":[{},{}],",
      model.outputs[0].name, std::ssize(scores) / tasks, tasks);
  if (request.binary) {
    add("\"parameters\":{{\"binary_data_size\":{}}}}}]}}", scores.size_bytes());
    answer.json_length = std::ssize(text);
    text.append(reinterpret_cast<const char*>(scores.data()), scores.size_bytes());
    return answer;
  }
  // Written as doubles: a client that reads doubles and rounds them gets the very float.
  text += "\"data\":[";
  for (size_t i = 0; i < scores.size(); ++i)
    add("{}{}", i > 0 ? "," : "", static_cast<double>(scores[i]));
  text += "]}]}";
  return answer;
}

}  // namespace hlite::serve
