#include "tools/csv/csv_prep.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "hugectr_lite/config/json_values.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/in_quotes.h"
#include "tools/csv/csv_rows.h"
#include "tools/csv/csv_statistics.h"
#include "tools/csv/csv_vocabulary.h"
#include "tools/prep/predecessor.h"
#include "tools/prep/prep_engine.h"
#include "tools/prep/slot_tables.h"

namespace hlite::tools {

namespace {

using nlohmann::ordered_json;

void check(const CsvPrepOptions& options) {
  if (std::find(options.train.begin(), options.train.end(), "-") != options.train.end())
    raise<ConfigError>("--train: expected files, found standard input, which cannot be read twice");
  std::vector<std::string> others = options.val;
  others.insert(others.end(), options.test.begin(), options.test.end());
  check_inputs(options.train, others, options.run);
  if (options.min_count < 1) raise<ConfigError>("--min-count: expected 1 or more");
}

// The options that decide the results, for the manifest.
ordered_json describe(const CsvPrepOptions& options, const config::JsonNode& schema,
                      const std::string& continues) {
  ordered_json json = {{"schema", ordered_json::parse(schema.dump())},
                       {"min_count", options.min_count}};
  if (!continues.empty()) json["continues"] = continues;
  json.update(output_json(options.output));
  return json;
}

void check_schema(const Predecessor& before, const config::JsonNode& schema,
                  const CsvPrepOptions& options) {
  const auto json = [](const config::JsonNode& node) { return nlohmann::json::parse(node.dump()); };
  if (json(before.option("schema")) != json(schema))
    raise<ConfigError>(
        "--schema {}: expected the schema of {}, which --continue-from names, found "
        "another one",
        options.schema, options.continue_from);
}

// Means and deviations of the columns: the continued preparation's, or of the training rows.
std::vector<DenseScale> dense_scales(PrepEngine& engine, int columns, int64_t train,
                                     const Predecessor* before) {
  std::vector<DenseScale> scales;
  for (int k = 0; k < columns; ++k) {
    if (before) {
      const config::JsonNode& column = before->features("dense").at(static_cast<size_t>(k));
      scales.push_back({config::to_number(config::member(column, "mean")),
                        config::to_number(config::member(column, "deviation"))});
      continue;
    }
    const DenseStatistics found = dense_statistics(engine.dense_column(k), train, engine.pool());
    scales.push_back({found.mean, found.deviation()});
  }
  return scales;
}

PrepOptions run_options(const CsvPrepOptions& options, const ordered_json& identity) {
  PrepOptions run = options.run;
  run.identity = identity.dump();
  run.inputs.clear();
  for (const std::string& path : options.train) run.inputs.push_back({path, "train"});
  for (const std::string& path : options.val) run.inputs.push_back({path, "val"});
  for (const std::string& path : options.test) run.inputs.push_back({path, "test"});
  return run;
}

ordered_json features(const CsvSchema& schema, const std::vector<DenseScale>& scales,
                      const std::vector<Vocabulary>& vocabularies) {
  const std::vector<int64_t> tables = schema.slot_tables();
  ordered_json json;
  json["dense"] = ordered_json::array();
  for (size_t k = 0; k < schema.dense.size(); ++k) {
    json["dense"].push_back({{"name", schema.dense[k].column.name},
                             {"transform", transform_name(schema.dense[k].transform)},
                             {"mean", scales[k].mean},
                             {"deviation", scales[k].deviation}});
  }
  json["categorical"] = ordered_json::array();
  for (size_t k = 0; k < schema.categorical.size(); ++k) {
    const Vocabulary& vocabulary =
        vocabularies[tables.empty() ? k : static_cast<size_t>(tables[k])];
    ordered_json column = {{"name", schema.categorical[k].name},
                           {"vocabulary", vocabulary.name},
                           {"xxh3", vocabulary.file->xxh3()}};
    if (vocabulary.categories <= Vocabulary::kSmall)
      column["values_from_id_1"] = vocabulary.if_small;
    json["categorical"].push_back(std::move(column));
  }
  return json;
}

// Treatment of values that have no id.
void describe_values(const CsvSchema& schema, const std::vector<DenseScale>& scales,
                     data::Manifest& manifest) {
  for (size_t k = 0; k < schema.dense.size(); ++k) {
    std::string transform = transform_name(schema.dense[k].transform);
    if (is_standardized(schema.dense[k].transform))
      transform += fmt::format(" {} {}", scales[k].mean, scales[k].deviation);
    manifest.dense.push_back({schema.dense[k].column.name, std::move(transform)});
  }
  const auto list = [](const std::vector<std::string>& values) {
    std::string text;
    for (const std::string& value : values) text += (text.empty() ? "" : " ") + in_quotes(value);
    return text.empty() ? "all others" : text;
  };
  manifest.rules.push_back(
      {"label", fmt::format("1 for {}, 0 for {}", list(schema.positive), list(schema.negative))});
  manifest.rules.push_back({"missing", in_quotes(schema.missing)});
}

}  // namespace

data::Manifest csv_prep(const CsvPrepOptions& given) {
  CsvPrepOptions options = given;
  check(options);
  const config::JsonNode root = config::JsonNode::parse_file(options.schema);
  std::optional<Predecessor> before;
  if (!options.continue_from.empty()) {
    before.emplace(options.continue_from, "csv_prep", options.output);
    check_schema(*before, root, options);
    options.min_count = before->same_option("--min-count", "min_count", options.min_count, 1);
  }
  const CsvSchema schema = CsvSchema::parse(root);
  CsvRowParser parser(schema);
  data::Manifest manifest;
  const RowShape shape{.dense = static_cast<int>(schema.dense.size()),
                       .slots = static_cast<int>(schema.categorical.size()),
                       .dense_is_float = true,
                       .slot_tables = schema.slot_tables()};
  describe_output(options.output, shape, manifest);
  ordered_json described = describe(options, root, before ? before->digits() : "");
  PrepEngine engine(run_options(options, described), options.output, parser);
  engine.parse();
  const int64_t train = engine.rows_of("train"), val = engine.rows_of("val"),
                test = engine.rows_of("test");
  std::vector<SplitRows> splits = {{"train", 0, train}};
  if (!options.val.empty()) splits.push_back({"val", train, val});
  if (!options.test.empty()) splits.push_back({"test", train + val, test});
  engine.number({.min_count = options.min_count,
                 .zero_is_missing = true,
                 .keep_keys = true,
                 .known_keys = before ? before->known_keys(true) : KnownKeys()},
                std::move(splits));

  const std::vector<DenseScale> scales =
      dense_scales(engine, shape.dense, train, before ? &*before : nullptr);
  std::vector<ReadFile> keys;
  for (const auto& slots : slots_of_tables(shape.slots, shape.slot_tables))
    keys.push_back(engine.keys_of_ids(slots.front()));
  std::vector<Vocabulary> vocabularies =
      write_vocabularies(options.train, schema, std::move(keys), options.output.folder,
                         static_cast<size_t>(options.run.block_bytes), engine.pool(),
                         before ? before->vocabularies() : std::vector<std::string>());

  manifest.tool = "csv_prep";
  describe_values(schema, scales, manifest);
  if (before) before->link(manifest);
  described["max_bad_rows"] = options.run.max_bad_rows;
  described["sample"] = options.run.sample;
  manifest.options_json = described.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  manifest.features_json = features(schema, scales, vocabularies)
                               .dump(-1, ' ', false, ordered_json::error_handler_t::replace);

  const DenseFinish finish = [&](int k, const double* values, int64_t count, uint32_t* out,
                                 int64_t stride) {
    const auto column = static_cast<size_t>(k);
    const bool standardize = is_standardized(schema.dense[column].transform);
    for (int64_t i = 0; i < count; ++i)
      out[i * stride] =
          std::bit_cast<uint32_t>(dense_feature(values[i], standardize, scales[column]));
  };
  engine.write(finish);
  for (Vocabulary& vocabulary : vocabularies) engine.add(std::move(vocabulary.file));
  engine.publish(manifest);
  return manifest;
}

}  // namespace hlite::tools
