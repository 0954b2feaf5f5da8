// What a validator makes of the schema is tested by json_schema_test.py.
#include "hugectr_lite/trainer/keys/json_schema.h"

#include <nlohmann/json.hpp>

#include "hugectr_lite/network/layer_registry.h"
#include "tests/support/catch.h"
#include "tests/support/program.h"

namespace hlite::test {
namespace {

using Json = nlohmann::json;

TEST_CASE("train --keys --json-schema prints a schema of configs") {
  const ProgramResult printed = run_program({HLITE_TRAIN, "--keys", "--json-schema"}, "");
  REQUIRE(printed.code == 0);
  CHECK(printed.out == trainer::config_json_schema());
  CHECK(run_program({HLITE_TRAIN, "--json-schema"}, "").code == 2);
}

TEST_CASE("keys, types, ranges, defaults and meanings are in the schema") {
  const Json schema = Json::parse(trainer::config_json_schema());
  CHECK(schema["required"] == Json({"solver", "optimizer", "layers"}));
  const Json& solver = schema["properties"]["solver"];
  CHECK(solver["type"] == "object");
  CHECK(solver["properties"]["batchsize"]["minimum"] == 1);
  CHECK(solver["properties"]["batchsize"]["type"] == "integer");
  CHECK(solver["properties"]["device"]["enum"] == Json({"auto", "cpu", "cuda"}));
  CHECK(solver["properties"]["device"]["default"] == "auto");
  CHECK(solver["properties"]["lr_plateau"]["properties"]["factor"]["exclusiveMaximum"] == 1);
  CHECK(solver["properties"]["vvgpu"]["description"] == "Not supported: use gpu");
  const Json& memory = solver["properties"]["embedding_memory"]["anyOf"];
  CHECK(memory[0] == Json({{"const", "auto"}}));
  CHECK(memory[1]["properties"]["host_gb"]["exclusiveMinimum"] == 0);
  const Json& optimizer = schema["properties"]["optimizer"];
  CHECK(optimizer["allOf"][3]["if"]["properties"]["type"]["const"] == "Adam");
  CHECK(optimizer["allOf"][3]["then"]["required"] == Json({"adam_hparam"}));
  CHECK(optimizer["allOf"][6]["if"]["properties"]["type"]["const"] == "RowWiseAdaGrad");
  CHECK(optimizer["allOf"][6]["then"]["required"] == Json({"row_wise_adagrad_hparam"}));
  const Json& layers = schema["properties"]["layers"];
  CHECK(layers["items"][0]["properties"]["type"]["enum"] == Json({"Data"}));
  CHECK(layers["additionalItems"]["allOf"].size() == network::layer_types().size() + 4);
  // Names of keys are checked unless the config is not strict.
  CHECK(schema["if"]["properties"]["strict"]["const"] == false);
  CHECK(schema["else"]["properties"]["solver"]["additionalProperties"] == false);
  CHECK(!solver.contains("additionalProperties"));
}

}  // namespace
}  // namespace hlite::test
