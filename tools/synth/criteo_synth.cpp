#include "tools/synth/criteo_synth.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/thread_pool.h"
#include "tools/io/hexadecimal.h"
#include "tools/io/output_file.h"
#include "tools/io/stage_progress.h"
#include "tools/io/top_counts.h"
#include "tools/synth/key_counts.h"
#include "tools/synth/score.h"
#include "tools/synth/synth_manifest.h"

namespace hlite::tools {

namespace {

constexpr int64_t kChunkRows = 4096;
constexpr int kMaxLineBytes = 2 + 12 * criteo::kDense + 9 * criteo::kSlots;

char* append_integer(uint32_t value, char* to) {
  // Most of Criteo's integers are small.
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

  // Rows [first, first + rows) of the model; their categories are added to `counts` if given.
  SynthScores write(uint64_t first, int64_t rows, KeyCounts* counts, OutputFile& file) {
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
        Chunk& chunk = window.chunks[static_cast<size_t>(task - 1)];
        const int64_t begin = at + (task - 1) * kChunkRows;
        draw(first + static_cast<uint64_t>(begin), std::min(kChunkRows, rows - begin), worker,
             counts, histogram, chunk);
      });
      // In the order of the rows: the sum is the same for any number of threads.
      for (int64_t i = 0; i < window.used; ++i) loss += window.chunks[static_cast<size_t>(i)].loss;
      const int64_t drawn = std::min(window.used * kChunkRows, rows - at);
      at += drawn;
      progress_.advance(drawn);
      std::swap(window, before);
    }
    return scores(histogram, rows, loss);
  }

 private:
  struct Chunk {
    std::string bytes;
    double loss = 0;
  };
  struct Window {
    explicit Window(size_t n) : chunks(n) {}
    std::vector<Chunk> chunks;
    int64_t used = 0;
  };

  void draw(uint64_t first, int64_t rows, int worker, KeyCounts* counts, LogitHistogram& histogram,
            Chunk& chunk) const {
    chunk.bytes.clear();
    chunk.loss = 0;
    for (int64_t i = 0; i < rows; ++i) {
      const PlantedRow row = model_.row(first + static_cast<uint64_t>(i));
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

std::vector<ColumnSkew> measured_skew(const PlantedModel& model, const KeyCounts& counts) {
  std::vector<ColumnSkew> columns;
  for (int s = 0; s < criteo::kSlots; ++s) {
    const TokenColumn& asked = model.columns().tokens[static_cast<size_t>(s)];
    ColumnSkew c;
    c.categories = asked.law.ranks();
    c.asked_missing = asked.missing;
    if (counts.rows() > 0) {
      c.missing = static_cast<double>(counts.missing(s)) / static_cast<double>(counts.rows());
    }
    for (int i = 0; i < 4; ++i) {
      c.asked_share[i] = asked.law.top_share(TopCounts::kTop[i]);
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
  if (columns.zipf) json["zipf"] = *columns.zipf;
  if (columns.missing) json["missing"] = *columns.missing;
  return json;
}

nlohmann::ordered_json columns_json(const std::vector<ColumnSkew>& columns) {
  auto json = nlohmann::ordered_json::array();
  for (size_t s = 0; s < columns.size(); ++s) {
    json.push_back({{"name", fmt::format("C{}", s + 1)},
                    {"categories", columns[s].categories},
                    {"asked_missing", columns[s].asked_missing},
                    {"missing", columns[s].missing},
                    {"asked_top_share", columns[s].asked_share},
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
                        c.asked_missing, c.missing);
    for (int i = 0; i < 4; ++i)
      text += fmt::format("  {:>6.4f} {:>8.4f}", c.asked_share[i], c.share[i]);
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
      const double off = std::abs(columns[s].share[i] / columns[s].asked_share[i] - 1);
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
      columns[column].asked_share[top]);
}

SynthResult criteo_synth(const CriteoSynthOptions& options) {
  if (options.train_rows < 0 || options.test_rows < 0) {
    raise<ConfigError>("--train and --test: expected at least 0 rows");
  }
  const PlantedModel model(options.model);
  ThreadPool pool(options.threads > 0 ? options.threads : available_threads());
  const auto parent = std::filesystem::path(options.out).parent_path();
  if (!parent.empty()) make_folder(parent.string());

  const bool raw = options.format == SynthFormat::kRaw;
  std::vector<int64_t> sizes;
  for (int s = 0; s < criteo::kSlots; ++s) sizes.push_back(model.categories(s) + 1);
  KeyCounts counts(sizes, pool.threads(), raw);
  const char* ending = raw ? "bin" : "tsv";
  OutputFile train(fmt::format("{}.train.{}", options.out, ending));
  OutputFile test(fmt::format("{}.test.{}", options.out, ending));
  OutputFile meta(options.out + ".meta.json");
  StageProgress progress(!options.progress);
  progress.begin("drawing rows", options.train_rows + options.test_rows);
  RowWriter rows(model, options.format, pool, progress);
  SynthResult result;
  result.train = rows.write(0, options.train_rows, &counts, train);
  result.test =
      rows.write(static_cast<uint64_t>(options.train_rows), options.test_rows, nullptr, test);
  progress.end();
  result.columns = measured_skew(model, counts);

  nlohmann::ordered_json json;
  json["tool"] = std::string("criteo_synth ") + kVersion;
  json["model"] = model_json(options.model, model);
  json["train"] = file_json(train, result.train);
  if (options.test_rows > 0) json["test"] = file_json(test, result.test);
  json["columns"] = columns_json(result.columns);
  meta.write(json.dump(1) + "\n");

  std::vector<OutputFile*> files = {&train};
  if (options.test_rows > 0) files.push_back(&test);
  std::unique_ptr<OutputFile> key_counts, manifest;
  if (raw) {
    key_counts = std::make_unique<OutputFile>(options.out + ".key_counts.bin");
    manifest = std::make_unique<OutputFile>(options.out + ".manifest.json");
    write_key_counts(counts, sizes, *key_counts);
    manifest->write(synth_manifest(result, counts, sizes, train, test, *key_counts).to_json());
    files.push_back(key_counts.get());
    files.push_back(manifest.get());
  }
  files.push_back(&meta);
  for (OutputFile* file : files) file->finish();
  for (OutputFile* file : files) file->commit();
  return result;
}

}  // namespace hlite::tools
