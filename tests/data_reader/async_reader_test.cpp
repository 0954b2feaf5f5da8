#include "data_reader/async_reader.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/stopwatch.h"
#include "tests/data_reader/raw_batch.h"
#include "tests/data_reader/raw_fixture.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;
using namespace hlite::data;
using test::async_param;
using test::check_contains;
using test::is_right;
using test::message_of;
using test::RawFixture;
using test::RawShape;

TEST_CASE("every sample arrives, whatever file, batch, blocks, depth and threads", "[threads]") {
  struct Reading {
    int64_t threads, batches, block, depth, alignment;
  };
  // Blocks smaller and larger than a batch; more slots than batches; one read at a time.
  const Reading readings[] = {
      {1, 1, 512, 1, 512},   {1, 4, 4096, 2, 4096},  {2, 1, 1024, 3, 512},    {3, 2, 512, 64, 512},
      {4, 4, 65536, 4, 512}, {5, 3, 12288, 2, 4096}, {8, 8, 1 << 20, 1, 4096}};
  int combinations = 0;
  for (const int64_t samples : {1, 2, 7, 64, 301, 1024}) {  // 28 bytes each: 28 to 28672 bytes
    RawFixture f(samples);
    for (const int64_t batch : {1, 2, 7, 64, 301, 1000}) {
      if (batch == 1 && samples > 301) continue;
      for (int k = 0; k < 2; ++k) {
        const Reading& r = readings[combinations % 7];
        f.data.async_param = async_param(r.threads, r.batches, r.block, r.depth, r.alignment);
        const auto reader = f.reader(batch);
        INFO(samples << " samples in batches of " << batch << ", " << r.threads << " threads x "
                     << r.batches << ", blocks of " << r.block << ", depth " << r.depth);
        CHECK(reader->samples() == samples);
        const int64_t n = (samples + batch - 1) / batch;
        CHECK(reader->batches_per_epoch() == n);
        bool right = true;
        for (int64_t p = 0; p < 2 * n + 1; ++p) {  // over the end, twice
          right &= reader->position() == p;
          const HostBatch& b = reader->next();
          right &= b.first_sample == p % n * batch;
          right &= b.size == std::min(batch, samples - b.first_sample);
          right &= is_right(f.shape, b);
        }
        CHECK(right);
        ++combinations;
      }
    }
  }
  CHECK(combinations == 70);
}

TEST_CASE("batches of many pieces are put together", "[threads]") {
  RawFixture f(70'001, {13, {3, 4, 5}, false, true});  // 68 bytes each: 4.8 MB
  for (const bool configured : {false, true}) {        // without async_param: format Raw
    if (configured) f.data.async_param = async_param(2, 2, 1 << 16, 8, 512);
    const auto reader = f.reader(30'000);
    for (int p = 0; p < 7; ++p) CHECK(is_right(f.shape, reader->next()));
    CHECK(reader->bytes_read() >= 2 * 70'001 * 68);
    CHECK(reader->decode_seconds() > 0);
  }
}

TEST_CASE("floats are taken as they are, and slots may have several keys", "[threads]") {
  for (RawShape shape :
       {RawShape{4, {9}, true, false}, RawShape{5, {9, 100, 7}, true, true, {3, 1, 8}, true},
        RawShape{2, {50, 60}, false, false, {1, 2}}}) {
    RawFixture f(100, shape);
    const auto reader = f.reader(30);
    for (int p = 0; p < 8; ++p) CHECK(is_right(f.shape, reader->next()));
  }
}

TEST_CASE("a batch stays as it is until the next call, with all others read ahead", "[threads]") {
  RawFixture f(500);
  f.data.async_param = async_param(2, 3, 512, 4, 512);
  const auto reader = f.reader(10);
  for (int p = 0; p < 60; ++p) {
    const HostBatch& b = reader->next();
    // Five slots are filled besides the one that is looked at.
    while (reader->bytes_read() < (p + 6) * 10 * 28) std::this_thread::yield();
    CHECK(is_right(f.shape, b));
  }
}

TEST_CASE("batches lie in the memory that the reader names", "[threads]") {
  RawFixture f(100);
  const auto reader = f.reader(10);
  const auto memory = reader->memory();
  CHECK(memory.size() >= 2);
  std::set<const std::byte*> used;
  for (int p = 0; p < 24; ++p) {
    const HostBatch& b = reader->next();
    used.insert(b.memory.data());
    CHECK(std::any_of(memory.begin(), memory.end(), [&](std::span<std::byte> m) {
      return b.memory.data() == m.data() && b.memory.size() <= m.size();
    }));
  }
  CHECK(used.size() == memory.size());
}

TEST_CASE("without repetition the end is an empty batch", "[threads]") {
  RawFixture f(25);
  SourceOptions options;
  options.repeat = false;
  const auto reader = f.reader(10, options);
  CHECK(reader->next().size == 10);
  CHECK(reader->next().size == 10);
  CHECK(reader->next().size == 5);
  CHECK(reader->next().size == 0);
  CHECK(reader->next().size == 0);
  CHECK(reader->position() == 3);
  options.start_batch = 2;
  const auto late = f.reader(10, options);
  CHECK(late->next().first_sample == 20);
  CHECK(late->next().size == 0);
  options.start_batch = 3;
  CHECK(f.reader(10, options)->next().size == 0);
}

TEST_CASE("all batches of a resident source stay valid", "[threads]") {
  RawFixture f(205);
  f.data.async_param = async_param(3, 1, 512, 2, 512);
  SourceOptions options;
  options.repeat = false;
  options.resident = true;
  const auto reader = f.reader(10, options);
  std::vector<const HostBatch*> batches;
  for (int64_t b = 0; b < 21; ++b) batches.push_back(&reader->next());
  CHECK(reader->next().size == 0);
  for (int64_t b = 0; b < 21; ++b) {
    CHECK(batches[static_cast<size_t>(b)]->first_sample == 10 * b);
    CHECK(is_right(f.shape, *batches[static_cast<size_t>(b)]));
  }
}

TEST_CASE("with shuffle each epoch has every sample once, the partial batch too", "[threads]") {
  RawFixture f(205);
  f.data.async_param = async_param(3, 2, 512, 2, 512);
  SourceOptions options;
  options.shuffle = true;
  options.seed = 3;
  const auto reader = f.reader(10, options);
  std::vector<std::vector<int64_t>> epochs;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<int64_t> samples;
    auto& order = epochs.emplace_back();
    std::vector<int64_t> expected(21);
    shuffle_order(3, epoch, expected);
    for (int64_t k = 0; k < 21; ++k) {
      const HostBatch& b = reader->next();
      CHECK(is_right(f.shape, b));
      order.push_back(b.first_sample / 10);
      for (int64_t i = 0; i < b.size; ++i) samples.insert(b.first_sample + i);
    }
    CHECK(order == expected);
    CHECK(samples.size() == 205);
    CHECK(*samples.rbegin() == 204);
  }
  CHECK(epochs[0] != epochs[1]);
  CHECK(epochs[1] != epochs[2]);
}

TEST_CASE("a resumed reader goes on exactly where the other one was, at every position",
          "[threads]") {
  RawFixture f(95);
  for (const bool shuffle : {false, true}) {
    SourceOptions options;
    options.shuffle = shuffle;
    options.seed = 8;
    std::vector<int64_t> whole;
    f.data.async_param = async_param(2, 2, 512, 2, 512);
    const auto reader = f.reader(10, options);
    for (int p = 0; p < 35; ++p) whole.push_back(reader->next().first_sample);
    for (int64_t start = 0; start < 31; ++start) {
      options.start_batch = start;
      f.data.async_param = async_param(1 + start % 4, 1 + start % 3, 512, 2, 512);
      const auto resumed = f.reader(10, options);
      CHECK(resumed->position() == start);
      bool same = true;
      for (int64_t p = start; p < 35; ++p) {
        const HostBatch& b = resumed->next();
        same &= b.first_sample == whole[static_cast<size_t>(p)] && is_right(f.shape, b);
      }
      CHECK(same);
    }
  }
}

TEST_CASE("shards cover each batch exactly, and each reads only its own rows", "[threads]") {
  RawFixture f(1'003);
  f.data.async_param = async_param(2, 2, 512, 4, 512);
  for (const int64_t count : {1, 2, 3, 4, 12}) {
    const int64_t batch = 120, n = 9, rows = batch / count;
    for (const bool shuffle : {false, true}) {
      std::vector<std::unique_ptr<AsyncReader>> shards;
      for (int64_t i = 0; i < count; ++i) {
        SourceOptions options;
        options.shuffle = shuffle;
        options.shard = {i, count};
        shards.push_back(f.reader(batch, options));
        CHECK(shards.back()->samples() == 1'003);
        CHECK(shards.back()->batch_size() == batch);
        CHECK(shards.back()->batches_per_epoch() == n);
      }
      for (int64_t p = 0; p < 2 * n; ++p) {
        int64_t sample = -1, size = 0;
        for (auto& shard : shards) {
          const HostBatch& b = shard->next();
          CHECK(b.labels.dim(0) == rows);
          if (sample < 0) sample = b.first_sample;
          CHECK(b.first_sample == sample);
          CHECK(is_right(f.shape, b));
          sample += b.size;
          size += b.size;
        }
        const int64_t first = sample - size;
        CHECK(first % batch == 0);
        CHECK(size == std::min(batch, 1'003 - first));
      }
    }
  }
  // A quarter of the file and what lies in the same sectors, once.
  SourceOptions options;
  options.shard = {1, 4};
  options.repeat = false;
  const auto shard = f.reader(400, options);
  while (shard->next().size > 0) continue;
  CHECK(shard->bytes_read() >= 250 * 28);
  CHECK(shard->bytes_read() < 250 * 28 + 3 * 1024);
}

TEST_CASE("num_samples limits RawAsync and is a demand on Raw") {
  RawShape shape{13, std::vector<int64_t>(26, 100)};
  config::DataConfig raw = shape.config(&config::data_format("Raw")), async = shape.config();
  const auto count = [](const config::DataConfig& c, Split split, int64_t bytes) {
    return raw_sample_count(c, split, "f.bin", bytes);
  };
  CHECK(count(async, Split::kTrain, 1600) == 10);
  for (config::DataConfig* c : {&raw, &async}) {
    c->num_samples = 7;
    c->eval_num_samples = 20;
    CHECK(count(*c, Split::kTrain, 1600) == 7);
    CHECK(count(*c, Split::kEval, 3200) == 20);
  }
  CHECK(count(async, Split::kEval, 1600) == 10);
  CHECK(message_of<DataError>([&] { count(raw, Split::kEval, 1600); }) ==
        "f.bin: expected 20 samples (eval_num_samples), found 10 (1600 bytes, record size 160 (1 "
        "label + 13 dense + 26 keys, 4 bytes each))");
  raw.num_samples = 11;
  check_contains(message_of<DataError>([&] { count(raw, Split::kTrain, 1600); }),
                 {"(num_samples)"});
  CHECK(message_of<DataError>([&] { count(async, Split::kTrain, 1234); }) ==
        "f.bin: 1234 bytes is no multiple of the record size 160 (1 label + 13 dense + 26 keys, 4 "
        "bytes each)");
  check_contains(message_of<DataError>([&] { count(async, Split::kTrain, 0); }),
                 {"f.bin", "empty file"});
}

TEST_CASE("a reader uses num_samples of the file, or fewer on request", "[threads]") {
  RawFixture f(100);
  f.data.num_samples = 33;
  f.data.eval_num_samples = 12;
  const auto train = f.reader(10);
  CHECK(train->samples() == 33);
  for (const int64_t size : {10, 10, 10, 3, 10}) CHECK(train->next().size == size);
  SourceOptions options;
  options.max_samples = 11;
  AsyncReader eval(f.data, f.path, Split::kEval, 10, f.shape.slot_rows, options);
  CHECK(eval.samples() == 11);
  CHECK(eval.next().size == 10);
  CHECK(eval.next().size == 1);
}

TEST_CASE("keys outside of their tables are replaced and counted, those read ahead not",
          "[threads]") {
  RawFixture f(100);
  for (const int64_t sample : {3, 3, 57, 99})
    f.words[static_cast<size_t>(sample * f.shape.values() + 6)] = 70;  // key of slot 2
  f.words[3 * 7 + 4] = 5;                                              // and of slot 0
  f.write();
  f.data.key_policy = {config::KeyPolicy::kOov, 0};
  const auto reader = f.reader(10);
  for (int p = 0; p < 25; ++p) {
    CHECK(reader->next().replaced_keys == (p % 10 == 0 ? 2 : p % 10 == 5 || p % 10 == 9));
    CHECK(reader->replaced_keys() == 4 * (p / 10) + 2 + (p % 10 >= 5) + (p % 10 >= 9));
  }
}

TEST_CASE("waiting is measured", "[threads]") {
  RawFixture f(100);
  const auto reader = f.reader(10);
  CHECK(reader->wait_seconds() == 0);
  const auto begin = Clock::now();
  for (int p = 0; p < 50; ++p) reader->next();
  CHECK(reader->wait_seconds() >= 0);
  CHECK(reader->wait_seconds() <= seconds_since(begin));
}
