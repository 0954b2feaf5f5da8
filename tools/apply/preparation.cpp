#include "tools/apply/preparation.h"

#include <bit>
#include <cstring>

#include "hugectr_lite/config/object_reader.h"
#include "hugectr_lite/core/error.h"
#include "tools/criteo/criteo_record.h"
#include "tools/csv/csv_rows.h"
#include "tools/csv/csv_statistics.h"

namespace hlite::tools {

namespace {
using config::JsonNode;
using config::ObjectReader;
}  // namespace

Preparation::Preparation(const std::string& folder, Labels labels) {
  const std::string path = folder + "/manifest.json";
  const data::Manifest manifest = data::Manifest::read(path);
  if (manifest.tool == "csv_prep") {
    open_csv(folder, manifest, labels);
  } else if (manifest.tool == "criteo_prep") {
    open_criteo(folder, manifest, labels);
  } else {
    raise<DataError>(
        "{}: tool: expected csv_prep or criteo_prep, which turn text into rows, found {}", path,
        manifest.tool);
  }
  const JsonNode written = JsonNode::parse(manifest.options_json, path);
  ObjectReader options(written);
  const OutputOptions output{.multi_hot = options.string("multi_hot"),
                             .seed = static_cast<uint64_t>(options.integer("seed"))};
  described_.slot_sizes = manifest.slot_sizes;
  describe_output(output, shape_, described_);
  encoder_ = std::make_unique<RowEncoder>(output, shape_, described_.slot_sizes);
}

void Preparation::open_csv(const std::string& folder, const data::Manifest& manifest,
                           Labels labels) {
  const std::string path = folder + "/manifest.json";
  const JsonNode options = JsonNode::parse(manifest.options_json, path);
  const JsonNode features = JsonNode::parse(manifest.features_json, path);
  CsvSchema schema = CsvSchema::parse(ObjectReader(options).object("schema").node());
  if (labels == Labels::kAbsent) schema.remove_label();
  const std::vector<JsonNode>& fitted = ObjectReader(features).member("dense").elements();
  if (fitted.size() != schema.dense.size())
    raise<DataError>("{}: features.dense: expected {} columns, found {}", path, schema.dense.size(),
                     fitted.size());
  for (const JsonNode& node : fitted) {
    ObjectReader reader(node);
    dense_.push_back({.transform = schema.dense[dense_.size()].transform,
                      .mean = reader.number("mean"),
                      .deviation = reader.number("deviation")});
  }
  shape_ = {.dense = static_cast<int>(schema.dense.size()),
            .slots = static_cast<int>(schema.categorical.size()),
            .dense_is_float = true};
  open_ids(folder, manifest, /*has_other=*/true);
  parser_ = std::make_unique<CsvRowParser>(std::move(schema));
}

void Preparation::open_criteo(const std::string& folder, const data::Manifest& manifest,
                              Labels labels) {
  const JsonNode written = JsonNode::parse(manifest.options_json, folder + "/manifest.json");
  ObjectReader options(written);
  shape_ = {.dense = criteo::kDense, .slots = criteo::kSlots};
  if (const int64_t range = options.integer("hash"); range > 0) {
    for (int slot = 0; slot < shape_.slots; ++slot) ids_.emplace_back(static_cast<uint64_t>(range));
  } else {
    open_ids(folder, manifest, options.integer("min_count") > 0);
  }
  parser_ = criteo::make_row_parser(static_cast<uint32_t>(options.integer("max_ind_range")),
                                    labels == Labels::kThere);
}

void Preparation::open_ids(const std::string& folder, const data::Manifest& manifest,
                           bool has_other) {
  const std::string path = folder + "/manifest.json";
  if (manifest.features_json.empty())
    raise<DataError>(
        "{}: expected the vocabulary of a preparation with --save-vocabulary, found none", path);
  const JsonNode features = JsonNode::parse(manifest.features_json, path);
  const std::vector<JsonNode>& columns = ObjectReader(features).member("categorical").elements();
  if (columns.size() != manifest.slot_sizes.size())
    raise<DataError>("{}: features.categorical: expected {} columns, found {}", path,
                     manifest.slot_sizes.size(), columns.size());
  for (size_t slot = 0; slot < columns.size(); ++slot)
    ids_.emplace_back(folder, columns[slot], manifest.slot_sizes[slot], has_other);
}

int Preparation::first_closed_slot() const {
  for (size_t slot = 0; slot < ids_.size(); ++slot)
    if (ids_[slot].unknown() > 0) return static_cast<int>(slot);
  return -1;
}

// Words `shape_.words()` apart.
void Preparation::put_dense(const ParsedRows& rows, int k, uint32_t* words) const {
  const RowLayout& layout = parser_->layout();
  const std::byte* values = rows.column(1 + k, layout.dense_bytes).data();
  for (int64_t i = 0; i < rows.rows; ++i, words += shape_.words()) {
    if (dense_.empty()) {
      std::memcpy(words, values + 4 * i, 4);
      continue;
    }
    double x = 0;
    std::memcpy(&x, values + 8 * i, 8);
    const Dense& dense = dense_[static_cast<size_t>(k)];
    *words = std::bit_cast<uint32_t>(
        dense_feature(x, is_standardized(dense.transform), dense.mean, dense.deviation));
  }
}

void Preparation::encode(const ParsedRows& rows, EncodedRows& out) const {
  const RowLayout& layout = parser_->layout();
  const auto apart = static_cast<size_t>(shape_.words());
  thread_local std::vector<uint32_t> words;
  words.resize(static_cast<size_t>(rows.rows) * apart);
  const std::byte* labels = rows.column(0, 4).data();
  for (int64_t i = 0; i < rows.rows; ++i)
    std::memcpy(&words[static_cast<size_t>(i) * apart], labels + 4 * i, 4);
  for (int k = 0; k < shape_.dense; ++k) put_dense(rows, k, words.data() + 1 + k);
  for (int slot = 0; slot < shape_.slots; ++slot) {
    const std::byte* keys = rows.column(layout.first_key() + slot, layout.key_bytes).data();
    uint32_t* to = words.data() + 1 + shape_.dense + slot;
    for (int64_t i = 0; i < rows.rows; ++i) {
      uint64_t key = 0;  // little-endian: the low bytes are the first
      std::memcpy(&key, keys + layout.key_bytes * i, static_cast<size_t>(layout.key_bytes));
      to[static_cast<size_t>(i) * apart] = ids_[static_cast<size_t>(slot)].id_of(key);
    }
  }
  encoder_->encode(words.data(), rows.rows, out);
}

}  // namespace hlite::tools
