#include "hugectr_lite/serve/text_request.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"

namespace hlite::serve {
namespace {

ModelDescription model_of_lines() {
  return {.name = "ads",
          .versions = {"1"},
          .inputs = {{.name = "keys", .type = DataType::kInt64, .shape = {-1, 3}},
                     {.name = "text", .type = DataType::kBytes, .shape = {-1, 1}}},
          .outputs = {{.name = "score", .type = DataType::kFp32, .shape = {-1, 1}}}};
}

using Lines = std::vector<std::string>;

// The message of the refusal.
std::string refusal_of(const std::string& body, const ModelDescription& model, int status = 400) {
  try {
    (void)parse_lines(body, model);
  } catch (const RequestError& error) {
    CHECK(error.status() == status);
    return error.what();
  }
  FAIL("expected a refusal");
  return "";
}

TEST_CASE("each line of a body is the text of a sample") {
  const ModelDescription model = model_of_lines();
  const std::vector<std::pair<std::string, Lines>> cases = {
      {"1,a", {"1,a"}},
      {"1,a\n", {"1,a"}},
      {"1,a\r\n2,b\r\n", {"1,a", "2,b"}},
      {"1,a\n\n2,b", {"1,a", "", "2,b"}},
      {"\n", {""}},
      {"\r\n", {""}},
      {"\n\n", {"", ""}},
      {"a\r", {"a"}},
      {"a\rb\r\r\n", {"a\rb\r"}},
      {" a \n\t", {" a ", "\t"}},
      {"\"one\ntwo\"\n", {"\"one", "two\""}},  // a quote does not go on in the next line
      {std::string("a\0b\n", 4), {std::string("a\0b", 3)}}};
  for (const auto& [body, lines] : cases) {
    INFO("\"" << body << "\"");
    const InferRequest request = parse_lines(body, model);
    REQUIRE(request.inputs.size() == 1);
    CHECK(request.inputs[0].spec == &model.inputs[1]);
    CHECK(request.inputs[0].texts == lines);
    CHECK(request.inputs[0].shape == std::vector<int64_t>{std::ssize(lines), 1});
    CHECK(request.inputs[0].floats.empty());
    CHECK(request.inputs[0].integers.empty());
    CHECK(request.id.empty());
    CHECK_FALSE(request.binary);
    CHECK(request.timeout_us == 0);
  }
}

TEST_CASE("any number of lines comes in their order") {
  const ModelDescription model = model_of_lines();
  for (const int64_t n : {1, 2, 997, 8209}) {
    std::string body;
    Lines want;
    for (int64_t i = 0; i < n; ++i) {
      const uint32_t draw = random::word(1, 2, static_cast<uint64_t>(i));
      want.push_back(std::string(draw % 50, 'x') + std::to_string(i));
      body += want.back() + (draw % 3 == 0 ? "\r\n" : "\n");
    }
    CHECK((parse_lines(body, model).inputs.at(0).texts == want));
  }
}

TEST_CASE("more lines than samples of a request are refused, with and without a last line end") {
  ModelDescription model = model_of_lines();
  model.max_samples = 2;
  CHECK(parse_lines("a\nb", model).inputs.at(0).texts.size() == 2);
  for (const char* body : {"a\nb\nc", "a\nb\nc\n"})
    CHECK(refusal_of(body, model, 413) ==
          "request: expected at most 2 samples (serve --max-samples), found 3");
}

TEST_CASE("lines are refused for a model without a preparation, and bodies without a line") {
  CHECK(refusal_of("", model_of_lines()) == "request: expected lines of text, found an empty body");
  ModelDescription bare = model_of_lines();
  bare.inputs.pop_back();
  CHECK(refusal_of("1,a\n", bare) ==
        "model \"ads\": expected a checkpoint with its preparation (train --with-preparation), "
        "which says what lines of text mean, found none");
}

TEST_CASE("the answer has a line for each sample and a comma between tasks") {
  CHECK(scores_as_lines({}, 1).empty());
  CHECK(scores_as_lines({}, 3).empty());
  CHECK(scores_as_lines(std::vector<float>{0.1f}, 1) == "0.1\n");
  const std::vector<float> scores = {0.5f, 0.25f, 1, 0, 0.1f, 1.0f / 3};
  CHECK(scores_as_lines(scores, 1) == "0.5\n0.25\n1\n0\n0.1\n0.33333334\n");
  CHECK(scores_as_lines(scores, 2) == "0.5,0.25\n1,0\n0.1,0.33333334\n");
  CHECK(scores_as_lines(scores, 3) == "0.5,0.25,1\n0,0.1,0.33333334\n");
}

TEST_CASE("scores are read back to the bit") {
  std::vector<float> scores = {0.99999994f, 1e-30f, std::numeric_limits<float>::min(),
                               std::numeric_limits<float>::denorm_min(), -3.4e38f};
  for (uint64_t i = 0; i < 1009; ++i)
    scores.push_back(static_cast<float>(std::exp(-0.00000001 * random::word(3, 1, i))));
  std::istringstream lines(scores_as_lines(scores, 1));
  std::string line;
  for (const float score : scores) {
    REQUIRE(std::getline(lines, line));
    REQUIRE(std::strtof(line.c_str(), nullptr) == score);
  }
  CHECK_FALSE(std::getline(lines, line));
}

}  // namespace
}  // namespace hlite::serve
