#include "hugectr_lite/comm/rank_context.h"

#include <array>

#include "hugectr_lite/comm/thread_communicator.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::comm {

TEST_CASE("a rank alone exchanges with itself, and one of several that has no world not at all") {
  const auto alone = RankContext().make_communicator(Route::kFlat);
  REQUIRE(alone != nullptr);
  CHECK(alone->rank() == 0);
  CHECK(alone->size() == 1);
  const RankContext looked_at{.topology = std::make_shared<Topology>(std::vector<int>{2, 1})};
  CHECK(looked_at.ranks() == 3);
  CHECK(looked_at.make_communicator(Route::kFlat) == nullptr);
}

TEST_CASE("a step's communicator counts what this step sends, by its route", "[threads]") {
  const Topology topology({2, 2});
  std::array<std::array<int64_t, 3>, 4> sent{};  // of the world, flat, hierarchical
  run_ranks(topology, [&](Communicator& world) {
    const RankContext context{
        .rank = world.rank(), .topology = std::make_shared<Topology>(topology), .world = &world};
    const auto flat = context.make_communicator(Route::kFlat);
    const auto rails = context.make_communicator(Route::kHierarchical);
    ThreadPool pool(1);
    const Exec exec{.pool = &pool};
    std::array<float, 8> values{};
    flat->all_reduce(exec, values);
    rails->all_reduce(exec, values);
    auto& of_rank = sent[static_cast<size_t>(world.rank())];
    const std::array<const Communicator*, 3> all{&world, flat.get(), rails.get()};
    for (size_t i = 0; i < all.size(); ++i) of_rank[i] = all[i]->traffic().inter_bytes;
  });
  for (const auto& of_rank : sent) {
    CHECK(of_rank[0] == 0);
    // Two of three others are on the other node, two slices of 8 bytes for each; on rails one is,
    // and takes half a node's share.
    CHECK(of_rank[1] == 2 * 2 * 8);
    CHECK(of_rank[2] == 2 * 8);
  }
}

TEST_CASE("a world of another size than the topology is refused") {
  run_ranks(1, [](Communicator& world) {
    const RankContext wrong{.topology = std::make_shared<Topology>(std::vector<int>{2}),
                            .world = &world};
    const std::string what =
        test::message_of<Error>([&] { (void)wrong.make_communicator(Route::kFlat); });
    test::check_contains(what, {"1 ranks, a topology of 2"});
  });
}

}  // namespace hlite::comm
