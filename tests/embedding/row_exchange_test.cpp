#include "embedding/row_exchange.h"

#include "tests/embedding/hashed_steps_case.h"
#include "tests/support/catch.h"

namespace hlite::embedding {
namespace {

// body(world, its steps) on a thread for each rank.
constexpr auto kOnThreads = [](int ranks, const StepsOptions& options, const auto& body) {
  comm::run_ranks(ranks, [&](comm::Communicator& world) {
    StepsOfRank steps(world, options);
    body(world, steps);
  });
};

}  // namespace

TEST_CASE("rows of several ranks are looked up and updated as the definition says", "[threads]") {
  check_definition(kOnThreads);
}

TEST_CASE("lists made from the keys of all ranks are those that an exchange brings", "[threads]") {
  check_gathered(kOnThreads);
}

TEST_CASE(
    "lists that exceed the capacity leave the tables alone on all ranks, and fit once it is grown",
    "[threads]") {
  for (const bool gathers : {false, true}) check_growth(kOnThreads, gathers);
}

TEST_CASE("hashed tables on several ranks have the rows of full tables", "[threads]") {
  check_hashed_definition(kOnThreads);
}

TEST_CASE(
    "keys whose lists exceed the capacity between ranks take no rows, and theirs once it is grown",
    "[threads]") {
  check_hashed_growth(kOnThreads);
}

TEST_CASE("a table of one of several ranks that is full is known to its owner alone", "[threads]") {
  check_full_table(kOnThreads);
}

}  // namespace hlite::embedding
