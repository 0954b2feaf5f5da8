#include "embedding/host_sharded_steps.h"

#include "tests/embedding/steps_case.h"
#include "tests/support/catch.h"

namespace hlite::embedding {

TEST_CASE("rows of several ranks are looked up and updated as the definition says") {
  const auto first = first_values();
  for (const int ranks : {2, 3, 7})
    for (const FloatType wire : {FloatType::kFloat, FloatType::kBf16}) {
      INFO(ranks << " ranks, " << float_type_name(wire));
      const auto samples = samples_of(ranks);
      std::vector<std::vector<float>> got(static_cast<size_t>(ranks));
      std::vector<float> after;
      comm::run_ranks(ranks, [&](comm::Communicator& world) {
        const auto q = static_cast<size_t>(world.rank());
        StepsOfRank rank(world, {.wire = wire});
        got[q] = rank.iterate(samples[q]);
        auto rows = rows_of(rank.tables());
        if (q == 0) after = std::move(rows);
      });
      for (int q = 0; q < ranks; ++q)
        CHECK((got[static_cast<size_t>(q)] ==
               looked_up(first, q, samples[static_cast<size_t>(q)], wire)));
      CHECK((after == updated(first, samples)));  // gradients are small whole numbers
    }
}

TEST_CASE("lists that do not fit leave the tables alone on all ranks, and fit once room is made") {
  constexpr int kRanks = 3;
  std::array<std::vector<float>, 3> rows;  // of rank 0: at first, after that run, after the next
  std::array<std::string, kRanks> grown;
  std::array<std::array<bool, 2>, kRanks> overflow{};
  comm::run_ranks(kRanks, [&](comm::Communicator& world) {
    const auto q = static_cast<size_t>(world.rank());
    StepsOfRank rank(world, {.capacity = 1});
    const auto keep = [&](size_t i) {
      auto now = rows_of(rank.tables());
      if (q == 0) rows[i] = std::move(now);
    };
    keep(0);
    (void)rank.iterate(kStepBatch);
    overflow[q][0] = rank.take_overflow();
    keep(1);
    grown[q] = rank.tables().sharded()->grow();
    (void)rank.iterate(kStepBatch);
    overflow[q][1] = rank.take_overflow();
    keep(2);
  });
  CHECK((rows[0] == first_values()));
  CHECK((rows[1] == rows[0]));
  CHECK((rows[2] == updated(rows[0], {kStepBatch, kStepBatch, kStepBatch})));
  for (size_t q = 0; q < kRanks; ++q) {
    CHECK(overflow[q] == std::array{true, false});
    CHECK(grown[q] == grown[0]);
    CHECK(grown[q].find("room for 1;") != std::string::npos);
  }
}

}  // namespace hlite::embedding
