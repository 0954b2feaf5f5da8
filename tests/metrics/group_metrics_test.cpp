// Against brute force: every order of samples with equal scores, each as likely.

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "hugectr_lite/core/error.h"
#include "tests/metrics/taken.h"
#include "tests/support/catch.h"

namespace hlite::test {
namespace {

struct Set {
  std::vector<float> scores, labels;
  std::vector<uint32_t> groups;
  [[nodiscard]] std::optional<double> metric(const std::string& name) const {
    return taken(name, {scores, labels, {}, groups});
  }
};

// Few distinct scores, so that ties are many; groups of all kinds of sizes and classes, but none of
// more than `most` samples.
Set random_set(size_t n, unsigned seed, int distinct, int64_t most = 1000) {
  std::mt19937 random(seed);
  Set set;
  for (size_t i = 0; i < n; ++i) {
    set.scores.push_back(static_cast<float>(static_cast<int>(random() % 1000) % distinct) - 2);
    set.labels.push_back(random() % 3 == 0 ? 1.0f : 0.0f);
    auto group = random() % 7 == 0 ? 0xfffffffeu : static_cast<uint32_t>(random() % 9);
    if (std::count(set.groups.begin(), set.groups.end(), group) >= most)
      group = 1000 + static_cast<uint32_t>(i / 4);
    set.groups.push_back(group);
  }
  return set;
}

struct Expected {
  double auc = 0, auc_weight = 0, ndcg = 0, hits = 0, with_positives = 0;
};

// One group, by all orders of its samples that the scores allow.
void add_group(const std::vector<std::pair<float, bool>>& samples, size_t k, Expected& all) {
  const size_t n = samples.size();
  double pairs = 0, won = 0, positives = 0;
  for (const auto& [score, positive] : samples) positives += positive ? 1 : 0;
  for (const auto& a : samples)
    for (const auto& b : samples)
      if (a.second && !b.second) {
        pairs += 1;
        won += a.first > b.first ? 1 : a.first == b.first ? 0.5 : 0;
      }
  if (pairs > 0) {
    all.auc += static_cast<double>(n) * won / pairs;
    all.auc_weight += static_cast<double>(n);
  }
  if (positives == 0) return;
  double ideal = 0;
  for (size_t i = 0; i < k && static_cast<double>(i) < positives; ++i)
    ideal += 1 / std::log2(static_cast<double>(i) + 2);
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  double orders = 0, gain = 0, hit = 0;
  do {
    bool allowed = true;
    for (size_t i = 0; i + 1 < n; ++i)
      allowed &= samples[order[i]].first >= samples[order[i + 1]].first;
    if (!allowed) continue;
    orders += 1;
    bool any = false;
    for (size_t i = 0; i < std::min(k, n); ++i) {
      if (!samples[order[i]].second) continue;
      gain += 1 / std::log2(static_cast<double>(i) + 2);
      any = true;
    }
    hit += any ? 1 : 0;
  } while (std::next_permutation(order.begin(), order.end()));
  all.ndcg += gain / orders / ideal;
  all.hits += hit / orders;
  all.with_positives += 1;
}

Expected expected_of(const Set& set, size_t k) {
  std::map<uint32_t, std::vector<std::pair<float, bool>>> groups;
  for (size_t i = 0; i < set.scores.size(); ++i)
    groups[set.groups[i]].emplace_back(set.scores[i], set.labels[i] > 0.5f);
  Expected all;
  for (const auto& [group, samples] : groups) add_group(samples, k, all);
  return all;
}

TEST_CASE("grouped AUC, NDCG and hit rate agree with all orders of the samples") {
  for (unsigned seed = 1; seed <= 6; ++seed)
    for (const int distinct : {1, 2, 4, 900}) {
      const Set set = random_set(seed == 1 ? 1 : 31, seed, distinct, 6);
      for (const int64_t k : {1, 2, 3, 7, 100}) {
        INFO("seed " << seed << ", " << distinct << " scores, k " << k);
        const Expected want = expected_of(set, static_cast<size_t>(k));
        const auto check = [](std::optional<double> found, double sum, double count) {
          REQUIRE(found.has_value() == (count > 0));
          if (found) CHECK(*found == Approx(sum / count).epsilon(1e-12).margin(1e-15));
        };
        check(set.metric("GAUC"), want.auc, want.auc_weight);
        check(set.metric(fmt::format("NDCG@{}", k)), want.ndcg, want.with_positives);
        check(set.metric(fmt::format("HitRate@{}", k)), want.hits, want.with_positives);
      }
    }
}

TEST_CASE("the order of samples changes no bit of a grouped metric") {
  const Set set = random_set(997, 5, 50);
  std::vector<size_t> order(set.scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937(9));
  Set other;
  for (const size_t i : order) {
    other.scores.push_back(set.scores[i]);
    other.labels.push_back(set.labels[i]);
    other.groups.push_back(set.groups[i]);
  }
  for (const char* const name : {"GAUC", "NDCG@10", "HitRate@3"})
    CHECK(*set.metric(name) == *other.metric(name));
}

TEST_CASE("grouped metrics do not exist without both classes, positives or groups") {
  const Set none = {{0.5f, 0.25f}, {0, 0}, {3, 3}}, all = {{0.5f, 0.25f}, {1, 1}, {3, 3}},
            no_groups = {{0.5f, 0.25f}, {0, 1}, {}};
  for (const char* const name : {"GAUC", "NDCG@1", "HitRate@1"}) {
    INFO(name);
    CHECK(!none.metric(name));
    CHECK(!Set().metric(name));
    CHECK(!no_groups.metric(name));
  }
  CHECK(!all.metric("GAUC"));
  CHECK(*all.metric("NDCG@1") == 1);
}

TEST_CASE("metrics refuse lists that do not match, and scores that have no order") {
  CHECK_THROWS_AS((Set{{1, 2}, {1}, {0, 0}}.metric("GAUC")), Error);
  CHECK_THROWS_AS((Set{{1}, {1}, {0, 0}}.metric("GAUC")), Error);
  CHECK_THROWS_AS((Set{{1, 2}, {1}, {}}.metric("Calibration")), Error);
  CHECK_THROWS_AS((Set{{1, std::nanf("")}, {1, 0}, {0, 0}}.metric("GAUC")), DataError);
}

}  // namespace
}  // namespace hlite::test
