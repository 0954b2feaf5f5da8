#include "hugectr_lite/config/key_record.h"

#include "hugectr_lite/config/object_reader.h"
#include "tests/support/catch.h"

namespace hlite::config {
namespace {

// "key=default" of each key of the object at `path`.
std::vector<std::string> known(const KeyRecord& record, const std::string& path) {
  std::vector<std::string> keys;
  if (const auto found = record.objects().find(path); found != record.objects().end())
    for (const KnownKey& key : found->second)
      keys.push_back(key.name + "=" + key.otherwise +
                     (key.refused.empty() ? "" : "!" + key.refused));
  return keys;
}

TEST_CASE("a record has what readers were asked for, and what absent keys stand for") {
  const JsonNode root = JsonNode::parse(R"({"i": 8, "o": {"s": "x", "c": "b"}})", "f.json");
  ObjectReader(root).integer_or("before", 1);
  std::vector<std::string> all;
  {
    const KeyRecord record;
    ObjectReader reader(root);
    reader.integer("i");
    reader.integer_or("i", 7);
    reader.number_or("n", 0.5);
    reader.boolean_or("b", true);
    reader.integers_or("list", {1, 2});
    CHECK(!reader.has("maybe"));
    CHECK(reader.find("i") != nullptr);
    reader.unsupported("later", "use i");
    ObjectReader inner = reader.object("o");
    inner.string_or("s", "y");
    CHECK(inner.value_or<int>("c", 1, {{"a", 1}, {"b", 2}}) == 2);
    CHECK(inner.value<int>("c", {{"a", 1}, {"b", 2}}) == 2);
    CHECK(inner.value_or<int>("none of them", 3, {{"a", 1}, {"b", 2}}) == 3);
    CHECK(known(record, "") == std::vector<std::string>{"i=7", "n=0.5", "b=true", "list=[1, 2]",
                                                        "maybe=", "later=!use i", "o="});
    CHECK(known(record, "o") == std::vector<std::string>{"s=\"y\"", "c=\"a\"", "none of them="});
    CHECK(known(record, "p").empty());
    CHECK_THROWS_AS(KeyRecord(), Error);
  }
  CHECK(!KeyRecord::lives());
  ObjectReader(root).integer_or("i", 1);
  CHECK(known(KeyRecord(), "").empty());
}

}  // namespace
}  // namespace hlite::config
