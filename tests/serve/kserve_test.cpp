#include "hugectr_lite/serve/kserve.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "hugectr_lite/core/random.h"
#include "hugectr_lite/serve/http_server.h"
#include "tests/support/catch.h"

namespace hlite::serve {
namespace {

ModelDescription dense_and_keys() {
  return {.name = "m",
          .versions = {"1"},
          .inputs = {{.name = "dense", .type = DataType::kFp32, .shape = {-1, 2}},
                     {.name = "keys",
                      .type = DataType::kInt64,
                      .also = {DataType::kInt32, DataType::kUint32},
                      .shape = {-1, 3}},
                     {.name = "words", .type = DataType::kBytes, .shape = {-1, 1}}},
          .outputs = {{.name = "score", .type = DataType::kFp32, .shape = {-1, 1}}}};
}

InferRequest parse_padded(std::string body, const std::string& json_length,
                          const ModelDescription& model) {
  body.reserve(body.size() + kBodyPadding);
  return parse_infer(body, json_length, model);
}

template <typename T>
std::string bytes_of_values(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST_CASE("a request's tensors come as JSON, flat or nested, or as bytes") {
  const ModelDescription model = dense_and_keys();
  const InferRequest json = parse_padded(
      R"({"id": "a", "parameters": {"timeout": 5, "other": {}}, "unknown": [1],
          "inputs": [{"name": "keys", "shape": [2, 3], "datatype": "INT32", "data": [1,2,3,[4,5,-6]]},
                     {"name": "dense", "shape": [1, 2], "datatype": "FP32", "data": [[0.1, 2]]},
                     {"name": "words", "shape": [1, 1], "datatype": "BYTES", "data": ["x\u00e9"]}]})",
      "", model);
  CHECK(json.id == "a");
  CHECK(json.timeout_us == 5);
  CHECK_FALSE(json.binary);
  REQUIRE(json.inputs.size() == 3);
  CHECK(json.inputs[0].spec == &model.inputs[1]);
  CHECK(json.inputs[0].integers == std::vector<int64_t>{1, 2, 3, 4, 5, -6});
  CHECK(json.inputs[1].floats == std::vector<float>{0.1f, 2});
  CHECK(json.inputs[2].texts == std::vector<std::string>{"x\xc3\xa9"});

  const std::string head =
      R"({"inputs": [{"name": "keys", "shape": [1, 3], "datatype": "UINT32", "parameters": {"binary_data_size": 12}},
                     {"name": "words", "shape": [2, 1], "datatype": "BYTES", "parameters": {"binary_data_size": 11}},
                     {"name": "dense", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}],
          "parameters": {"binary_data_output": true}})";
  const InferRequest binary =
      parse_padded(head + bytes_of_values<uint32_t>({1, 2, 4000000000u}) +
                       bytes_of_values<uint32_t>({3}) + "abc" + bytes_of_values<uint32_t>({0}),
                   std::to_string(head.size()), model);
  CHECK(binary.binary);
  CHECK(binary.inputs[0].integers == std::vector<int64_t>{1, 2, 4000000000});
  CHECK(binary.inputs[1].texts == std::vector<std::string>{"abc", ""});
  CHECK(binary.inputs[2].floats == std::vector<float>{1, 2});
}

TEST_CASE("an answer reads back as the same scores") {
  const ModelDescription model = dense_and_keys();
  const std::vector<float> scores = {0.1f, 1e-30f, 0.99999994f, 0, 1.0f / 3};
  InferRequest request;
  request.id = "\"\xff";
  const InferAnswer text = infer_answer(model, "4", request, scores, 1);
  CHECK(text.json_length == 0);
  const auto json = nlohmann::json::parse(text.body);
  CHECK(json["model_version"] == "4");
  CHECK(json["outputs"][0]["shape"] == nlohmann::json{5, 1});
  for (size_t i = 0; i < scores.size(); ++i)
    CHECK(json["outputs"][0]["data"][i].get<double>() == static_cast<double>(scores[i]));
  request.binary = true;
  const InferAnswer bytes = infer_answer(model, "4", request, scores, 5);
  const auto head =
      nlohmann::json::parse(bytes.body.substr(0, static_cast<size_t>(bytes.json_length)));
  CHECK(head["outputs"][0]["shape"] == nlohmann::json{1, 5});
  CHECK(head["outputs"][0]["parameters"]["binary_data_size"] == 20);
  CHECK(bytes.body.substr(static_cast<size_t>(bytes.json_length)) == bytes_of_values(scores));
}

// Bytes of good requests changed, cut and repeated at random: an answer or a refusal, no more.
int status_of(const std::string& body, const ModelDescription& model) {
  try {
    parse_padded(body, "", model);
    return 200;
  } catch (const RequestError& error) {
    return error.status();
  }
}

TEST_CASE("a request has as many values, samples and brackets as it needs, and no more") {
  ModelDescription model = dense_and_keys();
  model.max_samples = 3;
  const auto request = [](int samples, const std::string& more) {
    std::string keys, dense;
    for (int i = 0; i < samples; ++i) {
      keys += std::string(i > 0 ? "," : "") + "[1,2,3]";
      dense += std::string(i > 0 ? "," : "") + "[1,2]";
    }
    return fmt::format(
        R"({{{}"inputs": [{{"name": "keys", "shape": [{}, 3], "datatype": "INT64", "data": [{}]}},
            {{"name": "dense", "shape": [{}, 2], "datatype": "FP32", "data": [{}]}},
            {{"name": "words", "shape": [1, 1], "datatype": "BYTES", "data": ["[,[,{{,\\\""]}}]}})",
        more, samples, keys, samples, dense);
  };
  CHECK(status_of(request(3, ""), model) == 200);
  CHECK(status_of(request(4, ""), model) == 413);
  const auto id = [](size_t bytes) { return R"("id": ")" + std::string(bytes, 'a') + R"(", )"; };
  CHECK(status_of(request(1, id(1024)), model) == 200);
  CHECK(status_of(request(1, id(1025)), model) == 400);
  // Text may have what counts outside of it; of other values some 4096 are allowed.
  const auto values = [](size_t n) {
    std::string list = R"("x": [0)";
    while (n-- > 1) list += ",0";
    return list + "], ";
  };
  CHECK(status_of(request(1, R"("x": ")" + std::string(9000, ',') + R"(", )"), model) == 200);
  CHECK(status_of(request(1, values(4000)), model) == 200);
  CHECK(status_of(request(1, values(4200)), model) == 413);
  const auto nested = [](size_t n) {
    return R"("x": )" + std::string(n, '[') + std::string(n, ']') + ", ";
  };
  CHECK(status_of(request(1, nested(10)), model) == 200);
  CHECK(status_of(request(1, nested(3000)), model) == 400);
}

TEST_CASE("a shape has as many dimensions as its input") {
  const ModelDescription model = dense_and_keys();
  const auto status = [&](const char* shape, const char* data) {
    return status_of(fmt::format(R"({{"inputs": [{{"name": "dense", "shape": [{}],
                                     "datatype": "FP32", "data": [{}]}}]}})",
                                 shape, data),
                     model);
  };
  CHECK(status("1, 2", "1, 2") == 200);
  CHECK(status("0, 2", "") == 200);
  for (const auto& [shape, data] : {std::pair{"2", "1, 2"},
                                    {"0", ""},
                                    {"1, 2, 1", "1, 2"},
                                    {"1, 2, 2", "1, 2, 3, 4"},
                                    {"1, 2, 0", ""},
                                    {"1, 3", "1, 2, 3"},
                                    {"", "1"}}) {
    INFO("shape " << shape);
    CHECK(status(shape, data) == 400);
  }
}

TEST_CASE("damaged requests are refused or mean something") {
  const ModelDescription model = dense_and_keys();
  const std::string head =
      R"({"id":"a","inputs":[{"name":"keys","shape":[1,3],"datatype":"INT32","parameters":{"binary_data_size":12}},)"
      R"({"name":"words","shape":[2,1],"datatype":"BYTES","data":["a","b"]},)"
      R"({"name":"dense","shape":[1,2],"datatype":"FP32","data":[1.5,2]}],"outputs":[{"name":"score"}]})";
  const std::string whole = head + bytes_of_values<int32_t>({1, 2, 3});
  int64_t refused = 0;
  constexpr uint64_t kRuns = 20000;
  for (uint64_t run = 0; run < kRuns; ++run) {
    std::string body = whole;
    const auto draw = [&](uint64_t what, size_t below) {
      return random::word(1, what, run) % below;
    };
    for (uint64_t change = 0; change <= draw(0, 3); ++change) {
      const size_t at = draw(3 * change + 1, body.size());
      switch (draw(3 * change + 2, 4)) {
        case 0:
          body[at] = static_cast<char>(draw(3 * change + 3, 256));
          break;
        case 1:
          body.erase(at, 1 + draw(3 * change + 3, 9));
          break;
        case 2:
          body.insert(at, body.substr(draw(3 * change + 3, body.size()), 12));
          break;
        default:
          body[at] = "0123456789-{}[]\",:"[draw(3 * change + 3, 18)];
      }
      if (body.empty()) body = "x";
    }
    const std::string length = std::to_string(std::min(body.size(), head.size() + draw(99, 3)));
    try {
      const InferRequest request = parse_padded(body, length, model);
      for (const InputTensor& input : request.inputs) CHECK(input.spec != nullptr);
    } catch (const RequestError& error) {
      ++refused;
      const std::string what = error.what();
      if ((error.status() != 400 && error.status() != 413) ||
          (what.find("expected") == std::string::npos &&
           what.find("is required") == std::string::npos))
        FAIL(what);
    }
  }
  CHECK(refused > static_cast<int64_t>(kRuns / 2));
  CHECK(refused < static_cast<int64_t>(kRuns));
}

}  // namespace
}  // namespace hlite::serve
