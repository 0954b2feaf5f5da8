#include "hugectr_lite/preparation/synth/planted_history.h"

#include <algorithm>
#include <cmath>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"

namespace hlite::prep {
namespace {

constexpr double kMatchEffect = 2.5, kItemExponent = 0.8;
constexpr float kUserSigma = 0.5F, kItemSigma = 0.7F;
// Of a row: the history is not empty; then, that it knows the category.
constexpr double kNotEmpty = 15.0 / 16, kKnown = 0.5;
constexpr uint64_t kHistoryCalibrationRows = 50000;

// Streams of the generator.
enum HistoryStream : uint64_t {
  kHistoryFacts = 0x1001,
  kHistoryLength,
  kHistoryEvents,
  kHistoryPlaces,
  kHistoryMatches,
  kHistoryUsers,
  kHistoryItems,
};

double chance_of(double logit) { return 1 / (1 + std::exp(-logit)); }

// Uniform in [0, n).
uint32_t uniform_below(uint32_t word, uint64_t n) { return static_cast<uint32_t>(word * n >> 32); }

int64_t checked(const PlantedHistoryOptions& o) {
  constexpr int64_t kMost = 1 << 20, kMostCards = 100'000'000;
  if (o.max_len < 1 || o.max_len > kMost)
    raise<ConfigError>("--history: expected 1 to {} events, found {}", kMost, o.max_len);
  if (o.users < 1 || o.users > kMostCards || o.categories < 2 || o.items < o.categories ||
      o.items > kMostCards)
    raise<ConfigError>(
        "--cards: expected, with --history, users, items and categories: 1 to {} users, 2 "
        "categories or more, and as many items or more, up to {}; found {},{},{}",
        kMostCards, kMostCards, o.users, o.items, o.categories);
  return o.max_len;
}

}  // namespace

PlantedHistory::PlantedHistory(const PlantedHistoryOptions& options)
    : seed_(options.seed),
      max_len_(checked(options)),
      longest_(max_len_ + std::max<int64_t>(1, max_len_ / 4)),
      users_(static_cast<uint32_t>(options.users)),
      items_(static_cast<uint32_t>(options.items)),
      categories_(static_cast<uint32_t>(options.categories)),
      sampler_(RankLaw::zipf(options.items, kItemExponent)),
      user_weights_(users_),
      item_weights_(items_) {
  random::fill_normal(user_weights_.data(), users_, seed_, kHistoryUsers, 0, kUserSigma);
  random::fill_normal(item_weights_.data(), items_, seed_, kHistoryItems, 0, kItemSigma);
  calibrate(options.click_rate);
}

PlantedHistory::HistoryFacts PlantedHistory::facts(uint64_t index) const {
  const random::Block a = random::block(seed_, kHistoryFacts, index);
  const random::Block b = random::block(seed_, kHistoryLength, index);
  HistoryFacts facts{};
  facts.user = uniform_below(a.word[0], users_);
  facts.item = sampler_.draw(a.word[1], a.word[2] / kTwo32);
  facts.coin = a.word[3] / kTwo32;
  facts.length =
      b.word[0] >> 28 == 0 ? 0 : 1 + uniform_below(b.word[1], static_cast<uint64_t>(longest_));
  facts.known = facts.length > 0 && b.word[2] >> 31 == 0;
  facts.base = static_cast<double>(user_weights_[facts.user]) +
               static_cast<double>(item_weights_[facts.item]);
  return facts;
}

void PlantedHistory::fill(uint64_t index, const HistoryFacts& facts,
                          std::vector<uint32_t>& history) const {
  history.clear();
  const int64_t kept = std::min(facts.length, max_len_);
  const auto blocks = static_cast<uint64_t>(longest_ + 1) / 2;
  const uint32_t target = category(facts.item);
  random::Block b{};
  for (int64_t j = 0; j < facts.length; ++j) {
    if (j % 2 == 0)
      b = random::block(seed_, kHistoryEvents, index * blocks + static_cast<uint64_t>(j) / 2);
    uint32_t item = sampler_.draw(b.word[j % 2 * 2], b.word[j % 2 * 2 + 1] / kTwo32);
    // Neighbours are of different categories.
    if (j >= facts.length - kept && category(item) == target)
      item = item + 1 < items_ ? item + 1 : item - 1;
    history.push_back(item);
  }
  if (!facts.known) return;
  const random::Block places = random::block(seed_, kHistoryPlaces, index);
  const random::Block matches = random::block(seed_, kHistoryMatches, index);
  const uint64_t of_category = (items_ - target + categories_ - 1) / categories_;
  const uint32_t count = 1 + uniform_below(places.word[0], 3);
  for (uint32_t m = 0; m < count; ++m) {
    const uint32_t back = uniform_below(places.word[1 + m], static_cast<uint64_t>(kept));
    history[static_cast<size_t>(facts.length - 1 - back)] =
        target + categories_ * uniform_below(matches.word[m], of_category);
  }
}

void PlantedHistory::row(uint64_t index, HistoryRow& row) const {
  const HistoryFacts f = facts(index);
  row.user = f.user;
  row.item = f.item;
  fill(index, f, row.history);
  row.logit = bias_ + f.base + (f.known ? kMatchEffect : 0);
  constexpr double kShare = kNotEmpty * kKnown;
  const double p =
      (1 - kShare) * chance_of(bias_ + f.base) + kShare * chance_of(bias_ + f.base + kMatchEffect);
  row.blind_logit = std::log(p / (1 - p));
  row.label = f.coin < chance_of(row.logit) ? 1 : 0;
}

void PlantedHistory::calibrate(double click_rate) {
  std::vector<double> logits;
  for (uint64_t i = 0; i < kHistoryCalibrationRows; ++i) {
    const HistoryFacts f = facts(i);
    logits.push_back(f.base + (f.known ? kMatchEffect : 0));
  }
  double low = -30, high = 30;
  for (int step = 0; step < 40; ++step) {
    bias_ = (low + high) / 2;
    double sum = 0;
    for (const double logit : logits) sum += chance_of(bias_ + logit);
    (sum < click_rate * static_cast<double>(logits.size()) ? low : high) = bias_;
  }
}

}  // namespace hlite::prep
