// DeviceRowCache against a table in memory, on the emulated device and, where there is one, on the
// GPU.
#include "embedding/device_row_cache.h"

#include <set>

#include "embedding/device_slots.h"
#include "embedding/key_errors.h"
#include "embedding/row_cache.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/core/thread_pool.h"
#include "tests/cuda/embedding_device.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::test {
namespace {

using embedding::DeviceRowCache;
using embedding::RowCacheCounts;

constexpr int64_t kCachedWidth = 5, kCachedLookups = 96;

float initial_weight(int64_t row, int64_t j) {
  return static_cast<float>(row) + 0.125f * static_cast<float>(j);
}

// A cache of rows with one state, its lines, and the whole table.
class CachedCase {
 public:
  CachedCase(const Exec& exec, int64_t rows, int64_t lines, int64_t width = kCachedWidth)
      : exec_(exec),
        lines_(lines),
        width_(width),
        memory_(exec, static_cast<size_t>(lines * (width_ + 1)) * sizeof(float), "lines"),
        columns_(exec, kCachedLookups * 4 * sizeof(uint32_t), "rows"),
        cache_({.name = "emb",
                .rows = rows,
                .lines = lines,
                .widths = {width_, 1},
                .max_lookups = kCachedLookups}) {
    auto* const data = reinterpret_cast<float*>(memory_.data());
    line_rows_ = {.w = Matrix<float>(data, lines, width_),
                  .state0 = {data + lines * width_, lines, 1}};
    cache_.attach(exec, line_rows_);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t j = 0; j < width_; ++j)
        table_.push_back(cache_.host_rows().w.as<float>()(row, j) = initial_weight(row, j));
      states_.push_back(cache_.host_rows().state0(row, 0) = 0.5f);
    }
  }
  // Admits rows, three columns between one that is another layer's and a fourth; compares what is
  // in their lines and, in training, changes each row once.
  void batch(const std::vector<uint32_t>& rows, bool training) {
    const int64_t samples = std::ssize(rows) / 3;
    std::vector<uint32_t> numbers;
    for (size_t i = 0; i < rows.size(); i += 3)
      numbers.insert(numbers.end(), {123u, rows[i], rows[i + 1], rows[i + 2]});
    put_bytes(exec_, columns_.data(), numbers.data(), numbers.size() * sizeof(uint32_t));
    const Matrix<uint32_t> at(reinterpret_cast<uint32_t*>(columns_.data()), samples, 4);
    cache_.admit(exec_, at, at, at, 1, 3, training);
    get_bytes(exec_, numbers.data(), columns_.data(), numbers.size() * sizeof(uint32_t));
    std::vector<float> lines(static_cast<size_t>(lines_ * (width_ + 1)));
    get_bytes(exec_, lines.data(), memory_.data(), memory_.size());
    std::set<uint32_t> seen, taken;
    for (size_t i = 0; i < rows.size(); ++i) {
      const uint32_t row = rows[i], line = numbers[i / 3 * 4 + 1 + i % 3];
      REQUIRE(numbers[i / 3 * 4] == 123u);
      if (row >= states_.size()) {
        REQUIRE(line == row);
        continue;
      }
      INFO("row " << row << ", line " << line);
      REQUIRE(line < lines_);
      float *const weights = lines.data() + line * width_, *const state = lines.data() +
                                                                          lines_ * width_ + line;
      if (!seen.insert(row).second) {
        REQUIRE(taken.contains(line));
        continue;
      }
      REQUIRE(taken.insert(line).second);
      REQUIRE(std::equal(weights, weights + width_, table_.data() + row * width_));
      REQUIRE(*state == states_[row]);
      if (!training) continue;
      for (int64_t j = 0; j < width_; ++j) weights[j] = table_[row * width_ + j] += 1.5f;
      *state = states_[row] += 0.25f;
    }
    for (const uint32_t row : seen) seen_.insert(row);
    put_bytes(exec_, memory_.data(), lines.data(), memory_.size());
  }
  void check_files() {
    cache_.flush();
    CHECK(std::equal(table_.begin(), table_.end(), cache_.host_rows().w.floats()));
    CHECK(std::equal(states_.begin(), states_.end(), cache_.host_rows().state0.data()));
    CHECK_NOTHROW(cache_.check());
  }
  // What a file brings.
  void rewrite(uint32_t row) {
    cache_.flush();
    cache_.forget();
    cache_.host_rows().w.as<float>()(row, 2) = table_[row * width_ + 2] = -7;
  }
  [[nodiscard]] RowCacheCounts counts() const { return cache_.counts(); }
  [[nodiscard]] const DeviceRowCache& cache() const { return cache_; }
  [[nodiscard]] int64_t seen() const { return std::ssize(seen_); }

 private:
  const Exec exec_;
  const int64_t lines_, width_;
  ExecMemory memory_, columns_;
  DeviceRowCache cache_;
  embedding::UpdatedRows line_rows_;
  std::vector<float> table_, states_;
  std::set<uint32_t> seen_;
};

std::vector<uint32_t> draw_rows(uint64_t round, int64_t n) {
  std::vector<uint32_t> rows(static_cast<size_t>(n));
  for (size_t i = 0; i < rows.size(); ++i) {
    const uint32_t any = random::word(3, round, i);
    rows[i] = any % 5 == 0 ? any % 1000 : any % 11 == 1 ? 0xffffffffu : any % 90;
  }
  return rows;
}

}  // namespace

TEST_CASE("rows of a GPU's cache come and go with their states, and a batch finds all of its rows",
          "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    // Rows of 8 floats and more are moved 4 at a time.
    for (const auto& [lines, width] : {std::pair<int64_t, int64_t>{96, kCachedWidth},
                                       {97, 8},
                                       {97, kCachedWidth},
                                       {98, 132},
                                       {300, kCachedWidth},
                                       {1000, kCachedWidth}}) {
      INFO(lines << " lines of " << width);
      CachedCase of(device.exec(), 1000, lines, width);
      for (uint64_t round = 0; round < 60; ++round) {
        of.batch(draw_rows(round, round % 7 == 6 ? 3 : kCachedLookups), round % 4 != 3);
        if (round == 20) of.rewrite(5);
        if (round % 25 == 11) of.check_files();
      }
      of.check_files();
      const RowCacheCounts counts = of.counts();
      CHECK(counts.lookups > 4000);
      CHECK(counts.resident < counts.lookups);
      CHECK(counts.fetched >= of.seen());
      CHECK((counts.written > 0) == (lines < 250));  // of 270 rows
    }
  }
}

TEST_CASE("what a GPU's cache does depends on no order of threads, and a run repeats") {
  const OnDevice device(emulated_cuda());
  std::vector<RowCacheCounts> all;
  for (const auto order : {emulation::Order::kForward, emulation::Order::kReverse,
                           emulation::Order::kShuffled, emulation::Order::kShuffled}) {
    emulation::set_order(order, 17 + all.size());
    CachedCase of(device.exec(), 1000, 110);
    for (uint64_t round = 0; round < 40; ++round) of.batch(draw_rows(round, kCachedLookups), true);
    all.push_back(of.counts());
    CHECK(all.back().fetched > 500);
    CHECK(all.back().fetched == all.front().fetched);
    CHECK(all.back().written == all.front().written);
  }
  emulation::set_order(emulation::Order::kForward);
}

TEST_CASE("the lines that a GPU's cache takes are those that a hand finds one after another",
          "[gpu]") {
  constexpr uint32_t kNone = 0xffffffffu, kGroup = embedding::DeviceRows::kGroup;
  struct Shape {
    uint32_t rows, lines, batch, rounds;
  };
  for (const CudaBackend& backend : cuda_backends())
    for (const Shape& shape : {Shape{1000, 40, 40, 60}, Shape{1000, 130, 90, 60},
                               Shape{300, 257, 90, 40}, Shape{40000, 9000, 3000, 16}}) {
      INFO(backend.name << ", " << shape.lines << " lines");
      const OnDevice device(*backend.table);
      ExecMemory memory(device.exec(), shape.lines * sizeof(float), "lines"),
          columns(device.exec(), shape.batch * sizeof(uint32_t), "rows");
      DeviceRowCache of({.name = "emb",
                         .rows = shape.rows,
                         .lines = shape.lines,
                         .widths = {1},
                         .max_lookups = shape.batch});
      of.attach(device.exec(),
                {.w = Matrix<float>(reinterpret_cast<float*>(memory.data()), shape.lines, 1)});
      std::vector<uint32_t> line_of(shape.rows, kNone), row_of(shape.lines, kNone),
          used(shape.lines), passed(shape.lines / kGroup + 1);
      uint32_t hand = 0;
      for (uint32_t batch = 1; batch <= shape.rounds; ++batch) {
        std::vector<uint32_t> rows(shape.batch), want;
        for (uint32_t i = 0; i < shape.batch; ++i) {
          const uint32_t any = random::word(5, batch, i), all = batch % 3 == 0 ? 40 : shape.rows;
          rows[i] = any % 3 == 0 ? any % (shape.rows / 9) : any % all;
        }
        for (const uint32_t row : rows)
          if (line_of[row] != kNone) used[line_of[row]] = batch;
        for (const uint32_t row : rows) {
          while (line_of[row] == kNone) {
            const uint32_t line = hand;
            if (used[line] != batch && used[line] <= passed[line / kGroup]) {
              if (row_of[line] != kNone) line_of[row_of[line]] = kNone;
              row_of[line] = row;
              line_of[row] = line;
              used[line] = batch;
            }
            if (line % kGroup == kGroup - 1 || line == shape.lines - 1)
              passed[line / kGroup] = batch;
            hand = line + 1 == shape.lines ? 0 : line + 1;
          }
          want.push_back(line_of[row]);
        }
        auto* const words = reinterpret_cast<uint32_t*>(columns.data());
        put_bytes(device.exec(), words, rows.data(), rows.size() * sizeof(uint32_t));
        const Matrix<uint32_t> at(words, shape.batch, 1);
        of.admit(device.exec(), at, at, at, 0, 1, true);
        get_bytes(device.exec(), rows.data(), words, rows.size() * sizeof(uint32_t));
        INFO("batch " << batch);
        REQUIRE((rows == want));
      }
      CHECK_NOTHROW(of.check());
    }
}

TEST_CASE("lines that a batch has used lately stay in a GPU's cache", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    const OnDevice device(*backend.table);
    CachedCase of(device.exec(), 5000, 200);
    std::vector<uint32_t> hot(48);
    for (uint32_t i = 0; i < 48; ++i) hot[i] = i;
    of.batch(hot, true);
    for (uint32_t round = 0; round < 60; ++round) {  // 48 rows that come again, 48 that do not
      std::vector<uint32_t> rows = hot;
      for (uint32_t i = 0; i < 48; ++i) rows.push_back(100 + round * 48 + i);
      of.batch(rows, true);
    }
    CHECK(of.counts().fetched == 48 + 60 * 48);
    CHECK(of.counts().resident == 60 * 48);
  }
}

TEST_CASE("a batch with more rows than a GPU's cache has lines is an error of the device",
          "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    const OnDevice device(*backend.table);
    const CachedCase of(device.exec(), 1000, 7);
    ExecMemory memory(device.exec(), 9 * sizeof(uint32_t), "rows");
    const std::vector<uint32_t> rows = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    put_bytes(device.exec(), memory.data(), rows.data(), 9 * sizeof(uint32_t));
    const Matrix<uint32_t> at(reinterpret_cast<uint32_t*>(memory.data()), 9, 1);
    of.cache().admit(device.exec(), at, at, at, 0, 1, true);
    check_contains(message_of<DeviceError>([&] { of.cache().check(); }),
                   {"emb", "more distinct rows than the 7 lines"});
  }
}

TEST_CASE("rows come back from a GPU before others take their host lines, which are over a disk",
          "[gpu]") {
  constexpr int64_t kRows = 700, kHost = 150, kLines = 100, kBatch = 48;
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const OnDevice device(*backend.table);
    const Exec exec = device.exec();
    const TemporaryDirectory folder;
    ThreadPool pool(2);
    const Exec host{.pool = &pool};
    ExecMemory memory(exec, kLines * (kCachedWidth + 1) * sizeof(float), "lines"),
        columns(exec, 3 * kBatch * sizeof(uint32_t), "rows");
    PinnedMemory list(*backend.table, kBatch * sizeof(uint32_t));
    auto* const data = reinterpret_cast<float*>(memory.data());
    DeviceRowCache of({.name = "emb",
                       .rows = kRows,
                       .lines = kLines,
                       .widths = {kCachedWidth, 1},
                       .max_lookups = kBatch,
                       .host_rows = kHost});
    of.attach(exec, {.w = Matrix<float>(data, kLines, kCachedWidth),
                     .state0 = {data + kLines * kCachedWidth, kLines, 1}});
    REQUIRE(of.host_rows().w.dim(0) == kHost);
    embedding::RowCache cache({.name = "emb",
                               .rows = kRows,
                               .lines = kHost,
                               .part_bytes = {kCachedWidth * kFloatBytes, kFloatBytes},
                               .first_state = 0.5f,
                               .folder = folder.path(),
                               .batches_in_use = 2},
                              [](uint32_t row, std::byte* out) {
                                float values[kCachedWidth];
                                for (int64_t j = 0; j < kCachedWidth; ++j)
                                  values[j] = initial_weight(row, j);
                                std::memcpy(out, values, sizeof(values));
                              });
    cache.attach(of.host_rows());
    std::vector<float> table, states(kRows, 0.5f);
    for (int64_t row = 0; row < kRows; ++row)
      for (int64_t j = 0; j < kCachedWidth; ++j) table.push_back(initial_weight(row, j));
    int64_t recalled = 0;
    for (uint64_t round = 0; round < 80; ++round) {
      const bool training = round % 5 != 4;
      std::vector<uint32_t> rows(kBatch);
      for (uint32_t i = 0; i < kBatch; ++i) {
        const uint32_t any = random::word(7, round, i);
        rows[i] = any % 9 == 0 ? 0xffffffffu : any % 3 == 0 ? any % kRows : any % 60;
      }
      std::vector<uint32_t> host_lines = rows;
      cache.choose(host, {host_lines.data(), kBatch, 1}, 0, 1, training);
      const auto evicted = cache.evicted();
      std::ranges::copy(evicted, reinterpret_cast<uint32_t*>(list.data()));
      of.recall(exec, {reinterpret_cast<const uint32_t*>(list.data()), std::ssize(evicted)});
      exec.cuda->stream_synchronize(exec.stream);
      recalled += std::ssize(evicted);
      cache.fill(host);
      auto* const words = reinterpret_cast<uint32_t*>(columns.data());
      put_bytes(exec, words, rows.data(), kBatch * sizeof(uint32_t));
      put_bytes(exec, words + kBatch, host_lines.data(), kBatch * sizeof(uint32_t));
      of.admit(exec, {words, kBatch, 1}, {words + kBatch, kBatch, 1},
               {words + 2 * kBatch, kBatch, 1}, 0, 1, training);
      std::vector<uint32_t> lines(kBatch);
      get_bytes(exec, lines.data(), words + 2 * kBatch, kBatch * sizeof(uint32_t));
      std::vector<float> values(static_cast<size_t>(kLines * (kCachedWidth + 1)));
      get_bytes(exec, values.data(), memory.data(), memory.size());
      std::set<uint32_t> seen;
      for (size_t i = 0; i < rows.size(); ++i) {
        if (rows[i] >= kRows || !seen.insert(rows[i]).second) continue;
        INFO("round " << round << ", row " << rows[i]);
        REQUIRE(lines[i] < kLines);
        float *const weights = values.data() + lines[i] * kCachedWidth,
                     *const state = values.data() + kLines * kCachedWidth + lines[i],
                     *const want = table.data() + rows[i] * kCachedWidth;
        REQUIRE(std::equal(weights, weights + kCachedWidth, want));
        REQUIRE(*state == states[rows[i]]);
        if (!training) continue;
        for (int64_t j = 0; j < kCachedWidth; ++j) weights[j] = want[j] += 1.5f;
        *state = states[rows[i]] += 0.25f;
      }
      put_bytes(exec, memory.data(), values.data(), memory.size());
      if (round % 30 != 29) continue;
      of.flush();
      std::vector<uint32_t> all(kRows);
      for (uint32_t row = 0; row < kRows; ++row) all[row] = row;
      std::vector<float> stored(table.size()), stored_states(kRows);
      cache.read(0, all, stored.data());
      cache.read(1, all, stored_states.data());
      CHECK((stored == table));
      CHECK((stored_states == states));
    }
    of.check();
    CHECK(recalled > 500);
    CHECK(cache.counts().written > 300);
    CHECK(of.counts().written > 300);
  }
}

TEST_CASE("keys are rows of a GPU's tables, and those beyond them are noted", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    const OnDevice device(*backend.table);
    const Exec exec = device.exec();
    const embedding::SlotLayout layout({4, 7}, 3, KeyLayout({1, 2}));
    const embedding::DeviceSlots slots(exec, layout);
    const std::vector<uint32_t> keys = {3, 6, kNoKey, 0, 7, 2};
    ExecMemory in(exec, keys.size() * 4, "keys"), out(exec, keys.size() * 4, "rows");
    put_bytes(exec, in.data(), keys.data(), keys.size() * 4);
    embedding::KeyErrors errors(exec, 3);
    embedding::kernels::number_rows(
        exec, slots.ref(), {reinterpret_cast<const uint32_t*>(in.data()), 2, 3},
        {reinterpret_cast<uint32_t*>(out.data()), 2, 3}, errors.check(nullptr));
    std::vector<uint32_t> rows(keys.size());
    get_bytes(exec, rows.data(), out.data(), keys.size() * 4);
    using embedding::kNoRow;
    CHECK((rows == std::vector<uint32_t>{3, 4 + 6, kNoRow, 0, kNoRow, 4 + 2}));
    errors.fetch(exec);
    exec.cuda->stream_synchronize(exec.stream);
    CHECK((errors.found() == embedding::KeyError{.sample = 1, .column = 1, .key = 7}));
  }
}

}  // namespace hlite::test
