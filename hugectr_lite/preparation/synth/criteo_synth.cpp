#include "hugectr_lite/preparation/synth/criteo_synth.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/preparation/engine/output_folder.h"
#include "hugectr_lite/preparation/io/hexadecimal.h"
#include "hugectr_lite/preparation/io/output_file.h"
#include "hugectr_lite/preparation/io/stage_progress.h"
#include "hugectr_lite/preparation/io/top_counts.h"
#include "hugectr_lite/preparation/synth/key_counts.h"
#include "hugectr_lite/preparation/synth/score.h"
#include "hugectr_lite/preparation/synth/synth_manifest.h"

namespace hlite::prep {

namespace {

constexpr int64_t kChunkRows = 4096;
constexpr int kMaxLineBytes = 2 + 12 * criteo::kDense + 9 * criteo::kSlots;

char* append_integer(uint32_t value, char* to) {
  // The majority of Criteo's integers are small.
  if (value < 10) {
    *to = static_cast<char>('0' + value);
    return to + 1;
  }
  return std::to_chars(to, to + 10, value).ptr;
}

// Draws rows, kChunkRows a task, and writes the chunks in order: while some threads draw a window
// of chunks, one writes the window before.
class RowWriter {
 public:
  RowWriter(const PlantedModel& model, SynthFormat format, ThreadPool& pool,
            StageProgress& progress)
      : model_(model), format_(format), pool_(pool), progress_(progress) {}

  // Rows [first, first + rows) of the model on a day; their categories are added to `counts` if
  // given.
  SynthScores write(uint64_t first, int64_t rows, int64_t day, CategoryCounts* counts,
                    OutputFile& file) {
    const auto chunks = static_cast<size_t>(pool_.threads()) * 4;
    Window window(chunks), before(chunks);
    LogitHistogram histogram;
    double loss = 0;
    for (int64_t at = 0; at < rows || before.used > 0;) {
      window.used = std::min<int64_t>(static_cast<int64_t>(chunks),
                                      (rows - at + kChunkRows - 1) / kChunkRows);
      pool_.run(window.used + 1, [&](int64_t task, int worker) {
        if (task == 0) {
          for (int64_t i = 0; i < before.used; ++i)
            file.write(before.chunks[static_cast<size_t>(i)].bytes);
          return;
        }
        TextChunk& chunk = window.chunks[static_cast<size_t>(task - 1)];
        const int64_t begin = at + (task - 1) * kChunkRows;
        draw(first + static_cast<uint64_t>(begin), std::min(kChunkRows, rows - begin), day, worker,
             counts, histogram, chunk);
      });
      // Adds in the order of the rows: the sum is the same for any number of threads.
      for (int64_t i = 0; i < window.used; ++i) loss += window.chunks[static_cast<size_t>(i)].loss;
      const int64_t drawn = std::min(window.used * kChunkRows, rows - at);
      at += drawn;
      progress_.advance(drawn);
      std::swap(window, before);
    }
    return scores(histogram, rows, loss);
  }

 private:
  struct TextChunk {
    std::string bytes;
    double loss = 0;
  };
  struct Window {
    explicit Window(size_t n) : chunks(n) {}
    std::vector<TextChunk> chunks;
    int64_t used = 0;
  };

  void draw(uint64_t first, int64_t rows, int64_t day, int worker, CategoryCounts* counts,
            LogitHistogram& histogram, TextChunk& chunk) const {
    chunk.bytes.clear();
    chunk.loss = 0;
    for (int64_t i = 0; i < rows; ++i) {
      const PlantedRow row = model_.row(first + static_cast<uint64_t>(i), day);
      (format_ == SynthFormat::kRaw ? append_record : append_line)(model_, row, chunk.bytes);
      histogram.add(row.logit, row.label != 0);
      chunk.loss += logit_loss(row.logit, row.label != 0);
      if (counts != nullptr) counts->add(worker, row.category);
    }
  }

  static SynthScores scores(const LogitHistogram& histogram, int64_t rows, double loss) {
    SynthScores scores;
    scores.rows = rows;
    if (rows == 0) return scores;
    const auto n = static_cast<double>(rows);
    const double rate = scores.label_rate = static_cast<double>(histogram.positives()) / n;
    scores.bayes_auc = histogram.area_under_curve();
    scores.auc_error = histogram.error_bound();
    scores.bayes_log_loss = loss / n;
    if (rate > 0 && rate < 1) {
      scores.base_log_loss = -(rate * std::log(rate) + (1 - rate) * std::log(1 - rate));
    }
    return scores;
  }

  const PlantedModel& model_;
  SynthFormat format_;
  ThreadPool& pool_;
  StageProgress& progress_;
};

std::vector<ColumnSkew> measured_skew(const PlantedModel& model, const CategoryCounts& counts) {
  std::vector<ColumnSkew> columns;
  for (int s = 0; s < criteo::kSlots; ++s) {
    const TokenColumn& requested = model.columns().tokens[static_cast<size_t>(s)];
    ColumnSkew c;
    c.categories = requested.law.ranks();
    c.target_missing = requested.missing;
    if (counts.rows() > 0) {
      c.missing = static_cast<double>(counts.missing(s)) / static_cast<double>(counts.rows());
    }
    for (int i = 0; i < 4; ++i) {
      c.target_share[i] = requested.law.top_share(TopCounts::kTop[i]);
      c.share[i] = counts.top_share(s, TopCounts::kTop[i]);
    }
    columns.push_back(c);
  }
  return columns;
}

nlohmann::ordered_json file_json(const OutputFile& file, const SynthScores& scores) {
  return {{"name", std::filesystem::path(file.path()).filename().string()},
          {"rows", scores.rows},
          {"bytes", file.bytes()},
          {"xxh3", file.xxh3()},
          {"label_rate", scores.label_rate},
          {"bayes_auc", scores.bayes_auc},
          {"bayes_auc_error", scores.auc_error},
          {"bayes_log_loss", scores.bayes_log_loss},
          {"base_log_loss", scores.base_log_loss}};
}

nlohmann::ordered_json model_json(const PlantedOptions& options, const PlantedModel& model) {
  const ColumnOptions& columns = options.columns;
  std::vector<int64_t> cards;
  for (int s = 0; s < criteo::kSlots; ++s) cards.push_back(model.categories(s));
  nlohmann::ordered_json json = {{"seed", columns.seed},
                                 {"cards", cards},
                                 {"like_profile", columns.profile.has_value()},
                                 {"dim", options.dim},
                                 {"pairs", model.pairs()},
                                 {"share_linear", options.share_linear},
                                 {"share_pairwise", options.share_pairwise},
                                 {"share_dense", options.share_dense},
                                 {"auc", options.auc},
                                 {"click_rate", options.click_rate},
                                 {"scale", model.scale()},
                                 {"bias", model.bias()}};
  if (options.days > 1) {
    json["days"] = options.days;
    json["turnover"] = options.turnover;
  }
  if (columns.zipf) json["zipf"] = *columns.zipf;
  if (columns.missing) json["missing"] = *columns.missing;
  return json;
}

nlohmann::ordered_json columns_json(const std::vector<ColumnSkew>& columns) {
  auto json = nlohmann::ordered_json::array();
  for (size_t s = 0; s < columns.size(); ++s) {
    json.push_back({{"name", fmt::format("C{}", s + 1)},
                    {"categories", columns[s].categories},
                    {"target_missing", columns[s].target_missing},
                    {"missing", columns[s].missing},
                    {"asked_top_share", columns[s].target_share},
                    {"top_share", columns[s].share}});
  }
  return json;
}

}  // namespace

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

std::string SynthResult::skew_table() const {
  std::string text = fmt::format("{:6}{:>11}  {:^15}  {:^15}  {:^15}  {:^15}  {:^15}\n", "column",
                                 "categories", "missing", "top 1", "top 10", "top 100", "top 1000");
  text += fmt::format("{:17}", "");
  for (int i = 0; i < 5; ++i) text += fmt::format("  {:>6} {:>8}", "asked", "measured");
  text += '\n';
  for (size_t s = 0; s < columns.size(); ++s) {
    const ColumnSkew& c = columns[s];
    text += fmt::format("{:6}{:>11}  {:>6.4f} {:>8.4f}", fmt::format("C{}", s + 1), c.categories,
                        c.target_missing, c.missing);
    for (int i = 0; i < 4; ++i)
      text += fmt::format("  {:>6.4f} {:>8.4f}", c.target_share[i], c.share[i]);
    text += '\n';
  }
  return text;
}

std::string SynthResult::skew_summary() const {
  double worst = 0;
  size_t column = 0;
  int top = 0;
  for (size_t s = 0; s < columns.size(); ++s) {
    for (int i = 0; i < 4; ++i) {
      const double off = std::abs(columns[s].share[i] / columns[s].target_share[i] - 1);
      if (off > worst) {
        worst = off;
        column = s;
        top = i;
      }
    }
  }
  return fmt::format(
      "skew: the shares of the top 1, 10, 100 and 1000 categories are within {:.2f} % of what was "
      "asked (C{}, top {}: {:.4f}, asked {:.4f})",
      100 * worst, column + 1, TopCounts::kTop[top], columns[column].share[top],
      columns[column].target_share[top]);
}

// "00", "01", ...: names in the order of the days.
static std::string day_name(int64_t day, int64_t days) {
  const auto digits = std::max<size_t>(2, std::to_string(days - 1).size());
  return fmt::format("day_{:0{}}", day, digits);
}

// Names of files of this prefix, of any layout.
static std::vector<std::string> earlier_files(const std::filesystem::path& out) {
  std::vector<std::string> found;
  for (const char* ending : {"train.tsv", "test.tsv", "train.bin", "test.bin", "key_counts.bin",
                             "manifest.json", "meta.json"}) {
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
  CategoryCounts counts(sizes, pool.threads(), raw);
  StageProgress progress(!options.progress);
  const int64_t days = options.by_day ? options.model.days : 1;
  progress.begin("drawing rows", days * options.train_rows + options.test_rows);
  RowWriter rows(model, options.format, pool, progress);
  SynthResult result;
  nlohmann::ordered_json json;
  json["tool"] = std::string("criteo_synth ") + kVersion;
  json["model"] = model_json(options.model, model);
  std::vector<std::unique_ptr<OutputFile>> files;
  const auto add = [&](const std::string& name) -> OutputFile& {
    return *files.emplace_back(std::make_unique<OutputFile>(options.out + "." + name));
  };
  uint64_t first = 0;
  const auto draw = [&](const std::string& name, int64_t n, int64_t day, CategoryCounts* counted) {
    OutputFile& file = add(name + (raw ? ".bin" : ".tsv"));
    const SynthScores scores =
        rows.write(std::exchange(first, first + static_cast<uint64_t>(n)), n, day, counted, file);
    file.finish();
    if (options.by_day)
      json["days"].push_back(file_json(file, scores));
    else
      json[name] = file_json(file, scores);
    return scores;
  };
  for (int64_t day = 0; options.by_day && day < days; ++day)
    result.days.push_back(
        draw(day_name(day, days), options.train_rows, day, day == 0 ? &counts : nullptr));
  if (!options.by_day) result.train = draw("train", options.train_rows, 0, &counts);
  if (options.test_rows > 0) result.test = draw("test", options.test_rows, 0, nullptr);
  progress.end();
  result.columns = measured_skew(model, counts);
  json["columns"] = columns_json(result.columns);

  if (raw) {
    OutputFile& key_counts = add("key_counts.bin");
    write_key_counts(counts, sizes, key_counts);
    const OutputFile& train = *files.front();
    const OutputFile& test = options.test_rows > 0 ? *files[1] : train;
    const std::string text =
        synth_manifest(options.model.columns.seed, result, counts, sizes, train, test, key_counts)
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
