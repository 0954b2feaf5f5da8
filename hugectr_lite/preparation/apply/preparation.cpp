#include "hugectr_lite/preparation/apply/preparation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <span>

#include "data_reader/criteo/criteo_record.h"
#include "hugectr_lite/config/json_values.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/preparation/criteo/criteo_rows.h"
#include "hugectr_lite/preparation/csv/csv_rows.h"

namespace hlite::prep {

namespace {
using config::JsonNode;
using config::member;
using config::to_integer;

constexpr size_t kMostText = 4096;  // of a vocabulary

// One of the first categories, another one for each slot, as the first ones of all slots are
// together those of a row. Empty: there is none, or it has a line feed, which a line of text cannot
// have.
std::string example_category(const std::string& vocabulary, size_t slot) {
  const ReadFile file(vocabulary);
  std::string text(std::min<size_t>(kMostText, static_cast<size_t>(file.size())), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  std::vector<std::string_view> lines;
  for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    lines.push_back(std::string_view(text).substr(at, end - at));
  if (lines.empty()) return {};
  const std::string_view line = lines[slot % lines.size()];
  std::string category;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\' && (++i == line.size() || line[i] != '\\')) return {};
    category += line[i];
  }
  return category;
}

std::string joined(const std::vector<std::string>& fields, char separator) {
  std::string line;
  for (const std::string& field : fields) {
    if (&field != &fields.front()) line += separator;
    const bool bare = field.find_first_of("\"\r\n") == std::string::npos &&
                      field.find(separator) == std::string::npos;
    if (bare) {
      line += field;
      continue;
    }
    line += '"';
    for (const char c : field) line.append(c == '"' ? 2 : 1, c);
    line += '"';
  }
  return line;
}

}  // namespace

Preparation::Preparation(const std::string& folder, Labels labels,
                         const std::optional<std::vector<std::string>>& carry)
    : path_(folder + "/manifest.json"), manifest_(data::Manifest::read(path_)) {
  if (manifest_.tool == "csv_prep") {
    open_csv(folder, labels, carry);
  } else if (manifest_.tool == "criteo_prep") {
    if (carry && !carry->empty())
      raise<ConfigError>("--carry: expected lines as csv_prep read them, whose columns have names");
    open_criteo(folder, labels);
  } else {
    raise<DataError>(
        "{}: tool: expected csv_prep or criteo_prep, which turn text into rows, found {}", path_,
        manifest_.tool);
  }
  const JsonNode written = JsonNode::parse(manifest_.options_json, path_);
  const OutputOptions output{.multi_hot = config::to_string(member(written, "multi_hot")),
                             .seed = static_cast<uint64_t>(to_integer(member(written, "seed")))};
  described_.slot_sizes = manifest_.slot_sizes;
  describe_output(output, shape_, described_);
  encoder_ = std::make_unique<RowEncoder>(output, shape_, described_.slot_sizes);
}

void Preparation::open_csv(const std::string& folder, Labels labels,
                           const std::optional<std::vector<std::string>>& carry) {
  const JsonNode options = JsonNode::parse(manifest_.options_json, path_);
  const JsonNode features = JsonNode::parse(manifest_.features_json, path_);
  CsvSchema schema = CsvSchema::parse(member(options, "schema"));
  if (!carry || !carry->empty()) schema.set_carry(carry.value_or(std::vector<std::string>()));
  if (const JsonNode* const header = features.find("header"); header && schema.header)
    header_ = config::to_strings(*header);
  schema.find_by_name(header_);
  const std::vector<JsonNode>& columns = config::to_list(member(features, "categorical"));
  if (columns.size() != schema.categorical.size())
    raise<DataError>("{}: features.categorical: expected {} columns, found {}", path_,
                     schema.categorical.size(), columns.size());
  for (size_t slot = 0; slot < columns.size(); ++slot)
    if (CategoryColumn& category = schema.categorical[slot]; !category.is_fitted())
      category.buckets = saved_buckets(columns[slot]);
  const JsonNode* const count = features.find("columns");
  const CsvRowParser* const lines = open_lines(schema, labels,
                                               !header_.empty() ? std::ssize(header_)
                                               : count          ? to_integer(*count)
                                                                : 0);
  if (labels == Labels::kAbsent) schema.remove_label();
  const std::vector<JsonNode>& fitted = config::to_list(member(features, "dense"));
  if (fitted.size() != schema.features().size())
    raise<DataError>("{}: features.dense: expected {} columns, found {}", path_,
                     schema.features().size(), fitted.size());
  dense_.resize(schema.no_features());
  for (const JsonNode& node : fitted) {
    dense_.push_back({.transform = schema.dense[dense_.size()].transform,
                      .scale = {.mean = config::to_number(member(node, "mean")),
                                .deviation = config::to_number(member(node, "deviation"))}});
  }
  shape_ = {.dense = static_cast<int>(schema.dense.size()),
            .slots = static_cast<int>(schema.categorical.size()),
            .dense_is_float = true,
            .slot_tables = schema.slot_tables(),
            .real_label = schema.real_label,
            .weighted = schema.weighted,
            .labels = static_cast<int>(schema.texts.size()),
            .hotness = schema.hotness(),
            .histories = schema.histories()};
  open_ids(folder, /*has_other=*/true);
  auto parser = std::make_unique<CsvRowParser>(std::move(schema));
  if (lines && parser->text_form().header) parser->take_files_without_header(*lines);
  parser_ = std::move(parser);
}

// Of lines and of tables, which have no header of their own.
const CsvRowParser* Preparation::open_lines(CsvSchema schema, Labels labels, int64_t columns) {
  if (schema.header) {
    if (header_.empty()) return nullptr;
    schema.resolve({header_.begin(), header_.end()}, path_);
    schema.header = false;
  }
  CsvSchema of_lines = schema;
  TrainingColumns training{.count = columns};
  if (labels == Labels::kAbsent) {
    training.left_out = {schema.label.index};
    for (size_t k = 0; k < schema.no_features(); ++k)
      training.left_out.push_back(schema.dense[k].number.column.index);
    std::sort(training.left_out.rbegin(), training.left_out.rend());
    of_lines.remove_label();
  }
  auto lines =
      std::make_unique<CsvRowParser>(std::move(of_lines), std::vector<InputPart>(), training);
  const CsvRowParser* const opened = lines.get();
  line_parser_ = std::move(lines);
  schema.labelled = false;
  table_schema_ = std::move(schema);
  training_ = std::move(training);
  return opened;
}

// `fields`: of all columns of the training file.
void Preparation::fill_example(std::vector<std::string>& fields) const {
  const JsonNode features = JsonNode::parse(manifest_.features_json, path_);
  const auto put = [&](const CsvColumn& column, std::string text) {
    const auto at = static_cast<size_t>(column.index);
    if (at < fields.size() && fields[at].empty()) fields[at] = std::move(text);
  };
  const std::string folder = path_.substr(0, path_.rfind('/') + 1);
  const auto& categories = config::to_list(member(features, "categorical"));
  for (size_t slot = 0; slot < categories.size(); ++slot) {
    const CategoryColumn& category = table_schema_->categorical[slot];
    if (category.kind != CategoryColumn::Kind::kField) continue;
    const std::string file = folder + config::to_string(member(categories[slot], "vocabulary"));
    put(category.column, example_category(file, slot));
  }
  const auto& numbers = config::to_list(member(features, "dense"));
  for (size_t k = 0; k < numbers.size(); ++k) {
    const CsvSchema::Dense& dense = table_schema_->features()[k];
    const double mean = config::to_number(member(numbers[k], "mean"));
    const bool is_log = dense.transform == DenseTransform::kLog1p ||
                        dense.transform == DenseTransform::kLog1pStandardize;
    const double x = is_log ? std::expm1(mean) : mean;
    if (!dense.number.age)
      put(dense.number.column,
          std::abs(x) < 100 ? fmt::format("{:.2g}", x) : fmt::format("{:.0f}", x));
  }
}

ExampleLine Preparation::example() const {
  ExampleLine example;
  std::vector<std::string> fields, names = header_;
  char separator = '\t';
  if (table_schema_) {
    separator = table_schema_->separator;
    int64_t count = std::max<int64_t>(training_.count, table_schema_->columns_needed());
    for (const int64_t column : training_.left_out) count = std::max(count, column + 1);
    fields.resize(static_cast<size_t>(count));
    fill_example(fields);
    for (const int64_t column : training_.left_out) {
      fields.erase(fields.begin() + column);
      if (column < std::ssize(names)) names.erase(names.begin() + column);
    }
  } else {  // Criteo's: any number and token
    fields.assign(criteo::kDense, "1");
    fields.insert(fields.end(), criteo::kSlots, "05db9164");
  }
  example.line = joined(fields, separator);
  example.names = names.empty() ? "" : joined(names, separator);
  return example;
}

const CsvSchema& Preparation::table_schema() const {
  if (manifest_.tool != "csv_prep")
    raise<DataError>("{}: expected a preparation by csv_prep, whose columns have names; found {}",
                     path_, manifest_.tool);
  if (!table_schema_) fail_no_header();
  return *table_schema_;
}

void Preparation::fail_no_header() const {
  raise<DataError>(
      "{}: features.header: expected the names of the columns of the training file, found none, "
      "so that lines without a header have no meaning",
      path_);
}

std::unique_ptr<const LineParser> Preparation::lines() const {
  RowParser& parser = line_parser_ ? *line_parser_ : *parser_;
  if (parser.text_form().header) fail_no_header();
  // There is no first line that says how many columns all have.
  return parser.open("text", "");
}

void Preparation::open_criteo(const std::string& folder, Labels labels) {
  const JsonNode options = JsonNode::parse(manifest_.options_json, path_);
  shape_ = {.dense = criteo::kDense, .slots = criteo::kSlots};
  if (const int64_t range = to_integer(member(options, "hash")); range > 0) {
    ids_.assign(static_cast<size_t>(shape_.slots),
                std::make_shared<SavedIds>(static_cast<uint64_t>(range)));
  } else {
    open_ids(folder, to_integer(member(options, "min_count")) > 0);
  }
  parser_ = make_criteo_rows(static_cast<uint32_t>(to_integer(member(options, "max_ind_range"))),
                             labels == Labels::kThere);
}

void Preparation::open_ids(const std::string& folder, bool has_other) {
  if (manifest_.features_json.empty())
    raise<DataError>(
        "{}: expected the vocabulary of a preparation with --save-vocabulary, found none", path_);
  const JsonNode features = JsonNode::parse(manifest_.features_json, path_);
  const std::vector<JsonNode>& columns = config::to_list(member(features, "categorical"));
  if (columns.size() != manifest_.slot_sizes.size())
    raise<DataError>("{}: features.categorical: expected {} columns, found {}", path_,
                     manifest_.slot_sizes.size(), columns.size());
  std::map<std::string, std::shared_ptr<const SavedIds>> of_file;
  for (size_t slot = 0; slot < columns.size(); ++slot) {
    auto& ids = of_file[config::to_string(member(columns[slot], "vocabulary"))];
    if (!ids)
      ids =
          std::make_shared<SavedIds>(folder, columns[slot], manifest_.slot_sizes[slot], has_other);
    ids_.push_back(ids);
  }
}

int Preparation::first_closed_slot() const {
  for (size_t slot = 0; slot < ids_.size(); ++slot)
    if (ids_[slot]->unknown() > 0) return static_cast<int>(slot);
  return -1;
}

void Preparation::check_fits(const config::DataConfig& config, const std::string& place) const {
  const data::RawFormat found = format();
  const auto check = [&](const char* what, int64_t expected, int64_t number) {
    if (expected != number)
      raise<DataError>("{}: expected {} {} as in the config, found {} in the preparation", place,
                       expected, what, number);
  };
  check("labels", config.label_dim, found.label_dim);
  check("sample weights", config.sample_weight ? 1 : 0, found.sample_weight ? 1 : 0);
  check("dense features", config.dense_dim, found.dense_dim);
  check("slots", config.key_layout().slots(), found.keys.slots());
  check("keys a sample", config.key_layout().columns, found.keys.columns);
  const std::vector<data::History> histories = data::histories_of(config);
  if (!std::equal(histories.begin(), histories.end(), found.histories.begin(),
                  found.histories.end(), [](const auto& a, const auto& b) {
                    return a.first_slot == b.first_slot && a.slots == b.slots;
                  }))
    raise<DataError>(
        "{}: expected histories (max_len) in the slots that are some in the config, found others "
        "in the preparation",
        place);
  for (const config::SparseInputConfig& input : config.sparse)
    if (input.is_fixed_length && !shape_.hotness.empty())
      raise<DataError>(
          "{}: expected a fixed number of keys in each slot (is_fixed_length) as in the config, "
          "found columns of several values in the preparation",
          place);
  if (const int slot = first_closed_slot(); slot >= 0 && !config.key_policy.replaces())
    raise<ConfigError>(
        "{}: the preparation has no id for a category of {} that its rows did not have: expected "
        "one made with --min-count, or a key_policy in the config's Data layer",
        place, parser_->slot_name(slot));
}

// Words `shape_.words()` apart.
void Preparation::put_dense(const ParsedRows& rows, int k, uint32_t* words) const {
  const RowLayout& layout = parser_->layout();
  const std::byte* values = rows.column(layout, 1 + k).data();
  for (int64_t i = 0; i < rows.rows; ++i, words += shape_.words()) {
    if (dense_.empty()) {
      std::memcpy(words, values + 4 * i, 4);
      continue;
    }
    double x = 0;
    std::memcpy(&x, values + 8 * i, 8);
    const FittedDense& dense = dense_[static_cast<size_t>(k)];
    *words =
        std::bit_cast<uint32_t>(dense_feature(x, is_standardized(dense.transform), dense.scale));
  }
}

void Preparation::encode(const ParsedRows& rows, EncodedRows& out,
                         data::UnknownValues& unknown) const {
  const RowLayout& layout = parser_->layout();
  const auto apart = static_cast<size_t>(shape_.words());
  thread_local std::vector<uint32_t> words;
  words.resize(static_cast<size_t>(rows.rows) * apart);
  const std::byte* labels = rows.column(layout, 0).data();
  for (int64_t i = 0; i < rows.rows; ++i)
    std::memcpy(&words[static_cast<size_t>(i) * apart], labels + 4 * i, 4);
  for (int k = 0; k < shape_.dense; ++k) put_dense(rows, k, words.data() + 1 + k);
  uint32_t* to = words.data() + 1 + shape_.dense;
  for (int slot = 0; slot < shape_.slots; to += shape_.hotness_of(slot++)) {
    const std::byte* keys = rows.column(layout, layout.first_key() + slot).data();
    const int h = shape_.hotness_of(slot);
    const SavedIds& ids = *ids_[static_cast<size_t>(slot)];
    int64_t missing = 0, rows_with_unknown = 0;
    for (int64_t i = 0; i < rows.rows; ++i) {
      bool has_unknown = false;
      for (int j = 0; j < h; ++j, keys += layout.key_bytes) {
        uint64_t key = 0;  // little-endian: the low bytes are the first
        std::memcpy(&key, keys, static_cast<size_t>(layout.key_bytes));
        const bool absent = key == data::kAbsentKey;
        const uint32_t id = absent ? kNoKey : ids.id_of(key);
        to[static_cast<size_t>(i) * apart + static_cast<size_t>(j)] = id;
        missing += key == 0;
        has_unknown |= key != 0 && !absent && ids.is_unknown(id);
      }
      rows_with_unknown += has_unknown;
    }
    unknown.missing[static_cast<size_t>(slot)] += missing;
    unknown.unknown[static_cast<size_t>(slot)] += rows_with_unknown;
  }
  unknown.rows += rows.rows;
  encoder_->encode(words.data(), rows.rows, out);
}

}  // namespace hlite::prep
