#include "data_reader/raw_format.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "data_reader/manifest.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/memory.h"

namespace hlite::data {
namespace {
static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr int64_t kBlockSamples =
    128;  // samples decoded at a time: scratch stays in the first cache

// memcpy() may not be given a null pointer, even for no bytes: there may be no dense features.
void copy_bytes(const void* from, size_t bytes, void* to) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}
}  // namespace

RawFormat RawFormat::from(const config::DataConfig& config) {
  RawFormat f;
  f.label_dim = config.label_dim;
  f.dense_dim = config.dense_dim;
  f.keys = config.key_layout();
  f.histories = histories_of(config);
  for (const config::SparseInputConfig& input : config.sparse)
    f.varying.insert(f.varying.end(), input.hotness.size(), !input.is_fixed_length);
  f.float_label = config.float_label;
  f.float_dense = config.float_dense;
  f.real_label = config.real_label;
  f.sample_weight = config.sample_weight;
  return f;
}

RawFormat RawFormat::from(const Manifest& manifest) {
  RawFormat f;
  f.label_dim = manifest.label_dim;
  f.dense_dim = manifest.dense_dim;
  f.keys = KeyLayout(manifest.hotness);
  f.histories = manifest.histories;
  if (!manifest.fixed_length) f.varying.assign(manifest.hotness.size(), true);
  f.float_label = manifest.float_label;
  f.float_dense = manifest.float_dense;
  f.real_label = manifest.real_label;
  f.sample_weight = manifest.sample_weight;
  return f;
}

std::string RawFormat::describe_record() const {
  const auto plural = [](int64_t n) { return n == 1 ? "" : "s"; };
  const std::string of =
      keys.is_one_hot() ? "" : fmt::format(" of {} slot{}", keys.slots(), plural(keys.slots()));
  return fmt::format("{} ({} label{}{} + {} dense + {} key{}{}, 4 bytes each)", record_bytes(),
                     label_dim, plural(label_dim), sample_weight ? " + 1 weight" : "", dense_dim,
                     keys.columns, plural(keys.columns), of);
}

// Computes in double, so that the result is the exact logarithm rounded once in all but about one
// case in 2^29. y = x + 1 = 2^k m with m in [sqrt(1/2), sqrt(2)), s = (m - 1) / (m + 1):
//   log y = k log 2 + 2 (s + s^3/3 + s^5/5 + ...),   |s| < 0.172: the terms left out add 4e-13.
// Plain arithmetic and bit operations without branches, so that the compiler vectorises it.
void log_plus_one(std::span<const int32_t> x, std::span<float> out) {
  HLITE_CHECK(x.size() == out.size(), "{} and {}", x.size(), out.size());
  constexpr uint64_t kSqrtHalf = 0x3fe6a09e667f3bcd, kExponent = 0xfff0000000000000;
  const int32_t* in = x.data();
  float* to = out.data();
  const size_t n = x.size();
  for (size_t i = 0; i < n; ++i) {
    const double y = static_cast<double>(in[i]) + 1;
    const auto bits = std::bit_cast<uint64_t>(y);
    const uint64_t above = bits - kSqrtHalf;
    const auto m = std::bit_cast<double>(bits - (above & kExponent));
    // k as a double without an integer conversion: the low bits of 2^52 + k.
    const double k = std::bit_cast<double>((above >> 52) | 0x4330000000000000) - 0x1p52;
    const double s = (m - 1) / (m + 1), z = s * s;
    const double series =
        z * (1. / 3 + z * (1. / 5 + z * (1. / 7 + z * (1. / 9 + z * (1. / 11 + z * (1. / 13))))));
    to[i] = static_cast<float>(k * 0.6931471805599453 + 2 * (s + s * series));
  }
}

RawDecoder::RawDecoder(std::string path, const RawFormat& format,
                       std::span<const int64_t> slot_rows,
                       const config::KeyPolicyConfig& key_policy, IssueSink& sink)
    : path_(std::move(path)),
      format_(format),
      key_check_(format.keys, slot_rows, key_policy, false, format.varying),
      histories_(format.keys, format.histories),
      sink_(&sink) {
  integers_.resize(static_cast<size_t>(kBlockSamples * format.dense_dim));
  logarithms_.resize(integers_.size());
}

int64_t RawDecoder::decode(std::span<const std::byte> records, int64_t first_sample, int64_t count,
                           HostBatch& batch, int64_t row) {
  const int64_t L = format_.label_dim, D = format_.dense_dim, K = format_.keys.columns;
  const LabelRule rule = format_.label_rule();
  const int64_t record = format_.record_bytes();
  HLITE_CHECK(static_cast<int64_t>(records.size()) == count * record, "{} bytes, {} records",
              records.size(), count);
  HLITE_CHECK(row >= 0 && row + count <= batch.labels.dim(0) &&
                  batch.labels.dim(1) == rule.width() && batch.dense.dim(1) >= D &&
                  batch.keys.dim(1) == K,
              "rows [{}, {}) of {} {} {}", row, row + count, batch.labels.shape(),
              batch.dense.shape(), batch.keys.shape());
  const auto dense_bytes = static_cast<size_t>(4 * D);
  const bool float_label = format_.float_label, float_dense = format_.float_dense;
  int64_t replaced = 0;
  bool bad = false;
  for (int64_t block = 0; block < count; block += kBlockSamples) {
    const int64_t n = std::min(kBlockSamples, count - block);
    const std::byte* from = records.data() + block * record;
    for (int64_t i = 0; i < n; ++i, from += record) {
      const std::byte* p = from;
      float* labels = batch.labels.row(row + block + i);
      for (int64_t l = 0; l < L; ++l, p += 4) {
        labels[l] = float_label ? load<float>(p) : static_cast<float>(load<int32_t>(p));
        bad |= !rule.allows(l, labels[l]);
      }
      if (rule.weighted) {
        labels[L] = load<float>(p);
        bad |= !rule.allows(L, labels[L]);
        p += 4;
      }
      float* dense = batch.dense.row(row + block + i);
      if (float_dense) {
        copy_bytes(p, dense_bytes, dense);
        // Subtracting gives NaN exactly for what is not finite.
        for (int64_t d = 0; d < D; ++d) bad |= dense[d] - dense[d] != 0;
      } else {
        int32_t* integers = integers_.data() + i * D;
        copy_bytes(p, dense_bytes, integers);
        int32_t sign = 0;
        for (int64_t d = 0; d < D; ++d) sign |= integers[d];
        bad |= sign < 0;
      }
      p += dense_bytes;
      uint32_t* keys = batch.keys.row(row + block + i);
      copy_bytes(p, static_cast<size_t>(4 * K), keys);
      if (key_check_.any_outside(keys)) {
        if (key_check_.replaces())
          replaced += key_check_.replace(keys);
        else
          bad = true;
      }
      bad |= histories_.breaks(keys);
    }
    if (bad) report_issues(records.data() + block * record, first_sample + block, n);
    bad = false;
    if (float_dense) continue;
    const auto values = static_cast<size_t>(n * D);
    log_plus_one({integers_.data(), values}, {logarithms_.data(), values});
    for (int64_t i = 0; i < n; ++i)
      copy_bytes(logarithms_.data() + i * D, dense_bytes, batch.dense.row(row + block + i));
  }
  return replaced;
}

void RawDecoder::report_issues(const std::byte* records, int64_t first_sample,
                               int64_t count) const {
  const int64_t record = format_.record_bytes();
  const LabelRule rule = format_.label_rule();
  bool found = false;
  for (int64_t i = 0; i < count; ++i) {
    const std::byte* p = records + i * record;
    const RecordPlace place{path_, first_sample + i, (first_sample + i) * record, "sample"};
    const auto report = [&](const RecordIssue& issue) {
      found = true;
      sink_->report(issue);
    };
    for (int64_t l = 0; l < rule.width(); ++l, p += 4) {
      const int64_t integer = load<int32_t>(p);
      const float real = load<float>(p);
      if (format_.float_label || rule.is_weight(l)) {
        if (!rule.allows(l, real)) report({rule.issue(l), place, l, real});
      } else if (!rule.allows(l, static_cast<float>(integer))) {
        report({rule.issue(l), place, l, integer});
      }
    }
    for (int64_t d = 0; d < format_.dense_dim; ++d, p += 4) {
      const int64_t integer = load<int32_t>(p);
      const float real = load<float>(p);
      if (format_.float_dense && !std::isfinite(real))
        report({IssueKind::kNotFinite, place, d, real});
      if (!format_.float_dense && integer < 0) report({IssueKind::kNegative, place, d, integer});
    }
    std::vector<uint32_t> keys(static_cast<size_t>(format_.keys.columns));
    copy_bytes(p, 4 * keys.size(), keys.data());
    if (const std::string problem = histories_.problem(keys.data()); !problem.empty())
      raise<DataError>("{}, {}", text_of(place), problem);
    for (int64_t c = 0; c < format_.keys.columns && !key_check_.replaces(); ++c)
      if (const uint32_t key = keys[static_cast<size_t>(c)]; key_check_.is_outside(c, key))
        report({IssueKind::kKey, place, c, int64_t{key}, &format_.keys, 0,
                int64_t{key_check_.last_key(c)}});
  }
  HLITE_CHECK(found, "{}: samples from {} on: rejected, yet nothing is wrong with them", path_,
              first_sample);
}

}  // namespace hlite::data
