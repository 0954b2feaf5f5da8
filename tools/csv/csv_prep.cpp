#include "tools/csv/csv_prep.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <utility>

#include "hugectr_lite/core/error.h"
#include "tools/csv/csv_rows.h"
#include "tools/csv/csv_statistics.h"
#include "tools/csv/csv_vocabulary.h"
#include "tools/prep/prep_engine.h"

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
ordered_json describe(const CsvPrepOptions& options, const config::JsonNode& schema) {
  ordered_json json = {{"schema", ordered_json::parse(schema.dump())},
                       {"min_count", options.min_count}};
  json.update(output_json(options.output));
  return json;
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

ordered_json features(const CsvSchema& schema, const std::vector<DenseStatistics>& statistics,
                      const std::vector<Vocabulary>& vocabularies) {
  ordered_json json;
  json["dense"] = ordered_json::array();
  for (size_t k = 0; k < schema.dense.size(); ++k) {
    json["dense"].push_back({{"name", schema.dense[k].column.name},
                             {"transform", transform_name(schema.dense[k].transform)},
                             {"mean", statistics[k].mean},
                             {"deviation", statistics[k].deviation()}});
  }
  json["categorical"] = ordered_json::array();
  for (size_t k = 0; k < schema.categorical.size(); ++k) {
    const Vocabulary& vocabulary = vocabularies[k];
    ordered_json column = {{"name", schema.categorical[k].name},
                           {"vocabulary", vocabulary.name},
                           {"xxh3", vocabulary.file->xxh3()}};
    if (vocabulary.categories <= Vocabulary::kSmall)
      column["values_from_id_1"] = vocabulary.if_small;
    json["categorical"].push_back(std::move(column));
  }
  return json;
}

}  // namespace

data::Manifest csv_prep(const CsvPrepOptions& options) {
  check(options);
  const config::JsonNode root = config::JsonNode::parse_file(options.schema);
  const CsvSchema schema = CsvSchema::parse(root);
  CsvRowParser parser(schema);
  data::Manifest manifest;
  const RowShape shape{.dense = static_cast<int>(schema.dense.size()),
                       .slots = static_cast<int>(schema.categorical.size()),
                       .dense_is_float = true};
  describe_output(options.output, shape, manifest);
  ordered_json described = describe(options, root);
  PrepEngine engine(run_options(options, described), options.output, parser);
  engine.parse();
  engine.number({.min_count = options.min_count, .zero_is_missing = true, .keep_keys = true});

  const int64_t train = engine.rows_of("train");
  std::vector<DenseStatistics> statistics;
  for (int k = 0; k < shape.dense; ++k)
    statistics.push_back(dense_statistics(engine.dense_column(k), train, engine.pool()));
  std::vector<ReadFile> keys;
  for (int slot = 0; slot < shape.slots; ++slot) keys.push_back(engine.keys_of_ids(slot));
  std::vector<Vocabulary> vocabularies =
      write_vocabularies(options.train, schema, std::move(keys), options.output.folder,
                         static_cast<size_t>(options.run.block_bytes), engine.pool());

  manifest.tool = "csv_prep";
  described["max_bad_rows"] = options.run.max_bad_rows;
  described["sample"] = options.run.sample;
  manifest.options_json = described.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  manifest.features_json = features(schema, statistics, vocabularies)
                               .dump(-1, ' ', false, ordered_json::error_handler_t::replace);

  const DenseFinish finish = [&](int k, const double* values, int64_t count, uint32_t* out,
                                 int64_t stride) {
    const auto column = static_cast<size_t>(k);
    const bool standardize = is_standardized(schema.dense[column].transform);
    const double mean = statistics[column].mean, deviation = statistics[column].deviation();
    for (int64_t i = 0; i < count; ++i)
      out[i * stride] =
          std::bit_cast<uint32_t>(dense_feature(values[i], standardize, mean, deviation));
  };
  const int64_t val = engine.rows_of("val"), test = engine.rows_of("test");
  engine.write("train", 0, train, finish);
  if (!options.val.empty()) engine.write("val", train, val, finish);
  if (!options.test.empty()) engine.write("test", train + val, test, finish);
  for (Vocabulary& vocabulary : vocabularies) engine.add(std::move(vocabulary.file));
  engine.publish(manifest);
  return manifest;
}

}  // namespace hlite::tools
