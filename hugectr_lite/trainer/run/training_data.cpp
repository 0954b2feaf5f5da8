#include "hugectr_lite/trainer/run/training_data.h"

#include <algorithm>
#include <filesystem>

#include "data_reader/manifest.h"
#include "data_reader/manifest_fit.h"
#include "embedding/embedding_layer.h"
#include "hugectr_lite/config/json_values.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/trainer/model/embedding_layers.h"
#include "hugectr_lite/trainer/model/placements.h"

namespace hlite::trainer {

namespace {

namespace fs = std::filesystem;

data::OtherData choice_of(const Options& options) {
  return options.allow_other_data ? data::OtherData::kWarn : data::OtherData::kRefuse;
}

// The manifest of a file that is there.
std::optional<data::ManifestEntry> entry_of(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;  // opening it reports that
  auto entry = data::find_manifest_of(path, data::DamagedManifest::kPassOver);
  if (!entry) {
    if (const std::string other = data::manifest_without(path); !other.empty())
      log::warning(
          "{}: {} does not name this file: it may be left from an older preparation, with other "
          "ids",
          path, other);
    return std::nullopt;
  }
  if (const auto stale = data::find_stale(*entry, path))
    raise<DataError>("{}; {}", stale->message, stale->advice);
  return entry;
}

void check_role(const data::ManifestEntry& entry, const std::string& path, const char* key,
                bool expected) {
  if (!expected)
    log::warning("{} {}: {} calls it the split \"{}\"", key, path, entry.path, entry.file.role);
}

// Keys of slots that share a table must mean the same: they come from one vocabulary.
void check_shared_tables(const config::TrainConfig& config, const data::ManifestEntry& entry,
                         const Options& options) {
  if (std::ssize(entry.manifest.columns) != config.data.key_layout().slots()) return;
  for (size_t i = 0; i < count_embeddings(config); ++i) {
    const embedding::EmbeddingLayer layer(*config.layers[i], config);
    std::vector<int64_t> slots, tables;
    for (const embedding::LookedUpSlot& of : layer.data_slots()) {
      slots.push_back(of.slot);
      tables.push_back(of.table);
    }
    if (!layer.has_slot_tables()) {
      if (const auto text = data::find_shareable_tables(entry, layer.name(), slots))
        log::info("{}", *text);
      continue;
    }
    const auto misfit = data::find_mixed_vocabularies(entry, layer.name(), slots, tables);
    if (!misfit) continue;
    if (choice_of(options) == data::OtherData::kRefuse)
      raise<DataError>("{} (--allow-other-data goes on with them); {}", misfit->message,
                       misfit->advice);
    log::warning("{}", misfit->message);
  }
}

data::TrainedOn trained_on(const data::ManifestEntry& entry) {
  return {.identity = entry.manifest.identity(),
          .file = entry.file.name,
          .rows = entry.file.rows,
          .xxh3 = entry.file.xxh3,
          .place = entry.path,
          .continues = entry.manifest.continues};
}

}  // namespace

data::TrainedOn check_training_data(const config::TrainConfig& config, const Options& options) {
  const std::string train = config.resolve(config.data.source);
  const auto trained = config.data.follow ? std::nullopt : entry_of(train);
  if (trained) {
    check_role(*trained, train, "source", trained->file.role == "train");
    check_shared_tables(config, *trained, options);
  }
  data::TrainedOn on;
  if (trained) on = trained_on(*trained);
  const auto compare = [&](const char* key, const std::string& written) {
    const std::string path = config.resolve(written);
    std::error_code error;
    if (written.empty()) return;
    if (fs::equivalent(path, train, error))
      return log::warning("{} {}: this is the training data itself", key, path);
    const auto entry = entry_of(path);
    if (!entry) return;
    check_role(*entry, path, key, entry->file.role != "train");
    // The ids of preparations that the training data continue are still the same.
    if (trained && !on.continues_from(entry->manifest.identity()))
      data::check_same_data(on.identity, trained->path, entry->manifest.identity(), entry->path,
                            choice_of(options));
  };
  if (config.solver.evaluates()) compare("eval_source", config.data.eval_source);
  compare("test_source", config.data.test_source);
  return on;
}

// Without a manifest nothing says whether the data continue those of the model.
static ModelData grow_unknown(data::TrainedOn data, data::TrainedOn before,
                              const std::string& model, const Options& options) {
  const std::string text = fmt::format(
      "--grow: expected data whose manifest says that they continue those of {}, found {} without "
      "a manifest",
      model, before.identity.known() ? "data" : "a model of data");
  if (choice_of(options) == data::OtherData::kRefuse)
    raise<DataError>("{} (--allow-other-data goes on with them)", text);
  log::warning("{}", text);
  return {data.identity.known() ? std::move(data) : std::move(before), true};
}

ModelData check_model_data(data::TrainedOn data, const Options& options, bool follows) {
  const bool resumes = !options.resume.empty();
  const std::string& model = resumes ? options.resume : options.init;
  if (model.empty()) return {std::move(data)};
  data::TrainedOn before = data::TrainedOn::parse(checkpoint::trained_on(model), model);
  if (follows) return {std::move(before), options.grow};  // files are compared as they come
  if (options.grow && (!before.identity.known() || !data.identity.known()))
    return grow_unknown(std::move(data), std::move(before), model, options);
  if (!before.identity.known()) return {std::move(data)};
  if (!data.identity.known()) return {std::move(before)};  // its tables still mean what they did
  const bool other_file = before.xxh3 != data.xxh3;
  if (resumes && before.identity != data.identity && data.continues_from(before.identity)) {
    if (!options.grow)
      raise<DataError>(
          "{}: these data continue those that {} was trained on, with more categories; --grow goes "
          "on with them",
          data.place, model);
    return {std::move(data), true};
  }
  data::check_same_data(before.identity, model, data.identity, data.place, choice_of(options));
  if (other_file && !options.grow) {
    const std::string text = fmt::format(
        "{} was trained on another {} ({} rows, xxh3 {}) than {} says ({} of {} rows, xxh3 {})",
        model, before.file, before.rows, before.xxh3, data.place, data.file, data.rows, data.xxh3);
    if (resumes) {
      log::warning("{}: the run goes on at a position of the former", text);
    } else {
      log::info("{}", text);
    }
  }
  return {std::move(data), options.grow && (other_file || options.from_start)};
}

data::TrainedOn check_followed_file(const std::string& path, data::TrainedOn before,
                                    const Options& options) {
  const auto entry = entry_of(path);
  if (!entry) return before;
  data::TrainedOn now = trained_on(*entry);
  if (!now.identity.known()) return before;
  if (!now.continues_from(before.identity))
    data::check_same_data(before.identity, "the model", now.identity, now.place,
                          choice_of(options));
  return now;
}

std::vector<checkpoint::CopiedFile> preparation_of(const config::TrainConfig& config) {
  const std::string source = config.resolve(config.data.source);
  const auto entry = data::find_manifest_of(source);
  if (!entry)
    raise<ConfigError>(
        "--with-preparation: expected the manifest of csv_prep or criteo_prep in the folder of {}, found "
        "none",
        source);
  const data::Manifest& m = entry->manifest;
  const checkpoint::CopiedFile manifest{entry->path, "manifest.json"};
  const config::JsonNode options = config::JsonNode::parse(m.options_json, entry->path);
  const config::JsonNode* hash = options.find("hash");
  if (hash && hash->kind() == config::JsonNode::Kind::kInteger && hash->integer() > 0)
    return {manifest};
  if (m.features_json.empty())
    raise<ConfigError>(
        "--with-preparation: expected the vocabulary of a preparation by csv_prep, or criteo_prep "
        "--save-vocabulary or --hash, found none in {}",
        entry->path);
  const config::JsonNode features = config::JsonNode::parse(m.features_json, entry->path);
  const std::string folder = fs::path(entry->path).parent_path().string();
  std::vector<checkpoint::CopiedFile> files;
  for (const config::JsonNode& node : config::to_list(config::member(features, "categorical"))) {
    const std::string name = config::to_string(config::member(node, "vocabulary"));
    const bool shared =
        std::any_of(files.begin(), files.end(), [&](const auto& f) { return f.name == name; });
    if (!shared) files.push_back({(fs::path(folder) / name).string(), name});
  }
  files.push_back(manifest);
  return files;
}

}  // namespace hlite::trainer
