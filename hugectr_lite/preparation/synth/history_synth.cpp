#include "hugectr_lite/preparation/synth/history_synth.h"

#include <array>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "data_reader/norm_format.h"
#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/preparation/engine/output_folder.h"
#include "hugectr_lite/preparation/synth/criteo_synth.h"

namespace hlite::prep {
namespace {

constexpr int64_t kHistorySlots = 5;

std::string text_of_bytes(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Encodes rows one after the other, in memory of its own.
class HistoryEncoder {
 public:
  void append(const PlantedHistory& model, const HistoryRow& row, std::string& out) {
    const auto length = static_cast<int32_t>(row.history.size());
    keys_ = {row.user, row.item, model.category(row.item)};
    keys_.insert(keys_.end(), row.history.begin(), row.history.end());
    for (const uint32_t item : row.history) keys_.push_back(model.category(item));
    const std::array<float, 1> label = {static_cast<float>(row.label)};
    const std::array<int32_t, kHistorySlots> nnz = {1, 1, 1, length, length};
    sample_.clear();
    data::append_norm_sample(true, label, {}, nnz, keys_, sample_);
    out.append(reinterpret_cast<const char*>(sample_.data()), sample_.size());
  }

 private:
  std::vector<uint32_t> keys_;
  std::vector<std::byte> sample_;
};

HistoryScores draw_history_rows(const PlantedHistory& model, uint64_t first, int64_t rows,
                                RowWriter& writer, OutputFile& file) {
  std::vector<std::byte> header;
  data::append_norm_header(
      {.sum = true, .records = rows, .label_dim = 1, .dense_dim = 0, .slots = kHistorySlots},
      header);
  file.write(text_of_bytes(header));
  LogitHistogram seeing, blind;
  const auto draw = [&](int64_t begin, int64_t n, int, DrawnRows& out) {
    HistoryEncoder encoder;
    HistoryRow row;
    for (int64_t i = begin; i < begin + n; ++i) {
      model.row(first + static_cast<uint64_t>(i), row);
      encoder.append(model, row, out.bytes);
      const bool label = row.label != 0;
      seeing.add(row.logit, label);
      blind.add(row.blind_logit, label);
      out.loss += logit_loss(row.logit, label);
      out.other_loss += logit_loss(row.blind_logit, label);
    }
  };
  const RowWriter::Losses losses = writer.write(rows, draw, file);
  return {.seeing = scores_of(seeing, rows, losses.loss),
          .blind = scores_of(blind, rows, losses.other_loss)};
}

nlohmann::ordered_json part_json(const std::string& list, const HistoryScores& scores) {
  return {{"source", std::filesystem::path(list).filename().string()},
          {"samples", scores.seeing.rows},
          {"label_mean", scores.seeing.label_rate},
          {"bayes_auc", scores.seeing.bayes_auc},
          {"bayes_log_loss", scores.seeing.bayes_log_loss},
          {"bayes_auc_without_history", scores.blind.bayes_auc},
          {"bayes_log_loss_without_history", scores.blind.bayes_log_loss},
          {"base_log_loss", scores.seeing.base_log_loss}};
}

}  // namespace

HistorySynthResult history_synth(const HistorySynthOptions& options) {
  if (options.train_rows < 1)
    raise<ConfigError>("--train: expected at least a row, found {}", options.train_rows);
  const std::vector<std::string> earlier = earlier_files(options.out);
  if (!options.force) refuse_results(options.out, earlier);
  const PlantedHistory model(options.model);
  ThreadPool pool(options.threads > 0 ? options.threads : available_threads());
  const auto parent = std::filesystem::path(options.out).parent_path();
  if (!parent.empty()) make_folder(parent.string());

  StageProgress progress(!options.progress);
  progress.begin("drawing rows", options.train_rows + options.test_rows);
  RowWriter writer(pool, progress);
  std::vector<std::unique_ptr<OutputFile>> files;
  const auto add = [&](const std::string& name) -> OutputFile& {
    return *files.emplace_back(std::make_unique<OutputFile>(options.out + "." + name));
  };
  nlohmann::ordered_json json;
  json["tool"] = std::string("criteo_synth ") + kVersion;
  json["format"] = "Norm";
  json["check"] = "Sum";
  const auto draw = [&](const char* name, const char* role, uint64_t first, int64_t rows) {
    OutputFile& file = add(std::string(name) + ".norm");
    const HistoryScores scores = draw_history_rows(model, first, rows, writer, file);
    OutputFile& list = add(std::string(name) + ".txt");
    list.write("1\n" + std::filesystem::path(file.path()).filename().string() + "\n");
    json[role] = part_json(list.path(), scores);
    return scores;
  };
  HistorySynthResult result;
  result.train = draw("train", "train", 0, options.train_rows);
  if (options.test_rows > 0)
    result.test = draw("test", "val", static_cast<uint64_t>(options.train_rows), options.test_rows);
  progress.end();

  const PlantedHistoryOptions& o = options.model;
  json["max_len"] = o.max_len;
  json["columns"] = {{"labels", {"label"}},
                     {"cats", {"user", "item", "category", "item_history", "category_history"}}};
  json["rows"] = {{"user", o.users}, {"item", o.items}, {"category", o.categories}};
  json["model"] = {{"seed", o.seed}, {"click_rate", o.click_rate}};
  add("histories.json").write(json.dump(1) + "\n");
  for (const auto& file : files) file->finish();
  for (const std::string& name : earlier) remove_path((parent / name).string());
  for (const auto& file : files) file->commit();
  return result;
}

}  // namespace hlite::prep
