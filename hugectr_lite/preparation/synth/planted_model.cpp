#include "hugectr_lite/preparation/synth/planted_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/preparation/synth/score.h"

namespace hlite::prep {

using criteo::kDense;
using criteo::kSlots;

namespace {

// Tokens are drawn below 107 * 40,000,000 < 2^32.
constexpr uint64_t kTokenRange = 40000000, kTokenRepeats = 107;
constexpr double kShareLinear = 0.3, kSharePairwise = 0.55, kShareDense = 0.15;
constexpr double kAreaUnderCurve = 0.87;
// Weights kept in memory, and categories over which the mean of a slot's vectors is taken: the
// shares p of the others sum up to sqrt(sum of p^2) < 1e-3 standard deviations of that mean.
constexpr int64_t kHeadWeights = 1024, kMeanCategories = 1 << 20;

// Streams of the generator: one for the rows, one for each kind of hidden value.
enum RandomStream : uint64_t {
  kRows = 1,
  kPairs = 2,
  kSlotWeights = 0x100,
  kSlotVectors = 0x200,
  kSlotTokens = 0x300,
  kDenseEffect = 0x600,
};

// Words of a row: 13 + 26 values, as many for "is it missing", and 2 for the label.
constexpr int kRowWords = 2 * (kDense + kSlots) + 2;
constexpr int kRowBlocks = (kRowWords + 3) / 4;

double uniform_double(uint32_t high, uint32_t low) {
  return static_cast<double>((uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
}

// Sums of four uniform numbers, shifted and scaled to mean 0 and variance 1: from four words, and
// from the four halves of two words.
constexpr double kSqrt3 = 1.7320508075688772;
double normal_of_words(const random::Block& b) {
  const uint64_t sum = uint64_t{b.word[0]} + b.word[1] + b.word[2] + b.word[3];
  return kSqrt3 * (static_cast<double>(sum) * 0x1p-32 - 2);
}
double normal_of_halves(uint32_t a, uint32_t b) {
  const uint32_t sum = (a & 0xffff) + (a >> 16) + (b & 0xffff) + (b >> 16);
  return kSqrt3 * ((sum + 2.0) * 0x1p-16 - 2);
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

PlantedModel::Presence::Presence(double missing)
    : below(static_cast<uint32_t>(std::min(missing * kTwo32, kTwo32 - 1))),
      unit(1 / (kTwo32 - below)) {}

PlantedModel::PlantedModel(const PlantedOptions& options)
    : options_(options), seed_(options.columns.seed), columns_(make_columns(options.columns)) {
  for (int s = 0; s < kSlots; ++s) {
    const double came = 1 + std::ceil(static_cast<double>(options.days - 1) * options.turnover);
    if (static_cast<double>(categories(s)) * came >= static_cast<double>(kTokenRange))
      raise<ConfigError>(
          "--days and --turnover: expected fewer than {} categories in a column over all days, "
          "found {} in C{}",
          kTokenRange, static_cast<double>(categories(s)) * came, s + 1);
  }
  choose_fields();
  for (int slot = 0; slot < kSlots; ++slot) build_slot(slot);
  for (int column = 0; column < kDense; ++column) build_dense(column);
  calibrate();
}

// Chooses among the slots, those with at least 10 categories first.
void PlantedModel::choose_fields() {
  std::array<uint32_t, kSlots> order;
  for (size_t s = 0; s < kSlots; ++s) order[s] = random::word(seed_, kPairs, s);
  std::array<int, kSlots> slots;
  std::iota(slots.begin(), slots.end(), 0);
  std::stable_sort(slots.begin(), slots.end(), [&](int a, int b) {
    return order[static_cast<size_t>(a)] < order[static_cast<size_t>(b)];
  });
  std::stable_partition(slots.begin(), slots.end(), [&](int s) { return categories(s) >= 10; });
  std::copy_n(slots.begin(), kFields, fields_.begin());
  for (size_t i = 0; i < kFields; ++i)
    signs_[i] = random::word(seed_, kPairs, 1001 + i) & 1 ? 1.0 : -1.0;
}

double PlantedModel::weight(int slot, uint32_t category) const {
  return normal_of_words(
      random::block(seed_, kSlotWeights + static_cast<uint64_t>(slot), category));
}

PlantedModel::HiddenVector PlantedModel::raw_vector(int slot, uint32_t category) const {
  const random::Block b =
      random::block(seed_, kSlotVectors + static_cast<uint64_t>(slot), category);
  return {normal_of_halves(b.word[0], b.word[1]), normal_of_halves(b.word[2], b.word[3])};
}

void PlantedModel::build_slot(int number) {
  const TokenColumn& column = columns_.tokens[static_cast<size_t>(number)];
  const int64_t n = column.law.ranks();
  SlotModel slot{RankSampler(column.law), Presence(column.missing), {}};
  const random::Block b = random::block(seed_, kSlotTokens + static_cast<uint64_t>(number), 0);
  slot.token_offset = b.word[1] % (kTokenRange - 1);
  slot.token_multiplier = 1 + b.word[2] % (kTokenRange - 2);
  slot.turnover_phase = b.word[3];
  while (std::gcd(slot.token_multiplier, kTokenRange - 1) != 1) ++slot.token_multiplier;

  for (int64_t i = 0; i < std::min(n + 1, kHeadWeights); ++i) {
    slot.head.push_back(static_cast<float>(weight(number, static_cast<uint32_t>(i))));
  }
  if (std::find(fields_.begin(), fields_.end(), number) != fields_.end()) {
    HiddenVector square{};
    double total = 0;
    const auto add = [&](int64_t category, double share) {
      const HiddenVector v = raw_vector(number, static_cast<uint32_t>(category));
      total += share;
      for (size_t k = 0; k < v.size(); ++k) {
        slot.mean[k] += share * v[k];
        square[k] += share * v[k] * v[k];
      }
    };
    add(0, column.missing);
    for (const RankLaw::RankBucket& bucket : column.law.buckets()) {
      const double share = (1 - column.missing) * bucket.share / static_cast<double>(bucket.ranks);
      const int64_t end = std::min(bucket.first + bucket.ranks, kMeanCategories);
      for (int64_t rank = bucket.first; rank < end; ++rank) add(rank + 1, share);
    }
    // Mean squared length 2, so that every pair weighs the same.
    double variance = 0;
    for (size_t k = 0; k < square.size(); ++k) {
      slot.mean[k] /= total;
      variance += square[k] / total - slot.mean[k] * slot.mean[k];
    }
    slot.factor = variance > 0 ? std::sqrt(2.0 / variance) : 0.0;
  }
  slots_.push_back(std::move(slot));
}

void PlantedModel::build_dense(int number) {
  const IntegerColumn& from = columns_.integers[static_cast<size_t>(number)];
  DenseColumn& column = dense_[static_cast<size_t>(number)];
  const uint32_t word = random::word(seed_, kDenseEffect, static_cast<uint64_t>(number));
  const double coefficient = (word & 1 ? 1 : -1) * (0.3 + random::uniform(word));
  column.missing = Presence(from.missing).below;
  column.values = from.values;
  column.values.push_back(kMissingValue);
  for (const int32_t x : column.values) {
    column.effect.push_back(
        static_cast<float>(coefficient * std::log1p(static_cast<double>(std::max(x, 0)))));
  }
}

double PlantedModel::draw(uint64_t index, PlantedRow& row) const {
  std::array<random::Block, kRowBlocks> blocks;
  for (uint64_t b = 0; b < kRowBlocks; ++b) {
    blocks[b] = random::block(seed_, kRows, index * kRowBlocks + b);
  }
  size_t at = 0;
  const auto next = [&] {
    const uint32_t word = blocks[at / 4].word[at % 4];
    ++at;
    return word;
  };
  for (size_t k = 0; k < kDense; ++k) {
    const uint32_t value = next(), missing = next();
    static_assert(IntegerColumn::kValues == 1 << 12);
    row.dense[k] =
        static_cast<uint16_t>(missing < dense_[k].missing ? IntegerColumn::kValues : value >> 20);
  }
  for (size_t s = 0; s < kSlots; ++s) {
    const SlotModel& slot = slots_[s];
    const uint32_t bucket = next(), word = next();
    const Presence& presence = slot.presence;
    // The words that do not mean "missing" are all equally likely.
    row.category[s] = word < presence.below
                          ? 0
                          : 1 + slot.sampler.draw(bucket, (word - presence.below) * presence.unit);
  }
  const uint32_t high = next(), low = next();
  return uniform_double(high, low);
}

PlantedModel::LogitParts PlantedModel::parts(const PlantedRow& row) const {
  LogitParts parts{0, 0, 0};
  for (size_t s = 0; s < kSlots; ++s) {
    const uint32_t category = row.category[s];
    const std::vector<float>& head = slots_[s].head;
    parts.linear += category < head.size() ? static_cast<double>(head[category])
                                           : weight(static_cast<int>(s), category);
  }
  std::array<HiddenVector, kFields> v;
  for (size_t i = 0; i < kFields; ++i) {
    const auto number = static_cast<size_t>(fields_[i]);
    v[i] = raw_vector(fields_[i], row.category[number]);
    for (size_t k = 0; k < 2; ++k)
      v[i][k] = (v[i][k] - slots_[number].mean[k]) * slots_[number].factor;
  }
  for (size_t i = 0; i < kFields; ++i) {
    const HiddenVector &a = v[i], &b = v[(i + 1) % kFields];
    parts.pairwise += signs_[i] * (a[0] * b[0] + a[1] * b[1]);
  }
  for (size_t k = 0; k < kDense; ++k) {
    parts.dense += static_cast<double>(dense_[k].effect[row.dense[k]]);
  }
  return parts;
}

double PlantedModel::combine(const LogitParts& p) const {
  return (p.linear - mean_.linear) * factor_.linear +
         (p.pairwise - mean_.pairwise) * factor_.pairwise + (p.dense - mean_.dense) * factor_.dense;
}

void PlantedModel::calibrate() {
  const auto n = static_cast<size_t>(options_.calibration_rows);
  std::vector<LogitParts> all(n);
  PlantedRow row;
  for (size_t i = 0; i < n; ++i) {
    draw(i, row);
    all[i] = parts(row);
  }
  constexpr double kTotal = kShareLinear + kSharePairwise + kShareDense;
  const auto standardise = [&](double LogitParts::*part, double share) {
    double sum = 0, squares = 0;
    for (const LogitParts& p : all) sum += p.*part;
    const double mean = sum / static_cast<double>(n);
    for (const LogitParts& p : all) squares += (p.*part - mean) * (p.*part - mean);
    mean_.*part = mean;
    const double deviation = std::sqrt(squares / static_cast<double>(n));
    factor_.*part = deviation > 0 ? std::sqrt(share / kTotal) / deviation : 0.0;
  };
  standardise(&LogitParts::linear, kShareLinear);
  standardise(&LogitParts::pairwise, kSharePairwise);
  standardise(&LogitParts::dense, kShareDense);

  std::vector<double> z(n), p(n);
  for (size_t i = 0; i < n; ++i) z[i] = combine(all[i]);
  std::sort(z.begin(), z.end());  // sigmoid keeps the order: the AUC sees sorted scores
  // Fixed point on the log-odds of the mean, which a step of the bias moves by less than itself.
  const auto log_odds = [](double q) { return std::log(q / (1 - q)); };
  const auto probabilities = [&](double scale) {
    for (int step = 0; step < 12; ++step) {
      double sum = 0;
      for (size_t i = 0; i < n; ++i) sum += p[i] = sigmoid(bias_ + scale * z[i]);
      const double mean = std::clamp(sum / static_cast<double>(n), 1e-12, 1 - 1e-12);
      bias_ += log_odds(options_.click_rate) - log_odds(mean);
    }
  };
  double low = 0.01, high = 30;
  for (int step = 0; step < 25; ++step) {
    scale_ = (low + high) / 2;
    probabilities(scale_);
    (expected_area_under_curve(p) < kAreaUnderCurve ? low : high) = scale_;
  }
}

// A category is replaced when its phase, which grows by the turnover each day, passes a whole
// number. Multiples of the golden ratio spread phases evenly over ranks, so that the share is met
// among frequent and rare categories alike.
uint32_t PlantedModel::category_on(int64_t day, int slot, uint32_t rank) const {
  if (day == 0 || rank == 0) return rank;
  constexpr uint32_t kGoldenRatio = 0x9E3779B9;
  const uint32_t phase = rank * kGoldenRatio + slots_[static_cast<size_t>(slot)].turnover_phase;
  const double passed = phase / kTwo32 + static_cast<double>(day) * options_.turnover;
  return rank + static_cast<uint32_t>(passed) * static_cast<uint32_t>(categories(slot));
}

PlantedRow PlantedModel::row(uint64_t index, int64_t day) const {
  PlantedRow row;
  const double coin = draw(index, row);
  for (int s = 0; s < kSlots; ++s) {
    uint32_t& category = row.category[static_cast<size_t>(s)];
    category = category_on(day, s, category);
  }
  row.logit = bias_ + scale_ * combine(parts(row));
  row.label = coin < sigmoid(row.logit) ? 1 : 0;
  return row;
}

// An affine bijection of 1..39,999,999 gives distinct residues modulo 40,000,000, none of them 0
// (what "missing" becomes); a multiple of 40,000,000 on top spreads tokens over all 32 bits.
uint32_t PlantedModel::token(int slot, uint32_t category) const {
  const SlotModel& s = slots_[static_cast<size_t>(slot)];
  const uint64_t residue = 1 + (category * s.token_multiplier + s.token_offset) % (kTokenRange - 1);
  const uint64_t repeat = (residue * 0x9E3779B97F4A7C15u >> 32) % kTokenRepeats;
  return static_cast<uint32_t>(residue + repeat * kTokenRange);
}

}  // namespace hlite::prep
