// The forecast compared with a real RowCache, and with an exact LRU.
#include "embedding/residency_forecast.h"

#include <algorithm>
#include <cmath>
#include <list>
#include <map>
#include <numeric>
#include <set>

#include "embedding/row_cache.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/core/thread_pool.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_directory.h"

namespace hlite::embedding {
namespace {

constexpr uint32_t kCachedRows = 20000;
constexpr int64_t kSampleLookups = 8, kBatchSamples = 64, kRunBatches = 150;

// Rows of a Zipf law, as skewed as `exponent` says.
std::vector<uint32_t> zipf_lookups(double exponent) {
  std::vector<double> sums(kCachedRows);
  for (size_t i = 0; i < sums.size(); ++i)
    sums[i] = (i > 0 ? sums[i - 1] : 0) + std::pow(static_cast<double>(i + 1), -exponent);
  std::vector<uint32_t> lookups(static_cast<size_t>(kSampleLookups * kBatchSamples * kRunBatches));
  for (size_t i = 0; i < lookups.size(); ++i) {
    const double at = sums.back() * static_cast<double>(random::word(5, 1, i)) / 4294967296.0;
    const auto rank = std::lower_bound(sums.begin(), sums.end(), at) - sums.begin();
    lookups[i] = static_cast<uint32_t>(rank) * 7919u % kCachedRows;  // frequent rows lie anywhere
  }
  return lookups;
}

KeyFrequencies frequencies_of(const std::vector<uint32_t>& lookups) {
  std::map<uint32_t, int64_t> counts;
  for (const uint32_t row : lookups) ++counts[row];
  std::map<int64_t, int64_t> categories;
  for (const auto& [row, count] : counts) ++categories[count];
  return KeyFrequencies::counted({categories.begin(), categories.end()},
                                 static_cast<double>(kBatchSamples * kRunBatches));
}

RowCacheCounts run_cache(const std::vector<uint32_t>& lookups, int64_t lines,
                         const std::string& folder, int epochs) {
  std::vector<float> weights(static_cast<size_t>(lines));
  RowCache cache({.name = "emb",
                  .rows = kCachedRows,
                  .lines = lines,
                  .part_bytes = {kFloatBytes},
                  .folder = folder},
                 [](uint32_t, std::byte* out) { std::fill_n(out, kFloatBytes, std::byte{0}); });
  cache.attach({.w = Matrix<float>(weights.data(), lines, 1)});
  ThreadPool pool(1);
  std::vector<uint32_t> batch(static_cast<size_t>(kBatchSamples * kSampleLookups));
  for (int epoch = 0; epoch < epochs; ++epoch)
    for (size_t b = 0; b < kRunBatches; ++b) {
      std::copy_n(lookups.begin() + static_cast<int64_t>(b * batch.size()), batch.size(),
                  batch.begin());
      cache.admit({.pool = &pool}, {batch.data(), kBatchSamples, kSampleLookups}, 0, kSampleLookups,
                  true);
    }
  return cache.counts();
}

// The share of lookups whose row is among the `lines` distinct ones that were looked up last before
// their batch.
double resident_of_lru(const std::vector<uint32_t>& lookups, size_t lines) {
  std::list<uint32_t> order;
  std::map<uint32_t, std::list<uint32_t>::iterator> held;
  int64_t resident = 0;
  constexpr size_t kBatch = kBatchSamples * kSampleLookups;
  for (size_t begin = 0; begin < lookups.size(); begin += kBatch) {
    for (size_t i = begin; i < begin + kBatch; ++i) resident += held.contains(lookups[i]) ? 1 : 0;
    for (size_t i = begin; i < begin + kBatch; ++i) {
      if (const auto at = held.find(lookups[i]); at != held.end()) order.erase(at->second);
      order.push_front(lookups[i]);
      held[lookups[i]] = order.begin();
    }
    for (; order.size() > lines; order.pop_back()) held.erase(order.back());
  }
  return static_cast<double>(resident) / static_cast<double>(lookups.size());
}

ResidentRows held_rows(double lines, double batches = kRunBatches) {
  return {.lines = lines, .batch = kBatchSamples, .batches = batches};
}

double points(double a, double b) { return 100 * std::abs(a - b); }

}  // namespace

TEST_CASE("the forecast is within two points of a cache at 5, 10 and 30 % of the rows") {
  const test::TemporaryDirectory folder;
  for (const double exponent : {0.8, 1.05, 1.2}) {
    const auto lookups = zipf_lookups(exponent);
    const KeyFrequencies keys = frequencies_of(lookups);
    for (const double share : {0.05, 0.1, 0.3}) {
      INFO(fmt::format("exponent {}, {} of the rows", exponent, share));
      const auto lines = static_cast<int64_t>(share * kCachedRows);
      const RowCacheCounts counts = run_cache(lookups, lines, folder.path(), 1);
      const ResidencyForecast forecast =
          forecast_residency(keys, held_rows(static_cast<double>(lines)));
      INFO(fmt::format("measured {}, expected {}", counts.resident_share(),
                       forecast.resident_share()));
      CHECK(points(forecast.resident_share(), counts.resident_share()) < 2);
      CHECK(points(forecast.resident_share(),
                   resident_of_lru(lookups, static_cast<size_t>(lines))) < 1);
      CHECK(std::abs(forecast.lookups * kRunBatches - static_cast<double>(counts.lookups)) < 1);
      // Rows that move, of the run.
      const auto close = [](double batch, int64_t run) {
        return std::abs(batch * kRunBatches - static_cast<double>(run)) <
               0.06 * static_cast<double>(run) + 100;
      };
      INFO(fmt::format("missing {} first {} displaced {}; measured {} {} {}",
                       forecast.missing * kRunBatches, forecast.first * kRunBatches,
                       forecast.displaced * kRunBatches, counts.fetched, counts.first,
                       counts.written));
      CHECK(close(forecast.first, counts.first));
      CHECK(close(forecast.missing, counts.fetched + counts.first));
      CHECK(close(forecast.displaced, counts.written));
    }
  }
}

TEST_CASE("where all rows have a line, only first lookups miss, and later epochs none") {
  const test::TemporaryDirectory folder;
  const auto lookups = zipf_lookups(1.05);
  const KeyFrequencies keys = frequencies_of(lookups);
  for (const int epochs : {1, 3}) {
    const RowCacheCounts counts = run_cache(lookups, kCachedRows, folder.path(), epochs);
    const ResidencyForecast forecast =
        forecast_residency(keys, held_rows(kCachedRows, static_cast<double>(epochs * kRunBatches)));
    CHECK(points(forecast.resident_share(), counts.resident_share()) < 1);
    CHECK(forecast.displaced == 0);
    CHECK(counts.written == 0);
  }
  CHECK(forecast_residency(keys, held_rows(kCachedRows, 0)).resident_share() == 1);
}

TEST_CASE("several ranks request a row once each, and those that own few rows look up few") {
  const auto lookups = zipf_lookups(1.05);
  const KeyFrequencies keys = frequencies_of(lookups);
  constexpr int kRanks = 4;
  constexpr size_t kPart = kBatchSamples / kRanks * kSampleLookups;
  double requests = 0;
  for (size_t begin = 0; begin < lookups.size(); begin += kPart)
    requests += static_cast<double>(
        std::set<uint32_t>(lookups.begin() + static_cast<int64_t>(begin),
                           lookups.begin() + static_cast<int64_t>(begin + kPart))
            .size());
  ResidentRows rows = held_rows(2000);
  rows.ranks = kRanks;
  const ResidencyForecast all = forecast_residency(keys, rows);
  CHECK(std::abs(all.lookups * kRunBatches - requests) < 0.02 * requests);
  rows.rows_share = 0.25;
  rows.lines = 500;
  const ResidencyForecast quarter = forecast_residency(keys, rows);
  CHECK(std::abs(quarter.lookups - all.lookups / 4) < 1e-9 * all.lookups);
  CHECK(points(quarter.resident_share(), all.resident_share()) < 0.01);
}

TEST_CASE("replicated rows are not looked up, and a law has no end") {
  const auto keys = KeyFrequencies::counted({{1000, 1}, {10, 100}, {1, 1000}}, 3000);
  const ResidencyForecast all = forecast_residency(keys, {.lines = 300, .batch = 30});
  const ResidencyForecast rest =
      forecast_residency(keys, {.lines = 300, .replicated_rows = 1, .batch = 30});
  CHECK(std::abs(all.lookups - 30) < 1e-9);
  CHECK(std::abs(rest.lookups - 20) < 1e-9);
  CHECK(rest.resident_share() < all.resident_share());
  const auto law = KeyFrequencies::like_criteo(SlotLayout({1000, 100000, 500000}, 4));
  double before = 0;
  for (const double lines : {1e3, 1e4, 1e5, 4e5}) {
    const ResidencyForecast of = forecast_residency(law, {.lines = lines, .batch = 1024});
    CHECK(of.resident_share() > before);
    CHECK(of.resident_share() < 1);
    CHECK(of.displaced == of.missing);
    before = of.resident_share();
  }
}

}  // namespace hlite::embedding
