#include "data_reader/raw_format.h"

#include <bit>
#include <cmath>
#include <limits>

#include "hugectr_lite/core/error.h"
#include "tests/data_reader/issue_log.h"
#include "tests/data_reader/raw_file.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;
using namespace hlite::data;
using test::check_contains;
using test::message_of;
using test::RawShape;

TEST_CASE("the logarithm agrees with the exact one to a relative 1e-7") {
  // Every small number, then steps that grow up to 2^31 - 1, each with its neighbours.
  std::vector<int32_t> x;
  for (int32_t i = 0; i < 100'000; ++i) x.push_back(i);
  for (double v = 100'000; v < 2147483000; v *= 1.0003)
    for (int32_t k = -1; k <= 1; ++k) x.push_back(static_cast<int32_t>(v) + k);
  for (int shift = 17; shift < 31; ++shift)
    for (int32_t k = -2; k <= 2; ++k) x.push_back((int32_t{1} << shift) + k);
  x.push_back(std::numeric_limits<int32_t>::max());

  std::vector<float> got(x.size());
  log_plus_one(x, got);
  double worst = 0;
  int64_t not_nearest = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = std::log(static_cast<double>(x[i]) + 1);
    not_nearest += got[i] != static_cast<float>(exact);
    if (exact > 0) worst = std::max(worst, std::abs(got[i] - exact) / exact);
  }
  CHECK(got[0] == 0);
  CHECK(worst < 1e-7);
  // Computed in double, so the nearest float but for near-ties.
  CHECK(not_nearest * 100'000 <= static_cast<int64_t>(x.size()));
  log_plus_one({}, {});
}

TEST_CASE("the record of a config is described") {
  RawShape shape;
  shape.slot_rows.assign(26, 10);
  const RawFormat f = RawFormat::from(shape.config());
  CHECK(f.record_bytes() == 160);
  CHECK(f.describe_record() == "160 (1 label + 13 dense + 26 keys, 4 bytes each)");
}

TEST_CASE("the record of several keys a slot is described") {
  RawShape shape{13, std::vector<int64_t>(26, 10), true};
  // DLRM-DCNv2 on Criteo.
  shape.hotness = {3, 2, 1, 2, 6, 1, 1,  1,   1,  7,  3, 8, 1,
                   6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1};
  shape.int_label = true;
  const RawFormat f = RawFormat::from(shape.config());
  CHECK(f.record_bytes() == 912);
  CHECK(f.describe_record() == "912 (1 label + 13 dense + 214 keys of 26 slots, 4 bytes each)");
  CHECK(!f.float_label);
  CHECK(f.float_dense);
}

TEST_CASE("records of several keys a slot become rows of a batch") {
  for (const bool floats : {false, true}) {
    RawShape shape{3, {5, 7, 100'000}, floats};
    shape.hotness = {4, 1, 11};
    shape.int_label = true;
    const KeyLayout layout = shape.layout();
    const config::DataConfig config = shape.config();
    RawDecoder decoder("f.bin", RawFormat::from(config), shape.slot_rows);
    for (const int64_t count : {0, 1, 127, 128, 131}) {
      const std::vector<uint32_t> words = test::raw_words(shape, count);
      BatchBuffer buffer(count + 1, 1, 3, layout.columns);
      CHECK(decoder.decode(std::as_bytes(std::span(words)), 0, count, buffer.batch(), 1) == 0);
      const HostBatch& b = buffer.batch();
      bool exact = true;
      for (int64_t i = 0; i < count; ++i) {
        exact &= b.labels(i + 1, 0) == static_cast<float>(test::label_of(i));
        for (int64_t d = 0; d < 3; ++d) exact &= b.dense(i + 1, d) == test::feature_of(shape, i, d);
        for (int64_t c = 0; c < layout.columns; ++c)
          exact &= b.keys(i + 1, c) ==
                   test::key_of(i, c, shape.slot_rows[static_cast<size_t>(layout.slot_of(c))]);
      }
      CHECK(exact);
    }
  }
}

TEST_CASE("keys outside of their table are replaced where the policy says so, and counted") {
  using config::KeyPolicy;
  RawShape shape{2, {10, 50}};
  shape.hotness = {3, 1};
  const int64_t count = 300;
  std::vector<uint32_t> words = test::raw_words(shape, count);
  const auto word = [&](int64_t sample, int64_t column) -> uint32_t& {
    return words[static_cast<size_t>(sample * shape.values() + 3 + column)];
  };
  word(0, 0) = 10;
  word(0, 2) = kNoKey;
  word(128, 3) = 50;
  word(299, 1) = 1'000'000;
  struct Row {
    config::KeyPolicyConfig policy;
    uint32_t first, second;  // in place of keys of slots 0 and 1
  };
  for (const Row& row : {Row{{KeyPolicy::kClamp, 0}, 9, 49}, Row{{KeyPolicy::kOov, 7}, 7, 7}}) {
    RawDecoder decoder("f.bin", RawFormat::from(shape.config()), shape.slot_rows, row.policy);
    BatchBuffer buffer(count, 1, 2, 4);
    const HostBatch& b = buffer.batch();
    CHECK(decoder.decode(std::as_bytes(std::span(words)), 0, count, buffer.batch(), 0) == 4);
    bool exact = true;
    for (int64_t i = 0; i < count; ++i)
      for (int64_t c = 0; c < 4; ++c) {
        const bool slot1 = c == 3, outside = word(i, c) >= (slot1 ? 50 : 10);
        exact &= b.keys(i, c) == (outside ? (slot1 ? row.second : row.first) : word(i, c));
      }
    CHECK(exact);
    // Other values stay errors, and are the ones that the message names.
    words[static_cast<size_t>(128 * shape.values())] = 2;
    check_contains(message_of<DataError>([&] {
                     decoder.decode(std::as_bytes(std::span(words)), 0, count, buffer.batch(), 0);
                   }),
                   {"sample 128 ", "label 0", "found 2"});
    words[static_cast<size_t>(128 * shape.values())] = 1;
  }
  RawDecoder strict("f.bin", RawFormat::from(shape.config()), shape.slot_rows);
  BatchBuffer buffer(count, 1, 2, 4);
  CHECK(message_of<DataError>(
            [&] { strict.decode(std::as_bytes(std::span(words)), 0, count, buffer.batch(), 0); }) ==
        "f.bin: sample 0 (byte 0), key 0 of slot 0: expected less than 10, the rows of its table, "
        "found 10");
}

TEST_CASE("a record may lack keys where the config says that their number varies") {
  RawShape shape{2, {10, 50}};
  shape.hotness = {3, 1};
  const int64_t count = 131;
  std::vector<uint32_t> words = test::raw_words(shape, count);
  const auto word = [&](int64_t sample, int64_t column) -> uint32_t& {
    return words[static_cast<size_t>(sample * shape.values() + 3 + column)];
  };
  word(0, 2) = word(128, 1) = word(128, 2) = word(130, 3) = kNoKey;
  BatchBuffer buffer(count, 1, 2, 4);
  RawDecoder strict("f.bin", RawFormat::from(shape.config()), shape.slot_rows);
  check_contains(message_of<DataError>([&] {
                   strict.decode(std::as_bytes(std::span(words)), 0, count, buffer.batch(), 0);
                 }),
                 {"sample 0 (byte 0), key 2 of slot 0", "found 4294967295"});
  shape.varying = true;
  for (const auto kind : {config::KeyPolicy::kError, config::KeyPolicy::kClamp}) {
    RawDecoder decoder("f.bin", RawFormat::from(shape.config()), shape.slot_rows, {kind, 0});
    CHECK(decoder.decode(std::as_bytes(std::span(words)), 0, count, buffer.batch(), 0) == 0);
    bool exact = true;
    for (int64_t i = 0; i < count; ++i)
      for (int64_t c = 0; c < 4; ++c) exact &= buffer.batch().keys(i, c) == word(i, c);
    CHECK(exact);
  }
  word(129, 0) = 10;
  RawDecoder decoder("f.bin", RawFormat::from(shape.config()), shape.slot_rows);
  check_contains(message_of<DataError>([&] {
                   decoder.decode(std::as_bytes(std::span(words)), 0, count, buffer.batch(), 0);
                 }),
                 {"sample 129 ", "key 0 of slot 0: expected less than 10", "found 10"});
}

TEST_CASE("records become rows of a batch") {
  for (const bool floats : {false, true}) {
    for (const bool aligned : {false, true}) {
      for (const int64_t dense : {0, 1, 5, 8, 13}) {
        const RawShape shape{dense, {1, 7, 100'000}, floats, aligned};
        const config::DataConfig config = shape.config();
        RawDecoder decoder("f.bin", RawFormat::from(config), shape.slot_rows);
        for (const int64_t count : {0, 1, 127, 128, 129, 300}) {
          const std::vector<uint32_t> words = test::raw_words(shape, count);
          BatchBuffer buffer(count + 3, 1, config.dense_width(), 3);
          decoder.decode(std::as_bytes(std::span(words)), 0, count, buffer.batch(), 2);
          const HostBatch& b = buffer.batch();
          bool exact = true;
          for (int64_t i = 0; i < count; ++i) {
            exact &= b.labels(i + 2, 0) == static_cast<float>(test::label_of(i));
            for (int64_t d = 0; d < dense; ++d)
              exact &= b.dense(i + 2, d) == test::feature_of(shape, i, d);
            for (int64_t d = dense; d < config.dense_width(); ++d) exact &= b.dense(i + 2, d) == 0;
            for (int64_t s = 0; s < 3; ++s)
              exact &=
                  b.keys(i + 2, s) == test::key_of(i, s, shape.slot_rows[static_cast<size_t>(s)]);
          }
          INFO("floats " << floats << " aligned " << aligned << " dense " << dense << " count "
                         << count);
          CHECK(exact);
          for (const int64_t row : {int64_t{0}, int64_t{1}, count + 2})  // others are untouched
            for (int64_t s = 0; s < 3; ++s) CHECK(b.keys(row, s) == 0);
        }
      }
    }
  }
}

TEST_CASE("a bad value is an error that names sample, column, value and limit") {
  const auto reject = [](bool floats, int64_t sample, int64_t column, uint32_t word) {
    const RawShape shape{2, {10, 50}, floats};
    const RawFormat format = RawFormat::from(shape.config());
    std::vector<uint32_t> words = test::raw_words(shape, 300);
    words[static_cast<size_t>(sample * shape.values() + column)] = word;
    RawDecoder decoder("f.bin", format, shape.slot_rows);
    BatchBuffer buffer(300, 1, 2, 2);
    // As if they were samples 1000 to 1299 of the file.
    return message_of<DataError>(
        [&] { decoder.decode(std::as_bytes(std::span(words)), 1000, 300, buffer.batch(), 0); });
  };
  const auto bits = [](float x) { return std::bit_cast<uint32_t>(x); };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const auto minus = [](int32_t x) { return static_cast<uint32_t>(-x); };

  CHECK(reject(false, 0, 4, 50) ==
        "f.bin: sample 1000 (byte 20000), key of slot 1: expected less than 50, the rows of its "
        "table, found 50");
  check_contains(reject(false, 299, 3, 0xffffffff),
                 {"sample 1299 (byte 25980), key of slot 0", "less than 10", "found 4294967295"});
  check_contains(reject(false, 130, 0, 2), {"sample 1130 ", "label 0", "[0, 1]", "found 2"});
  check_contains(reject(false, 130, 0, minus(1)), {"label 0", "found -1"});
  // 2^24 + 1 and friends must not be rounded into range.
  check_contains(reject(false, 1, 0, 0x80000000), {"label 0", "found -2147483648"});
  check_contains(reject(false, 7, 1, minus(1)),
                 {"sample 1007", "dense 0", ">= 0", "log(x + 1)", "found -1"});
  check_contains(reject(false, 7, 2, minus(2147483647)), {"dense 1", "found -2147483647"});
  check_contains(reject(true, 5, 0, bits(nan)), {"sample 1005", "label 0", "found nan"});
  check_contains(reject(true, 5, 0, bits(1.5f)), {"label 0", "found 1.5"});
  check_contains(reject(true, 5, 0, bits(-0.25f)), {"label 0", "found -0.25"});
  check_contains(reject(true, 5, 1, bits(nan)), {"dense 0", "finite", "found nan"});
  check_contains(reject(true, 5, 2, bits(-infinity)), {"dense 1", "finite", "found -inf"});
  check_contains(reject(true, 5, 4, 50), {"key of slot 1", "found 50"});
}

TEST_CASE("the largest values that are allowed pass") {
  const RawShape shape{1, {(int64_t{1} << 32) - 1, 1}, false};
  RawDecoder decoder("f.bin", RawFormat::from(shape.config()), shape.slot_rows);
  BatchBuffer buffer(1, 1, 1, 2);
  const std::vector<uint32_t> words{1, 0x7fffffff, 0xfffffffe, 0};
  decoder.decode(std::as_bytes(std::span(words)), 0, 1, buffer.batch(), 0);
  CHECK(buffer.batch().keys(0, 0) == 0xfffffffe);
  CHECK(buffer.batch().dense(0, 0) == static_cast<float>(std::log(2147483648.0)));

  const RawShape floats{1, {1}, true};
  RawDecoder float_decoder("f.bin", RawFormat::from(floats.config()), floats.slot_rows);
  BatchBuffer one(1, 1, 1, 1);
  const float most = std::numeric_limits<float>::max();
  const std::vector<uint32_t> real{std::bit_cast<uint32_t>(0.5f), std::bit_cast<uint32_t>(-most),
                                   0};
  float_decoder.decode(std::as_bytes(std::span(real)), 0, 1, one.batch(), 0);
  CHECK(one.batch().labels(0, 0) == 0.5f);
  CHECK(one.batch().dense(0, 0) == -most);
}

TEST_CASE("a sink that continues receives every wrong value of raw records") {
  const RawShape shape{2, {10, 50}, false};
  std::vector<uint32_t> words = test::raw_words(shape, 300);
  const auto word = [&](int64_t sample, int64_t column) -> uint32_t& {
    return words[static_cast<size_t>(sample * shape.values() + column)];
  };
  word(0, 0) = 3;
  word(0, 3) = 10;
  word(130, 2) = 0xffffffff;
  word(299, 4) = 0xffffffff;
  test::IssueLog log;
  RawDecoder decoder("f.bin", RawFormat::from(shape.config()), shape.slot_rows, {}, log);
  BatchBuffer buffer(300, 1, 2, 2);
  CHECK(decoder.decode(std::as_bytes(std::span(words)), 0, 300, buffer.batch(), 0) == 0);
  CHECK(log.lines ==
        std::vector<std::string>{
            "f.bin: sample 0 (byte 0), label 0: expected a value in [0, 1], found 3",
            "f.bin: sample 0 (byte 0), key of slot 0: expected less than 10, the rows of its "
            "table, found 10",
            "f.bin: sample 130 (byte 2600), dense 1: expected an integer >= 0 (the feature is "
            "log(x + 1)), found -1",
            "f.bin: sample 299 (byte 5980), key of slot 1: expected less than 50, the rows of its "
            "table, found 4294967295"});
  const HostBatch& b = buffer.batch();
  CHECK(b.keys(0, 0) == 10);
  CHECK(b.keys(299, 1) == 0xffffffff);
  CHECK(b.dense(129, 0) == test::feature_of(shape, 129, 0));
  CHECK(b.dense(131, 1) == test::feature_of(shape, 131, 1));
}

TEST_CASE("a sample weight follows the labels of a record, as float32 in any case") {
  for (const bool floats : {false, true})
    for (const int64_t labels : {1, 3}) {
      INFO(labels << " labels" << (floats ? ", floats" : ""));
      const RawShape shape{2, {5, 7}, floats};
      config::DataConfig config = shape.config();
      config.label_dim = labels;
      config.sample_weight = true;
      const RawFormat format = RawFormat::from(config);
      CHECK(format.record_bytes() == 4 * (labels + 1 + 2 + 2));
      test::check_contains(format.describe_record(), {" + 1 weight + 2 dense + 2 keys"});
      const std::vector<uint32_t> plain = test::raw_words(shape, 131);
      std::vector<uint32_t> words;
      for (size_t i = 0; i < 131; ++i) {
        words.insert(words.end(), static_cast<size_t>(labels), plain[5 * i]);
        words.push_back(std::bit_cast<uint32_t>(0.25f * static_cast<float>(i)));
        words.insert(words.end(), plain.begin() + static_cast<std::ptrdiff_t>(5 * i + 1),
                     plain.begin() + static_cast<std::ptrdiff_t>(5 * i + 5));
      }
      RawDecoder decoder("f.bin", format, shape.slot_rows);
      BatchBuffer buffer(131, labels + 1, 2, 2);
      decoder.decode(std::as_bytes(std::span(words)), 0, 131, buffer.batch(), 0);
      const HostBatch& b = buffer.batch();
      bool exact = true;
      for (int64_t i = 0; i < 131; ++i) {
        for (int64_t l = 0; l < labels; ++l)
          exact &= b.labels(i, l) == static_cast<float>(test::label_of(i));
        exact &= b.labels(i, labels) == 0.25f * static_cast<float>(i);
        for (int64_t d = 0; d < 2; ++d)
          exact &= std::abs(b.dense(i, d) - test::feature_of(shape, i, d)) <=
                   1e-6f * std::abs(b.dense(i, d));
        for (int64_t c = 0; c < 2; ++c)
          exact &= b.keys(i, c) == test::key_of(i, c, shape.slot_rows[static_cast<size_t>(c)]);
      }
      CHECK(exact);
      // A weight that is wrong is named with its sample.
      const auto record = static_cast<size_t>(labels + 5);
      for (const float wrong : {-0.5f, NAN, INFINITY}) {
        std::vector<uint32_t> bad = words;
        bad[130 * record + static_cast<size_t>(labels)] = std::bit_cast<uint32_t>(wrong);
        const std::string message = message_of<DataError>(
            [&] { decoder.decode(std::as_bytes(std::span(bad)), 1000, 131, buffer.batch(), 0); });
        CHECK(message == fmt::format("f.bin: sample 1130 (byte {}), sample weight: expected a "
                                     "finite value >= 0, found {}",
                                     1130 * 4 * record, wrong));
      }
    }
}

TEST_CASE("real labels are any finite numbers") {
  const RawShape shape{1, {5}, true};
  config::DataConfig config = shape.config();
  config.real_label = true;
  RawDecoder decoder("f.bin", RawFormat::from(config), shape.slot_rows);
  BatchBuffer buffer(1, 1, 1, 1);
  const auto label = [&](float value) {
    const std::vector<uint32_t> words = {std::bit_cast<uint32_t>(value), 0, 4};
    decoder.decode(std::as_bytes(std::span(words)), 7, 1, buffer.batch(), 0);
    return buffer.batch().labels(0, 0);
  };
  for (const float value : {-1e30f, -3.5f, 0.0f, 1.0f, 1e30f}) CHECK(label(value) == value);
  CHECK(message_of<DataError>([&] { label(NAN); }) ==
        "f.bin: sample 7 (byte 84), label 0: expected a finite value, found nan");
  config.float_label = false;  // integers
  RawDecoder integers("f.bin", RawFormat::from(config), shape.slot_rows);
  const std::vector<uint32_t> words = {static_cast<uint32_t>(-42), 0, 4};
  integers.decode(std::as_bytes(std::span(words)), 0, 1, buffer.batch(), 0);
  CHECK(buffer.batch().labels(0, 0) == -42);
}
