#include "hugectr_lite/comm/gather_lists.h"

#include "hugectr_lite/comm/thread_communicator.h"
#include "tests/support/catch.h"

namespace hlite::comm {

TEST_CASE("lists of any lengths arrive concatenated, on the ranks that request them", "[threads]") {
  for (const int ranks : {1, 2, 3, 7})
    for (const int root : {kEveryRank, 0, ranks - 1})
      for (const size_t longest : {0, 1, 5}) {
        INFO(ranks << " ranks, root " << root << ", up to " << longest);
        std::vector<uint32_t> want;
        const auto list_of = [&](int rank) {
          std::vector<uint32_t> list;
          for (size_t i = 0; i < (static_cast<size_t>(rank) * 3 + 1) % (longest + 1); ++i)
            list.push_back(static_cast<uint32_t>(100 * static_cast<size_t>(rank) + i));
          return list;
        };
        for (int q = 0; q < ranks; ++q)
          for (const uint32_t value : list_of(q)) want.push_back(value);
        std::vector<std::vector<uint32_t>> got(static_cast<size_t>(ranks));
        run_ranks(ranks, [&](Communicator& world) {
          const RankContext context{.rank = world.rank(),
                                    .topology = std::make_shared<Topology>(world.topology()),
                                    .world = &world};
          got[static_cast<size_t>(world.rank())] =
              gather_lists(context, list_of(world.rank()), root);
        });
        for (int q = 0; q < ranks; ++q)
          CHECK((got[static_cast<size_t>(q)] ==
                 (root == kEveryRank || root == q ? want : std::vector<uint32_t>())));
      }
}

TEST_CASE("a rank alone needs no world to gather its list") {
  CHECK((gather_lists<float>(RankContext(), {1, 2, 3}, 0) == std::vector<float>{1, 2, 3}));
}

}  // namespace hlite::comm
