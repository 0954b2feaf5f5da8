#include "hugectr_lite/preparation/engine/output_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/number_option.h"
#include "hugectr_lite/preparation/engine/multi_hot.h"
#include "hugectr_lite/preparation/models/first_config.h"

namespace hlite::prep {

static constexpr std::string_view kFormats[] = {"raw", "norm"};  // as OutputFormat

void add_output_options(CLI::App& app, OutputOptions& options) {
  app.add_option("--out", options.folder, "Folder for the results (made if missing)")->required();
  app.add_option_function<std::string>(
         "--format",
         [&options](const std::string& name) {
           options.format = static_cast<OutputFormat>(
               std::find(std::begin(kFormats), std::end(kFormats), name) - std::begin(kFormats));
         },
         "What to write")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kFormats), std::end(kFormats))))
      ->default_str("raw");
  app.add_option("--multi-hot", options.multi_hot,
                 "Turn every key into a fixed list of keys of its table: \"dcnv2\" (26 tables, 214 "
                 "keys), or the length of each table's lists with commas between them");
  app.add_option_function<std::string>(
         "--norm-check", [&options](const std::string& name) { options.norm_sum = name == "Sum"; },
         "Norm: how blocks are checked")
      ->check(CLI::IsMember({"Sum", "None"}))
      ->default_str("Sum");
  app.add_option("--norm-rows-per-file", options.norm_rows_per_file, "Norm: rows in a file")
      ->check(whole_number(1))
      ->capture_default_str();
  app.add_flag("--shuffle", options.shuffle, "Shuffle the training rows");
  app.add_option("--seed", options.seed, "Seed of what is drawn at random")
      ->check(whole_number(0))
      ->capture_default_str();
  app.add_option(
         "--write-config", options.config_of,
         "Also write a first config that trains this model on the results, <out>/MODEL.json")
      ->type_name("MODEL")
      ->check(CLI::IsMember(prep::first_config_models()));
}

static std::string config_path(const OutputOptions& options) {
  return options.folder + "/" + options.config_of + ".json";
}

// Whether the folder's config is the one that an earlier run has written, and nobody has edited.
static bool is_own_config(const OutputOptions& options) {
  try {
    const auto manifest = data::Manifest::read(options.folder + "/manifest.json");
    const std::string text = prep::first_config(options.config_of, manifest, "");
    return read_text(ReadFile(config_path(options)), std::ssize(text) + 1) == text;
  } catch (const Error&) {
    return false;
  }
}

void check_config_place(const OutputOptions& options) {
  if (!options.config_of.empty() && std::filesystem::exists(config_path(options)) &&
      !is_own_config(options))
    raise<ConfigError>("--write-config: expected no file {}, found one; remove or rename it",
                       config_path(options));
}

std::string write_first_config(const OutputOptions& options, const data::Manifest& manifest) {
  if (options.config_of.empty()) return {};
  const std::string text = prep::first_config(options.config_of, manifest, "");
  WriteFile file(config_path(options));
  file.write(std::as_bytes(std::span(text)));
  file.close();
  return config_path(options);
}

nlohmann::ordered_json output_json(const OutputOptions& options) {
  nlohmann::ordered_json json = {{"format", kFormats[static_cast<size_t>(options.format)]},
                                 {"shuffle", options.shuffle},
                                 {"multi_hot", options.multi_hot},
                                 {"seed", options.seed}};
  if (options.format == OutputFormat::kNorm) {
    json["norm_sum"] = options.norm_sum;
    json["norm_rows_per_file"] = options.norm_rows_per_file;
  }
  return json;
}

std::vector<int64_t> output_hotness(const OutputOptions& options, const RowShape& shape) {
  if (!options.multi_hot.empty() && !shape.hotness.empty())
    raise<ConfigError>(
        "--multi-hot {}: expected none with columns of several values (\"separator\" in the "
        "schema), whose lists are the rows' own",
        options.multi_hot);
  if (!shape.hotness.empty()) return shape.hotness;
  if (options.multi_hot.empty()) return std::vector<int64_t>(static_cast<size_t>(shape.slots), 1);
  return parse_hotness(options.multi_hot, shape.slots);
}

void describe_output(const OutputOptions& options, const RowShape& shape,
                     data::Manifest& manifest) {
  const bool drawn = !options.multi_hot.empty(), multi_hot = drawn || !shape.hotness.empty();
  manifest.dense_dim = shape.features();
  manifest.label_dim = shape.labels;
  manifest.real_label = shape.real_label;
  manifest.sample_weight = shape.weighted;
  manifest.hotness = output_hotness(options, shape);
  manifest.fixed_length = shape.hotness.empty();
  manifest.histories = shape.histories;
  manifest.slot_tables = shape.slot_tables;
  if (drawn)
    manifest.rules.push_back(
        {"multi-hot lists", fmt::format("{}, seed {}", options.multi_hot, options.seed)});
  switch (options.format) {
    case OutputFormat::kRaw:
      manifest.format = multi_hot ? "multi_hot_raw" : "raw";
      manifest.float_label =
          shape.dense_is_float && (!multi_hot || shape.real_label || shape.labels > 1);
      manifest.float_dense = shape.dense_is_float || multi_hot;
      break;
    case OutputFormat::kNorm:
      manifest.format = "norm";
      manifest.float_label = manifest.float_dense = true;
      break;
  }
}

}  // namespace hlite::prep
