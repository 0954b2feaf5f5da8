#include "hugectr_lite/comm/identity_text.h"

#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;
using comm::difference;
using comm::RunIdentity;
using comm::text_of;

TEST_CASE("identities of processes are the same, or the entries that differ are named") {
  const RunIdentity first = {{"program", "0.1.0"}, {"solver.batchsize", "4096"}, {"b", "\"x: y\""}};
  CHECK(difference(text_of(first), text_of(first)).empty());
  CHECK(difference("", "").empty());

  RunIdentity other = first;
  other[1].second = "2048";
  CHECK(difference(text_of(other), text_of(first)) ==
        "solver.batchsize: expected 4096, as in process 0, found 2048");
  other.pop_back();
  CHECK(difference(text_of(other), text_of(first)) ==
        "solver.batchsize: expected 4096, as in process 0, found 2048; "
        "b: expected \"x: y\", as in process 0, found none");
  CHECK(difference(text_of(first), text_of({{"program", "0.1.0"}, {"b", ""}})) ==
        "b: expected , as in process 0, found \"x: y\"; "
        "solver.batchsize: expected none, as in process 0, found 4096");
}

TEST_CASE("of many differences the first are named, and of long values the beginning") {
  RunIdentity first, other;
  for (char c = 'a'; c <= 'f'; ++c) {
    first.emplace_back(std::string(1, c), std::string(500, '1'));
    other.emplace_back(std::string(1, c), "2");
  }
  const std::string text = difference(text_of(other), text_of(first));
  test::check_contains(text, {"a: expected 11", "c: expected", "; and 3 more"});
  CHECK(text.size() < 500);
}
