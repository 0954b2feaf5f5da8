#include "data_reader/range_reader.h"

#include <cerrno>
#include <filesystem>

#include "hugectr_lite/core/error.h"
#include "tests/data_reader/faulty_queue.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

using namespace hlite;
using namespace hlite::data;
using std::chrono::milliseconds;
using test::check_contains;
using test::Faults;
using test::FaultyTotals;
using test::message_of;
using test::TemporaryDirectory;

namespace {
struct RangedFile {
  explicit RangedFile(size_t bytes) : text(bytes, '\0') {
    for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(random::word(4, 0, i));
    test::write_text(path, text);
  }
  [[nodiscard]] RangeReader reader(const ReadShape& shape, int64_t ranges, int64_t max_bytes,
                                   Faults faults) const {
    return {path,   test::faulty(std::move(faults), totals)(path, {shape.depth, shape.alignment}),
            size(), shape,
            ranges, max_bytes};
  }
  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(text.size()); }
  TemporaryDirectory dir;
  std::string text;
  std::string path = dir / "f.bin";
  std::shared_ptr<FaultyTotals> totals = std::make_shared<FaultyTotals>();
};

std::string read(RangeReader& reader, int64_t range) {
  while (!reader.finished(range)) reader.poll(IoQueue::kForever);
  const auto bytes = reader.bytes(range);
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  reader.release(range);
  return text;
}
}  // namespace

TEST_CASE("every range of a file is read unchanged with any size of blocks") {
  const RangedFile f(20'001);
  for (const ReadShape& shape :
       {ReadShape{1, 1, 1}, ReadShape{512, 1, 512}, ReadShape{512, 3, 512}, ReadShape{1536, 2, 512},
        ReadShape{4096, 64, 4096}, ReadShape{1 << 20, 2, 4096}}) {
    // Blocks of one byte are slow, so the ranges are short.
    const int64_t max_bytes = shape.block == 1 ? 50 : 20'001;
    RangeReader reader = f.reader(shape, 3, max_bytes, {});
    for (uint64_t i = 0; i < 60; ++i) {
      const auto offset = static_cast<int64_t>(random::word(1, 0, i) % 20'002);
      const int64_t bytes =
          random::word(1, 1, i) % (std::min<int64_t>(max_bytes, 20'001 - offset) + 1);
      const auto range = static_cast<int64_t>(i % 3);
      reader.start(range, offset, bytes);
      CHECK(read(reader, range) ==
            f.text.substr(static_cast<size_t>(offset), static_cast<size_t>(bytes)));
    }
  }
  CHECK(f.totals->misaligned == 0);
}

TEST_CASE("several ranges are in flight at once, but never more reads than the depth") {
  const RangedFile f(100'000);
  Faults faults;
  faults.out_of_order = true;
  RangeReader reader = f.reader({1024, 7, 512}, 4, 10'000, faults);
  for (int64_t i = 0; i < 4; ++i) reader.start(i, i * 10'000 + 3, 9'999);
  for (int64_t i = 4; i-- > 0;)
    CHECK(read(reader, i) == f.text.substr(static_cast<size_t>(i * 10'000 + 3), 9'999));
  CHECK(f.totals->max_in_flight == 7);
  CHECK(f.totals->misaligned == 0);
  CHECK(reader.bytes_read() >= 4 * 9'999);
}

TEST_CASE("short, interrupted and refused reads are retried until the range is complete") {
  const RangedFile f(50'000);
  for (const int64_t alignment : {1, 512, 4096}) {
    for (uint64_t seed = 0; seed < 6; ++seed) {
      Faults faults;
      faults.seed = seed;
      faults.out_of_order = true;
      faults.accept_most = 1 + static_cast<int64_t>(seed % 3);
      faults.refuse_every = 3;
      faults.delay_rounds = static_cast<int64_t>(seed % 3);
      faults.result = [seed](int64_t, int64_t bytes, int64_t nth) -> int64_t {
        const uint32_t w = random::word(seed, 9, static_cast<uint64_t>(nth));
        switch (w % 5) {
          case 0:
            return 0;
          case 1:
            return -EINTR;
          case 2:
            return -EAGAIN;
          case 3:
            return w / 5 % (bytes + 1);
          default:
            return bytes;
        }
      };
      RangeReader reader = f.reader({8192, 5, alignment}, 3, 20'000, faults);
      for (int64_t i = 0; i < 3; ++i) reader.start(i, 1'000 + i * 15'000, 18'000 + i);
      for (int64_t i = 0; i < 3; ++i)
        CHECK(read(reader, i) == f.text.substr(static_cast<size_t>(1'000 + i * 15'000),
                                               static_cast<size_t>(18'000 + i)));
    }
  }
  CHECK(f.totals->misaligned == 0);
}

TEST_CASE("the error of a range names its first failed block, after all its reads have ended") {
  const RangedFile f(50'000);
  Faults faults;
  faults.out_of_order = true;
  faults.result = [](int64_t offset, int64_t bytes, int64_t) -> int64_t {
    return offset >= 8192 && offset < 40'960 ? -EIO : bytes;
  };
  RangeReader reader = f.reader({4096, 4, 4096}, 2, 50'000, faults);
  reader.start(0, 8200, 20'000);
  reader.start(1, 0, 8192);
  check_contains(message_of<FileError>([&] { read(reader, 0); }),
                 {f.path, "cannot read 4096 bytes at offset 8192: Input/output error"});
  CHECK(read(reader, 1) == f.text.substr(0, 8192));
  reader.release(0);  // a range can be used again after a failure
  reader.start(0, 41'000, 5'000);
  CHECK(read(reader, 0) == f.text.substr(41'000, 5'000));
}

TEST_CASE("a truncated file is an error whenever the truncation is noticed") {
  RangedFile f(50'000);
  RangeReader reader = f.reader({4096, 4, 512}, 1, 50'000, {});
  CHECK_FALSE(reader.has_grown());
  std::filesystem::resize_file(f.path, 30'000);
  const std::string message =
      f.path + ": truncated while reading: expected 50000 bytes, the file has 30000 now";
  CHECK(message_of<FileError>([&] { static_cast<void>(reader.has_grown()); }) == message);
  reader.start(0, 0, 30'000);  // the part that is left
  CHECK(read(reader, 0) == f.text.substr(0, 30'000));
  reader.start(0, 20'000, 10'001);
  CHECK(message_of<FileError>([&] { read(reader, 0); }) == message);
  reader.release(0);
  std::filesystem::resize_file(f.path, 50'001);
  CHECK(reader.has_grown());
}

TEST_CASE("a read that makes no progress is an error after some retries") {
  const RangedFile f(50'000);
  for (const int64_t stuck : {int64_t{0}, int64_t{100}, int64_t{-EINTR}}) {
    Faults faults;
    faults.result = [=](int64_t, int64_t, int64_t) { return stuck; };
    RangeReader reader = f.reader({4096, 4, 512}, 1, 50'000, faults);
    reader.start(0, 4096, 5000);
    check_contains(message_of<FileError>([&] { read(reader, 0); }),
                   {f.path, "at offset 4096", "got no further"});
  }
}

TEST_CASE("a reader can be destroyed while reads are in flight") {
  const RangedFile f(50'000);
  Faults faults;
  faults.delay_rounds = 1000;
  RangeReader reader = f.reader({512, 16, 512}, 2, 10'000, faults);
  reader.start(0, 0, 10'000);
  reader.start(1, 10'000, 10'000);
  reader.poll(milliseconds(0));
  CHECK_FALSE(reader.finished(0));
  CHECK(f.totals->max_in_flight == 16);
}
