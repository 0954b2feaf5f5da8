#include "data_reader/batch_ring.h"

#include <atomic>
#include <chrono>
#include <numeric>
#include <optional>
#include <thread>

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;
using namespace hlite::data;

namespace {
config::DataConfig two_values() {
  config::DataConfig c;
  c.label_dim = 1;
  c.dense_dim = 1;
  return c;
}

// Threads that fill every slot with the numbers of its samples; `bad` is a position that fails.
class CountingSource final : public BatchRing {
 public:
  struct Shape {
    int64_t samples = 23, batch = 4, slots = 3;
    int threads = 1;
    std::optional<int64_t> bad = {};
  };
  explicit CountingSource(const Shape& shape, const SourceOptions& options = {.repeat = false})
      : BatchRing(two_values(), shape.batch, options), shape_(shape) {
    set_samples(shape.samples);
    make_slots(shape.slots);
  }
  ~CountingSource() override {
    stop();
    for (std::thread& t : threads_) t.join();
  }
  CountingSource(const CountingSource&) = delete;

  [[nodiscard]] int64_t filled() const { return filled_; }

 private:
  void start_threads() override {
    for (int t = 0; t < shape_.threads; ++t) threads_.emplace_back([this, t] { fill(t); });
  }
  void fill(int thread) {
    for (int64_t p = options().start_batch; wait_until_free(p); ++p) {
      if (p % shape_.threads != thread) continue;
      if (p == shape_.bad) {
        fail(p, std::make_exception_ptr(DataError("position is bad")));
        return;
      }
      HostBatch& batch = begin_batch(p, p % batches_per_epoch());
      for (int64_t i = 0; i < batch.size; ++i)
        batch.dense(i, 0) = static_cast<float>(batch.first_sample + i);
      batch.replaced_keys = 1;
      ++filled_;
      set_ready(p);
    }
  }

  const Shape shape_;
  std::atomic<int64_t> filled_ = 0;
  std::vector<std::thread> threads_;
};

std::vector<float> values_of(const HostBatch& batch) {
  std::vector<float> values;
  for (int64_t i = 0; i < batch.size; ++i) values.push_back(batch.dense(i, 0));
  return values;
}

std::vector<float> counted(int64_t first, int64_t size) {
  std::vector<float> values(static_cast<size_t>(size));
  std::iota(values.begin(), values.end(), static_cast<float>(first));
  return values;
}
}  // namespace

TEST_CASE("nothing of the data is read before it is asked for", "[threads]") {
  CountingSource source({});
  CHECK(source.filled() == 0);
  source.next();
  CHECK(source.filled() >= 1);
}

TEST_CASE("a ring hands out batches in order, whatever its slots and threads, and then ends",
          "[threads]") {
  for (const int64_t slots : {2, 3, 7})
    for (const int threads : {1, 2, 3}) {
      INFO(slots << " slots, " << threads << " threads");
      CountingSource source({.slots = slots, .threads = threads});
      CHECK(source.batches_per_epoch() == 6);
      for (int64_t b = 0; b < 6; ++b) {
        CHECK(source.position() == b);
        const HostBatch& batch = source.next();
        CHECK(batch.first_sample == 4 * b);
        CHECK(values_of(batch) == counted(4 * b, b == 5 ? 3 : 4));  // the last one is partial
      }
      CHECK(source.next().size == 0);
      CHECK(source.next().size == 0);
      CHECK(source.position() == 6);
      CHECK(source.replaced_keys() == 6);
      CHECK(source.memory().size() == static_cast<size_t>(slots));
    }
}

TEST_CASE("a ring that repeats goes on with the first batch, and starts at a given position",
          "[threads]") {
  CountingSource source({.threads = 2}, {.start_batch = 4, .repeat = true});
  for (int64_t p = 4; p < 20; ++p) {
    CHECK(source.position() == p);
    CHECK(source.next().first_sample == 4 * (p % 6));
  }
}

TEST_CASE("a ring decodes ahead as far as it has slots, and leaves the consumer's slot alone",
          "[threads]") {
  CountingSource source({.samples = 100, .batch = 1, .slots = 3});
  const HostBatch& first = source.next();
  const auto wait_for = [&](int64_t count) {
    while (source.filled() < count) std::this_thread::yield();
  };
  wait_for(3);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(source.filled() == 3);  // the one handed out and two ahead
  CHECK(values_of(first) == counted(0, 1));
  CHECK(source.next().first_sample == 1);  // the first slot is free now
  wait_for(4);
}

TEST_CASE("an error belongs to its position: batches before it come, later calls repeat it",
          "[threads]") {
  for (const int64_t bad : {0, 1, 5}) {
    CountingSource source({.bad = bad});
    for (int64_t b = 0; b < bad; ++b) CHECK(source.next().first_sample == 4 * b);
    for (int i = 0; i < 3; ++i)
      test::check_contains(test::message_of<DataError>([&] { source.next(); }),
                           {"position is bad"});
    CHECK(source.position() == bad);
  }
}

TEST_CASE("a ring ends while its threads wait for a free slot", "[threads]") {
  CountingSource source({.samples = 1000, .slots = 2, .threads = 3}, {.repeat = true});
  CHECK(source.next().size == 4);
}

TEST_CASE("a ring gives each rank its rows of every batch", "[threads]") {
  for (const int64_t rank : {0, 1}) {
    CountingSource source({.samples = 7, .batch = 4},
                          {.repeat = false, .shard = {.index = rank, .count = 2}});
    CHECK(values_of(source.next()) == counted(2 * rank, 2));
    CHECK(values_of(source.next()) == (rank == 0 ? counted(4, 2) : counted(6, 1)));
    CHECK(source.next().size == 0);
  }
}

TEST_CASE("a ring refuses batches that ranks cannot share, and no samples") {
  CHECK_THROWS_AS(CountingSource({.batch = 3}, {.shard = {.index = 0, .count = 2}}), Error);
  CHECK_THROWS_AS(CountingSource({.batch = 0}), Error);
  CHECK_THROWS_AS(CountingSource({.samples = 0}), Error);
  CHECK_THROWS_AS(CountingSource({}, {.start_batch = -1}), Error);
}
