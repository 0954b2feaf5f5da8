#include "data_reader/data_identity.h"

#include "hugectr_lite/core/error.h"
#include "tests/data_reader/log_capture.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::data {
namespace {

using test::check_contains;
using test::message_of;

DataIdentity identity_example() {
  return {.slots = {{"user", "00000000000000a1"},
                    {"item", "00000000000000a2"},
                    {"tag", "hash modulo 9"}},
          .dense = {{"age", "standardize 38.5 13.25"}, {"income", "log1p"}},
          .rules = {{"label", "1 for \"yes\", 0 for all others"}, {"missing", "\"?\""}}};
}

TEST_CASE("identities that differ say in what, by name") {
  CHECK(difference(identity_example(), identity_example()).empty());
  DataIdentity other = identity_example();
  other.slots[1].value = "00000000000000b2";
  CHECK(difference(identity_example(), other) == "vocabulary of slot item");
  other.slots[0].value = "00000000000000b1";
  CHECK(difference(identity_example(), other) == "vocabulary of slots user, item");
  other = identity_example();
  other.slots[2].value = "hash modulo 10";
  CHECK(difference(identity_example(), other) ==
        "vocabulary of slot tag (hash modulo 9, here hash modulo 10)");
  other = identity_example();
  std::swap(other.slots[0], other.slots[1]);
  CHECK(difference(identity_example(), other) == "order of slots: user, item, here item, user");
  other = identity_example();
  other.slots.pop_back();
  CHECK(difference(identity_example(), other) == "slots: tag, here none (from number 2 on)");
  other = identity_example();
  other.dense[0].value = "none";
  other.rules[1].value = "\"\"";
  CHECK(difference(identity_example(), other) ==
        "transform of dense feature age (standardize 38.5 13.25, here none); value of rule missing "
        "(\"?\", here \"\")");
  other = identity_example();
  other.dense[1].name = "wealth";
  CHECK(difference(identity_example(), other) ==
        "dense features: income, here wealth (from number 1 on)");
}

TEST_CASE("a long list of differing slots is cut short") {
  DataIdentity a, b;
  for (int i = 0; i < 26; ++i) {
    a.slots.push_back({"C" + std::to_string(i + 1), "00000000000000a1"});
    b.slots.push_back({"C" + std::to_string(i + 1), "00000000000000a2"});
  }
  CHECK(difference(a, b) == "vocabulary of slots C1, C2, C3, C4, C5 and 21 more");
}

TEST_CASE("what a model was trained on comes back from its text") {
  const TrainedOn on{
      .identity = identity_example(), .file = "train.bin", .rows = 12, .xxh3 = "00ff"};
  const TrainedOn back = TrainedOn::parse(on.to_text(), "model");
  CHECK(back.identity == identity_example());
  CHECK(back.file == "train.bin");
  CHECK(back.rows == 12);
  CHECK(back.xxh3 == "00ff");
  CHECK(TrainedOn().to_text().empty());
  CHECK_FALSE(TrainedOn::parse("", "model").identity.known());
  check_contains(message_of<DataError>([] { TrainedOn::parse("{\"file\": 3}", "w.safetensors"); }),
                 {"w.safetensors", "file"});
}

TEST_CASE("data of another identity are refused, or warned of, naming both sides") {
  DataIdentity other = identity_example();
  other.slots[1].value = "00000000000000b2";
  const auto check = [&](const DataIdentity& found, OtherData choice) {
    check_same_data(identity_example(), "run/checkpoint", found, "b/manifest.json", choice);
  };
  check_contains(message_of<DataError>([&] { check(other, OtherData::kRefuse); }),
                 {"b/manifest.json: expected", "run/checkpoint", "vocabulary of slot item",
                  "--allow-other-data"});
  const test::LogCapture log;
  check(identity_example(), OtherData::kRefuse);
  check({}, OtherData::kRefuse);  // unknown: nothing to compare
  CHECK(log.text().empty());
  check(other, OtherData::kWarn);
  check_contains(log.text(), {"b/manifest.json", "run/checkpoint", "vocabulary of slot item"});
}

}  // namespace
}  // namespace hlite::data
