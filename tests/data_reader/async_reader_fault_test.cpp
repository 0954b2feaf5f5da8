// What an AsyncReader does when files and systems misbehave: right data or a clear error.
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "data_reader/async_reader.h"
#include "hugectr_lite/core/error.h"
#include "tests/data_reader/faulty_queue.h"
#include "tests/data_reader/log_capture.h"
#include "tests/data_reader/raw_batch.h"
#include "tests/data_reader/raw_fixture.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;
using namespace hlite::data;
using test::async_param;
using test::check_contains;
using test::Faults;
using test::faulty;
using test::FaultyTotals;
using test::is_right;
using test::LogCapture;
using test::message_of;
using test::RawFixture;

namespace {
// Takes batches that must be right until one is an error: its message. `good`: how many were.
std::string error_of(AsyncReader& reader, const test::RawShape& shape, int64_t& good) {
  good = 0;
  return message_of<FileError>([&] {
    for (; good < 1000; ++good) {
      const bool right = is_right(shape, reader.next());
      REQUIRE(right);  // which would swallow the error
    }
  });
}
}  // namespace

TEST_CASE("short, interrupted, late and disordered reads give the same batches", "[threads]") {
  RawFixture f(1'000);
  for (uint64_t seed = 0; seed < 24; ++seed) {
    Faults faults;
    faults.seed = seed;
    faults.out_of_order = seed % 2 == 0;
    faults.accept_most = seed % 3 == 0 ? 1 : 1000;
    faults.refuse_every = seed % 4 == 0 ? 2 : 0;
    faults.delay_rounds = seed % 5 == 0 ? 3 : 0;
    if (seed % 3 != 1)
      faults.result = [seed](int64_t, int64_t bytes, int64_t nth) -> int64_t {
        const uint32_t w = random::word(seed, 5, static_cast<uint64_t>(nth));
        if (w % 4 == 0) return w % 8 == 0 ? 0 : -EINTR;
        return w % 4 == 1 ? w / 4 % (bytes + 1) : bytes;
      };
    const auto s = static_cast<int64_t>(seed);
    f.data.async_param = async_param(1 + s % 4, 1 + s % 3, 512 << (s % 3), 1 + s % 6, 512);
    const auto totals = std::make_shared<FaultyTotals>();
    SourceOptions options;
    options.shuffle = seed % 2 == 1;
    options.seed = seed;
    const auto reader = f.reader(70, options, faulty(faults, totals));
    bool right = true;
    for (int64_t p = 0; p < 40; ++p) {
      std::vector<int64_t> order(15);
      shuffle_order(seed, p / 15, order);
      const HostBatch& b = reader->next();
      const int64_t batch = options.shuffle ? order[static_cast<size_t>(p % 15)] : p % 15;
      right &= b.first_sample == batch * 70 && is_right(f.shape, b);
    }
    INFO("seed " << seed);
    CHECK(right);
    CHECK(totals->misaligned == 0);
    CHECK(totals->max_in_flight <= 1 + s % 6);
    CHECK(totals->queues == reader->plan().threads);
  }
}

TEST_CASE("a device error belongs to its batch, whichever thread meets it first", "[threads]") {
  RawFixture f(1'000);
  for (const int64_t threads : {1, 2, 3, 7}) {
    f.data.async_param = async_param(threads, 4, 512, 8, 512);
    Faults faults;
    faults.out_of_order = true;
    faults.result = [](int64_t offset, int64_t bytes, int64_t) -> int64_t {
      return offset >= 14'336 ? -EIO : bytes;  // from sample 512 on
    };
    const auto reader = f.reader(10, {}, faulty(faults));
    int64_t good = 0;
    const std::string message = error_of(*reader, f.shape, good);
    CHECK(good == 51);
    check_contains(message, {f.path, "cannot read 512 bytes at offset 14336: Input/output error"});
    for (int again = 0; again < 3; ++again)
      CHECK(message_of<FileError>([&] { reader->next(); }) == message);
    CHECK(reader->position() == 51);
  }
}

TEST_CASE("a bad sample is an error in its batch's turn, and stays one", "[threads]") {
  RawFixture f(100);
  f.words[static_cast<size_t>(57 * f.shape.values() + 6)] = 70;  // sample 57, key of slot 2
  f.words[static_cast<size_t>(64 * f.shape.values() + 6)] = 70;  // and later ones
  f.write();
  for (const int64_t threads : {1, 2, 5}) {
    f.data.async_param = async_param(threads, 4, 512, 8, 512);
    const auto reader = f.reader(10);
    for (int p = 0; p < 5; ++p) CHECK(is_right(f.shape, reader->next()));
    for (int again = 0; again < 3; ++again)
      CHECK(message_of<DataError>([&] { reader->next(); }) ==
            f.path +
                ": sample 57 (byte 1596), key of slot 2: expected less than 70, the rows of its "
                "table, found 70");
    CHECK(reader->position() == 5);
  }
}

TEST_CASE("a file cut short while it is read is an error, never old data", "[threads]") {
  for (const bool direct : {false, true}) {
    RawFixture f(1'000);
    f.data.async_param = async_param(2, 2, 512, 2, 512);
    const auto reader = f.reader(10, {}, direct ? IoQueueFactory() : faulty({}));
    CHECK(is_right(f.shape, reader->next()));
    std::filesystem::resize_file(f.path, 28 * 10 * 50 + 5);
    int64_t good = 0;
    const std::string message = error_of(*reader, f.shape, good);
    CHECK(good + 1 == 50);  // those before the cut
    CHECK(message ==
          f.path + ": truncated while reading: expected 28000 bytes, the file has 14005 now");
  }
}

TEST_CASE("a file that shrinks after the samples in use is an error at the next epoch",
          "[threads]") {
  RawFixture f(100);
  f.data.num_samples = 50;
  f.data.async_param = async_param(1, 1, 512, 2, 512);
  const auto reader = f.reader(10);
  reader->next();
  std::filesystem::resize_file(f.path, 28 * 80);
  int64_t good = 0;
  check_contains(error_of(*reader, f.shape, good),
                 {"truncated while reading: expected 2800 bytes, the file has 2240 now"});
  CHECK(good + 1 == 5);
}

TEST_CASE("a file that grows is read as it was, and that is said once", "[threads]") {
  const LogCapture log;
  RawFixture f(95);
  f.data.async_param = async_param(2, 2, 512, 2, 512);
  const auto reader = f.reader(10);
  reader->next();
  std::ofstream(f.path, std::ios::app) << std::string(2800, 'x');
  for (int64_t p = 1; p < 50; ++p) {
    const HostBatch& b = reader->next();
    REQUIRE(b.size == (p % 10 == 9 ? 5 : 10));
    REQUIRE(is_right(f.shape, b));
  }
  CHECK(log.count(f.path + ": has grown since it was opened with 2660 bytes") == 1);
}

TEST_CASE("files that cannot be used are errors at once") {
  RawFixture f(10);
  std::filesystem::resize_file(f.path, f.words.size() * 4 - 1);
  check_contains(message_of<DataError>([&] { f.reader(4); }),
                 {f.path, "279 bytes is no multiple of the record size 28"});
  std::filesystem::resize_file(f.path, 0);
  check_contains(message_of<DataError>([&] { f.reader(4); }), {f.path, "empty file"});
  std::filesystem::remove(f.path);
  check_contains(message_of<DataError>([&] { f.reader(4); }), {f.path, "No such file"});
  f.path = f.dir.path();
  check_contains(message_of<DataError>([&] { f.reader(4); }), {f.path, "directory"});
}

TEST_CASE("a file that changes while it is opened is an error") {
  RawFixture f(10);
  Faults faults;
  faults.file_size = 28 * 11;
  CHECK(message_of<DataError>([&] { f.reader(4, {}, faulty(faults)); }) ==
        f.path + ": changed while it was opened: 280 bytes, then 308");
}

TEST_CASE("where direct reads are refused the file is read all the same, and that is said once",
          "[threads]") {
  const LogCapture log;
  RawFixture f(300);
  f.data.async_param = async_param(3, 2, 512, 2, 512);
  const auto refuse = [](const std::string&, const IoQueueOptions&, std::string& refusal) {
    refusal = "the test refuses";
    return std::unique_ptr<IoQueue>();
  };
  const auto reader = f.reader(10, {}, [&](const auto& path, const auto& options) {
    return open_io_queue(path, options, refuse);
  });
  for (int p = 0; p < 70; ++p) REQUIRE(is_right(f.shape, reader->next()));
  CHECK(log.count(f.path + ": reading it through the page cache: the test refuses") == 1);
}

TEST_CASE("a system that starts no reads for a while is waited for", "[threads]") {
  RawFixture f(100);
  f.data.async_param = async_param(1, 2, 512, 2, 512);
  Faults faults;
  faults.refuse_every = 1;                                   // never
  { const auto reader = f.reader(10, {}, faulty(faults)); }  // and can be stopped
  faults.refuse_every = 2;
  const auto reader = f.reader(10, {}, faulty(faults));
  for (int p = 0; p < 30; ++p) REQUIRE(is_right(f.shape, reader->next()));
}

TEST_CASE("a reader stops at once, whatever is in flight", "[threads]") {
  RawFixture f(10'000);
  for (int i = 0; i < 40; ++i) {
    f.data.async_param = async_param(1 + i % 4, 3, 512 << (i % 4), 1 + i, 512);
    Faults faults;
    faults.out_of_order = true;
    faults.delay_rounds = i % 7;
    const auto reader = f.reader(100, {}, i % 2 ? faulty(faults) : IoQueueFactory());
    for (int p = 0; p < i % 5; ++p) REQUIRE(is_right(f.shape, reader->next()));
  }
}
