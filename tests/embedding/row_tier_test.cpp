// A tier of a test's own, behind the seam that all tiers are behind (row_tier.h).
#include "embedding/row_tier.h"

#include <map>

#include "tests/embedding/steps_case.h"

namespace hlite::embedding {
namespace {

// Rows lie in a vector, each with its states. A batch takes lines 0, 1, ... after those of the batch
// before have gone back.
class VectorTier final : public RowTier {
 public:
  VectorTier(const TierSetup& setup, int64_t lines)
      : RowTier({{.name = "lines", .others = "a vector", .lines = lines}}),
        initial_weights_(setup.initial_weights),
        initial_state_(optimizer::initial_state(setup.spec.rule)),
        rows_(static_cast<size_t>(setup.rows)) {}

  [[nodiscard]] int64_t bytes() const override { return 0; }
  void attach(const Exec&, const UpdatedRows& lines) override {
    parts_ = {lines.w, lines.state0, lines.state1};
    held_.assign(static_cast<size_t>(this->lines()), kNoRow);
    for (auto& row : rows_) row.clear();
  }
  void admit(const Exec&, Matrix<const uint32_t> rows, Matrix<uint32_t> lines, int64_t first,
             int64_t count, bool) override {
    put_back();
    std::map<uint32_t, uint32_t> line_of;
    for (int64_t b = 0; b < rows.dim(0); ++b)
      for (int64_t c = first; c < first + count; ++c) {
        const uint32_t row = rows(b, c);
        if (row >= rows_.size()) continue;
        const auto next = static_cast<uint32_t>(line_of.size());
        const auto [at, missing] = line_of.emplace(row, next);
        if (missing) fetch(row, next);
        lines(b, c) = at->second;
      }
  }
  [[nodiscard]] RowOfLine row_of_line() const override { return {held_.data()}; }
  void read(size_t part, std::span<const uint32_t> rows, void* out) override {
    put_back();
    auto* to = static_cast<std::byte*>(out);
    for (const uint32_t row : rows)
      to = std::copy_n(record(row).data() + offset(part), parts_[part].row_bytes(), to);
  }
  void write(size_t part, std::span<const uint32_t> rows, const void* in) override {
    put_back();
    const auto* from = static_cast<const std::byte*>(in);
    for (const uint32_t row : rows) {
      std::copy_n(from, parts_[part].row_bytes(), record(row).data() + offset(part));
      from += parts_[part].row_bytes();
    }
  }

 protected:
  void count(std::vector<StorageTier>& memories) const override {
    memories[0].moved.fetched = fetched_;
  }

 private:
  [[nodiscard]] int64_t offset(size_t part) const {
    int64_t bytes = 0;
    for (size_t p = 0; p < part; ++p) bytes += parts_[p].row_bytes();
    return bytes;
  }
  std::vector<std::byte>& record(uint32_t row) {
    std::vector<std::byte>& of = rows_[row];
    if (!of.empty()) return of;
    of.resize(static_cast<size_t>(offset(parts_.size())));
    initial_weights_(row, of.data());
    for (auto* at = of.data() + offset(1); at != of.data() + of.size(); at += sizeof(float))
      std::memcpy(at, &initial_state_, sizeof(float));
    return of;
  }
  void fetch(uint32_t row, uint32_t line) {
    const std::byte* from = record(row).data();
    for (const WeightRows& part : parts_) {
      std::copy_n(from, part.row_bytes(), part.row_at(line));
      from += part.row_bytes();
    }
    held_[line] = row;
    ++fetched_;
  }
  void put_back() {
    for (size_t line = 0; line < held_.size(); ++line) {
      if (held_[line] == kNoRow) continue;
      std::byte* to = record(held_[line]).data();
      for (const WeightRows& part : parts_)
        to = std::copy_n(part.row_at(static_cast<int64_t>(line)), part.row_bytes(), to);
      held_[line] = kNoRow;
    }
  }

  const std::function<void(uint32_t, std::byte*)> initial_weights_;
  const float initial_state_;
  std::vector<std::vector<std::byte>> rows_;  // empty: never written
  std::vector<WeightRows> parts_;             // the lines
  std::vector<uint32_t> held_;                // the row of each line
  int64_t fetched_ = 0;
};

// Two batches of all ranks' keys.
std::unique_ptr<RowTier> make_vector_tier(const TierSetup& setup) {
  const TablesPlace& place = setup.place;
  const int64_t most = place.max_batch * setup.spec.layout.columns() * place.ranks.ranks();
  return std::make_unique<VectorTier>(setup, std::min(setup.rows, most));
}

constexpr TierKind kVectorTier{.keys = "none",
                               .by_key = true,
                               .instead = "",
                               .on_disk = [](const TierSetup&) { return false; },
                               .make = make_vector_tier};

// What batches look up, and then all weights and states: of rank 0.
std::vector<float> trained(int ranks, const StepsOptions& options, int64_t& fetched) {
  std::vector<float> values;
  comm::run_ranks(ranks, [&](comm::Communicator& world) {
    StepsOfRank rank(world, options);
    std::vector<float> of_rank;
    const auto add = [&](const std::vector<float>& more) {
      of_rank.insert(of_rank.end(), more.begin(), more.end());
    };
    for (const int64_t samples : {2, 5, 1, 4}) add(rank.iterate(samples));
    add(rank.evaluate(kStepBatch));
    add(rank.iterate(3));
    add(elements_of(rank.tables().tables()));
    add(elements_of(rank.tables().states()));
    if (world.rank() != 0) return;
    values = std::move(of_rank);
    if (const RowTier* const tier = rank.tables().storage().tier())
      fetched = tier->memories(/*counted=*/true)[0].moved.fetched;
  });
  return values;
}

}  // namespace

TEST_CASE("a tier that only the seam knows gives the bits of rows in memory", "[threads]") {
  for (const int ranks : {1, 3})
    for (const int64_t hashed_rows : {0, 17})
      for (const auto precision : {FloatType::kFloat, FloatType::kBf16}) {
        INFO(ranks << " ranks, " << hashed_rows << " hashed rows, " << float_type_name(precision));
        StepsOptions options{
            .hashed_rows = hashed_rows,
            .rule = {.type = optimizer::OptimizerType::kAdaGrad, .initial_accumulator = 0.25},
            .precision = precision};
        int64_t fetched = 0;
        const std::vector<float> want = trained(ranks, options, fetched);
        CHECK(fetched == 0);
        options.tier = &kVectorTier;
        CHECK((trained(ranks, options, fetched) == want));
        CHECK(fetched >= 5);
      }
}

}  // namespace hlite::embedding
