#include "hugectr_lite/preparation/engine/prep_state.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::prep {
namespace {

using nlohmann::ordered_json;
using test::check_contains;
using test::message_of;

TEST_CASE("the state of a run comes back as it was saved, whatever bytes a first line has") {
  PrepState state;
  state.run = {{"version", "x"}};
  state.parse.done = true;
  state.parse.rows = 12;
  state.parse.sources = {{.name = "a", .role = "train", .rows = 7, .bad_rows = 1, .bytes = 99},
                         {.name = "b", .role = "val", .rows = 5, .bad_rows = 2}};
  state.parse.first_lines = {std::string("\xff\0\"\n", 4), ""};
  state.parse.missing = {3, 0};
  state.columns[2] = {.name = "C3", .rows = 4, .distinct = 3, .missing = 1};
  const ordered_json saved = ordered_json::from_cbor(ordered_json::to_cbor(state.to_json()));
  const PrepState loaded = PrepState::from_json(saved, "here");
  CHECK(loaded.to_json() == state.to_json());
  CHECK(loaded.parse.first_lines == state.parse.first_lines);
  CHECK(loaded.parse.rows_of("train") == 7);
  CHECK(loaded.parse.rows_of("test") == 0);
  CHECK(loaded.parse.bad_rows() == 3);
  CHECK(loaded.columns.at(2).distinct == 3);
}

TEST_CASE("what is no state of a run is refused, and how to go on is said") {
  const ordered_json good = PrepState().to_json();
  ordered_json half = good;
  half["parse"].erase("missing");
  ordered_json odd = good;
  odd["parse"]["rows"] = "many";
  for (const ordered_json& json : {ordered_json::object(), half, odd}) {
    check_contains(message_of<DataError>([&] { PrepState::from_json(json, "out/.prep"); }),
                   {"out/.prep: expected the state of an unfinished run", "--restart forgets it"});
  }
}

TEST_CASE("options and inputs that differ are named") {
  const test::TemporaryDirectory folder;
  test::write_text(folder / "a", "1");
  test::write_text(folder / "b", "2");
  PrepOptions options;
  options.inputs = {{folder / "a", "train"}};
  options.identity = R"({"hash": 5})";
  const ordered_json then = describe_run(options);
  CHECK(difference(then, describe_run(options)).empty());

  PrepOptions other = options;
  other.identity = R"({"hash": 6, "order": "first"})";
  other.sample = 0.5;
  CHECK(difference(then, describe_run(other)) ==
        "hash: 5 then, 6 now; order: null then, \"first\" now; sample: 1.0 then, 0.5 now");
  other = options;
  other.inputs.push_back({folder / "b", "val"});
  check_contains(difference(then, describe_run(other)),
                 {"input 2: null then", "/b\" now", "role of input 2: null then, \"val\" now"});
  test::write_text(folder / "a", "longer");
  CHECK(difference(then, describe_run(options)) == (folder / "a") + " has changed");
}

}  // namespace
}  // namespace hlite::prep
