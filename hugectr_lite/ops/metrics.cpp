#include "hugectr_lite/ops/metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "hugectr_lite/core/error.h"

namespace hlite::ops {
namespace {

template <typename T>
void check_sizes(std::span<const T> scores, std::span<const T> labels, std::span<const T> weights) {
  HLITE_CHECK(scores.size() == labels.size(), "{} scores, {} labels", scores.size(), labels.size());
  HLITE_CHECK(weights.empty() || weights.size() == scores.size(), "{} scores, {} weights",
              scores.size(), weights.size());
}

[[noreturn]] void fail_nan(uint64_t sample) {
  raise<DataError>("AUC: the score of evaluation sample {} is NaN", sample);
}

// Weights of pairs, from groups of samples with equal scores, in their order.
class WeightedPairs {
 public:
  // `tied`: the weights of the group's negatives and of its positives.
  void add(const double (&tied)[2]) {
    won_ += tied[1] * (negatives_ + tied[0] / 2);
    negatives_ += tied[0];
    positives_ += tied[1];
  }
  [[nodiscard]] std::optional<double> area() const {
    if (!(negatives_ > 0 && positives_ > 0)) return std::nullopt;
    return won_ / negatives_ / positives_;
  }

 private:
  double won_ = 0, negatives_ = 0, positives_ = 0;
};

// Sorts by the upper 33 bits in three stable counting passes of 11.
void radix_sort(std::vector<uint64_t>& values, int low_bit) {
  constexpr int kBits = 11;
  constexpr size_t kBuckets = size_t{1} << kBits;
  std::vector<uint64_t> other(values.size());
  for (int shift = low_bit; shift < low_bit + 3 * kBits; shift += kBits) {
    std::array<size_t, kBuckets> begin{};
    for (const uint64_t v : values) ++begin[(v >> shift) & (kBuckets - 1)];
    size_t at = 0;
    for (size_t& b : begin) {
      const size_t count = b;
      b = at;
      at += count;
    }
    for (const uint64_t v : values) other[begin[(v >> shift) & (kBuckets - 1)]++] = v;
    values.swap(other);
  }
}

// Score, then one bit: positive.
std::vector<uint64_t> scored_rows(std::span<const float> scores, std::span<const float> labels) {
  std::vector<uint64_t> rows(scores.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (std::isnan(scores[i])) fail_nan(i);
    rows[i] = uint64_t{ordered_bits(scores[i])} << 1 | (labels[i] > 0.5f);
  }
  return rows;
}

std::optional<double> weighted_auc(std::span<const float> scores, std::span<const float> labels,
                                   std::span<const float> weights) {
  constexpr int kIndexBits = 31;
  HLITE_CHECK(scores.size() <= size_t{1} << kIndexBits, "{} scores", scores.size());
  std::vector<uint64_t> rows = scored_rows(scores, labels);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = rows[i] << kIndexBits | i;
  radix_sort(rows, kIndexBits);
  WeightedPairs pairs;
  for (size_t i = 0; i < rows.size();) {
    double tied[2] = {0, 0};
    const uint64_t score = rows[i] >> (kIndexBits + 1);
    for (; i < rows.size() && rows[i] >> (kIndexBits + 1) == score; ++i)
      tied[rows[i] >> kIndexBits & 1] +=
          static_cast<double>(weights[rows[i] & ((uint64_t{1} << kIndexBits) - 1)]);
    pairs.add(tied);
  }
  return pairs.area();
}

// term(i) of n samples, weighted, over the weights: in blocks of a fixed size, added in their
// order.
template <typename Term>
double weighted_mean(const Exec& exec, size_t n, std::span<const float> weights, Term&& term) {
  HLITE_CHECK(weights.empty() || weights.size() == n, "{} weights of {}", weights.size(), n);
  constexpr int64_t kBlock = 1 << 14;
  const auto samples = static_cast<int64_t>(n);
  if (samples == 0) return 0;
  struct Sums {
    double terms = 0, weights = 0;
  };
  std::vector<Sums> blocks(static_cast<size_t>((samples + kBlock - 1) / kBlock));
  exec.threads().run(static_cast<int64_t>(blocks.size()), [&](int64_t block, int) {
    Sums sums;
    for (int64_t i = block * kBlock; i < std::min(samples, (block + 1) * kBlock); ++i) {
      const auto at = static_cast<size_t>(i);
      const double weight = weights.empty() ? 1.0 : static_cast<double>(weights[at]);
      sums.terms += weight * term(at);
      sums.weights += weight;
    }
    blocks[static_cast<size_t>(block)] = sums;
  });
  Sums all;
  for (const Sums& of : blocks) {
    all.terms += of.terms;
    all.weights += of.weights;
  }
  return all.weights > 0 ? all.terms / all.weights : 0;
}

}  // namespace

std::optional<double> auc(std::span<const float> scores, std::span<const float> labels,
                          std::span<const float> weights) {
  check_sizes(scores, labels, weights);
  if (!weights.empty()) return weighted_auc(scores, labels, weights);
  std::vector<uint64_t> rows = scored_rows(scores, labels);
  radix_sort(rows, 1);
  // Twice the number of won pairs, so that half a pair is a whole number.
  double won = 0;
  uint64_t negatives = 0, positives = 0;
  for (size_t i = 0; i < rows.size();) {
    uint64_t tied[2] = {0, 0};
    const uint64_t score = rows[i] >> 1;
    for (; i < rows.size() && rows[i] >> 1 == score; ++i) ++tied[rows[i] & 1];
    won += static_cast<double>(tied[1]) * static_cast<double>(2 * negatives + tied[0]);
    negatives += tied[0];
    positives += tied[1];
  }
  if (negatives == 0 || positives == 0) return std::nullopt;
  return won / 2 / static_cast<double>(negatives) / static_cast<double>(positives);
}

std::optional<double> auc(std::span<const double> scores, std::span<const double> labels,
                          std::span<const double> weights) {
  check_sizes(scores, labels, weights);
  std::vector<std::pair<double, size_t>> rows(scores.size());  // score, sample
  for (size_t i = 0; i < rows.size(); ++i) {
    if (std::isnan(scores[i])) fail_nan(i);
    rows[i] = {scores[i], i};
  }
  std::sort(rows.begin(), rows.end());
  // Weights at most of about 1, whatever their size: a product neither overflows nor vanishes.
  const double most = weights.empty() ? 1 : *std::max_element(weights.begin(), weights.end());
  const int exponent = most > 0 ? std::ilogb(most) : 0;
  WeightedPairs pairs;
  for (size_t i = 0; i < rows.size();) {
    double tied[2] = {0, 0};
    const double score = rows[i].first;
    for (; i < rows.size() && rows[i].first == score; ++i) {
      const size_t sample = rows[i].second;
      tied[labels[sample] > 0.5] += weights.empty() ? 1 : std::ldexp(weights[sample], -exponent);
    }
    pairs.add(tied);
  }
  return pairs.area();
}

double log_loss(const Exec& exec, std::span<const float> logits, std::span<const float> labels,
                std::span<const float> weights) {
  HLITE_CHECK(logits.size() == labels.size(), "{} logits, {} labels", logits.size(), labels.size());
  return weighted_mean(exec, logits.size(), weights, [&](size_t i) {
    const double z = logits[i], y = labels[i];
    return std::max(z, 0.0) - z * y + std::log1p(std::exp(-std::abs(z)));
  });
}

double mean_squared_error(const Exec& exec, std::span<const float> values,
                          std::span<const float> labels, std::span<const float> weights) {
  HLITE_CHECK(values.size() == labels.size(), "{} values, {} labels", values.size(), labels.size());
  return weighted_mean(exec, values.size(), weights, [&](size_t i) {
    const double error = static_cast<double>(values[i]) - static_cast<double>(labels[i]);
    return error * error;
  });
}

GpuMetrics::GpuMetrics(const Exec& exec, int64_t max_samples)
    : max_samples_(max_samples),
      workspace_(*exec.cuda, kernels::evaluation_workspace(exec, max_samples)),
      sums_(*exec.cuda) {}

void GpuMetrics::start(const Exec& exec, Vector<const float> logits, Vector<const float> labels) {
  HLITE_CHECK(exec.on_gpu(), "metrics of a GPU need one");
  HLITE_CHECK(logits.dim(0) == labels.dim(0) && logits.dim(0) <= max_samples_,
              "{} scores, {} labels, expected at most {}", logits.dim(0), labels.dim(0),
              max_samples_);
  samples_ = logits.dim(0);
  kernels::evaluate(exec, logits, labels, workspace_.data(), workspace_.size(), sums_.get());
}

std::optional<double> GpuMetrics::auc() const {
  if (sums_->first_nan != 0) fail_nan(~sums_->first_nan);
  const auto positives = static_cast<double>(sums_->positives);
  const double negatives = static_cast<double>(samples_) - positives;
  if (positives == 0 || negatives == 0) return std::nullopt;
  return static_cast<double>(sums_->won_twice) / 2 / negatives / positives;
}

double GpuMetrics::log_loss() const {
  return samples_ == 0 ? 0 : sums_->loss / static_cast<double>(samples_);
}

}  // namespace hlite::ops
