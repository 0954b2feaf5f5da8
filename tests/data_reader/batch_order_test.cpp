#include "data_reader/batch_order.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "tests/support/catch.h"

using namespace hlite;
using namespace hlite::data;

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

TEST_CASE("the batch at a position depends on nothing that was asked before") {
  for (const int64_t n : {1, 2, 7}) {
    BatchOrder plain(n, false, 3);
    for (int64_t p = 0; p < 3 * n; ++p) CHECK(plain.batch_at(p) == p % n);
    std::vector<int64_t> expected;
    for (int64_t epoch = 0; epoch < 5; ++epoch) {
      std::vector<int64_t> order(static_cast<size_t>(n));
      shuffle_order(3, epoch, order);
      expected.insert(expected.end(), order.begin(), order.end());
    }
    for (const int64_t step : {1, 2, 3, 11}) {  // 11: from epoch to epoch and back
      BatchOrder shuffled(n, true, 3);
      bool right = true;
      for (int64_t i = 0; i < 5 * n * step; i += step)
        right &= shuffled.batch_at(i % (5 * n)) == expected[static_cast<size_t>(i % (5 * n))];
      CHECK(right);
    }
  }
}
