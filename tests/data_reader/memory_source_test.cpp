#include "tests/support/memory_source.h"

#include <algorithm>
#include <set>

#include "tests/support/catch.h"

using namespace hlite;
using namespace hlite::data;

TEST_CASE("a batch buffer is one aligned block, zero after its samples") {
  BatchBuffer buffer(5, 1, 8, 3);
  HostBatch& b = buffer.batch();
  CHECK(b.size == 0);
  const auto inside = [&](const void* p) {
    const auto* byte = static_cast<const std::byte*>(p);
    return byte >= buffer.memory().data() && byte < buffer.memory().data() + buffer.memory().size();
  };
  for (const void* p :
       {static_cast<const void*>(b.labels.data()), static_cast<const void*>(b.dense.data()),
        static_cast<const void*>(b.keys.data())}) {
    CHECK(inside(p));
    CHECK(reinterpret_cast<uintptr_t>(p) % 64 == 0);
  }
  CHECK(inside(b.keys.data() + b.keys.size() - 1));
  buffer.set_size(5);
  std::fill_n(b.labels.data(), b.labels.size(), 1.f);
  std::fill_n(b.dense.data(), b.dense.size(), 2.f);
  std::fill_n(b.keys.data(), b.keys.size(), 3u);
  buffer.set_size(2);
  CHECK(b.size == 2);
  for (int64_t i = 0; i < 5; ++i) {
    CHECK(b.labels(i, 0) == (i < 2 ? 1.f : 0.f));
    CHECK(b.dense(i, 7) == (i < 2 ? 2.f : 0.f));
    CHECK(b.keys(i, 2) == (i < 2 ? 3u : 0u));
  }
}

TEST_CASE("batches in memory come round in order") {
  const std::vector<int64_t> rows{1, 10, 1000};
  test::MemorySource source(test::random_batches(3, 4, 5, 8, rows, 9));
  CHECK(source.batch_size() == 4);
  CHECK(source.samples() == 12);
  CHECK(source.batches_per_epoch() == 3);
  CHECK(source.memory().size() == 3);
  for (int64_t p = 0; p < 8; ++p) {
    CHECK(source.position() == p);
    CHECK(source.next().first_sample == p % 3 * 4);
  }
  test::MemorySource resumed(test::random_batches(3, 4, 5, 8, rows, 9), 8);
  const HostBatch& a = source.next();
  const HostBatch& b = resumed.next();
  CHECK(resumed.position() == 9);
  CHECK(std::equal(a.keys.data(), a.keys.data() + a.keys.size(), b.keys.data()));
  CHECK(std::equal(a.dense.data(), a.dense.data() + a.dense.size(), b.dense.data()));
}

TEST_CASE("random batches are in range and not all alike") {
  const std::vector<int64_t> rows{1, 10, 1000};
  const auto batches = test::random_batches(4, 100, 5, 8, rows, 9);
  REQUIRE(batches.size() == 4);
  std::set<uint32_t> keys;
  double labels = 0;
  for (const BatchBuffer& buffer : batches) {
    const HostBatch& b = buffer.batch();
    REQUIRE(b.size == 100);
    for (int64_t i = 0; i < b.size; ++i) {
      labels += b.labels(i, 0);
      for (int64_t s = 0; s < 3; ++s) REQUIRE(b.keys(i, s) < rows[static_cast<size_t>(s)]);
      keys.insert(b.keys(i, 2));
      for (int64_t d = 0; d < 8; ++d) {
        REQUIRE(b.dense(i, d) >= 0);
        REQUIRE(b.dense(i, d) <= (d < 5 ? 4.7f : 0.f));
      }
    }
  }
  CHECK(keys.size() > 250);
  CHECK(labels > 150);
  CHECK(labels < 250);
}
