#include "embedding/table_storage.h"

#include "hugectr_lite/comm/thread_communicator.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::embedding {
namespace {

constexpr int64_t kStoredWidth = 5;

TablesSpec tables_of(std::vector<int64_t> rows) {
  return {.name = "emb",
          .layout = SlotLayout(std::move(rows), kStoredWidth),
          .rule = {.type = optimizer::OptimizerType::kAdaGrad, .initial_accumulator = 0.25},
          .seed = 9};
}

std::vector<float> values_of(const Matrix<float>& m) { return {m.data(), m.data() + m.size()}; }

}  // namespace

TEST_CASE("each rank's rows start as the same rows of the whole tables do") {
  const TablesSpec spec = tables_of({7, 1, 11});
  ThreadPool pool(2);
  const Exec exec{.pool = &pool};
  std::vector<float> whole(static_cast<size_t>(spec.layout.total_rows * kStoredWidth));
  init_tables(exec, spec.seed, spec.name, spec.layout,
              {whole.data(), spec.layout.total_rows, kStoredWidth});
  for (const auto& shards : std::vector<std::vector<std::vector<int>>>{
           {{0}, {0}, {0}}, {{0, 2, 1}, {1}, {}}, {{}, {}, {}}}) {
    const int ranks = shards[1].empty() ? 2 : shards[0].size() == 1 ? 1 : 3;
    const auto placement =
        std::make_shared<const RowPlacement>(RowPlacement::by_table(spec.layout, shards, ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      INFO("rank " << rank << " of " << ranks);
      const comm::RankContext context{
          .rank = rank, .topology = std::make_shared<comm::Topology>(std::vector<int>{ranks})};
      TableStorage storage(spec, placement, context, exec);
      plan::Buffers buffers;
      storage.declare(buffers);
      buffers.allocate();
      storage.initialize(exec);
      for (const bool copies : {false, true}) {
        const UpdatedRows rows = copies ? storage.copied() : storage.own();
        REQUIRE(rows.w.dim(0) == (copies ? placement->copied_rows() : placement->rows_of(rank)));
        std::vector<float> want;
        for (int64_t i = 0; i < rows.w.dim(0); ++i) {
          const TableRow row = placement->table_row(copies ? -1 : rank, i);
          const auto at =
              (spec.layout.offset[static_cast<size_t>(row.slot)] + row.key) * kStoredWidth;
          want.insert(want.end(), whole.begin() + at, whole.begin() + at + kStoredWidth);
        }
        CHECK((values_of(rows.w) == want));
        CHECK((values_of(rows.state0) == std::vector<float>(want.size(), 0.25f)));
        CHECK(rows.state1.data() == nullptr);
      }
    }
  }
}

TEST_CASE("a placement that does not belong to the ranks or the tables is refused") {
  TablesSpec spec = tables_of({7, 1});
  const auto of_two =
      std::make_shared<const RowPlacement>(RowPlacement::by_table(spec.layout, {{0}, {1}}, 2));
  test::check_contains(test::message_of<Error>([&] { TableStorage(spec, of_two, {}, {}); }),
                       {"emb", "another number of ranks than 1"});
  spec.hash_capacity = 3;
  spec.init_rows = {3, 3};
  test::check_contains(test::message_of<Error>([&] { TableStorage(spec, nullptr, {}, {}); }),
                       {"emb", "placement by key"});
}

}  // namespace hlite::embedding
