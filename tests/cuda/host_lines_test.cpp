// HostLines between a GPU's memory and a disk, against whole tables in memory, on the emulated
// device and, where there is one, on the GPU.
#include "embedding/host_lines.h"

#include <set>

#include "embedding/table_files.h"
#include "embedding/table_init.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/core/thread_pool.h"
#include "tests/cuda/embedding_device.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::test {
namespace {

using embedding::kNoRow;

constexpr int64_t kTierWidth = 3, kTierSamples = 8;
// The layer has columns 2, 3 and 4 of 6, the last two of them of one slot.
constexpr int64_t kTierColumns = 6, kTierFirst = 2, kTierLookups = 3;
constexpr int64_t kTierRows = 300 + 401;

embedding::TablesSpec three_tiers_spec() {
  return {.name = "emb",
          .layout = {{300, 401}, kTierWidth, KeyLayout({2, 1, 2, 1}), embedding::Combiner::kSum, 1},
          .rule = {.type = optimizer::OptimizerType::kAdaGrad, .initial_accumulator = 0.25},
          .seed = 11};
}

// Keys of a batch: [samples, kTierColumns].
using TierKeys = std::vector<uint32_t>;

TierKeys draw_tier_keys(uint64_t round) {
  const int64_t samples = round % 9 == 5 ? 0 : 1 + static_cast<int64_t>(round * 5 % kTierSamples);
  TierKeys keys(static_cast<size_t>(samples * kTierColumns));
  for (size_t i = 0; i < keys.size(); ++i) {
    const uint32_t draw = random::word(13, round, i);
    keys[i] = draw % 9 == 0 ? kNoKey : draw % 3 == 0 ? draw % 290 : draw % 40;
  }
  return keys;
}

// The row that a cell's key names, by the definition of the layout; kNoRow of other layers' cells.
uint32_t row_of_cell(const TierKeys& keys, size_t i) {
  const auto column = static_cast<int64_t>(i) % kTierColumns;
  if (column < kTierFirst || column >= kTierFirst + kTierLookups || keys[i] == kNoKey)
    return kNoRow;
  return keys[i] + (column == kTierFirst ? 0 : 300);
}

int64_t lookups_of(const TierKeys& keys) {
  int64_t lookups = 0;
  for (size_t i = 0; i < keys.size(); ++i) lookups += row_of_cell(keys, i) != kNoRow;
  return lookups;
}

// A layer whose GPU and host have the least memory, and its tables as they should be.
class ThreeTiers {
 public:
  ThreeTiers(const Exec& gpu, const std::string& folder)
      : gpu_(gpu),
        spec_(three_tiers_spec()),
        storage_(spec_, place_with_least(folder)),
        host_lines_(dynamic_cast<embedding::HostLines&>(*storage_.tier())),
        rows_(spec_, kTierRows, nullptr, kTierSamples),
        words_(gpu, 2 * kTierSamples * kTierColumns * sizeof(uint32_t), "rows and lines") {
    storage_.declare(buffers_);
    buffers_.allocate(*gpu.cuda);
    storage_.start({});
    rows_.prepare();
    host_lines_.set_host_rows(rows_);
    host_lines_.emit(plan_);
    table_.resize(kTierRows * kTierWidth);
    embedding::init_tables({.pool = &pool_}, spec_.seed, spec_.name, spec_.layout,
                           {table_.data(), kTierRows, kTierWidth});
    states_.assign(table_.size(), 0.25f);
  }

  // A run with a batch, and the next one as far as it is announced.
  void run(const TierKeys& keys, const TierKeys* next, bool training) {
    const int64_t batch = std::ssize(keys) / kTierColumns;
    plan::HostInput input{.keys = keys.data()};
    if (next) {
      input.next_keys = next->data();
      input.next_batch = std::ssize(*next) / kTierColumns;
    }
    const Exec host{.pool = &pool_};
    rows_.begin_run(host, input, batch);
    host_lines_.begin_run(gpu_, host, training);
    check_host_lines(keys);
    admit_and_change(keys, training);
    host_lines_.end_run(host);
  }

  // All rows and states as a file has them, and the rows that training has touched.
  void check_files() const {
    const auto check_tensors = [](const std::vector<TensorRef>& tensors,
                                  const std::vector<float>& want) {
      std::vector<float> got;
      for (const TensorRef& tensor : tensors) {
        std::vector<float> values(static_cast<size_t>(tensor.size()));
        tensor.get(0, values);
        got.insert(got.end(), values.begin(), values.end());
      }
      CHECK((got == want));
    };
    check_tensors(files_.tables(nullptr), table_);
    check_tensors(files_.states(nullptr), states_);
    std::vector<std::vector<uint32_t>> touched(2);
    for (const uint32_t row : trained_)
      touched[row / 300 > 0].push_back(row < 300 ? row : row - 300);
    CHECK(storage_.touched_keys() == touched);
    CHECK_NOTHROW(host_lines_.check());
  }
  [[nodiscard]] embedding::RowCacheCounts counts() const { return host_lines_.cache().counts(); }

 private:
  // Memory as little as the messages ask for, of the GPU and then of the host.
  embedding::TablesPlace place_with_least(const std::string& folder) const {
    embedding::TablesPlace place;
    place.max_batch = place.train_batch = kTierSamples;
    place.gpu = gpu_.cuda;
    place.memory.kind = &embedding::kThreeTiers;
    place.memory.lines = {.key = ".gpu_gb", .share = 1};
    place.memory.host = {.key = ".host_gb", .share = 1};
    place.memory.folder = folder;
    for (embedding::MemoryShare* const memory : {&place.memory.lines, &place.memory.host}) {
      const std::string message =
          message_of<ConfigError>([&] { embedding::TableStorage(spec_, place); });
      check_contains(message, {std::string("solver.embedding_memory") + memory->key,
                               "for the 48 rows of two batches and the map of 701 rows"});
      memory->bytes =
          static_cast<int64_t>(std::stod(message.substr(message.find("at least ") + 9)) * 1e9);
    }
    return place;
  }

  // Each row of the batch has a line in the host's memory, which holds it.
  void check_host_lines(const TierKeys& keys) const {
    std::vector<uint32_t> held(keys.size());
    if (!held.empty())
      std::memcpy(held.data(), host_lines_.batch_lines(), held.size() * sizeof(uint32_t));
    for (size_t i = 0; i < keys.size(); ++i)
      if (const uint32_t row = row_of_cell(keys, i); row != kNoRow) {
        REQUIRE(held[i] < kTierRows);
        REQUIRE(host_lines_.cache().row_of_line()(held[i]) == row);
      }
  }

  // Admits the batch's rows on the GPU and compares their lines there; training changes each once.
  void admit_and_change(const TierKeys& keys, bool training) {
    const int64_t batch = std::ssize(keys) / kTierColumns;
    const size_t bytes = keys.size() * sizeof(uint32_t);
    std::vector<uint32_t> rows(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) rows[i] = row_of_cell(keys, i);
    auto* const words = reinterpret_cast<uint32_t*>(words_.data());
    const auto matrix = [&](int64_t i) {
      return Matrix<uint32_t>(words + i * kTierSamples * kTierColumns, batch, kTierColumns);
    };
    put_bytes(gpu_, matrix(0).data(), rows.data(), bytes);
    plan::run_in_order(plan_, {.exec = gpu_, .batch = batch});
    host_lines_.admit(gpu_, matrix(0), matrix(1), kTierFirst, kTierLookups, training);
    std::vector<uint32_t> lines(keys.size());
    get_bytes(gpu_, lines.data(), matrix(1).data(), bytes);
    const embedding::UpdatedRows own = storage_.own();
    std::vector<float> weights(static_cast<size_t>(own.w.dim(0) * kTierWidth)),
        states(weights.size());
    get_bytes(gpu_, weights.data(), own.w.floats(), weights.size() * sizeof(float));
    get_bytes(gpu_, states.data(), own.state0.data(), states.size() * sizeof(float));
    std::set<uint32_t> seen;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (rows[i] == kNoRow || !seen.insert(rows[i]).second) continue;
      INFO("row " << rows[i] << ", line " << lines[i]);
      REQUIRE(lines[i] < own.w.dim(0));
      for (size_t j = 0; j < kTierWidth; ++j) {
        const size_t at = lines[i] * kTierWidth + j, want = rows[i] * kTierWidth + j;
        REQUIRE(weights[at] == table_[want]);
        REQUIRE(states[at] == states_[want]);
        if (!training) continue;
        weights[at] = table_[want] += 1.5f;
        states[at] = states_[want] += 0.25f;
      }
      if (training) trained_.insert(rows[i]);
    }
    put_bytes(gpu_, own.w.floats(), weights.data(), weights.size() * sizeof(float));
    put_bytes(gpu_, own.state0.data(), states.data(), states.size() * sizeof(float));
  }

  const Exec gpu_;
  ThreadPool pool_{2};
  const embedding::TablesSpec spec_;
  embedding::TableStorage storage_;
  const embedding::TableFiles files_{spec_, storage_};
  embedding::HostLines& host_lines_;
  embedding::HostRows rows_;
  plan::Buffers buffers_;
  plan::Plan plan_{buffers_};
  ExecMemory words_;
  std::vector<float> table_, states_;
  std::set<uint32_t> trained_;
};

}  // namespace

TEST_CASE("every row of a batch has a host line with its newest values, announced or not",
          "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    const TemporaryDirectory folder;
    ThreeTiers tiers(device.exec(), folder.path());
    for (uint64_t round = 0; round < 150; ++round) {
      INFO("round " << round);
      const TierKeys keys = draw_tier_keys(round), next = draw_tier_keys(round + 1),
                     other = draw_tier_keys(1000 + round);
      // Announced mostly; now and then not, or another batch than the one that comes.
      const TierKeys* const announced = round % 7 == 2 ? nullptr : round % 11 == 4 ? &other : &next;
      tiers.run(keys, announced, /*training=*/round % 13 < 10);
      if (round % 17 == 8) tiers.run(other, nullptr, /*training=*/false);  // an evaluation
      if (round % 50 == 31) tiers.check_files();
    }
    tiers.check_files();
    CHECK(tiers.counts().written > 300);
    CHECK(tiers.counts().fetched > 300);
  }
}

TEST_CASE("lines of an announced batch are chosen a batch ahead, and once", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    const TemporaryDirectory folder;
    ThreeTiers tiers(device.exec(), folder.path());
    int64_t chosen = 0;
    const auto run = [&](uint64_t round, const TierKeys* announced, int64_t lookups) {
      tiers.run(draw_tier_keys(round), announced, /*training=*/true);
      chosen += lookups;
      CHECK(tiers.counts().lookups == chosen);
    };
    const TierKeys first = draw_tier_keys(0), second = draw_tier_keys(1), third = draw_tier_keys(2);
    run(0, &second, lookups_of(first) + lookups_of(second));
    run(1, &third, lookups_of(third));
    run(2, nullptr, 0);
    // A batch that was not announced, or that another batch followed, chooses its rows on arrival.
    run(3, &first, lookups_of(draw_tier_keys(3)) + lookups_of(first));
    run(4, nullptr, lookups_of(draw_tier_keys(4)));
    run(0, nullptr, lookups_of(first));
    tiers.check_files();
  }
}

TEST_CASE("page-locked bytes are those of two batches' lines and the rows that leave") {
  embedding::TablesSpec spec = three_tiers_spec();
  CHECK(embedding::HostLines::bytes(spec, 8) == 4 * 8 * (6 + 6 + 3));
  CHECK(embedding::HostLines::bytes(spec, 0) == 0);
  CHECK(embedding::HostLines::bytes(spec, 8, /*ranks=*/2) == 4 * 8 * 2 * (3 + 3 + 3));
  spec.hash_capacity = 40;  // and the rows of two batches
  CHECK(embedding::HostLines::bytes(spec, 8) == 4 * 8 * (4 * 6 + 3));
  spec.hash_capacity = 0;
  spec.layout = embedding::SlotLayout({7}, 4);
  CHECK(embedding::HostLines::bytes(spec, 1) == 4 * 3);
}

}  // namespace hlite::test
