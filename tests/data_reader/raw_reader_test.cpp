#include "data_reader/raw_reader.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>

#include "hugectr_lite/core/error.h"
#include "tests/data_reader/raw_file.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

using namespace hlite;
using namespace hlite::data;
using test::check_contains;
using test::message_of;
using test::RawShape;
using test::TemporaryDirectory;

namespace {
// Every value of the batch is that of its samples, and nothing is behind them.
bool is_right(const RawShape& shape, const HostBatch& b) {
  for (int64_t i = 0; i < b.labels.dim(0); ++i) {
    const bool used = i < b.size;
    const int64_t sample = b.first_sample + i;
    if (b.labels(i, 0) != (used ? static_cast<float>(test::label_of(sample)) : 0.f)) return false;
    for (int64_t d = 0; d < b.dense.dim(1); ++d)
      if (b.dense(i, d) != (used && d < shape.dense ? test::feature_of(shape, sample, d) : 0.f))
        return false;
    for (int64_t s = 0; s < b.keys.dim(1); ++s) {
      const int64_t rows = shape.slot_rows[static_cast<size_t>(s)];
      if (b.keys(i, s) != (used ? test::key_of(sample, s, rows) : 0u)) return false;
    }
  }
  return true;
}

struct Fixture {
  explicit Fixture(int64_t samples, RawShape with = {3, {5, 1, 70}, false, true})
      : shape(std::move(with)), words(test::raw_words(shape, samples)) {
    write();
  }
  void write() { test::write_text(path, test::raw_text(words)); }
  [[nodiscard]] RawReader reader(int64_t batch, const RawReaderOptions& options = {}) const {
    return {shape.config(), path, Split::kTrain, batch, shape.slot_rows, options};
  }
  TemporaryDirectory dir;
  RawShape shape;
  std::vector<uint32_t> words;
  std::string path = dir / "f.bin";
};
}  // namespace

TEST_CASE("every sample of the file arrives, whatever its size and the batch's") {
  for (const int64_t samples : {1, 2, 7, 64, 301}) {
    const Fixture f(samples);
    for (const int64_t batch : {1, 2, 7, 64, 301, 1000}) {
      RawReader reader = f.reader(batch);
      INFO(samples << " samples in batches of " << batch);
      CHECK(reader.samples() == samples);
      const int64_t n = (samples + batch - 1) / batch;
      CHECK(reader.batches_per_epoch() == n);
      bool right = true;
      for (int64_t p = 0; p < 2 * n + 1; ++p) {  // over the end, twice
        right &= reader.position() == p;
        const HostBatch& b = reader.next();
        right &= b.first_sample == p % n * batch;
        right &= b.size == std::min(batch, samples - b.first_sample);
        right &= is_right(f.shape, b);
      }
      CHECK(right);
    }
  }
}

TEST_CASE("a batch larger than what is read at a time is put together") {
  const Fixture f(70'001, {13, {3, 4, 5}, false, true});  // 68 bytes each: 4.8 MB
  RawReader reader = f.reader(40'000);
  for (int p = 0; p < 4; ++p) CHECK(is_right(f.shape, reader.next()));
}

TEST_CASE("floats are taken as they are") {
  const Fixture f(100, {4, {9}, true, false});
  RawReader reader = f.reader(30);
  for (int p = 0; p < 8; ++p) CHECK(is_right(f.shape, reader.next()));
}

TEST_CASE("a batch stays as it is until the next call") {
  const Fixture f(500);
  RawReader reader = f.reader(10);
  for (int p = 0; p < 20; ++p) {
    const HostBatch& b = reader.next();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the thread fills all it may
    CHECK(is_right(f.shape, b));
  }
}

TEST_CASE("batches lie in the memory that the reader names") {
  const Fixture f(100);
  RawReader reader = f.reader(10);
  const auto memory = reader.memory();
  CHECK(memory.size() >= 3);
  for (int p = 0; p < 12; ++p) {
    const auto* keys = reinterpret_cast<const std::byte*>(reader.next().keys.data());
    CHECK(std::any_of(memory.begin(), memory.end(), [&](std::span<std::byte> m) {
      return keys >= m.data() && keys < m.data() + m.size();
    }));
  }
}

TEST_CASE("without repetition the end is an empty batch") {
  const Fixture f(25);
  RawReaderOptions options;
  options.repeat = false;
  RawReader reader = f.reader(10, options);
  CHECK(reader.next().size == 10);
  CHECK(reader.next().size == 10);
  CHECK(reader.next().size == 5);
  CHECK(reader.next().size == 0);
  CHECK(reader.next().size == 0);
  CHECK(reader.position() == 3);
  options.start_batch = 2;
  RawReader late = f.reader(10, options);
  CHECK(late.next().first_sample == 20);
  CHECK(late.next().size == 0);
  options.start_batch = 3;
  CHECK(f.reader(10, options).next().size == 0);
}

TEST_CASE("the order of an epoch is a permutation, and another one each epoch and seed") {
  for (const size_t n : {size_t{0}, size_t{1}, size_t{2}, size_t{100}}) {
    std::vector<int64_t> order(n), identity(n);
    std::iota(identity.begin(), identity.end(), int64_t{0});
    std::set<std::vector<int64_t>> seen;
    for (const uint64_t seed : {0, 1}) {
      for (int64_t epoch = 0; epoch < 3; ++epoch) {
        shuffle_order(seed, epoch, order);
        seen.insert(order);
        std::vector<int64_t> sorted = order;
        std::sort(sorted.begin(), sorted.end());
        CHECK(sorted == identity);
      }
    }
    if (n == 100) CHECK(seen.size() == 6);
  }
}

TEST_CASE("every order of four is about as frequent as every other") {
  // 24 orders, 12000 draws, 500 expected each; 23 degrees of freedom: chi^2 below 50 but once in
  // 1000, and the draws are fixed.
  std::map<std::vector<int64_t>, int> count;
  std::vector<int64_t> order(4);
  for (int64_t epoch = 0; epoch < 12'000; ++epoch) {
    shuffle_order(5, epoch, order);
    ++count[order];
  }
  CHECK(count.size() == 24);
  double chi_squared = 0;
  for (const auto& [o, c] : count) chi_squared += (c - 500.) * (c - 500.) / 500.;
  CHECK(chi_squared < 50);
}

TEST_CASE("with shuffle each epoch has every sample once, the partial batch too") {
  const Fixture f(205);
  RawReaderOptions options;
  options.shuffle = true;
  options.seed = 3;
  RawReader reader = f.reader(10, options);
  std::vector<std::vector<int64_t>> epochs;
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::set<int64_t> samples;
    auto& order = epochs.emplace_back();
    for (int64_t k = 0; k < reader.batches_per_epoch(); ++k) {
      const HostBatch& b = reader.next();
      CHECK(is_right(f.shape, b));
      order.push_back(b.first_sample);
      for (int64_t i = 0; i < b.size; ++i) samples.insert(b.first_sample + i);
    }
    CHECK(samples.size() == 205);
    CHECK(*samples.rbegin() == 204);
  }
  CHECK(epochs[0] != epochs[1]);
  CHECK(epochs[1] != epochs[2]);
}

TEST_CASE("a resumed reader goes on exactly where the other one was") {
  const Fixture f(95);
  for (const bool shuffle : {false, true}) {
    RawReaderOptions options;
    options.shuffle = shuffle;
    options.seed = 8;
    std::vector<int64_t> whole;
    RawReader reader = f.reader(10, options);
    for (int p = 0; p < 35; ++p) whole.push_back(reader.next().first_sample);
    for (const int64_t start : {1, 9, 10, 11, 23}) {
      options.start_batch = start;
      RawReader resumed = f.reader(10, options);
      CHECK(resumed.position() == start);
      for (int64_t p = start; p < 35; ++p) {
        const HostBatch& b = resumed.next();
        CHECK(b.first_sample == whole[static_cast<size_t>(p)]);
        CHECK(is_right(f.shape, b));
      }
    }
  }
}

TEST_CASE("num_samples limits RawAsync and is a demand on Raw") {
  RawShape shape{13, std::vector<int64_t>(26, 100)};
  config::DataConfig raw = shape.config("Raw"), async = shape.config("RawAsync");
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

TEST_CASE("a reader uses num_samples of the file") {
  const Fixture f(100);
  config::DataConfig config = f.shape.config();
  config.num_samples = 33;
  config.eval_num_samples = 12;
  RawReader train(config, f.path, Split::kTrain, 10, f.shape.slot_rows);
  CHECK(train.samples() == 33);
  for (const int64_t size : {10, 10, 10, 3, 10}) CHECK(train.next().size == size);
  RawReader eval(config, f.path, Split::kEval, 10, f.shape.slot_rows);
  CHECK(eval.next().size == 10);
  CHECK(eval.next().size == 2);
}

TEST_CASE("files that cannot be used are errors at once") {
  Fixture f(10);
  std::filesystem::resize_file(f.path, f.words.size() * 4 - 1);
  check_contains(message_of<DataError>([&] { (void)f.reader(4); }),
                 {f.path, "279 bytes is no multiple of the record size 28"});
  std::filesystem::remove(f.path);
  check_contains(message_of<DataError>([&] { (void)f.reader(4); }), {f.path, "No such file"});
}

TEST_CASE("a bad sample is an error in its batch's turn, and stays one") {
  Fixture f(100);
  f.words[static_cast<size_t>(57 * f.shape.values() + 6)] = 70;  // sample 57, key of slot 2
  f.write();
  RawReader reader = f.reader(10);
  for (int p = 0; p < 5; ++p) CHECK(is_right(f.shape, reader.next()));
  for (int again = 0; again < 3; ++again)
    CHECK(message_of<DataError>([&] { reader.next(); }) ==
          f.path +
              ": sample 57 (byte 1596), key of slot 2: expected less than 70, the rows of its "
              "table, found 70");
  CHECK(reader.position() == 5);
}

TEST_CASE("a file cut short while it is read is an error, never old data") {
  const Fixture f(1000);
  RawReader reader = f.reader(10);
  CHECK(is_right(f.shape, reader.next()));
  std::filesystem::resize_file(f.path, 28 * 10 * 50 + 5);
  int64_t good = 1;
  const std::string message = message_of<FileError>([&] {
    for (; good < 1000; ++good) {
      const bool right = is_right(f.shape, reader.next());
      REQUIRE(right);
    }
  });
  CHECK(good == 50);  // those before the cut
  check_contains(message, {f.path, "cannot read 280 bytes at offset 14000", "the file ends at"});
}

TEST_CASE("a reader that nobody reads from stops at once") {
  const Fixture f(10'000);
  for (int i = 0; i < 20; ++i) {
    const auto start = std::chrono::steady_clock::now();
    {
      RawReader reader = f.reader(100);
      if (i % 2) reader.next();
    }
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(1));
  }
}

TEST_CASE("waiting is measured") {
  const Fixture f(100);
  RawReader reader = f.reader(10);
  CHECK(reader.wait_seconds() == 0);
  for (int p = 0; p < 50; ++p) reader.next();
  const double waited = reader.wait_seconds();
  CHECK(waited >= 0);
  CHECK(waited < 10);
}
