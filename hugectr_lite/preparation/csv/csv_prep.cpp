#include "hugectr_lite/preparation/csv/csv_prep.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "hugectr_lite/config/json_values.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/in_quotes.h"
#include "hugectr_lite/preparation/csv/csv_rows.h"
#include "hugectr_lite/preparation/csv/csv_statistics.h"
#include "hugectr_lite/preparation/csv/csv_vocabulary.h"
#include "hugectr_lite/preparation/csv/quantile_edges.h"
#include "hugectr_lite/preparation/csv/split_plan.h"
#include "hugectr_lite/preparation/csv/type_guess.h"
#include "hugectr_lite/preparation/engine/predecessor.h"
#include "hugectr_lite/preparation/engine/prep_engine.h"
#include "hugectr_lite/preparation/engine/prep_state.h"
#include "hugectr_lite/preparation/engine/saved_vocabulary.h"
#include "hugectr_lite/preparation/engine/slot_tables.h"
#include "hugectr_lite/preparation/io/input_file.h"

namespace hlite::prep {

namespace {

using nlohmann::ordered_json;

void check(const CsvPrepOptions& options) {
  for (const std::string& path : options.train)
    if (is_read_once(path))
      raise<ConfigError>("--train: expected files, found {}, which cannot be read twice",
                         path == "-" ? "standard input" : path + " (a pipe or device)");
  std::vector<std::string> others = options.val;
  others.insert(others.end(), options.test.begin(), options.test.end());
  check_inputs(options.train, others, options.run);
  if (options.min_count < 1) raise<ConfigError>("--min-count: expected 1 or more");
  check_split(options.split);
  if (!options.val.empty() && options.split.takes_val())
    raise<ConfigError>(
        "--val: expected no files, as --val-share, --split-time, --split-group or --folds takes "
        "validation rows from the training files, found {}",
        options.val[0]);
  if (!options.test.empty() && options.split.test_share > 0)
    raise<ConfigError>("--test: expected no files with --test-share, found {}", options.test[0]);
}

ordered_json describe_split(const RowSplit& split) {
  static constexpr const char* kKinds[] = {"line", "group", "time"};  // as RowSplit::Kind
  ordered_json json = {{"by", kKinds[static_cast<size_t>(split.kind)]}};
  if (split.kind != RowSplit::Kind::kLine) json["column"] = split.column.name;
  if (split.folds > 0) {
    json["folds"] = split.folds;
    json["fold"] = split.fold;
  } else {
    json["val"] = split.val;
    json["test"] = split.test;
  }
  return json;
}

// The options that decide the results, for the manifest.
ordered_json describe(const CsvPrepOptions& options, const config::JsonNode& schema,
                      const SplitPlan* plan, const std::string& continues) {
  ordered_json json = {{"schema", ordered_json::parse(schema.dump())},
                       {"min_count", options.min_count}};
  if (plan) json["split"] = describe_split(plan->split);
  if (!continues.empty()) json["continues"] = continues;
  json.update(output_json(options.output));
  return json;
}

// The fields of the file's header or, without one, of its first row.
std::vector<std::string> first_fields(const std::string& path, const CsvSchema& schema,
                                      int64_t block_bytes) {
  InputFile file(path, text_form_of(schema));
  LineBlock block;
  CsvFields fields;
  while (fields.fields.empty() && file.next(block, static_cast<size_t>(block_bytes)))
    block.for_each_row([&](std::string_view line, int64_t) {
      if (!schema.header && is_skipped_line(schema, line)) return true;
      split_csv(dialect_of(schema), line, fields);
      return false;
    });
  return {fields.fields.begin(), fields.fields.end()};
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

// Means and deviations of the dense features: the continued preparation's, or of the training rows.
std::vector<DenseScale> dense_scales(PrepEngine& engine, const RowShape& shape, int64_t train,
                                     const Predecessor* before) {
  std::vector<DenseScale> scales;
  for (int k = shape.dense - shape.features(); k < shape.dense; ++k) {
    if (before) {
      const config::JsonNode& column = before->features("dense").at(scales.size());
      scales.push_back({config::to_number(config::member(column, "mean")),
                        config::to_number(config::member(column, "deviation"))});
      continue;
    }
    const DenseStatistics found = dense_statistics(engine.dense_column(k), train, engine.pool());
    scales.push_back({found.mean, found.deviation()});
  }
  return scales;
}

// The files to read, and which of their rows.
struct Inputs {
  std::vector<PrepInput> files;
  std::vector<InputPart> parts;  // of each file

  // `split`: of the training files; null: none.
  Inputs(const CsvPrepOptions& options, const SplitPlan* plan) {
    const auto add_training_files = [&](const char* role, SplitPart part) {
      for (size_t f = 0; f < options.train.size(); ++f) {
        files.push_back({options.train[f], role, /*may_be_empty=*/plan != nullptr});
        parts.push_back({plan ? &plan->split : nullptr, part, f});
      }
    };
    const auto add = [&](const char* role, const std::vector<std::string>& paths) {
      for (const std::string& path : paths) {
        files.push_back({path, role});
        parts.emplace_back();
      }
    };
    add_training_files("train", SplitPart::kTrain);
    if (plan && (plan->split.val > 0 || plan->split.folds > 0))
      add_training_files("val", SplitPart::kVal);
    add("val", options.val);
    if (plan && plan->split.test > 0) add_training_files("test", SplitPart::kTest);
    add("test", options.test);
  }
  [[nodiscard]] bool has(const char* role) const {
    return std::any_of(files.begin(), files.end(),
                       [&](const PrepInput& input) { return input.role == role; });
  }
};

// The schema with the edges of its quantiles: those of the continued preparation, or of the
// training rows. A resumed run finds them in the engine, since numbered columns may be gone.
CsvSchema fitted_schema(CsvSchema schema, PrepEngine& engine, int64_t train,
                        const Predecessor* before) {
  ordered_json kept = engine.kept();
  bool changed = false;
  for (size_t slot = 0; slot < schema.categorical.size(); ++slot) {
    CategoryColumn& category = schema.categorical[slot];
    if (category.is_fitted()) continue;
    const std::string key = std::to_string(slot);
    if (before) {
      category.buckets = saved_buckets(before->features("categorical").at(slot));
      continue;
    }
    if (!kept.contains(key)) {
      const auto number = static_cast<int>(slot);
      kept[key] =
          quantile_edges(engine.stored_keys(number), train, category.quantiles, engine.pool());
      changed = true;
    }
    category.buckets.emplace(kept[key].get<std::vector<double>>());
  }
  if (changed) engine.keep(kept);
  return schema;
}

// What the first stage stored for a column of quantiles to the keys of their tokens.
void finish_keys(const CategoryColumn& given, const CategoryColumn& fitted,
                 std::span<uint64_t> keys) {
  if (given.is_fitted()) return;
  for (uint64_t& key : keys)
    if (key != 0) key = token_key(fitted.buckets->token(number_of_bits(key)));
}

// Throws DataError for a cross of too many categories.
void check_crosses(const CsvSchema& schema, const std::vector<int64_t>& slot_sizes) {
  for (size_t slot = 0; slot < schema.categorical.size(); ++slot) {
    const CategoryColumn& cross = schema.categorical[slot];
    const int64_t found = slot_sizes[slot] - 1;
    if (cross.kind == CategoryColumn::Kind::kCross && found > cross.limit)
      raise<DataError>(
          "column {}: expected a cross of at most {} categories, found {}: a larger --min-count "
          "drops rare ones, \"hash\": {} in its block makes that many of them, \"limit\": {} takes "
          "all",
          cross.name, cross.limit, found, cross.limit, found);
  }
}

PrepOptions run_options(const CsvPrepOptions& options, const Inputs& inputs,
                        const ordered_json& identity) {
  PrepOptions run = options.run;
  run.identity = identity.dump();
  run.inputs = inputs.files;
  return run;
}

ordered_json features(const CsvSchema& schema, const std::vector<DenseScale>& scales,
                      const std::vector<Vocabulary>& vocabularies) {
  const std::vector<int64_t> tables = schema.slot_tables();
  ordered_json json;
  json["dense"] = ordered_json::array();
  const auto dense = schema.features();
  for (size_t k = 0; k < dense.size(); ++k) {
    json["dense"].push_back({{"name", dense[k].number.column.name},
                             {"transform", transform_name(dense[k].transform)},
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
    if (schema.categorical[k].quantiles > 0)
      column[kEdges] = schema.categorical[k].buckets->edges();
    if (vocabulary.categories <= Vocabulary::kSmall)
      column["values_from_id_1"] = vocabulary.if_small;
    json["categorical"].push_back(std::move(column));
  }
  return json;
}

// Treatment of values that have no id.
void describe_values(const CsvSchema& schema, const std::vector<DenseScale>& scales,
                     data::Manifest& manifest) {
  const auto dense = schema.features();
  for (size_t k = 0; k < dense.size(); ++k) {
    std::string transform = describe_transform(dense[k].number);
    transform += (transform.empty() ? "" : " ") + std::string(transform_name(dense[k].transform));
    if (is_standardized(dense[k].transform))
      transform += fmt::format(" {} {}", scales[k].mean, scales[k].deviation);
    manifest.dense.push_back({dense[k].number.column.name, std::move(transform)});
  }
  const auto list = [](const std::vector<std::string>& values, const char* none) {
    std::string text;
    for (const std::string& value : values) text += (text.empty() ? "" : " ") + in_quotes(value);
    return text.empty() ? none : text;
  };
  const auto texts_of = [&](const LabelTexts& texts) {
    return fmt::format("1 for {}, 0 for {}", list(texts.positive, ""),
                       list(texts.negative, "all others"));
  };
  manifest.rules.push_back(
      {"label", schema.real_label ? "the number" : texts_of(schema.texts.front())});
  for (size_t l = 1; l < schema.texts.size(); ++l)
    manifest.rules.push_back({fmt::format("label {}", l + 1), texts_of(schema.texts[l])});
  manifest.rules.push_back({"missing", list(schema.missing, "\"\"")});
  for (const CategoryColumn& category : schema.categorical)
    if (std::string transform = describe_transform(category); !transform.empty())
      manifest.rules.push_back({"category " + category.name, std::move(transform)});
}

// The options of a run, and what has to be read for them first.
struct Task {
  CsvPrepOptions options;
  std::optional<Predecessor> before;
  config::JsonNode root;  // the schema
  CsvSchema schema;
  std::optional<SplitPlan> plan;

  explicit Task(const CsvPrepOptions& given) : options(given) {
    check(options);
    if (!options.schema.empty()) {
      root = config::JsonNode::parse_file(options.schema);
      schema = CsvSchema::parse(root);
    }
    if (!options.continue_from.empty()) {
      before.emplace(options.continue_from, "csv_prep", options.output);
      if (options.schema.empty()) root = before->option("schema");
      add_types_of(before->option("schema"), root);
      check_schema(*before, root, options);
      options.min_count = before->same_option("--min-count", "min_count", options.min_count, 1);
    } else if (options.schema.empty()) {
      raise<ConfigError>("--schema: expected a schema, found none");
    } else {
      add_types(root, schema, options.train.front());
    }
    schema = CsvSchema::parse(root);
    if (schema.header)
      schema.find_by_name(first_fields(options.train[0], schema, options.run.block_bytes));
    if (options.guessed) schema.guessed_file = options.schema;
    if ((schema.real_label || schema.texts.size() > 1) && options.run.negative_share < 1)
      raise<ConfigError>(
          "--negative-share: expected 1, as the {}, found {}",
          schema.real_label ? "label of the schema is a number" : "schema has several labels",
          options.run.negative_share);
    if (!options.split.splits()) return;
    plan = plan_split(options.train, schema, options.split, options.output.seed,
                      options.output.folder, static_cast<size_t>(options.run.block_bytes));
    plan->split.fold = options.split.fold;
    if (options.split.default_share && plan->rows < kRowsToSplit) plan.reset();
  }
};

data::Manifest prepare(const Task& task) {
  const CsvPrepOptions& options = task.options;
  CsvSchema given_schema = task.schema;
  given_schema.carry.clear();  // training rows need not have them
  const Predecessor* const before = task.before ? &*task.before : nullptr;
  const SplitPlan* const plan = task.plan ? &*task.plan : nullptr;
  const Inputs inputs(options, plan);
  CsvRowParser parser(given_schema, inputs.parts);
  data::Manifest manifest;
  const RowShape shape{.dense = static_cast<int>(given_schema.dense.size()),
                       .slots = static_cast<int>(given_schema.categorical.size()),
                       .dense_is_float = true,
                       .slot_tables = given_schema.slot_tables(),
                       .real_label = given_schema.real_label,
                       .weighted = given_schema.weighted,
                       .labels = static_cast<int>(given_schema.texts.size()),
                       .hotness = given_schema.hotness(),
                       .histories = given_schema.histories()};
  describe_output(options.output, shape, manifest);
  ordered_json described = describe(options, task.root, plan, before ? before->digits() : "");
  PrepEngine engine(run_options(options, inputs, described), options.output, parser);
  if (auto complete = engine.complete()) return *std::move(complete);
  engine.parse();
  const int64_t train = engine.rows_of("train"), val = engine.rows_of("val"),
                test = engine.rows_of("test");
  std::vector<SplitRows> splits = {{"train", 0, train}};
  if (inputs.has("val")) splits.push_back({"val", train, val});
  if (inputs.has("test")) splits.push_back({"test", train + val, test});
  const CsvSchema schema = fitted_schema(given_schema, engine, train, before);
  const auto finish = [&](int slot, std::span<uint64_t> keys) {
    const auto s = static_cast<size_t>(slot);
    finish_keys(given_schema.categorical[s], schema.categorical[s], keys);
  };
  engine.number({.min_count = options.min_count,
                 .zero_is_missing = true,
                 .keep_keys = true,
                 .known_keys = before ? before->known_keys(true) : KnownKeys(),
                 .finish_keys = finish},
                std::move(splits));
  check_crosses(schema, engine.slot_sizes());

  const std::vector<DenseScale> scales = dense_scales(engine, shape, train, before);
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
  manifest.negative_share = options.run.negative_share;
  manifest.options_json = described.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  ordered_json fitted = features(schema, scales, vocabularies);
  const auto first = first_fields(options.train[0], schema, options.run.block_bytes);
  if (schema.header) fitted["header"] = first;
  fitted["columns"] = first.size();
  manifest.features_json = fitted.dump(-1, ' ', false, ordered_json::error_handler_t::replace);

  const DenseFinish finish_dense = [&](int k, const double* values, int64_t count, uint32_t* out,
                                       int64_t stride) {
    const int64_t feature = k - static_cast<int64_t>(schema.no_features());  // < 0: a label, weight
    const bool standardize = is_standardized(schema.dense[static_cast<size_t>(k)].transform);
    const DenseScale scale = feature < 0 ? DenseScale() : scales[static_cast<size_t>(feature)];
    for (int64_t i = 0; i < count; ++i)
      out[i * stride] = std::bit_cast<uint32_t>(dense_feature(values[i], standardize, scale));
  };
  engine.write(finish_dense);
  for (Vocabulary& vocabulary : vocabularies) engine.add(std::move(vocabulary.file));
  engine.publish(manifest);
  return manifest;
}

}  // namespace

data::Manifest csv_prep(const CsvPrepOptions& options) { return prepare(Task(options)); }

std::vector<data::Manifest> csv_prep_folds(const CsvPrepOptions& options) {
  if (!options.continue_from.empty())
    raise<ConfigError>("--folds: expected no --continue-from, found {}", options.continue_from);
  Task task(options);
  std::vector<data::Manifest> manifests;
  for (int64_t fold = 0; fold < options.split.folds; ++fold) {
    task.plan->split.fold = fold;
    task.options.output.folder = fmt::format("{}/fold_{}", options.output.folder, fold);
    manifests.push_back(prepare(task));
  }
  return manifests;
}

}  // namespace hlite::prep
