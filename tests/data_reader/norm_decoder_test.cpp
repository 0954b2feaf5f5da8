#include "data_reader/norm_decoder.h"

#include <limits>

#include "hugectr_lite/core/error.h"
#include "tests/data_reader/issue_log.h"
#include "tests/data_reader/norm_file.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;
using namespace hlite::data;
using test::NormShape;

namespace {
std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

const std::string kPath = "f.norm";

// The message about a record, as record 7 at byte 1000 of its file.
std::string refuse(const NormShape& shape, const std::string& record,
                   const config::KeyPolicyConfig& policy = {}) {
  config::DataConfig config = shape.config();
  config.key_policy = policy;
  const NormDecoder decoder(config, shape.slot_rows);
  BatchBuffer buffer(1, 1, shape.dense, config.key_layout().columns);
  const std::string where = "f.norm: record 7 (byte 1000)";
  const std::string message = test::message_of<DataError>([&] {
    decoder.decode(bytes_of(record), {kPath, 7, 1000}, buffer.batch(), 0);
  });
  CHECK(message.substr(0, where.size()) == where);
  return message.substr(where.size());
}

// A sample without framing.
std::string sample(float label, const std::vector<float>& dense,
                   const std::vector<std::vector<int64_t>>& keys, bool int64_keys = false) {
  std::string p;
  test::put(p, label);
  for (const float d : dense) test::put(p, d);
  for (const auto& slot : keys) {
    test::put(p, static_cast<int32_t>(slot.size()));
    for (const int64_t k : slot) {
      if (int64_keys)
        test::put(p, k);
      else
        test::put(p, static_cast<uint32_t>(k));
    }
  }
  return p;
}
}  // namespace

TEST_CASE("Norm records of every kind become rows of a batch") {
  for (const bool sum : {false, true})
    for (const bool wide : {false, true})
      for (const bool global : {false, true})
        for (const bool fixed : {false, true})
          for (const std::vector<int64_t>& hotness :
               {std::vector<int64_t>{1, 1, 1}, std::vector<int64_t>{3, 1, 7}}) {
            const NormShape shape{.hotness = hotness,
                                  .sum = sum,
                                  .int64_keys = wide,
                                  .global_keys = global,
                                  .fixed_length = fixed};
            const NormDecoder decoder(shape.config(), shape.slot_rows);
            BatchBuffer buffer(40, 1, 8, shape.config().key_layout().columns);
            std::string text;
            for (int64_t i = 0; i < 40; ++i) text += test::norm_sample(shape, i);
            std::span<const std::byte> rest = bytes_of(text);
            bool exact = true;
            int64_t longest = 0;
            for (int64_t i = 0; i < 40; ++i) {
              const auto size = static_cast<int64_t>(test::norm_sample(shape, i).size());
              longest = std::max(longest, size);
              exact &= decoder.skip(rest, {kPath, i, 0}) == size;
              exact &= decoder.decode(rest, {kPath, i, 0}, buffer.batch(), i) == size;
              exact &= test::is_norm_sample(shape, buffer.batch(), i, i);
              rest = rest.subspan(static_cast<size_t>(size));
            }
            CHECK(exact);
            CHECK(longest <= decoder.max_record_bytes());
            if (fixed) CHECK(longest == decoder.max_record_bytes());
            CHECK(buffer.batch().replaced_keys == 0);
          }
}

TEST_CASE("a Norm record cut anywhere, or with a changed byte under Sum, is an error") {
  for (const bool sum : {false, true}) {
    const NormShape shape{.hotness = {2, 1, 3}, .sum = sum};
    const std::string whole = test::norm_sample(shape, 5);
    for (size_t n = 0; n < whole.size(); ++n) {
      refuse(shape, whole.substr(0, n));
      if (!sum) continue;
      std::string changed = whole;
      changed[n] = static_cast<char>(changed[n] ^ 1);
      refuse(shape, changed);
    }
  }
}

TEST_CASE("what is wrong with a Norm record is named") {
  const NormShape shape{.dense = 2, .slot_rows = {10, 50}, .hotness = {2, 1}};
  const auto framed = [&](NormShape s) {
    s.sum = true;
    return s;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto good = sample(1, {0, 0}, {{1, 2}, {3}});
  CHECK(refuse(shape, sample(2, {0, 0}, {{1}, {3}})) ==
        ", label 0: expected a value in [0, 1], found 2");
  CHECK(refuse(shape, sample(nan, {0, 0}, {{1}, {3}})) ==
        ", label 0: expected a value in [0, 1], found nan");
  CHECK(refuse(shape, sample(1, {0, -1 / 0.f}, {{1}, {3}})) ==
        ", dense 1: expected a finite value, found -inf");
  CHECK(refuse(shape, sample(1, {0, 0}, {{1, 10}, {3}})) ==
        ", key 1 of slot 0: expected less than 10, the rows of its table, found 10");
  CHECK(refuse(shape, sample(1, {0, 0}, {{}, {0xffffffff}})) ==
        ", key of slot 1: expected less than 50, the rows of its table, found 4294967295");
  CHECK(refuse(shape, sample(1, {0, 0}, {{1, 2, 3}, {3}})) ==
        ", slot 0: expected 0 to 2 keys (max_nnz or nnz_per_slot of the config), found 3");
  std::string negative = good;
  negative[12 + 3] = '\x80';
  CHECK(refuse(shape, negative) ==
        ", slot 0: expected 0 to 2 keys (max_nnz or nnz_per_slot of the config), found "
        "-2147483646");
  NormShape fixed = shape;
  fixed.fixed_length = true;
  CHECK(refuse(fixed, sample(1, {0, 0}, {{1}, {3}}) + "1234") ==
        ", slot 0: expected 2 keys (nnz_per_slot, is_fixed_length), found 1");
  CHECK(refuse(shape, good.substr(0, 19)) ==
        ": expected at least 20 bytes, found the end of the file after 19");
  CHECK(refuse(shape, good.substr(0, good.size() - 1)) ==
        ", slot 1: expected 1 keys of 4 bytes, found 3 bytes to the end of the file");
  CHECK(refuse(shape, good.substr(0, good.size() - 5)) ==
        ", slot 1: expected its number of keys, found the end of the file");

  std::string block = test::norm_block(true, good);
  block.back() = static_cast<char>(block.back() + 1);
  CHECK(refuse(framed(shape), block).find(": expected the checksum ") == 0);
  CHECK(refuse(framed(shape), test::norm_block(true, good + "1234")) ==
        ": expected a block of 20 to 32 bytes, found a length of 36");
  CHECK(refuse(framed(shape), test::norm_block(true, sample(1, {0, 0}, {{1}, {3}}) + "1234")) ==
        ": expected a block of 28 bytes, as its numbers of keys say, found 32");
  CHECK(refuse(framed(shape), test::norm_block(true, good.substr(0, good.size() - 4))) ==
        ", slot 1: expected 1 keys of 4 bytes, found 0 bytes to the end of the block");
  block = test::norm_block(true, good);
  CHECK(refuse(framed(shape), block.substr(0, block.size() - 1)) ==
        ": expected 37 bytes, found the end of the file after 36");

  NormShape wide = shape;
  wide.int64_keys = true;
  CHECK(refuse(wide, sample(1, {0, 0}, {{1}, {int64_t{1} << 32}}, true)) ==
        ", key of slot 1: expected less than 50, the rows of its table, found 4294967296");
  CHECK(refuse(wide, sample(1, {0, 0}, {{-1}, {3}}, true)) ==
        ", key 0 of slot 0: expected 0 to 9, the rows of its table among all, found -1");
  NormShape global = shape;
  global.global_keys = true;
  CHECK(refuse(global, sample(1, {0, 0}, {{1}, {9}})) ==
        ", key of slot 1: expected 10 to 59, the rows of its table among all, found 9");
  CHECK(refuse(global, sample(1, {0, 0}, {{1}, {60}})) ==
        ", key of slot 1: expected 10 to 59, the rows of its table among all, found 60");
}

TEST_CASE("of two sparse inputs only the one of fixed length has to have all its keys") {
  const NormShape shape{.dense = 0, .slot_rows = {10, 50}, .hotness = {1, 2}};
  config::DataConfig config = shape.config();
  config.sparse = {config.sparse[0], config.sparse[0]};
  for (size_t i = 0; i < 2; ++i) {
    config.sparse[i].slot_num = 1;
    config.sparse[i].hotness = {shape.hotness[i]};
    config.sparse[i].is_fixed_length = i == 0;
  }
  const NormDecoder decoder(config, shape.slot_rows);
  BatchBuffer buffer(1, 1, 0, 3);
  decoder.decode(bytes_of(sample(1, {}, {{4}, {}})), {kPath, 0, 0}, buffer.batch(), 0);
  CHECK(buffer.batch().keys(0, 0) == 4);
  CHECK(buffer.batch().keys(0, 1) == kNoKey);
  const std::string empty = sample(1, {}, {{}, {1, 2}});
  const std::string message = test::message_of<DataError>([&] {
    decoder.decode(bytes_of(empty), {kPath, 0, 0}, buffer.batch(), 0);
  });
  test::check_contains(message, {", slot 0: expected 1 keys (nnz_per_slot, is_fixed_length)"});
}

TEST_CASE("keys of Norm records outside of their table are replaced and counted") {
  using config::KeyPolicy;
  const NormShape shape{.dense = 0, .slot_rows = {10, 50}, .hotness = {2, 1}};
  for (const bool wide : {false, true})
    for (const bool clamp : {false, true}) {
      config::DataConfig config = shape.config();
      config.int64_keys = wide;
      config.key_policy = {clamp ? KeyPolicy::kClamp : KeyPolicy::kOov, 4};
      const NormDecoder decoder(config, shape.slot_rows);
      BatchBuffer buffer(2, 1, 0, 3);
      HostBatch& b = buffer.batch();
      decoder.decode(bytes_of(sample(1, {}, {{10}, {49}}, wide)), {kPath, 0, 0}, b, 0);
      CHECK(b.replaced_keys == 1);
      decoder.decode(bytes_of(sample(1, {}, {{-1, 9}, {50}}, wide)), {kPath, 0, 0}, b, 1);
      CHECK(b.replaced_keys == 3);
      CHECK(b.keys(0, 0) == (clamp ? 9 : 4));
      CHECK(b.keys(0, 1) == kNoKey);
      CHECK(b.keys(0, 2) == 49);
      CHECK(b.keys(1, 0) == (clamp ? 9 : 4));
      CHECK(b.keys(1, 1) == 9);
      CHECK(b.keys(1, 2) == (clamp ? 49 : 4));
    }
}

TEST_CASE("a sink that continues receives every wrong value of a Norm record") {
  const NormShape shape{.dense = 2, .slot_rows = {10, 50}, .hotness = {2, 1}};
  test::IssueLog log;
  const NormDecoder decoder(shape.config(), shape.slot_rows, log);
  BatchBuffer buffer(2, 1, 2, 3);
  const HostBatch& b = buffer.batch();
  const float infinity = std::numeric_limits<float>::infinity();
  const std::string bad = sample(2, {infinity, 1}, {{10, 4}, {50}}),
                    good = sample(1, {3, 4}, {{9}, {49}});
  CHECK(decoder.decode(bytes_of(bad), {kPath, 0, 64}, buffer.batch(), 0) == std::ssize(bad));
  CHECK(log.lines ==
        std::vector<std::string>{
            "f.norm: record 0 (byte 64), label 0: expected a value in [0, 1], found 2",
            "f.norm: record 0 (byte 64), dense 0: expected a finite value, found inf",
            "f.norm: record 0 (byte 64), key 0 of slot 0: expected less than 10, the rows of its "
            "table, found 10",
            "f.norm: record 0 (byte 64), key of slot 1: expected less than 50, the rows of its "
            "table, found 50"});
  CHECK(b.keys(0, 0) == kNoKey);
  CHECK(b.keys(0, 1) == 4);
  CHECK(b.keys(0, 2) == kNoKey);
  CHECK(b.replaced_keys == 0);
  decoder.decode(bytes_of(good), {kPath, 1, 100}, buffer.batch(), 1);
  CHECK(log.lines.size() == 4);
  CHECK(b.keys(1, 2) == 49);
  // After a record that is not whole decoding cannot continue.
  const std::string cut = bad.substr(0, bad.size() - 1);
  CHECK_THROWS_AS(decoder.decode(bytes_of(cut), {kPath, 0, 64}, buffer.batch(), 0), DataError);
}

TEST_CASE("a Norm record with a sample weight has it after the labels") {
  NormShape shape{.dense = 1, .slot_rows = {10}, .hotness = {1}};
  config::DataConfig config = shape.config();
  config.sample_weight = true;
  const NormDecoder decoder(config, shape.slot_rows);
  BatchBuffer buffer(1, 2, 1, 1);
  const auto record = [](float weight) {  // label 1, the weight, a dense feature
    return sample(1, {weight, 0.5f}, {{3}});
  };
  CHECK(decoder.decode(bytes_of(record(2.5f)), {kPath, 7, 1000}, buffer.batch(), 0) == 20);
  CHECK(buffer.batch().labels(0, 0) == 1);
  CHECK(buffer.batch().labels(0, 1) == 2.5f);
  CHECK(buffer.batch().dense(0, 0) == 0.5f);
  CHECK(buffer.batch().keys(0, 0) == 3);
  for (const float wrong : {-1.0f, std::numeric_limits<float>::quiet_NaN()})
    CHECK(test::message_of<DataError>([&] {
            decoder.decode(bytes_of(record(wrong)), {kPath, 7, 1000}, buffer.batch(), 0);
          }) == fmt::format("f.norm: record 7 (byte 1000), sample weight: expected a finite value "
                            ">= 0, found {}",
                            wrong));
}
