#include "hugectr_lite/predict/array_batches.h"

#include <limits>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/no_key.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::predict {
namespace {

config::DataConfig two_slots() {
  config::DataConfig config;
  config.label_dim = 1;
  config.dense_dim = 3;
  config.dense_aligned = true;
  config.sparse.resize(1);
  config.sparse[0].slot_num = 2;
  config.sparse[0].hotness = {1, 2};
  return config;
}

// Sample i: label i/8, dense 10 i + column, keys i and, in the slot of two, i + 1 and none.
struct Arrays {
  std::vector<float> labels, dense;
  std::vector<int64_t> keys;
  explicit Arrays(int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      labels.push_back(static_cast<float>(i) / 8);
      for (int64_t c = 0; c < 3; ++c) dense.push_back(static_cast<float>(10 * i + c));
      keys.insert(keys.end(), {i, i + 1, -1});
    }
  }
  [[nodiscard]] SampleArrays views() const {
    const auto n = static_cast<int64_t>(labels.size());
    return {{labels.data(), n, 1}, {dense.data(), n, 3}, {keys.data(), n, 3}};
  }
};

TEST_CASE("samples of arrays become batches, the last one partial, padding zero") {
  const std::vector<int64_t> rows{7, 9};
  ArrayBatches batches(two_slots(), rows, 3);
  const Arrays arrays(7);
  for (const int64_t first : {0, 3, 6, 7}) {
    const data::HostBatch& batch = batches.fill(arrays.views(), first);
    REQUIRE(batch.size == std::min<int64_t>(3, 7 - first));
    CHECK(batch.first_sample == first);
    for (int64_t i = 0; i < 3; ++i) {
      const int64_t sample = first + i;
      const bool there = i < batch.size;
      CHECK(batch.labels(i, 0) == (there ? static_cast<float>(sample) / 8 : 0));
      for (int64_t c = 0; c < 8; ++c)
        CHECK(batch.dense(i, c) == (there && c < 3 ? static_cast<float>(10 * sample + c) : 0));
      if (!there) continue;
      CHECK(batch.keys(i, 0) == static_cast<uint32_t>(sample));
      CHECK(batch.keys(i, 1) == static_cast<uint32_t>(sample) + 1);
      CHECK(batch.keys(i, 2) == kNoKey);
    }
  }
  // Without labels.
  SampleArrays bare = arrays.views();
  bare.labels = {};
  CHECK(batches.fill(bare, 5).labels(0, 0) == 0);
}

TEST_CASE("keys outside of their tables are refused or replaced, as the config says") {
  const std::vector<int64_t> rows{7, 9};
  Arrays arrays(4);
  arrays.keys[3 * 2 + 1] = 9;
  arrays.keys[3 * 3] = -2;
  ArrayBatches strict(two_slots(), rows, 4);
  test::check_contains(test::message_of<DataError>([&] { strict.fill(arrays.views(), 0); }),
                       {"keys: sample 2, key 0 of slot 1: expected a key below 9", "found 9"});
  config::DataConfig config = two_slots();
  config.key_policy.kind = config::KeyPolicy::kClamp;
  ArrayBatches clamping(config, rows, 4);
  const data::HostBatch& batch = clamping.fill(arrays.views(), 0);
  CHECK(batch.replaced_keys == 2);
  CHECK(batch.keys(2, 1) == 8);
  CHECK(batch.keys(3, 0) == 6);
  // By column, absent keys apart, over the batches of one call.
  CHECK(clamping.counts().present == std::vector<int64_t>{4, 4, 0});
  CHECK(clamping.counts().replaced == std::vector<int64_t>{1, 1, 0});
  clamping.fill(arrays.views(), 2);
  CHECK(clamping.counts().present == std::vector<int64_t>{6, 6, 0});
  CHECK(clamping.counts().replaced == std::vector<int64_t>{2, 2, 0});
  clamping.fill(arrays.views(), 0);
  CHECK(clamping.counts().present == std::vector<int64_t>{4, 4, 0});
  CHECK(clamping.columns() ==
        std::vector<std::string>{"key of slot 0", "key 0 of slot 1", "key 1 of slot 1"});
}

TEST_CASE("histories of arrays have no holes, and slots of one length") {
  config::DataConfig config;
  config.label_dim = 1;
  config.sparse.resize(1);
  config.sparse[0].slot_num = 2;
  config.sparse[0].hotness = {3, 3};
  config.sparse[0].max_len = 3;
  const std::vector<int64_t> rows{7, 9};
  ArrayBatches batches(config, rows, 4);
  const auto message = [&](const std::vector<int64_t>& keys) {
    const SampleArrays arrays{{}, {nullptr, 1, 0}, {keys.data(), 1, 6}};
    return test::message_of<DataError>([&] { batches.fill(arrays, 0); });
  };
  for (const std::vector<int64_t>& keys :
       {std::vector<int64_t>{-1, -1, -1, -1, -1, -1}, {1, -1, -1, 8, -1, -1}, {1, 2, 3, 4, 5, 6}}) {
    const data::HostBatch& batch = batches.fill({{}, {nullptr, 1, 0}, {keys.data(), 1, 6}}, 0);
    for (size_t c = 0; c < 6; ++c)
      CHECK(batch.keys(0, static_cast<int64_t>(c)) == static_cast<uint32_t>(keys[c]));
  }
  CHECK(message({1, -1, 2, 1, -1, 2}) ==
        "keys: sample 0, key 2 of slot 0: expected no key after an absent one, found 2");
  CHECK(message({1, 2, -1, 1, -1, -1}) ==
        "keys: sample 0, slot 0 and slot 1: expected equally many keys, as they are one history, "
        "found 2 and 1");
}

TEST_CASE("labels and features are those that records may have") {
  const std::vector<int64_t> rows{7, 9};
  const auto message = [&](auto&& change, int64_t labels = 1) {
    config::DataConfig config = two_slots();
    config.label_dim = labels;
    Arrays arrays(4);
    change(arrays);
    SampleArrays views = arrays.views();
    views.labels = {arrays.labels.data(), 4 / labels, labels};
    views.dense = {arrays.dense.data(), 4 / labels, 3};
    views.keys = {arrays.keys.data(), 4 / labels, 3};
    ArrayBatches batches(config, rows, 4);
    return test::message_of<DataError>([&] { batches.fill(views, 0); });
  };
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  CHECK(message([](Arrays& a) { a.labels[2] = 5; }) ==
        "label: sample 2, label 0: expected a value in [0, 1], found 5");
  CHECK(message([](Arrays& a) { a.labels[0] = kNan; }).ends_with("found nan"));
  CHECK(message([](Arrays& a) { a.labels[0] = -1; }).ends_with("found -1"));
  CHECK(message(
            [](Arrays& a) {
              a.labels = {-1, 1, 0, -2};
            },
            2) == "label: sample 1, label 1: expected a value in [0, 1], found -2");
  CHECK(message([](Arrays& a) { a.dense[5] = kNan; }) ==
        "dense: sample 1, feature 2: expected a finite value, found nan");
}

TEST_CASE("weights of samples follow their labels; without any they are 1") {
  const std::vector<int64_t> rows{7, 9};
  config::DataConfig config = two_slots();
  config.sample_weight = true;
  const Arrays arrays(5);
  std::vector<float> weights = {0, 0.5f, 1, 2, 8};
  SampleArrays views = arrays.views();
  ArrayBatches batches(config, rows, 3);
  for (const int64_t first : {0, 3}) {
    const data::HostBatch& batch = batches.fill(views, first);
    for (int64_t i = 0; i < batch.size; ++i) {
      CHECK(batch.labels(i, 0) == arrays.labels[static_cast<size_t>(first + i)]);
      CHECK(batch.labels(i, 1) == 1);
    }
  }
  views.weights = {weights.data(), 5, 1};
  for (const int64_t first : {0, 3}) {
    const data::HostBatch& batch = batches.fill(views, first);
    for (int64_t i = 0; i < batch.size; ++i) {
      CHECK(batch.labels(i, 0) == arrays.labels[static_cast<size_t>(first + i)]);
      CHECK(batch.labels(i, 1) == weights[static_cast<size_t>(first + i)]);
    }
  }
  const auto message = [&](const config::DataConfig& of) {
    ArrayBatches refusing(of, rows, 5);
    return test::message_of<DataError>([&] { refusing.fill(views, 0); });
  };
  test::check_contains(message(two_slots()),
                       {"sample_weight: expected none", "\"sample_weight\": true"});
  views.weights = {weights.data(), 4, 1};
  test::check_contains(message(config), {"sample_weight: expected an array of shape [5, 1]"});
  views.weights = {weights.data(), 5, 1};
  weights[3] = -2;
  CHECK(message(config) ==
        "sample_weight: sample 3, sample weight: expected a finite value >= 0, found -2");
  weights[3] = std::numeric_limits<float>::quiet_NaN();
  CHECK(message(config).ends_with("expected a finite value >= 0, found nan"));
}

TEST_CASE("a slot of a fixed number of keys lacks none") {
  const std::vector<int64_t> rows{7, 9};
  Arrays arrays(4);
  config::DataConfig config = two_slots();
  config.sparse[0].is_fixed_length = true;
  ArrayBatches strict(config, rows, 4);
  test::check_contains(test::message_of<DataError>([&] { strict.fill(arrays.views(), 0); }),
                       {"keys: sample 0, key 1 of slot 1: expected a key below 9", "found -1"});
  config.key_policy = {config::KeyPolicy::kOov, 3};
  ArrayBatches replacing(config, rows, 4);
  const data::HostBatch& batch = replacing.fill(arrays.views(), 0);
  CHECK(batch.replaced_keys == 4);
  CHECK(batch.keys(3, 2) == 3);
}

TEST_CASE("arrays of other shapes are refused") {
  const std::vector<int64_t> rows{7, 9};
  ArrayBatches batches(two_slots(), rows, 4);
  const Arrays arrays(4);
  SampleArrays samples = arrays.views();
  samples.dense = {arrays.dense.data(), 6, 2};
  test::check_contains(test::message_of<DataError>([&] { batches.fill(samples, 0); }),
                       {"dense: expected an array of shape [4, 3], found [6, 2]"});
  samples = arrays.views();
  samples.keys = {arrays.keys.data(), 6, 2};
  CHECK_THROWS_AS(batches.fill(samples, 0), DataError);
  samples = arrays.views();
  samples.labels = {arrays.labels.data(), 3, 1};
  CHECK_THROWS_AS(batches.fill(samples, 0), DataError);
}

}  // namespace
}  // namespace hlite::predict
