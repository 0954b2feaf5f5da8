#include "hugectr_lite/preparation/criteo/criteo_prep.h"

#include <nlohmann/json.hpp>

#include "data_reader/criteo/criteo_record.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/preparation/criteo/criteo_rows.h"
#include "hugectr_lite/preparation/engine/predecessor.h"
#include "hugectr_lite/preparation/engine/prep_engine.h"
#include "hugectr_lite/preparation/io/numpy_file.h"

namespace hlite::prep {

namespace {

constexpr uint32_t kMlperfRange = 40000000;

void check(const CriteoPrepOptions& options) {
  std::vector<std::string> others = options.val;
  others.insert(others.end(), options.test.begin(), options.test.end());
  check_inputs(options.train, others, options.run);
  if (options.split_last_half && !others.empty()) {
    raise<ConfigError>(
        "--split-last-half makes the validation and test files itself: leave out --val and --test");
  }
  if (options.split_last_half && options.train.size() < 2) {
    raise<ConfigError>("--split-last-half: expected at least two --train files, found one");
  }
  if (options.hash > 0 && (options.min_count > 0 || options.by_frequency)) {
    raise<ConfigError>("--hash needs no counts: leave out --min-count and --order frequency");
  }
  if (options.hash > 0 && options.save_vocabulary)
    raise<ConfigError>("--save-vocabulary: expected a dictionary, found --hash, which needs none");
  if (options.hash > uint64_t{1} << 32) raise<ConfigError>("--hash: expected at most 2^32");
}

uint32_t key_range(const CriteoPrepOptions& options) {
  return options.max_ind_range.value_or(options.hash > 0 ? 0 : kMlperfRange);
}

NumberingRecipe recipe_of(const CriteoPrepOptions& options, const Predecessor* before) {
  return {.hash_range = options.hash,
          .min_count = options.min_count,
          .by_frequency = options.by_frequency,
          .key_limit = key_range(options),
          .keep_keys = options.save_vocabulary,
          .known_keys = before ? before->known_keys(options.min_count > 0) : KnownKeys()};
}

// Takes over the options of the preparation that is continued.
void follow(const Predecessor& before, CriteoPrepOptions& options) {
  if (options.hash > 0 || options.by_frequency)
    raise<ConfigError>(
        "--continue-from: expected ids in order of first appearance, found --hash or --order "
        "frequency");
  options.min_count = before.same_option("--min-count", "min_count", options.min_count, 0);
  constexpr int64_t kUnset = -1;
  const int64_t range = options.max_ind_range ? int64_t{*options.max_ind_range} : kUnset;
  options.max_ind_range =
      static_cast<uint32_t>(before.same_option("--max-ind-range", "max_ind_range", range, kUnset));
  options.save_vocabulary = true;
}

std::vector<SplitRows> splits_of(const PrepEngine& engine, const CriteoPrepOptions& options) {
  const int64_t train = engine.rows_of("train"), rest = engine.rows() - train;
  const int64_t val = options.split_last_half ? (rest + 1) / 2 : engine.rows_of("val");
  std::vector<SplitRows> splits = {{"train", 0, train}};
  if (options.split_last_half || !options.val.empty()) splits.push_back({"val", train, val});
  if (options.split_last_half || !options.test.empty())
    splits.push_back({"test", train + val, rest - val});
  return splits;
}

// The options that decide the results, for the manifest.
nlohmann::ordered_json describe(const CriteoPrepOptions& options, const std::string& continues) {
  nlohmann::ordered_json json = {{"max_ind_range", key_range(options)},
                                 {"split_last_half", options.split_last_half},
                                 {"min_count", options.min_count},
                                 {"order", options.by_frequency ? "frequency" : "first"},
                                 {"hash", options.hash}};
  if (options.save_vocabulary) json["save_vocabulary"] = true;
  if (!continues.empty()) json["continues"] = continues;
  json.update(output_json(options.output));
  return json;
}

PrepOptions run_options(const CriteoPrepOptions& options, const nlohmann::ordered_json& described) {
  PrepOptions run = options.run;
  run.identity = described.dump();
  const size_t trained = options.train.size() - (options.split_last_half ? 1 : 0);
  for (size_t i = 0; i < options.train.size(); ++i)
    run.inputs.push_back({options.train[i], i < trained ? "train" : "val+test"});
  for (const std::string& path : options.val) run.inputs.push_back({path, "val"});
  for (const std::string& path : options.test) run.inputs.push_back({path, "test"});
  return run;
}

// The tokens of a column in the order of their ids.
std::unique_ptr<OutputFile> write_tokens(const PrepEngine& engine, int slot,
                                         const std::string& path) {
  const ReadFile tokens = engine.keys_of_ids(slot);
  auto file = std::make_unique<OutputFile>(path);
  file->write(numpy_preamble({.type = "<u4", .shape = {tokens.size() / 4}}));
  read_pieces(tokens, [&](auto piece) { file->write(piece); });
  file->finish();
  return file;
}

// Adds the files to the results, and says in the manifest which they are.
void write_vocabulary(PrepEngine& engine, const std::string& folder, data::Manifest& manifest) {
  make_folder(folder + "/vocabulary");
  nlohmann::ordered_json columns = nlohmann::ordered_json::array();
  for (int slot = 0; slot < criteo::kSlots; ++slot) {
    const std::string name = fmt::format("vocabulary/{:02}_C{}.npy", slot, slot + 1);
    std::unique_ptr<OutputFile> tokens = write_tokens(engine, slot, folder + "/" + name);
    columns.push_back(
        {{"name", fmt::format("C{}", slot + 1)}, {"vocabulary", name}, {"xxh3", tokens->xxh3()}});
    engine.add(std::move(tokens));
  }
  manifest.features_json = nlohmann::ordered_json{{"categorical", columns}}.dump();
}

}  // namespace

data::Manifest criteo_prep(const CriteoPrepOptions& given) {
  CriteoPrepOptions options = given;
  std::optional<Predecessor> before;
  if (!options.continue_from.empty()) {
    before.emplace(options.continue_from, "criteo_prep", options.output);
    follow(*before, options);
  }
  check(options);
  nlohmann::ordered_json described = describe(options, before ? before->digits() : "");
  const std::unique_ptr<RowParser> parser = make_criteo_rows(key_range(options));
  data::Manifest manifest;
  describe_output(options.output, {.dense = criteo::kDense, .slots = criteo::kSlots}, manifest);
  manifest.tool = "criteo_prep";
  manifest.dense = criteo::dense_parts();
  manifest.rules.push_back({"tokens", fmt::format("modulo {}", key_range(options))});
  if (before) before->link(manifest);
  PrepEngine engine(run_options(options, described), options.output, *parser);
  if (auto complete = engine.complete()) return *std::move(complete);
  const NumberingRecipe recipe = recipe_of(options, before ? &*before : nullptr);
  engine.parse(&recipe);
  engine.number(recipe, splits_of(engine, options));

  described["max_bad_rows"] = options.run.max_bad_rows;
  described["sample"] = options.run.sample;
  manifest.negative_share = options.run.negative_share;
  manifest.options_json = described.dump();
  if (options.save_vocabulary) write_vocabulary(engine, options.output.folder, manifest);
  engine.write();
  engine.publish(manifest);
  return manifest;
}

}  // namespace hlite::prep
