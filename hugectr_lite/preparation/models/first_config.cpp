#include "hugectr_lite/preparation/models/first_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "hugectr_lite/core/error.h"

namespace hlite::prep {
namespace {

using data::LabelMoments;
using data::Manifest;
using data::ManifestFile;

// Found on data sets of 10,000 to 1,000,000 rows (docs/train.md).
constexpr int64_t kIterationsPerEpoch = 250, kMaxBatch = 8192;
constexpr int64_t kFewestIterations = 32, kMinBatch = 128;  // of data too small for that
constexpr double kDcnRate = 2;  // times that of the others: its cross layers learn slowly
// Below it a model learns its samples by heart within two epochs, unless it is small and slow.
constexpr int64_t kFewSamples = 20'000;
// From so many on wider layers are better, with normalised batches.
constexpr int64_t kNormalizedSamples = 100'000;
// From so many samples on, evaluations lie inside epochs, and batches are shuffled instead of
// samples, which would all lie in memory.
constexpr int64_t kManySamples = 1'000'000;
// lambda of the penalty on tables. Adam divides by the size of gradients, so rows that are seldom
// seen shrink to nothing: that is what keeps rare categories from being learned by heart. Where
// every row is seen often, less does, and more would keep products of two categories at 0.
constexpr double kRareLambda = 0.02, kFrequentLambda = 0.005;
constexpr int64_t kFrequent = 500;  // keys a row
// Few samples of rows with fewer keys: what there is to learn is learned in two epochs, and a rate
// that decays from there on keeps more of it than cuts after the loss has risen.
constexpr int64_t kRare = 20, kConstantEpochs = 2, kDecayEpochs = 8;
constexpr double kLastRate = 0.01;  // times the first
constexpr double kPenalty = 2000;   // lambda times samples, from kNormalizedSamples on
// With histories and rows seen often: more keeps attention from learning which rows are alike.
constexpr double kHistoryPenalty = 200;
// With the penalty every row is updated in every iteration. That costs little for so many rows, or
// for so many of each key of a batch.
constexpr int64_t kCheapRows = 200'000, kMaxRowsPerKey = 16;

int64_t rows_of_tables(const Manifest& m) {
  int64_t rows = 0;
  std::set<int64_t> counted;
  for (size_t slot = 0; slot < m.slot_sizes.size(); ++slot)
    if (m.slot_tables.empty() || counted.insert(m.slot_tables[slot]).second)
      rows += m.slot_sizes[slot];
  return rows;
}

// The largest one up to `n`, at least 1.
int64_t power_of_two(int64_t n) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(1, n))));
}

struct Sizes {
  explicit Sizes(const Manifest& m)
      : samples(m.rows_of("train")),
        few(samples < kFewSamples),
        many(samples >= kManySamples),
        batch(std::clamp(power_of_two(samples / kIterationsPerEpoch),
                         std::min(power_of_two(samples / kFewestIterations), kMinBatch),
                         kMaxBatch)) {
    layers.width = many ? 16 : 8;
    layers.normalized = samples >= kNormalizedSamples;
    if (layers.normalized) layers.hidden = {256, 128};
    if (few) layers.hidden = {64, 32}, layers.dropout = 0.3, learning_rate = 0.001;
    const int64_t keys = std::accumulate(m.hotness.begin(), m.hotness.end(), int64_t{0});
    const int64_t rows = rows_of_tables(m);
    const bool often = samples * keys >= kFrequent * rows;
    if (rows <= std::max(kCheapRows, kMaxRowsPerKey * batch * keys))
      layers.penalty = layers.normalized
                           ? (often && !m.histories.empty() ? kHistoryPenalty : kPenalty) /
                                 static_cast<double>(samples)
                       : often ? kFrequentLambda
                               : kRareLambda;
    decays = few && samples * keys < kRare * rows;
  }
  // Iterations of so many epochs.
  [[nodiscard]] int64_t iterations(int64_t epochs) const {
    return std::max<int64_t>(1, epochs * samples / batch);
  }
  int64_t samples;
  bool few, many;
  int64_t batch;
  LayerSizes layers;
  double learning_rate = 0.002;
  bool decays = false;
};

// `value` without the digits beyond the fourth of `size`, above 0.
double rounded(double value, double size) {
  const double unit = std::pow(10, std::floor(std::log10(size)) - 3);
  return std::round(value / unit) * unit + 0.0;  // not -0
}

std::string text_of(double value) { return fmt::format("{:.12g}", value); }

const ManifestFile* file_of(const Manifest& m, const char* role) {
  for (const ManifestFile& file : m.files)
    if (file.role == role) return &file;
  return nullptr;
}

// Those of the training rows; a mean of 0 and a deviation of 1 if they are not known, or all the
// same.
LabelMoments labels_of(const Manifest& m) {
  const ManifestFile& train = *file_of(m, "train");
  LabelMoments labels = train.labels.value_or(LabelMoments());
  if (!m.real_label && !m.sample_weight) labels.mean = train.label_rate();
  if (!m.real_label) labels.deviation = std::sqrt(labels.mean * (1 - labels.mean));
  return labels.deviation > 0 ? labels : LabelMoments{.mean = 0, .deviation = 1};
}

// Keys of the loss with which a model that says nothing yet says the mean label, and its numbers
// are in units of the deviation.
std::string base_of(const Manifest& m) {
  const auto [mean, deviation] = labels_of(m);
  if (m.real_label)
    return mean == 0 && deviation == 1 ? ""
                                       : fmt::format(R"(, "base_score": {}, "score_scale": {})",
                                                     text_of(rounded(mean, deviation)),
                                                     text_of(rounded(deviation, deviation)));
  if (mean == 0) return "";
  return fmt::format(R"(, "base_score": {})", text_of(rounded(mean, std::min(mean, 1 - mean))));
}

std::string json_string(const std::string& text) { return nlohmann::json(text).dump(); }

// Evaluations on a validation split end training before it overfits.
int epochs_of(const Manifest& m, const Sizes& sizes) {
  if (sizes.decays) return kConstantEpochs + kDecayEpochs;
  if (file_of(m, "val")) return sizes.many ? 10 : 50;
  return sizes.many ? 2 : sizes.few ? 20 : 5;
}

std::string solver_of(const Manifest& m, const Sizes& sizes) {
  std::string text = fmt::format(R"(  "solver": {{
    "seed": 1, "display": 100, "batchsize": {},
    "num_epochs": {})",
                                 sizes.batch, epochs_of(m, sizes));
  if (file_of(m, "val")) {
    // A smaller difference between two evaluations is noise of the samples that it is measured on.
    const double unit = m.real_label ? std::pow(labels_of(m).deviation, 2) : 1;
    const double noise =
        unit *
        std::max(1e-5,
                 0.005 / std::sqrt(static_cast<double>(std::max<int64_t>(1, m.rows_of("val")))));
    text += fmt::format(
        R"(, {0}, "eval_metrics": [{1}"AverageLoss"],{3}
    "early_stop": {{"monitor": "AverageLoss", "patience": 4, "min_delta": {2:.1g}}})",
        sizes.many ? fmt::format(R"("eval_interval": {}, "eval_batches": {})",
                                 std::max<int64_t>(1, sizes.iterations(1) / 4),
                                 (m.rows_of("val") + sizes.batch - 1) / sizes.batch)
                   : R"("eval_every_epochs": 1)",
        m.real_label ? "" : R"("AUC", )", noise,
        sizes.decays ? ""
                     : fmt::format(R"(
    "lr_plateau": {{"monitor": "AverageLoss", "factor": 0.1, "patience": 2, "min_delta": {:.1g}}},)",
                                   noise));
  }
  return text + "\n  },\n";
}

std::string optimizer_of(const std::string& model, const Sizes& sizes) {
  const double rate = (model == "dcn" ? kDcnRate : 1) * sizes.learning_rate;
  const std::string decay =
      sizes.decays ? fmt::format(R"(, "decay_start": {}, "decay_steps": {}, "end_lr": {:.12g})",
                                 sizes.iterations(kConstantEpochs), sizes.iterations(kDecayEpochs),
                                 kLastRate * rate)
                   : "";
  return fmt::format(
      R"(  "optimizer": {{"type": "Adam", "update_type": "{}", "adam_hparam": {{"learning_rate": {}{}}}}},
)",
      sizes.layers.penalty > 0 ? "Global" : "Local", rate, decay);
}

// The sparse inputs, in the order of their slots.
std::vector<SlotRun> inputs_of(const std::string& model, const PreparedData& data) {
  if (!reads_histories(model)) return {{"keys", 0, std::ssize(data.manifest.slot_sizes)}};
  HistoryInputs in = history_inputs(data);
  std::vector<SlotRun> runs = std::move(in.context);
  runs.insert(runs.end(), in.targets.begin(), in.targets.end());
  runs.push_back(in.history);
  std::sort(runs.begin(), runs.end(),
            [](const SlotRun& a, const SlotRun& b) { return a.first < b.first; });
  return runs;
}

std::string input_text(const Manifest& m, const SlotRun& run) {
  const auto first = m.hotness.begin() + run.first, end = first + run.count;
  const bool short_lists = m.format != "norm" && !m.fixed_length;  // kNoKey fills up
  std::string keys;
  if (run.top == "history")
    keys = fmt::format(R"(, "max_len": {}, "lengths": "history_len")", *first);
  else if (short_lists || std::any_of(first, end, [](auto n) { return n != 1; }))
    keys = fmt::format(R"(, "nnz_per_slot": [{}]{})", fmt::join(first, end, ", "),
                       short_lists ? R"(, "is_fixed_length": false)" : "");
  return fmt::format(R"({{"top": "{}", "slot_num": {}{}}})", run.top, run.count, keys);
}

std::string data_of(const std::string& model, const PreparedData& data, const Sizes& sizes) {
  const Manifest& m = data.manifest;
  const bool norm = m.format == "norm", parquet = m.format == "parquet", raw = !norm && !parquet;
  const auto path = [&](const std::string& name) { return json_string(data.folder + name); };
  std::string text = fmt::format(R"(    {{
      "name": "data", "type": "Data", "format": "{}", "source": {},)",
                                 norm      ? "Norm"
                                 : parquet ? "Parquet"
                                           : "RawAsync",
                                 path(file_of(m, "train")->name));
  for (const auto& [role, key] :
       {std::pair("val", "eval_source"), std::pair("test", "test_source")})
    if (const ManifestFile* file = file_of(m, role))
      text += fmt::format(R"( "{}": {},)", key, path(file->name));
  text += "\n     ";
  if (norm) {
    const auto options = nlohmann::json::parse(m.options_json);
    text += fmt::format(R"( "check": "{}",)", options.value("norm_sum", true) ? "Sum" : "None");
  }
  if (parquet) text += fmt::format(R"( "columns": {},)", data.columns);
  if (raw && m.float_label && m.float_dense) text += R"( "float_label_dense": true,)";
  if (m.negative_share < 1) text += fmt::format(R"( "negative_share": {},)", m.negative_share);
  if (!sizes.many) text += R"( "shuffle_samples": true,)";
  if (raw && sizes.many) text += R"( "async_param": {"shuffle": true},)";
  std::vector<std::string> inputs;
  for (const SlotRun& run : inputs_of(model, data)) inputs.push_back(input_text(m, run));
  text += fmt::format(
      R"( "slot_size_array": {},
      "label": {{"top": "label", "label_dim": {}{}{}}}, "dense": {{"top": "dense", "dense_dim": {}}},
      "sparse": [{}]
    }},
)",
      data.slot_sizes, m.label_dim, m.sample_weight ? R"(, "sample_weight": true)" : "",
      m.real_label ? R"(, "real": true)" : "", m.dense_dim,
      fmt::join(inputs, ",\n                 "));
  return text;
}

std::string loss_of(const std::string& model, const Manifest& m) {
  if (has_tasks(model))
    return fmt::format(
        R"(    {{"type": "MultiCrossEntropyLoss", "bottom": ["logit", "label"], "top": "loss", "target_weight": [{}]}})"
        "\n",
        fmt::join(std::vector<int>(static_cast<size_t>(m.label_dim), 1), ", "));
  return fmt::format(R"(    {{"type": "{}", "bottom": ["logit", "label"], "top": "loss"{}}})"
                     "\n",
                     m.real_label ? "MSELoss" : "BinaryCrossEntropyLoss", base_of(m));
}

}  // namespace

std::string first_config(const std::string& model, const PreparedData& data,
                         const config::JsonNode* chosen) {
  const Manifest& m = data.manifest;
  const auto& models = first_config_models();
  if (std::find(models.begin(), models.end(), model) == models.end())
    raise<ConfigError>("expected a model ({}), found \"{}\"", fmt::join(models, ", "), model);
  if (!file_of(m, "train") || m.rows_of("train") == 0)
    raise<ConfigError>("{}: expected data with training rows, found none", data.facts);
  if (has_tasks(model) != (m.label_dim > 1))
    raise<ConfigError>("{}: expected data with {} for {}, found {}", data.facts,
                       has_tasks(model) ? "several labels" : "one label", model, m.label_dim);
  if (!reads_histories(model) && !m.histories.empty())
    raise<ConfigError>(
        "{}: expected data without histories for {} (din, dien and bst read them), found \"{}\"",
        data.facts, model, m.histories.front().name);
  Sizes sizes(m);
  if (reads_histories(model)) {
    sizes.layers.histories = HistorySizes::of(model, chosen);
    sizes.learning_rate = sizes.layers.histories.learning_rate;
    sizes.decays = false;
  }
  return "{\n" + solver_of(m, sizes) + optimizer_of(model, sizes) + "  \"layers\": [\n" +
         data_of(model, data, sizes) + model_layers(model, data, sizes.layers) + loss_of(model, m) +
         "  ]\n}\n";
}

std::string first_config(const std::string& model, const Manifest& manifest,
                         const std::string& folder) {
  return first_config(model, PreparedData::of_manifest(manifest, folder));
}

}  // namespace hlite::prep
