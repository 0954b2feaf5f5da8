// Types that a schema does not say come from the first rows, those that it says are kept.
#include "hugectr_lite/preparation/csv/type_guess.h"

#include <bit>
#include <cstring>
#include <filesystem>

#include "hugectr_lite/preparation/csv/csv_prep.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::prep {
namespace {

using test::TemporaryDirectory;
using test::write_text;

// The categorical blocks of a schema after add_types().
std::string typed(const std::string& categorical, const std::string& rows,
                  const std::string& more = "") {
  const TemporaryDirectory folder;
  write_text(folder / "a.csv", rows);
  config::JsonNode node =
      config::JsonNode::parse(R"({"header": true, "label": {"column": "y", "positive": "1"}, )" +
                                  more + R"("categorical": )" + categorical + "}",
                              "schema.json");
  add_types(node, CsvSchema::parse(node), folder / "a.csv");
  CHECK_NOTHROW(CsvSchema::parse(node));
  return node.find("categorical")->dump();
}

constexpr const char* kTypedRows =
    "y,i,b,f,t,z\n1,6,True,0.5,x,\n0,7.0,False,1.25,5,?\n0,,,2.0,6,\n1,100,true,,7,\n";

}  // namespace

TEST_CASE("the types of columns come from the first rows") {
  CHECK(
      typed(
          R"([{"column": "i"}, {"column": "b"}, {"column": 3}, {"column": "t"}, {"column": "z"}])",
          kTypedRows) == R"([{"column":"i","type":"integer"},{"column":"b","type":"boolean"},)"
                         R"({"column":3,"type":"number"},{"column":"t","type":"text"},)"
                         R"({"column":"z","type":"text"}])");
}

TEST_CASE("a type that is there stays, and what has no values of its own gets none") {
  const std::string given =
      R"([{"column":"i","type":"text"},{"column":"f","buckets":[1]},)"
      R"({"column":"t","separator":"|","max_values":2},{"column":"i","quantiles":4}])";
  CHECK(typed(given, kTypedRows) == given);
}

TEST_CASE("members of a cross have types, names of others do not") {
  CHECK(
      typed(
          R"([{"column": "i"}, {"cross": ["i", {"column": "b"}, {"column": "f", "buckets": [1]}]}])",
          kTypedRows) ==
      R"([{"column":"i","type":"integer"},{"cross":["i",{"column":"b","type":"boolean"},)"
      R"({"column":"f","buckets":[1]}]}])");
}

TEST_CASE("columns of one vocabulary have one type") {
  const auto shared = [](const char* a, const char* b) {
    return typed(std::string(R"([{"column":")") + a + R"(","vocabulary":"v"},{"column":")" + b +
                     R"(","vocabulary":"v"}])",
                 kTypedRows);
  };
  CHECK(shared("i", "t").find("integer") == std::string::npos);
  CHECK(shared("i", "z").find("text") == std::string::npos);  // a column without values fits all
  CHECK(typed(R"([{"column":"i","vocabulary":"v"},{"column":"t","vocabulary":"v","type":"text"}])",
              kTypedRows)
            .find("integer") == std::string::npos);
}

TEST_CASE("texts that a schema takes for missing do not count") {
  CHECK(typed(R"([{"column": "t", "missing": ["x"]}])", kTypedRows).find("integer") !=
        std::string::npos);
  CHECK(typed(R"([{"column": "t"}])", kTypedRows, R"("missing": ["x"], )").find("integer") !=
        std::string::npos);
}

TEST_CASE("the types of an earlier schema are taken over by place") {
  config::JsonNode node = config::JsonNode::parse(
      R"({"categorical": [{"column": 1}, {"column": 2, "type": "text"}, {"column": 3}]})", "new");
  add_types_of(config::JsonNode::parse(
                   R"({"categorical": [{"column": 1, "type": "integer"}, {"column": 2,
                       "type": "number"}, {"column": 3}]})",
                   "old"),
               node);
  CHECK(node.find("categorical")->dump() ==
        R"([{"column":1,"type":"integer"},{"column":2,"type":"text"},{"column":3}])");
}

TEST_CASE("a value that is not of its column's type is refused with its place") {
  const TemporaryDirectory folder;
  write_text(folder / "a.csv", kTypedRows);
  write_text(folder / "b.csv", "y,i,b,f,t,z\n1,6,True,1,x,\n0,six,False,1,5,?\n");
  write_text(folder / "s.json", R"({"header": true, "label": {"column": "y", "positive": "1"},
      "categorical": [{"column": "i"}, {"column": "b"}]})");
  const auto prepare = [&](const std::string& val) {
    CsvPrepOptions options{.schema = folder / "s.json", .train = {folder / "a.csv"}, .val = {val}};
    options.run.restart = true;  // an earlier run may have failed
    options.output.folder = folder / "out";
    return csv_prep(options);
  };
  test::check_contains(
      test::message_of<DataError>([&] { prepare(folder / "b.csv"); }),
      {"b.csv:3: column 1 (i): expected an integer, the type of the column, found \"six\"",
       "\"type\": \"text\" in its block takes any text"});
  write_text(folder / "b.csv", "b,y,i,z,t,f\nFALSE,1,6,,,\n0,0,1e+02,,,\n");
  const data::Manifest manifest = prepare(folder / "b.csv");
  test::check_contains(manifest.features_json, {R"("values_from_id_1":["6","7","100"])",
                                                R"("values_from_id_1":["true","false"])"});
  test::check_contains(manifest.options_json, {R"({"column":"i","type":"integer"})"});
}

TEST_CASE("columns are found by the names of the header, also when a schema has their numbers") {
  const TemporaryDirectory folder;
  write_text(folder / "a.csv", "y,x,c,x\n1,0.5,u,7\n0,2,v,8\n");
  write_text(folder / "b.csv", "c,x,y,x\nv,0.5,1.0,7\nu,2,False,8\n");
  const auto prepare = [&](const std::string& dense) {
    write_text(folder / "s.json", R"({"header": true, "label": {"column": 0, "positive": "1",
        "negative": "0"}, "dense": [{"column": )" +
                                      dense + R"(}], "categorical": [{"column": 2}]})");
    CsvPrepOptions options{
        .schema = folder / "s.json", .train = {folder / "a.csv"}, .val = {folder / "b.csv"}};
    options.output.folder = folder / "out";
    std::filesystem::remove_all(folder / "out");
    return csv_prep(options);
  };
  prepare("1");
  const std::string val = test::read_text(folder / "out/val.bin");
  const auto word = [&](size_t at) {
    uint32_t value = 0;
    std::memcpy(&value, &val[4 * at], 4);
    return value;
  };
  // Label, dense, id of each row: the names of two columns are one, so these keep their numbers.
  CHECK(std::vector<uint32_t>{word(0), word(1), word(2), word(3), word(4), word(5)} ==
        std::vector<uint32_t>{std::bit_cast<uint32_t>(1.0f), std::bit_cast<uint32_t>(0.5f), 2, 0,
                              std::bit_cast<uint32_t>(2.0f), 1});
  test::check_contains(
      test::message_of<DataError>([&] { prepare("\"x\""); }),
      {"a.csv:1: expected one column \"x\" in the header, found two, columns 1 and 3"});
}

}  // namespace hlite::prep
