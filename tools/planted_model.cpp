#include "tools/planted_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"
#include "tools/score.h"

namespace hlite::tools {

using criteo::kDense;
using criteo::kSlots;

namespace {

constexpr int kQuantiles = 4096;
constexpr double kTwo32 = 4294967296.0;
constexpr double kPi = 3.14159265358979323846;
// Tokens are drawn below 107 * 40,000,000 < 2^32.
constexpr uint64_t kTokenRange = 40000000, kTokenRepeats = 107;

// Streams of the generator: one for the rows, one for each kind of hidden value.
enum Stream : uint64_t {
  kRows = 1,
  kPairs = 2,
  kSlotWeights = 0x100,
  kSlotVectors = 0x200,
  kSlotTokens = 0x300,
  kDenseShape = 0x400,
};

// Words of a row: 13 + 26 values, as many for "is it missing", and 2 for the label.
constexpr int kRowWords = 2 * (kDense + kSlots) + 2;
constexpr int kRowBlocks = (kRowWords + 3) / 4;

double uniform_double(uint32_t high, uint32_t low) {
  return static_cast<double>((uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
}

// Two independent standard normals (Box and Muller) from the block `index` of a stream.
std::array<double, 2> normals(uint64_t seed, uint64_t stream, uint64_t index) {
  const random::Block b = random::block(seed, stream, index);
  const double radius = std::sqrt(-2 * std::log1p(-uniform_double(b.word[0], b.word[1])));
  const double angle = 2 * kPi * uniform_double(b.word[2], b.word[3]);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}
double normal(uint64_t seed, uint64_t stream, uint64_t index) {
  return normals(seed, stream, index / 2)[index % 2];
}

// Inverse of the standard normal distribution function by bisection: for tables only.
double normal_quantile(double p) {
  double low = -10, high = 10;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

uint32_t share_of_two32(double p) {
  return static_cast<uint32_t>(std::min(p * kTwo32, kTwo32 - 1));
}

}  // namespace

std::vector<int64_t> named_cardinalities(const std::string& name) {
  if (name == "demo") {
    return {400, 300, 2000, 1000, 120, 24, 500, 150, 4,  200, 100, 600, 80,
            27,  60,  50,   10,   40,  30, 4,   20,  18, 15,  12,  8,   6};
  }
  if (name == "kaggle") {
    return {1460,  583,  10131227, 2202608, 305, 24,     12517,   633,   3,
            93145, 5683, 8351593,  3194,    27,  14992,  5461306, 10,    5652,
            2173,  4,    7046547,  18,      15,  286181, 105,     142572};
  }
  if (name == "terabyte") {
    return {39884406, 39043,    17289,    7420,     20263,  3,     7120, 1543, 63,
            38532951, 2953546,  403346,   10,       2208,   11938, 155,  4,    976,
            14,       39979771, 25641295, 39664984, 585935, 12972, 108,  36};
  }
  raise<ConfigError>("cardinalities: expected demo, kaggle or terabyte, found \"{}\"", name);
}

PlantedModel::PlantedModel(const PlantedOptions& options) : options_(options) {
  const auto require = [](bool good, const char* option, const char* expected, auto found) {
    if (!good) raise<ConfigError>("{}: expected {}, found {}", option, expected, found);
  };
  require(options.cards.size() == kSlots, "--cards", "26 cardinalities", options.cards.size());
  for (const int64_t card : options.cards) {
    require(card >= 1 && card < static_cast<int64_t>(kTokenRange), "--cards",
            "cardinalities from 1 to 39999999", card);
  }
  require(options.zipf >= 0 && options.zipf <= 10, "--zipf", "0 to 10", options.zipf);
  require(options.missing >= 0 && options.missing <= 0.5, "--missing", "0 to 0.5", options.missing);
  require(options.dim >= 1 && options.dim <= 64, "--dim", "1 to 64", options.dim);
  require(options.fields >= 0 && options.fields <= kSlots, "--fields", "0 to 26", options.fields);
  require(options.pairs >= 0 && options.pairs <= options.fields * (options.fields - 1) / 2,
          "--pairs", "at most fields * (fields - 1) / 2", options.pairs);
  for (const double share : {options.share_linear, options.share_pairwise, options.share_dense}) {
    require(share >= 0 && share <= 1e6, "--share-...", "a share >= 0", share);
  }
  require(options.auc > 0.5 && options.auc < 0.999, "--auc", "above 0.5, below 0.999", options.auc);
  require(options.click_rate > 0 && options.click_rate < 1, "--ctr", "above 0, below 1",
          options.click_rate);
  require(options.calibration_rows >= 1000, "--calibration-rows", "at least 1000",
          options.calibration_rows);

  choose_pairs();
  for (int slot = 0; slot < kSlots; ++slot) build_slot(slot);
  for (int column = 0; column < kDense; ++column) build_dense(column);
  calibrate();
}

// `fields` of the slots, those with at least 10 categories first, and `pairs` of their pairs, each
// field in as many as any other or one more.
void PlantedModel::choose_pairs() {
  const auto shuffled = [&](std::vector<int> items, uint64_t first) {
    std::vector<uint32_t> order(items.size());
    for (size_t i = 0; i < items.size(); ++i) {
      order[i] = random::word(options_.seed, kPairs, first + i);
    }
    std::vector<int> index(items.size()), out;
    std::iota(index.begin(), index.end(), 0);
    std::stable_sort(index.begin(), index.end(), [&](int a, int b) {
      return order[static_cast<size_t>(a)] < order[static_cast<size_t>(b)];
    });
    for (const int i : index) out.push_back(items[static_cast<size_t>(i)]);
    return out;
  };
  std::vector<int> slots(kSlots);
  std::iota(slots.begin(), slots.end(), 0);
  slots = shuffled(slots, 0);
  std::stable_partition(slots.begin(), slots.end(),
                        [&](int s) { return options_.cards[static_cast<size_t>(s)] >= 10; });
  slots.resize(static_cast<size_t>(options_.fields));
  // Rings of growing step: (0,1), (1,2), ..., then (0,2), (1,3), ...; pairs of every slot are
  // spread evenly and none comes twice.
  const int n = options_.fields;
  for (int step = 1; step <= n / 2 && static_cast<int>(pairs_.size()) < options_.pairs; ++step) {
    const int ring = 2 * step == n ? step : n;
    for (int i = 0; i < ring && static_cast<int>(pairs_.size()) < options_.pairs; ++i) {
      const int a = slots[static_cast<size_t>(i)], b = slots[static_cast<size_t>((i + step) % n)];
      pairs_.push_back({std::min(a, b), std::max(a, b)});
      signs_.push_back(random::word(options_.seed, kPairs, 1000 + pairs_.size()) & 1 ? 1.0f
                                                                                     : -1.0f);
    }
  }
}

void PlantedModel::build_slot(int number) {
  Slot& slot = slots_[static_cast<size_t>(number)];
  const auto n = static_cast<size_t>(options_.cards[static_cast<size_t>(number)]);
  const uint64_t seed = options_.seed, stream = static_cast<uint64_t>(number);

  // Zipf: category r + 1 has a share proportional to (r + 1)^-zipf.
  std::vector<double> share(n);
  for (size_t r = 0; r < n; ++r) share[r] = std::pow(static_cast<double>(r + 1), -options_.zipf);
  const double total = std::accumulate(share.begin(), share.end(), 0.0);
  for (double& s : share) s /= total;
  const random::Block b = random::block(seed, kSlotTokens + stream, 0);
  if (n >= 10) slot.missing = share_of_two32(2 * options_.missing * random::uniform(b.word[0]));
  slot.token_offset = b.word[1] % (kTokenRange - 1);
  slot.token_multiplier = 1 + b.word[2] % (kTokenRange - 2);
  while (std::gcd(slot.token_multiplier, kTokenRange - 1) != 1) ++slot.token_multiplier;

  slot.weight.resize(n + 1);
  for (size_t i = 0; i <= n; ++i) {
    slot.weight[i] = static_cast<float>(normal(seed, kSlotWeights + stream, i));
  }
  const bool interacts = std::any_of(pairs_.begin(), pairs_.end(), [&](const auto& pair) {
    return pair[0] == number || pair[1] == number;
  });
  if (interacts) {
    const auto dim = static_cast<size_t>(options_.dim);
    std::vector<double> vectors((n + 1) * dim);
    for (size_t i = 0; i < vectors.size(); ++i) vectors[i] = normal(seed, kSlotVectors + stream, i);
    const double missing = slot.missing / kTwo32;
    for (size_t k = 0; k < dim; ++k) {
      double mean = missing * vectors[k];
      for (size_t r = 0; r < n; ++r) mean += (1 - missing) * share[r] * vectors[(r + 1) * dim + k];
      for (size_t i = 0; i <= n; ++i) vectors[i * dim + k] -= mean;
    }
    // Mean squared length `dim`, so that every pair weighs the same.
    double square = 0;
    for (size_t i = 0; i <= n; ++i) {
      const double weight = i == 0 ? missing : (1 - missing) * share[i - 1];
      for (size_t k = 0; k < dim; ++k)
        square += weight * vectors[i * dim + k] * vectors[i * dim + k];
    }
    const double factor = square > 0 ? std::sqrt(static_cast<double>(dim) / square) : 0.0;
    slot.vectors.resize(vectors.size());
    for (size_t i = 0; i < vectors.size(); ++i) {
      slot.vectors[i] = static_cast<float>(vectors[i] * factor);
    }
  }

  // Vose's construction of the alias tables.
  slot.keep.assign(n, UINT32_MAX);
  slot.alias.resize(n);
  std::iota(slot.alias.begin(), slot.alias.end(), 0u);
  std::vector<uint32_t> small, large;
  for (size_t r = 0; r < n; ++r) {
    share[r] *= static_cast<double>(n);
    (share[r] < 1 ? small : large).push_back(static_cast<uint32_t>(r));
  }
  while (!small.empty() && !large.empty()) {
    const uint32_t s = small.back(), l = large.back();
    small.pop_back();
    slot.keep[s] = share_of_two32(share[s]);
    slot.alias[s] = l;
    share[l] -= 1 - share[s];
    if (share[l] < 1) {
      large.pop_back();
      small.push_back(l);
    }
  }
}

void PlantedModel::build_dense(int number) {
  DenseColumn& column = dense_[static_cast<size_t>(number)];
  const random::Block b = random::block(options_.seed, kDenseShape, static_cast<uint64_t>(number));
  const double mu = 0.5 + 3.0 * random::uniform(b.word[0]);
  const double sigma = 0.6 + 0.9 * random::uniform(b.word[1]);
  column.missing = share_of_two32(2 * options_.missing * random::uniform(b.word[2]));
  column.coefficient = (b.word[3] & 1 ? 1 : -1) * (0.3 + random::uniform(b.word[3]));
  column.values.reserve(kQuantiles + 1);
  for (int i = 0; i < kQuantiles; ++i) {
    const double x = std::exp(mu + sigma * normal_quantile((i + 0.5) / kQuantiles));
    // Criteo's second integer goes down to -2.
    column.values.push_back(static_cast<int32_t>(std::floor(std::min(x, 2e6))) -
                            (number == 1 ? 2 : 0));
  }
  column.values.push_back(kMissingValue);
  for (const int32_t x : column.values) {
    column.transform.push_back(static_cast<float>(std::log1p(static_cast<double>(std::max(x, 0)))));
  }
}

void PlantedModel::draw(uint64_t index, PlantedRow& row) const {
  std::array<random::Block, kRowBlocks> blocks;
  for (uint64_t b = 0; b < kRowBlocks; ++b) {
    blocks[b] = random::block(options_.seed, kRows, index * kRowBlocks + b);
  }
  size_t at = 0;
  const auto next = [&] {
    const uint32_t word = blocks[at / 4].word[at % 4];
    ++at;
    return word;
  };
  for (size_t k = 0; k < kDense; ++k) {
    const uint32_t value = next(), missing = next();
    row.dense[k] = static_cast<uint16_t>(missing < dense_[k].missing ? kQuantiles : value >> 20);
  }
  for (size_t s = 0; s < kSlots; ++s) {
    const Slot& slot = slots_[s];
    // The high half of word * n is uniform over the ranks, the low half over the rank's fraction.
    const uint64_t scaled = uint64_t{next()} * slot.keep.size();
    const auto rank = static_cast<uint32_t>(scaled >> 32);
    const bool stays = static_cast<uint32_t>(scaled) < slot.keep[rank];
    const uint32_t missing = next();
    row.category[s] = missing < slot.missing ? 0 : 1 + (stays ? rank : slot.alias[rank]);
  }
  const uint32_t high = next(), low = next();
  row.probability = uniform_double(high, low);  // the label's coin, until row() throws it
}

PlantedModel::Parts PlantedModel::parts(const PlantedRow& row) const {
  Parts parts{0, 0, 0};
  for (size_t s = 0; s < kSlots; ++s) {
    parts.linear += static_cast<double>(slots_[s].weight[row.category[s]]);
  }
  const auto dim = static_cast<size_t>(options_.dim);
  for (size_t i = 0; i < pairs_.size(); ++i) {
    const auto a = static_cast<size_t>(pairs_[i][0]), b = static_cast<size_t>(pairs_[i][1]);
    const float* va = slots_[a].vectors.data() + row.category[a] * dim;
    const float* vb = slots_[b].vectors.data() + row.category[b] * dim;
    double dot = 0;
    for (size_t k = 0; k < dim; ++k) dot += static_cast<double>(va[k]) * static_cast<double>(vb[k]);
    parts.pairwise += static_cast<double>(signs_[i]) * dot;
  }
  for (size_t k = 0; k < kDense; ++k) {
    parts.dense += dense_[k].coefficient * static_cast<double>(dense_[k].transform[row.dense[k]]);
  }
  return parts;
}

double PlantedModel::combine(const Parts& p) const {
  return (p.linear - mean_.linear) * factor_.linear +
         (p.pairwise - mean_.pairwise) * factor_.pairwise + (p.dense - mean_.dense) * factor_.dense;
}

void PlantedModel::calibrate() {
  const auto n = static_cast<size_t>(options_.calibration_rows);
  std::vector<Parts> all(n);
  PlantedRow row;
  for (size_t i = 0; i < n; ++i) {
    draw(i, row);
    all[i] = parts(row);
  }
  const double total = options_.share_linear + options_.share_pairwise + options_.share_dense;
  const auto standardise = [&](double Parts::*part, double share) {
    double sum = 0, squares = 0;
    for (const Parts& p : all) sum += p.*part;
    const double mean = sum / static_cast<double>(n);
    for (const Parts& p : all) squares += (p.*part - mean) * (p.*part - mean);
    mean_.*part = mean;
    const double deviation = std::sqrt(squares / static_cast<double>(n));
    factor_.*part = deviation > 0 && total > 0 ? std::sqrt(share / total) / deviation : 0.0;
  };
  standardise(&Parts::linear, options_.share_linear);
  standardise(&Parts::pairwise, options_.share_pairwise);
  standardise(&Parts::dense, options_.share_dense);

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
    (expected_area_under_curve(p) < options_.auc ? low : high) = scale_;
  }
  if (!(scale_ > 0.011 && scale_ < 29.9)) {
    raise<ConfigError>("--auc: {} cannot be reached with these shares and cardinalities",
                       options_.auc);
  }
}

PlantedRow PlantedModel::row(uint64_t index) const {
  PlantedRow row;
  draw(index, row);
  const double coin = row.probability;
  row.probability = sigmoid(bias_ + scale_ * combine(parts(row)));
  row.label = coin < row.probability ? 1 : 0;
  return row;
}

// An affine bijection of 1..39,999,999 gives distinct residues modulo 40,000,000, none of them 0
// (what "missing" becomes); a multiple of 40,000,000 on top spreads tokens over all 32 bits.
uint32_t PlantedModel::token(int slot, uint32_t category) const {
  const Slot& s = slots_[static_cast<size_t>(slot)];
  const uint64_t residue = 1 + (category * s.token_multiplier + s.token_offset) % (kTokenRange - 1);
  const uint64_t repeat = (residue * 0x9E3779B97F4A7C15u >> 32) % kTokenRepeats;
  return static_cast<uint32_t>(residue + repeat * kTokenRange);
}

}  // namespace hlite::tools
