#include "hugectr_lite/config/data_format.h"

#include <algorithm>

#include "hugectr_lite/config/config_blocks.h"
#include "hugectr_lite/core/error.h"

namespace hlite::config {
namespace {

// A line of Criteo's logs has a label, 13 integers and 26 tokens.
void check_criteo(const Block& s, const DataConfig& data) {
  constexpr int64_t kDense = 13, kSlots = 26;
  if (data.label_dim != 1)
    fail_expected(*s.at("label").find("label_dim"), "1, as a line of a Criteo file has");
  for (const char* key : {"sample_weight", "real"})
    if (const JsonNode* node = s.at("label").find(key); node && node->boolean())
      fail_expected(*node, "false, as a line of a Criteo file has a label of 0 or 1 alone");
  if (data.dense_dim != kDense)
    fail_expected(*s.at("dense").find("dense_dim"),
                  fmt::format("{}, as a line of a Criteo file has", kDense));
  const KeyLayout keys = data.key_layout();
  if (keys.slots() != kSlots || !keys.is_one_hot())
    fail_at(s.at("sparse"),
            fmt::format("expected {} slots of one key each, as a line of a Criteo file has, found "
                        "{} slots with {} keys",
                        kSlots, keys.slots(), keys.columns));
}

constexpr DataFormat kFormats[] = {
    {.name = "Raw",
     .files = "raw data",
     .ending = ".bin",
     .prepared = "raw",
     .fixed_records = true,
     .shuffles = true},
    {.name = "RawAsync",
     .files = "raw data",
     .ending = ".bin",
     .prepared = "raw",
     .fixed_records = true,
     .shuffles = true,
     .lenient = true},
    {.name = "Norm",
     .files = "a list of Norm files",
     .ending = ".txt",
     .prepared = "norm",
     .checksums = true},
    {.name = "Parquet", .files = "Parquet files", .ending = ".parquet", .named_columns = true},
    {.name = "Criteo",
     .files = "lines of Criteo's logs",
     .ending = ".tsv",
     .fixed_records = true,
     .tokens = true,
     .check = check_criteo},
};

}  // namespace

std::vector<const DataFormat*>& data_formats() {
  static std::vector<const DataFormat*> formats = [] {
    std::vector<const DataFormat*> all;
    for (const DataFormat& format : kFormats) all.push_back(&format);
    return all;
  }();
  return formats;
}

const DataFormat& data_format(std::string_view name) {
  const auto& all = data_formats();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const DataFormat* format) { return format->name == name; });
  HLITE_CHECK(found != all.end(), "no data format {}", name);
  return **found;
}

}  // namespace hlite::config
