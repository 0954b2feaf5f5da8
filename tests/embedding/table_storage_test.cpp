#include "embedding/table_storage.h"

#include "hugectr_lite/comm/thread_communicator.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::embedding {
namespace {

constexpr int64_t kStoredWidth = 5;

using optimizer::OptimizerType;

TablesSpec tables_of(std::vector<int64_t> rows, OptimizerType type = OptimizerType::kAdaGrad) {
  return {.name = "emb",
          .layout = SlotLayout(std::move(rows), kStoredWidth),
          .rule = {.type = type, .initial_accumulator = 0.25},
          .seed = 9};
}

std::vector<float> values_of(const WeightRows& rows) {
  std::vector<float> values;
  with_float_type(rows.type(), [&]<typename W>() {
    const Matrix<W> m = rows.as<W>();
    for (int64_t i = 0; i < m.size(); ++i) values.push_back(to_float(m.data()[i]));
  });
  return values;
}

}  // namespace

TEST_CASE("each rank's rows start as the same rows of the whole tables do", "[threads]") {
  const auto type = GENERATE(OptimizerType::kAdaGrad, OptimizerType::kRowWiseAdaGrad);
  const int64_t state_width = type == OptimizerType::kAdaGrad ? kStoredWidth : 1;
  const auto precision = GENERATE(FloatType::kFloat, FloatType::kBf16, FloatType::kFp16);
  TablesSpec spec = tables_of({7, 1, 11}, type);
  spec.table_type = precision;
  CHECK(spec.stored_row_bytes() == kStoredWidth * float_type_bytes(precision) + state_width * 4);
  ThreadPool pool(2);
  const Exec exec{.pool = &pool};
  std::vector<float> whole(static_cast<size_t>(spec.layout.total_rows * kStoredWidth));
  init_tables(exec, spec.seed, spec.name, spec.layout,
              {whole.data(), spec.layout.total_rows, kStoredWidth});
  for (float& w : whole) w = rounded_to(precision, w);
  for (const auto& shards : std::vector<std::vector<std::vector<int>>>{
           {{0}, {0}, {0}}, {{0, 2, 1}, {1}, {}}, {{}, {}, {}}}) {
    const int ranks = shards[1].empty() ? 2 : shards[0].size() == 1 ? 1 : 3;
    const auto placement =
        std::make_shared<const RowPlacement>(RowPlacement::by_table(spec.layout, shards, ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      INFO("rank " << rank << " of " << ranks);
      const comm::RankContext context{
          .rank = rank, .topology = std::make_shared<comm::Topology>(std::vector<int>{ranks})};
      TableStorage storage(spec, {.ranks = context, .placement = placement});
      plan::Buffers buffers;
      storage.declare(buffers);
      buffers.allocate();
      storage.initialize(exec);
      for (const bool replicated : {false, true}) {
        const UpdatedRows rows = replicated ? storage.replicated() : storage.own();
        REQUIRE(rows.w.dim(0) ==
                (replicated ? placement->replicated_rows() : placement->rows_of(rank)));
        std::vector<float> want;
        for (int64_t i = 0; i < rows.w.dim(0); ++i) {
          const TableRow row = placement->table_row(replicated ? -1 : rank, i);
          const auto at =
              (spec.layout.offset[static_cast<size_t>(row.table)] + row.key) * kStoredWidth;
          want.insert(want.end(), whole.begin() + at, whole.begin() + at + kStoredWidth);
        }
        CHECK((values_of(rows.w) == want));
        CHECK((values_of(rows.state0) ==
               std::vector<float>(static_cast<size_t>(rows.w.dim(0) * state_width), 0.25f)));
        CHECK(rows.state1.data() == nullptr);
      }
    }
  }
}

TEST_CASE("a placement that does not belong to the ranks or the tables is refused") {
  TablesSpec spec = tables_of({7, 1});
  const auto of_two =
      std::make_shared<const RowPlacement>(RowPlacement::by_table(spec.layout, {{0}, {1}}, 2));
  test::check_contains(test::message_of<Error>([&] { TableStorage(spec, {.placement = of_two}); }),
                       {"emb", "another number of ranks than 1"});
  spec.hash_capacity = 3;
  spec.init_rows = {3, 3};
  test::check_contains(test::message_of<Error>([&] { TableStorage(spec, {}); }),
                       {"emb", "placement by key"});
}

}  // namespace hlite::embedding
