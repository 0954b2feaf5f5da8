#include "hugectr_lite/preparation/synth/criteo_synth.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/preparation/engine/output_folder.h"
#include "hugectr_lite/preparation/io/hexadecimal.h"
#include "hugectr_lite/preparation/io/output_file.h"
#include "hugectr_lite/preparation/io/stage_progress.h"
#include "hugectr_lite/preparation/synth/key_counts.h"
#include "hugectr_lite/preparation/synth/score.h"
#include "hugectr_lite/preparation/synth/synth_manifest.h"

namespace hlite::prep {

namespace {

constexpr int kMaxLineBytes = 2 + 12 * criteo::kDense + 9 * criteo::kSlots;

char* append_integer(uint32_t value, char* to) {
  // The majority of Criteo's integers are small.
  if (value < 10) {
    *to = static_cast<char>('0' + value);
    return to + 1;
  }
  return std::to_chars(to, to + 10, value).ptr;
}

// Appends one line of Criteo's format, line feed included.
void append_line(const PlantedModel& model, const PlantedRow& row, std::string& out) {
  char line[kMaxLineBytes];
  char* p = line;
  *p++ = static_cast<char>('0' + row.label);
  for (int k = 0; k < criteo::kDense; ++k) {
    *p++ = '\t';
    const int32_t value = model.dense_value(k, row.dense[static_cast<size_t>(k)]);
    if (value == PlantedModel::kMissingValue) continue;
    if (value < 0) *p++ = '-';
    p = append_integer(static_cast<uint32_t>(std::abs(value)), p);
  }
  for (int s = 0; s < criteo::kSlots; ++s) {
    *p++ = '\t';
    const uint32_t category = row.category[static_cast<size_t>(s)];
    if (category != 0) p = put_hexadecimal(model.token(s, category), p);
  }
  *p++ = '\n';
  out.append(line, static_cast<size_t>(p - line));
}

// Appends one raw record, 160 bytes.
void append_record(const PlantedModel& model, const PlantedRow& row, std::string& out) {
  uint32_t record[criteo::kColumns];
  record[0] = row.label;
  for (int k = 0; k < criteo::kDense; ++k) {
    // kMissingValue is negative too.
    const int32_t value = model.dense_value(k, row.dense[static_cast<size_t>(k)]);
    record[1 + k] = static_cast<uint32_t>(std::max(value, 0));
  }
  std::copy(row.category.begin(), row.category.end(), record + criteo::kFirstKey);
  out.append(reinterpret_cast<const char*>(record), sizeof(record));
}

nlohmann::ordered_json file_json(const OutputFile& file, const SynthScores& scores) {
  return {{"name", std::filesystem::path(file.path()).filename().string()},
          {"rows", scores.rows},
          {"bytes", file.bytes()},
          {"xxh3", file.xxh3()},
          {"label_rate", scores.label_rate},
          {"bayes_auc", scores.bayes_auc},
          {"bayes_log_loss", scores.bayes_log_loss},
          {"base_log_loss", scores.base_log_loss}};
}

nlohmann::ordered_json model_json(const PlantedOptions& options, const PlantedModel& model) {
  std::vector<int64_t> cards;
  for (int s = 0; s < criteo::kSlots; ++s) cards.push_back(model.categories(s));
  nlohmann::ordered_json json = {{"seed", options.columns.seed},
                                 {"cards", cards},
                                 {"like_profile", options.columns.profile.has_value()},
                                 {"click_rate", options.click_rate}};
  if (options.days > 1) {
    json["days"] = options.days;
    json["turnover"] = options.turnover;
  }
  return json;
}

// "00", "01", ...: names in the order of the days.
std::string day_name(int64_t day, int64_t days) {
  const auto digits = std::max<size_t>(2, std::to_string(days - 1).size());
  return fmt::format("day_{:0{}}", day, digits);
}

}  // namespace

std::vector<std::string> earlier_files(const std::filesystem::path& out) {
  std::vector<std::string> found;
  for (const char* ending :
       {"train.tsv", "test.tsv", "train.bin", "test.bin", "key_counts.bin", "manifest.json",
        "meta.json", "train.norm", "train.txt", "test.norm", "test.txt", "histories.json"}) {
    const std::string name = fmt::format("{}.{}", out.filename().string(), ending);
    if (std::filesystem::exists(out.parent_path() / name)) found.push_back(name);
  }
  const std::string day = out.filename().string() + ".day_";
  const std::filesystem::path folder = out.has_parent_path() ? out.parent_path() : ".";
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none))
    if (const std::string name = entry.path().filename().string();
        name.starts_with(day) && name.ends_with(".tsv"))
      found.push_back(name);
  return found;
}

SynthResult criteo_synth(const CriteoSynthOptions& options) {
  if (options.train_rows < 0 || options.test_rows < 0 || options.train_rows + options.test_rows < 1)
    raise<ConfigError>("--train and --test: expected at least a row, found {} and {}",
                       options.train_rows, options.test_rows);
  if (options.by_day && options.format == SynthFormat::kRaw)
    raise<ConfigError>(
        "--days: expected --format tsv, found raw: criteo_prep --continue-from gives tokens that "
        "come and go their ids");
  if (options.by_day && options.test_rows > 0)
    raise<ConfigError>("--days: expected no --test: each day is test data for the day before");
  const std::vector<std::string> earlier = earlier_files(options.out);
  if (!options.force) refuse_results(options.out, earlier);
  const PlantedModel model(options.model);
  ThreadPool pool(options.threads > 0 ? options.threads : available_threads());
  const auto parent = std::filesystem::path(options.out).parent_path();
  if (!parent.empty()) make_folder(parent.string());

  const bool raw = options.format == SynthFormat::kRaw;
  std::vector<int64_t> sizes;
  for (int s = 0; s < criteo::kSlots; ++s) sizes.push_back(model.categories(s) + 1);
  std::optional<CategoryCounts> counts;  // of training rows
  if (raw) counts.emplace(sizes, pool.threads());
  StageProgress progress(!options.progress);
  const int64_t days = options.by_day ? options.model.days : 1;
  progress.begin("drawing rows", days * options.train_rows + options.test_rows);
  RowWriter writer(pool, progress);
  SynthResult result;
  nlohmann::ordered_json json;
  json["tool"] = std::string("criteo_synth ") + kVersion;
  json["model"] = model_json(options.model, model);
  std::vector<std::unique_ptr<OutputFile>> files;
  const auto add = [&](const std::string& name) -> OutputFile& {
    return *files.emplace_back(std::make_unique<OutputFile>(options.out + "." + name));
  };
  uint64_t first = 0;
  const auto draw = [&](const std::string& name, int64_t n, int64_t day) {
    OutputFile& file = add(name + (raw ? ".bin" : ".tsv"));
    CategoryCounts* counted = raw && name == "train" ? &*counts : nullptr;
    LogitHistogram histogram;
    const auto draw_rows = [&](int64_t begin, int64_t rows, int worker, DrawnRows& out) {
      for (int64_t i = begin; i < begin + rows; ++i) {
        const PlantedRow row = model.row(first + static_cast<uint64_t>(i), day);
        (raw ? append_record : append_line)(model, row, out.bytes);
        histogram.add(row.logit, row.label != 0);
        out.loss += logit_loss(row.logit, row.label != 0);
        if (counted) counted->add(worker, row.category);
      }
    };
    const double loss = writer.write(n, draw_rows, file).loss;
    const SynthScores scores = scores_of(histogram, n, loss);
    first += static_cast<uint64_t>(n);
    file.finish();
    if (options.by_day)
      json["days"].push_back(file_json(file, scores));
    else
      json[name] = file_json(file, scores);
    return scores;
  };
  for (int64_t day = 0; options.by_day && day < days; ++day)
    result.days.push_back(draw(day_name(day, days), options.train_rows, day));
  if (!options.by_day) result.train = draw("train", options.train_rows, 0);
  if (options.test_rows > 0) result.test = draw("test", options.test_rows, 0);
  progress.end();

  if (raw) {
    OutputFile& key_counts = add("key_counts.bin");
    write_key_counts(*counts, sizes, key_counts);
    const OutputFile& train = *files.front();
    const OutputFile& test = options.test_rows > 0 ? *files[1] : train;
    const std::string text =
        synth_manifest(options.model.columns.seed, result, *counts, sizes, train, test, key_counts)
            .to_json();
    add("manifest.json").write(text);
  }
  add("meta.json").write(json.dump(1) + "\n");
  for (const auto& file : files) file->finish();
  for (const std::string& name : earlier) remove_path((parent / name).string());
  for (const auto& file : files) file->commit();
  return result;
}

}  // namespace hlite::prep
