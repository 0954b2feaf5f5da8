#include "hugectr_lite/preparation/synth/synth_manifest.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "data_reader/criteo/criteo_record.h"
#include "hugectr_lite/preparation/io/top_counts.h"

namespace hlite::prep {
namespace {

std::string name_of(const OutputFile& file) {
  return std::filesystem::path(file.path()).filename().string();
}

data::ManifestFile manifest_file(const char* role, const OutputFile& file,
                                 const SynthScores& scores) {
  const double positives = scores.label_rate * static_cast<double>(scores.rows);
  return {.role = role,
          .name = name_of(file),
          .rows = scores.rows,
          .positives = std::llround(positives),
          .bytes = file.bytes(),
          .xxh3 = file.xxh3(),
          .sample_xxh3 = data::sample_digits({file.temporary_path()})};
}

data::ManifestColumn manifest_column(uint64_t seed, const CategoryCounts& counts, int slot,
                                     int64_t size) {
  data::ManifestColumn column;
  column.name = fmt::format("C{}", slot + 1);
  column.rows = size;
  column.missing = counts.missing(slot);
  column.vocabulary = fmt::format("criteo_synth seed {}, {} rows", seed, size);
  TopCounts top;
  for (int64_t key = 0; key < size; ++key) {
    const int64_t count = counts.count(slot, key);
    column.distinct += count > 0;
    top.add(count);
  }
  top.shares(counts.rows(), column.top_share);
  return column;
}

}  // namespace

data::Manifest synth_manifest(uint64_t seed, const SynthResult& result,
                              const CategoryCounts& counts, const std::vector<int64_t>& sizes,
                              const OutputFile& train, const OutputFile& test,
                              const OutputFile& key_counts) {
  data::Manifest manifest;
  manifest.tool = "criteo_synth";
  manifest.dense_dim = criteo::kDense;
  manifest.dense = criteo::dense_parts();
  manifest.hotness.assign(sizes.size(), 1);
  manifest.slot_sizes = sizes;
  manifest.files.push_back(manifest_file("train", train, result.train));
  if (result.test.rows > 0) manifest.files.push_back(manifest_file("test", test, result.test));
  for (size_t s = 0; s < sizes.size(); ++s)
    manifest.columns.push_back(manifest_column(seed, counts, static_cast<int>(s), sizes[s]));
  manifest.key_counts_name = name_of(key_counts);
  manifest.key_counts_xxh3 = key_counts.xxh3();
  return manifest;
}

void write_key_counts(const CategoryCounts& counts, const std::vector<int64_t>& sizes,
                      OutputFile& file) {
  std::vector<uint32_t> block;
  for (size_t s = 0; s < sizes.size(); ++s) {
    for (int64_t key = 0; key < sizes[s]; ++key) {
      const int64_t count = counts.count(static_cast<int>(s), key);
      block.push_back(static_cast<uint32_t>(std::min<int64_t>(count, UINT32_MAX)));
      if (block.size() < 65536 && key + 1 < sizes[s]) continue;
      file.write(std::as_bytes(std::span(block)));
      block.clear();
    }
  }
}

}  // namespace hlite::prep
