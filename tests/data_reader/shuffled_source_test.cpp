#include "data_reader/shuffled_source.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "data_reader/batch_order.h"
#include "hugectr_lite/core/error.h"
#include "tests/data_reader/raw_batch.h"
#include "tests/data_reader/raw_fixture.h"
#include "tests/support/catch.h"

using namespace hlite;
using namespace hlite::data;
using test::async_param;
using test::RawFixture;

namespace {

// Returns all values of a sample, which identify it.
std::vector<float> row_of(const HostBatch& batch, int64_t i) {
  std::vector<float> row(batch.labels.row(i), batch.labels.row(i) + batch.labels.dim(1));
  row.insert(row.end(), batch.dense.row(i), batch.dense.row(i) + batch.dense.dim(1));
  for (int64_t c = 0; c < batch.keys.dim(1); ++c)
    row.push_back(static_cast<float>(batch.keys(i, c)));
  return row;
}
using Rows = std::vector<std::vector<float>>;

Rows read_batches(BatchSource& source, int64_t batches) {
  Rows rows;
  for (int64_t b = 0; b < batches; ++b) {
    const HostBatch& batch = source.next();
    for (int64_t i = 0; i < batch.size; ++i) rows.push_back(row_of(batch, i));
  }
  return rows;
}

struct Shuffled : RawFixture {
  Shuffled() : RawFixture(kSamples) { data.async_param = async_param(2, 2, 512, 4, 512); }
  static constexpr int64_t kSamples = 61, kBatch = 12;  // five full batches and one of one sample

  [[nodiscard]] std::unique_ptr<BatchSource> open(SourceOptions options = {}) const {
    options.shuffle_samples = true;
    options.seed = 5;
    return open_source(data, path, Split::kTrain, kBatch, shape.slot_rows, options);
  }
  [[nodiscard]] Rows in_order() const {
    const auto source = open_source(data, path, Split::kTrain, kBatch, shape.slot_rows, {});
    return read_batches(*source, source->batches_per_epoch());
  }
};

}  // namespace

TEST_CASE("each epoch is a different permutation of all samples, with a partial last batch",
          "[threads]") {
  const Shuffled f;
  const auto source = f.open();
  CHECK(source->samples() == Shuffled::kSamples);
  CHECK(source->batches_per_epoch() == 6);
  const Rows all = f.in_order();
  std::set<Rows> seen;
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    const Rows rows = read_batches(*source, 6);
    REQUIRE(rows.size() == all.size());
    std::vector<int64_t> order(all.size());
    shuffle_order(5, epoch, order);
    for (size_t i = 0; i < rows.size(); ++i) {
      CHECK(rows[i] == all[static_cast<size_t>(order[i])]);
      CHECK(shuffled_sample(5, epoch, Shuffled::kSamples, static_cast<int64_t>(i)) == order[i]);
    }
    seen.insert(rows);
  }
  CHECK(seen.size() == 4);
}

TEST_CASE("replaced keys are counted as if spread evenly over an epoch, on any number of ranks",
          "[threads]") {
  Shuffled f;
  f.data.key_policy.kind = config::KeyPolicy::kClamp;
  for (int64_t& rows : f.shape.slot_rows) rows = (rows + 1) / 2;
  const auto streaming =
      open_source(f.data, f.path, Split::kTrain, Shuffled::kBatch, f.shape.slot_rows, {});
  read_batches(*streaming, 6);
  const int64_t per_epoch = streaming->replaced_keys();
  REQUIRE(per_epoch > 6);
  const auto whole = f.open();
  SourceOptions first, second;
  first.shard = {0, 2};
  second.shard = {1, 2};
  const auto one = f.open(first), two = f.open(second);
  for (int64_t b = 1; b <= 12; ++b) {
    read_batches(*whole, 1);
    read_batches(*one, 1);
    read_batches(*two, 1);
    const int64_t epochs = b / 6, samples = b % 6 * Shuffled::kBatch;
    CHECK(whole->replaced_keys() == epochs * per_epoch + per_epoch * samples / Shuffled::kSamples);
    CHECK(one->replaced_keys() + two->replaced_keys() == whole->replaced_keys());
  }
}

TEST_CASE("a shuffled source resumes at its start batch", "[threads]") {
  const Shuffled f;
  const auto whole = f.open();
  read_batches(*whole, 8);
  SourceOptions options;
  options.start_batch = 8;
  const auto rest = f.open(options);
  CHECK(rest->position() == 8);
  CHECK(read_batches(*rest, 10) == read_batches(*whole, 10));
}

TEST_CASE("the shards of a batch, one after another, equal the unsharded batch", "[threads]") {
  const Shuffled f;
  for (const int count : {2, 3}) {
    std::vector<std::unique_ptr<BatchSource>> shards;
    for (int index = 0; index < count; ++index) {
      SourceOptions options;
      options.shard = {index, count};
      shards.push_back(f.open(options));
    }
    const auto whole = f.open();
    for (int64_t b = 0; b < 13; ++b) {
      Rows rows;
      for (const auto& shard : shards) {
        const Rows part = read_batches(*shard, 1);
        rows.insert(rows.end(), part.begin(), part.end());
      }
      CHECK(rows == read_batches(*whole, 1));
    }
  }
}

TEST_CASE("a damaged sample is reported by its number in the file, not its shuffled place",
          "[threads]") {
  Shuffled f;
  f.words[40 * 7] = 7;  // a label
  f.write();
  const auto source = f.open();
  std::string message;
  try {
    source->next();
  } catch (const DataError& error) {
    message = error.what();
  }
  CHECK(message.find("sample 40") != std::string::npos);
  CHECK_THROWS_AS(source->next(), DataError);
}
