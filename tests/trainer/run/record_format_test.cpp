// A format of data files from outside of the product: what is in this file is all that one needs,
// but for its line in each of the two lists (config/data_format.cpp, data_reader/record_format.cpp)
// and in CMakeLists.txt.
#include "data_reader/record_format.h"

#include "data_reader/batch_ring.h"
#include "data_reader/followed_source.h"
#include "data_reader/raw_format.h"
#include "hugectr_lite/comm/thread_communicator.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/trainer/model/placements.h"
#include "hugectr_lite/trainer/run/trainer.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

// Rows of 32-bit little-endian words without a header: the keys, the dense integers, the label.
class KeysFirstReader final : public data::BatchRing {
 public:
  KeysFirstReader(const config::DataConfig& config, const std::string& path, data::Split split,
                  int64_t batch_size, const data::SourceOptions& options)
      : BatchRing(config, batch_size, options),
        file_(path),
        dense_dim_(config.dense_dim),
        keys_(config.key_layout().columns) {
    set_samples(config, split, path, file_.size() / (4 * words()));
    make_slots(options.resident ? batches_per_epoch() : 3);
  }
  ~KeysFirstReader() override { join_threads(); }

 private:
  [[nodiscard]] int64_t words() const { return keys_ + dense_dim_ + 1; }
  void start_threads() override {
    start_thread([this] { fill_in_order([this](int64_t position) { return fill(position); }); });
  }
  bool fill(int64_t position) {
    data::HostBatch& batch = begin_batch(position, position % batches_per_epoch());
    std::vector<int32_t> row(static_cast<size_t>(words()));
    for (int64_t i = 0; i < batch.size; ++i) {
      file_.read((batch.first_sample + i) * 4 * words(), std::as_writable_bytes(std::span(row)));
      const auto dense = std::span<const int32_t>(row).subspan(static_cast<size_t>(keys_),
                                                               static_cast<size_t>(dense_dim_));
      std::copy_n(row.begin(), keys_, batch.keys.row(i));
      data::log_plus_one(dense, {batch.dense.row(i), dense.size()});
      batch.labels(i, 0) = static_cast<float>(row.back());
    }
    return true;
  }

  const ReadFile file_;
  const int64_t dense_dim_, keys_;
};

class KeysFirst final : public data::RecordFormat {
 public:
  [[nodiscard]] std::unique_ptr<data::BatchSource> open(
      const config::DataConfig& config, const std::string& path, data::Split split,
      int64_t batch_size, std::span<const int64_t>,
      const data::SourceOptions& options) const override {
    return std::make_unique<KeysFirstReader>(config, path, split, batch_size, options);
  }
  [[nodiscard]] int64_t memory_bytes(const config::DataConfig&, int64_t rows, int64_t row_bytes,
                                     int64_t, const data::SourceOptions&) const override {
    return 3 * rows * row_bytes;
  }
};

constexpr config::DataFormat kKeysFirst = {
    .name = "KeysFirst", .files = "rows", .ending = ".rows", .fixed_records = true};
const KeysFirst kRecords;

// The format is there while this is.
struct AddedFormat {
  AddedFormat() { data::add_format(kKeysFirst, kRecords); }
  ~AddedFormat() { config::data_formats().pop_back(); }
};

// The words of small_samples() in the other order.
std::string keys_first(const std::string& raw) {
  std::string rows;
  for (size_t at = 0; at < raw.size(); at += 24)
    rows += raw.substr(at + 12, 12) + raw.substr(at + 4, 8) + raw.substr(at, 4);
  return rows;
}

std::vector<double> losses_of(const SmallRun& run, std::vector<std::string> changes) {
  changes.emplace_back("layers.data.async_param.shuffle=false");
  const auto config = config::load_train_config(run / "config.json", changes);
  const auto topology =
      std::make_shared<const comm::Topology>(trainer::topology_of(config->solver));
  const auto placements = trainer::make_placements(*config, *topology, true);
  trainer::Options options;  // which a trainer refers to
  options.quiet = true;
  std::vector<double> losses;
  comm::run_ranks(*topology, [&](comm::Communicator& world) {
    trainer::Trainer trainer(
        *config, options,
        {.ranks = {world.rank(), topology, &world}, .placements = placements, .threads = 1});
    trainer.start();
    for (int i = 0; i < 40; ++i) {
      trainer.step();
      losses.push_back(trainer.batch_loss());
    }
    losses.push_back(trainer.evaluations().evaluate()->auc.value());
  });
  return losses;
}

TEST_CASE("a model trains on files of a format that the product does not know", "[threads]") {
  const SmallRun run;
  write_text(run / "train.rows", keys_first(small_samples(500, 1)));
  write_text(run / "eval.rows", keys_first(small_samples(333, 2)));
  const AddedFormat added;
  const std::vector<std::string> rows = {"layers.data.format=KeysFirst",
                                         "layers.data.source=train.rows",
                                         "layers.data.eval_source=eval.rows"};
  const std::vector<double> losses = losses_of(run, rows);
  CHECK(losses == losses_of(run, {}));
  auto shuffled = rows;
  shuffled.emplace_back("layers.data.shuffle_samples=true");
  CHECK(losses_of(run, shuffled) != losses);

  const auto config = config::load_train_config(run / "config.json",
                                                {rows[0], "layers.data.async_param.shuffle=false"});
  CHECK(data::count_samples(config->data, run / "train.rows", data::Split::kTrain, {}) == 500);
  data::FollowedSource source(config->data, run.path(), 32, {}, {});
  CHECK(source.poll().file == "eval.rows");
}

TEST_CASE("a format that there is not gets the names of those that there are") {
  const SmallRun run;
  const auto refusal = [&] {
    return message_of<ConfigError>(
        [&] { config::load_train_config(run / "config.json", {"layers.data.format=KeysFirst"}); });
  };
  check_contains(refusal(),
                 {"layers[0].format", "Raw", "RawAsync", "Norm", "Parquet", "Criteo", "KeysFirst"});
  const AddedFormat added;
  check_contains(refusal(),
                 {"layers[0].async_param.shuffle", "expected false, as KeysFirst files"});
}

}  // namespace
}  // namespace hlite::test
