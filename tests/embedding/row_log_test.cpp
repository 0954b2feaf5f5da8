// RowLog against a map, on a real file; and what it says when the disk fails.
#include "embedding/row_log.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_directory.h"

namespace hlite::embedding {
namespace {

using test::check_contains;
using test::message_of;
using test::TemporaryDirectory;
using Record = std::vector<std::byte>;

Record record_of(uint32_t row, uint32_t version, int64_t bytes) {
  Record record(static_cast<size_t>(bytes));
  for (size_t i = 0; i < record.size(); i += 4) {
    const uint32_t word = random::word(row, version, i);
    std::memcpy(record.data() + i, &word, std::min<size_t>(4, record.size() - i));
  }
  return record;
}

// A log and what it ought to hold.
class Model {
 public:
  explicit Model(const RowLogOptions& options)
      : bytes_(options.record_bytes),
        log(options, [this](uint32_t row, RowLog::Place place) { places_.at(row) = place; }) {}

  void put(uint32_t row, uint32_t version) {
    if (places_.contains(row)) log.drop(places_.at(row));
    const Record record = record_of(row, version, bytes_);
    const RowLog::Place place = log.put(row, record.data());
    places_[row] = place;
    versions_[row] = version;
  }
  void drop(uint32_t row) {
    log.drop(places_.at(row));
    places_.erase(row);
    versions_.erase(row);
  }
  [[nodiscard]] bool holds(uint32_t row) const { return places_.contains(row); }
  void prefetch(const std::vector<uint32_t>& rows) {
    std::vector<RowLog::Place> places;
    for (const uint32_t row : rows) places.push_back(places_.at(row));
    log.prefetch(places);
  }
  void check(const std::vector<uint32_t>& rows) {
    std::vector<Record> got(rows.size(), Record(static_cast<size_t>(bytes_)));
    std::vector<RowLog::Read> reads;
    for (size_t i = 0; i < rows.size(); ++i) reads.push_back({places_.at(rows[i]), got[i].data()});
    log.get(reads);
    for (size_t i = 0; i < rows.size(); ++i) {
      INFO("row " << rows[i]);
      REQUIRE((got[i] == record_of(rows[i], versions_.at(rows[i]), bytes_)));
    }
  }
  void check_all() {
    std::vector<uint32_t> rows;
    for (const auto& [row, place] : places_) rows.push_back(row);
    check(rows);
    CHECK(log.live() == std::ssize(places_));
  }

 private:
  int64_t bytes_;
  std::map<uint32_t, RowLog::Place> places_;
  std::map<uint32_t, uint32_t> versions_;

 public:
  RowLog log;
};

// Serves requests in memory until one of them is to fail.
class FailingQueue final : public IoQueue {
 public:
  FailingQueue(bool writes, int64_t good, int64_t result)
      : writes_(writes), good_(good), result_(result) {}
  size_t submit(std::span<const IoRequest> requests) override {
    for (const IoRequest& r : requests) {
      int64_t result = r.bytes;
      auto& stored = blocks_[r.offset];
      if (r.writes)
        for (int64_t at = 0; at < r.bytes; at += 4096)
          blocks_[r.offset + at].assign(r.buffer + at, r.buffer + at + 4096);
      else if (!stored.empty())
        std::copy(stored.begin(), stored.end(), r.buffer);
      if (r.writes == writes_ && good_-- <= 0) result = result_;
      done_.push_back({r.tag, result});
    }
    return requests.size();
  }
  size_t reap(std::span<IoCompletion> done, std::chrono::milliseconds) override {
    const size_t n = std::min(done.size(), done_.size());
    std::copy_n(done_.begin(), n, done.begin());
    done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(n));
    return n;
  }
  void wake() override {}
  [[nodiscard]] int64_t file_size() const override { return 0; }

 private:
  bool writes_;
  int64_t good_, result_;
  std::map<int64_t, Record> blocks_;
  std::vector<IoCompletion> done_;
};

}  // namespace

TEST_CASE("a log of rows gives back what was put last, whatever was moved", "[slow]") {
  const TemporaryDirectory folder;
  for (const int64_t bytes : {4, 64, 148, 512, 4096, 5000}) {
    INFO("records of " << bytes);
    Model model({.folder = folder.path(), .name = "emb", .record_bytes = bytes});
    const uint32_t rows = bytes < 100 ? 60000 : test::kSanitized ? 3000 : 9000;
    uint64_t draws = 0;
    const auto draw = [&](uint32_t below) { return random::word(1, 2, draws++) % below; };
    for (uint32_t row = 0; row < rows; ++row) model.put(row, 0);
    for (uint32_t round = 1; round <= 12; ++round) {
      for (uint32_t i = 0; i < rows / 2; ++i) model.put(draw(rows), round);
      for (uint32_t i = 0; i < rows / 20; ++i)
        if (const uint32_t row = draw(rows); model.holds(row)) model.drop(row);
      std::vector<uint32_t> some;
      for (uint32_t i = 0; i < rows / 10; ++i)
        if (const uint32_t row = draw(rows); model.holds(row)) some.push_back(row);
      if (round % 2 == 0) model.prefetch(some);
      if (round % 4 == 0)  // places of prefetched records move
        for (uint32_t i = 0; i < rows / 2; ++i) model.put(draw(rows), round + 100);
      model.check(some);
    }
    model.check_all();
    // The file never shrinks: as many live records as there ever were, half as much garbage, and
    // some segments.
    const int64_t stored = bytes > 4096 ? 8192 : 4096 / (4096 / bytes);
    CHECK(model.log.file_bytes() <= rows * stored * 3 / 2 + (int64_t{24} << 20));
  }
  CHECK(std::filesystem::is_empty(folder.path()));  // the files have no names
}

TEST_CASE("a log of rows whose disk fails says where and why, now and later") {
  const TemporaryDirectory folder;
  for (const bool writes : {true, false})
    for (const int64_t result : {int64_t{-ENOSPC}, int64_t{-EIO}, int64_t{512}}) {
      RowLogOptions options{.folder = folder.path(), .name = "emb", .record_bytes = 4096};
      options.open = [&](const std::string&, const IoQueueOptions&) {
        return std::make_unique<FailingQueue>(writes, 3, result);
      };
      Model model(options);
      const auto work = [&] {
        for (uint32_t row = 0; row < 8000; ++row) model.put(row, 0);
        for (uint32_t row = 0; row < 8000; row += 7) model.check({row});
      };
      const std::string message = message_of<FileError>(work);
      check_contains(message, {folder.path(), "emb",
                               writes ? "cannot write 1048576 bytes at offset"
                                      : "cannot read 4096 bytes at offset"});
      check_contains(message, {result == -ENOSPC ? "No space left"
                               : result == -EIO  ? "Input/output error"
                                                 : "512 bytes, and no more"});
      CHECK(message_of<FileError>([&] { model.put(9000, 0); }) == message);
    }
}

TEST_CASE("a log of rows drops a record once") {
  const TemporaryDirectory folder;
  RowLog log({.folder = folder.path(), .name = "emb", .record_bytes = 4096}, {});
  const RowLog::Place place = log.put(7, record_of(7, 0, 4096).data());
  log.drop(place);
  check_contains(message_of<Error>([&] { log.drop(place); }), {"emb", "no record at 0"});
  check_contains(message_of<Error>([&] { log.drop(5000); }), {"emb", "no record at 5000"});
  CHECK(log.live() == 0);
}

TEST_CASE("a log of rows that may grow no more, and a folder that takes no file") {
  const TemporaryDirectory folder;
  Model model({.folder = folder.path(), .name = "emb", .record_bytes = 4096, .max_bytes = 3 << 20});
  check_contains(message_of<FileError>([&] {
                   for (uint32_t row = 0; row < 1000; ++row) model.put(row, 0);
                 }),
                 {"emb", "at most 3145728 bytes", "disk_gb", "768 live records of 4096 bytes"});
  check_contains(message_of<FileError>(
                     [&] { Model({.folder = folder / "none", .name = "emb", .record_bytes = 8}); }),
                 {folder / "none", "cannot make a file for rows of emb", "No such file"});
}

}  // namespace hlite::embedding
