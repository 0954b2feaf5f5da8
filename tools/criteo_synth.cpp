#include "tools/criteo_synth.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/thread_pool.h"
#include "tools/output_file.h"
#include "tools/score.h"

namespace hlite::tools {

namespace {

constexpr int64_t kChunkRows = 4096;
constexpr int kMaxLineBytes = 2 + 12 * criteo::kDense + 9 * criteo::kSlots;

// Labels and true probabilities of the rows of one file, in order.
struct Truth {
  std::vector<uint8_t> labels;
  std::vector<double> probabilities;
};

// Rows [first, first + rows) of the model, kChunkRows a task; chunks are written in order.
Truth write_rows(const PlantedModel& model, uint64_t first, int64_t rows, ThreadPool& pool,
                 OutputFile& file) {
  Truth truth;
  truth.labels.resize(static_cast<size_t>(rows));
  truth.probabilities.resize(static_cast<size_t>(rows));
  std::vector<std::string> text(static_cast<size_t>(pool.threads()) * 4);
  for (int64_t window = 0; window < rows;) {
    const int64_t chunks = std::min<int64_t>(static_cast<int64_t>(text.size()),
                                             (rows - window + kChunkRows - 1) / kChunkRows);
    pool.run(chunks, [&](int64_t chunk, int) {
      std::string& out = text[static_cast<size_t>(chunk)];
      out.clear();
      const int64_t begin = window + chunk * kChunkRows;
      for (int64_t i = begin; i < std::min(begin + kChunkRows, rows); ++i) {
        const PlantedRow row = model.row(first + static_cast<uint64_t>(i));
        truth.labels[static_cast<size_t>(i)] = row.label;
        truth.probabilities[static_cast<size_t>(i)] = row.probability;
        append_line(model, row, out);
      }
    });
    for (int64_t chunk = 0; chunk < chunks; ++chunk) file.write(text[static_cast<size_t>(chunk)]);
    window += chunks * kChunkRows;
  }
  return truth;
}

SynthScores score(const Truth& truth) {
  SynthScores scores;
  scores.rows = static_cast<int64_t>(truth.labels.size());
  if (scores.rows == 0) return scores;
  int64_t positives = 0;
  for (const uint8_t label : truth.labels) positives += label;
  scores.label_rate = static_cast<double>(positives) / static_cast<double>(scores.rows);
  scores.bayes_auc = area_under_curve(truth.labels, truth.probabilities);
  scores.bayes_log_loss = log_loss(truth.labels, truth.probabilities);
  scores.base_log_loss =
      log_loss(truth.labels, std::vector<double>(truth.labels.size(), scores.label_rate));
  return scores;
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
  return {{"seed", options.seed},
          {"cards", options.cards},
          {"zipf", options.zipf},
          {"missing", options.missing},
          {"dim", options.dim},
          {"pairs", model.pairs()},
          {"share_linear", options.share_linear},
          {"share_pairwise", options.share_pairwise},
          {"share_dense", options.share_dense},
          {"auc", options.auc},
          {"click_rate", options.click_rate},
          {"scale", model.scale()},
          {"bias", model.bias()}};
}

}  // namespace

void append_line(const PlantedModel& model, const PlantedRow& row, std::string& out) {
  static constexpr char kHex[] = "0123456789abcdef";
  const size_t old = out.size();
  out.resize(old + kMaxLineBytes);
  char* p = out.data() + old;
  *p++ = static_cast<char>('0' + row.label);
  for (int k = 0; k < criteo::kDense; ++k) {
    *p++ = '\t';
    const int32_t value = model.dense_value(k, row.dense[static_cast<size_t>(k)]);
    if (value != PlantedModel::kMissingValue) p = std::to_chars(p, p + 11, value).ptr;
  }
  for (int s = 0; s < criteo::kSlots; ++s) {
    *p++ = '\t';
    const uint32_t category = row.category[static_cast<size_t>(s)];
    if (category == 0) continue;
    const uint32_t token = model.token(s, category);
    for (int shift = 28; shift >= 0; shift -= 4) *p++ = kHex[token >> shift & 15];
  }
  *p++ = '\n';
  out.resize(static_cast<size_t>(p - out.data()));
}

SynthScores criteo_synth(const CriteoSynthOptions& options) {
  if (options.train_rows < 0 || options.test_rows < 0) {
    raise<ConfigError>("--train and --test: expected at least 0 rows");
  }
  const PlantedModel model(options.model);
  ThreadPool pool(options.threads > 0 ? options.threads : available_threads());
  const auto parent = std::filesystem::path(options.out).parent_path();
  if (!parent.empty()) make_folder(parent.string());

  OutputFile train(options.out + ".train.tsv"), test(options.out + ".test.tsv");
  OutputFile meta(options.out + ".meta.json");
  const SynthScores train_scores = score(write_rows(model, 0, options.train_rows, pool, train));
  const SynthScores scores = score(
      write_rows(model, static_cast<uint64_t>(options.train_rows), options.test_rows, pool, test));

  nlohmann::ordered_json json;
  json["tool"] = std::string("criteo_synth ") + kVersion;
  json["model"] = model_json(options.model, model);
  json["train"] = file_json(train, train_scores);
  if (options.test_rows > 0) json["test"] = file_json(test, scores);
  meta.write(json.dump(1) + "\n");
  train.finish();
  test.finish();
  meta.finish();
  train.commit();
  if (options.test_rows > 0) test.commit();
  meta.commit();
  return scores;
}

}  // namespace hlite::tools
