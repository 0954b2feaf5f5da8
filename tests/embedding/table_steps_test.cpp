// An iteration of a layer's tables on one rank.
#include "embedding/table_steps.h"

#include "tests/embedding/steps_case.h"
#include "tests/support/catch.h"

namespace hlite::embedding {

TEST_CASE("rows are looked up and updated as the definition says", "[threads]") {
  const auto first = initial_values();
  comm::run_ranks(1, [&](comm::Communicator& world) {
    StepsOfRank rank(world, {});
    CHECK((rank.iterate(kStepBatch) == looked_up(first, 0, kStepBatch, FloatType::kFloat)));
    CHECK((rows_of(rank.tables()) == updated(first, {kStepBatch})));
  });
}

}  // namespace hlite::embedding
