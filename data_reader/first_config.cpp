#include "data_reader/first_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "hugectr_lite/core/error.h"

namespace hlite::data {
namespace {

// Found on data of which the best known AUC is known (docs/train.md). Too few iterations in an
// epoch, or initial values so small that products of them vanish, cost most.
constexpr int64_t kIterationsPerEpoch = 250, kMaxBatch = 8192;
constexpr int64_t kFewestIterations = 32, kMinBatch = 32;  // of data too small for that
constexpr double kLearningRate = 0.002, kInitStddev = 0.05;
constexpr double kDcnInitStddev = 0.2;  // products of cross layers of vectors are smaller
// From so many samples on, evaluations lie inside epochs, and batches are shuffled instead of
// samples, which would all lie in memory.
constexpr int64_t kManySamples = 1'000'000;
constexpr int64_t kFewSamples = 100'000;  // below it smaller layers do as well
// lambda times samples of the penalty on all rows. Every row is then updated in every iteration, so
// tables have at most so many rows for each key of a batch.
constexpr double kPenalty = 20, kMaxLambda = 0.001;
constexpr int64_t kMaxRowsPerKey = 16;

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
        many(samples >= kManySamples),
        batch(std::clamp(power_of_two(samples / kIterationsPerEpoch),
                         std::min(power_of_two(samples / kFewestIterations), kMinBatch),
                         kMaxBatch)),
        width(many ? 16 : 8),
        hidden(samples < kFewSamples ? "128, 64" : "256, 128") {
    const int64_t keys = std::accumulate(m.hotness.begin(), m.hotness.end(), int64_t{0});
    if (rows_of_tables(m) <= kMaxRowsPerKey * batch * keys)
      penalty = std::min(kPenalty / static_cast<double>(samples), kMaxLambda);
  }
  int64_t samples;
  bool many;
  int64_t batch, width;
  const char* hidden;
  double penalty = 0;  // 0: none
};

const ManifestFile* file_of(const Manifest& m, const char* role) {
  for (const ManifestFile& file : m.files)
    if (file.role == role) return &file;
  return nullptr;
}

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

// Evaluations on a validation split end training before it overfits.
int epochs_of(const Manifest& m, const Sizes& sizes) {
  if (file_of(m, "val")) return sizes.many ? 10 : 30;
  return sizes.many ? 2 : 5;
}

std::string solver_of(const Manifest& m, const Sizes& sizes) {
  std::string text = fmt::format(R"(  "solver": {{
    "seed": 1, "display": 100, "batchsize": {},
    "num_epochs": {})",
                                 sizes.batch, epochs_of(m, sizes));
  if (file_of(m, "val")) {
    const int64_t iterations = std::max<int64_t>(1, sizes.samples / sizes.batch);
    text += fmt::format(
        R"(, {0}, "eval_metrics": [{1}"AverageLoss"],
     "lr_plateau": {{"monitor": "{2}", "factor": 0.1, "patience": 1}}, "early_stop": {{"monitor": "{2}", "patience": 3}})",
        sizes.many ? fmt::format(R"("eval_interval": {}, "eval_batches": {})",
                                 std::max<int64_t>(1, iterations / 4),
                                 (m.rows_of("val") + sizes.batch - 1) / sizes.batch)
                   : R"("eval_every_epochs": 1)",
        m.real_label ? "" : R"("AUC", )", m.real_label ? "AverageLoss" : "AUC");
  }
  return text + "\n  },\n";
}

std::string optimizer_of(const Sizes& sizes) {
  return fmt::format(
      R"(  "optimizer": {{"type": "Adam", "update_type": "{}", "adam_hparam": {{"learning_rate": {}}}}},
)",
      sizes.penalty > 0 ? "Global" : "Local", kLearningRate);
}

std::string data_of(const Manifest& m, const Sizes& sizes, const std::string& folder) {
  const bool norm = m.format == "norm";
  const auto path = [&](const std::string& name) { return quoted(folder + name); };
  std::string text = fmt::format(R"(    {{
      "name": "data", "type": "Data", "format": "{}", "source": {},)",
                                 norm ? "Norm" : "RawAsync", path(file_of(m, "train")->name));
  for (const auto& [role, key] :
       {std::pair("val", "eval_source"), std::pair("test", "test_source")})
    if (const ManifestFile* file = file_of(m, role))
      text += fmt::format(R"( "{}": {},)", key, path(file->name));
  text += "\n     ";
  if (norm) {
    const auto options = nlohmann::json::parse(m.options_json);
    text += fmt::format(R"( "check": "{}",)", options.value("norm_sum", true) ? "Sum" : "None");
  }
  const bool one_hot =
      std::all_of(m.hotness.begin(), m.hotness.end(), [](auto n) { return n == 1; });
  if (!norm && m.float_label && m.float_dense) text += R"( "float_label_dense": true,)";
  if (m.negative_share < 1) text += fmt::format(R"( "negative_share": {},)", m.negative_share);
  if (!norm && !sizes.many) text += R"( "shuffle_samples": true,)";
  if (!norm && sizes.many) text += R"( "async_param": {"shuffle": true},)";
  text += fmt::format(
      R"( "slot_size_array": {},
      "label": {{"top": "label", "label_dim": 1{}{}}}, "dense": {{"top": "dense", "dense_dim": {}}},
      "sparse": [{{"top": "keys", "slot_num": {}{}}}]
    }},
)",
      path("manifest.json"), m.sample_weight ? R"(, "sample_weight": true)" : "",
      m.real_label ? R"(, "real": true)" : "", m.dense_dim, m.slot_sizes.size(),
      (one_hot ? "" : fmt::format(R"(, "nnz_per_slot": [{}])", fmt::join(m.hotness, ", "))) +
          (norm || m.fixed_length ? "" : R"(, "is_fixed_length": false)"));
  return text;
}

// The layers of a model, between the data and its logit.
class Layers {
 public:
  Layers(const Manifest& m, const Sizes& sizes) : m_(m), sizes_(sizes) {}

  std::string dlrm() {
    if (m_.dense_dim == 0)
      raise<ConfigError>(
          "dlrm: expected data with dense features, found none; dcnv2, deepfm, wdl and dcn need "
          "none");
    embedding(sizes_.width);
    add(R"("type": "MLP", "bottom": "dense", "top": "bottom", "mlp_param": {{"num_outputs": [{}, {}]}})",
        4 * sizes_.width, sizes_.width);
    add(R"("type": "Interaction", "bottom": ["bottom", "embedding"], "top": "interaction")");
    deep("interaction");
    return logit("hidden");
  }
  // `cross`: parameters of the cross layers.
  std::string dcn(const char* cross, double init_stddev) {
    embedding(sizes_.width, init_stddev);
    flat();
    add(R"("type": "MultiCross", "bottom": "{}", "top": "cross", "mc_param": {{"num_layers": 3{}}})",
        all_, cross);
    deep(all_);
    add(R"("type": "Concat", "bottom": ["cross", "hidden"], "top": "both")");
    return logit("both");
  }
  // A weight for each vector, and `pairs`: products of vectors, two by two.
  std::string wide_and_deep(bool pairs) {
    const int64_t width = sizes_.width, slots = std::ssize(m_.slot_sizes);
    embedding(width + 1);
    add(R"("type": "Reshape", "bottom": "embedding", "top": "rows", "leading_dim": {})", width + 1);
    add(R"("type": "Slice", "bottom": "rows", "top": ["vectors", "weights"], "ranges": [[0, {0}], [{0}, {1}]])",
        width, width + 1);
    add(R"("type": "Reshape", "bottom": "vectors", "top": "features", "leading_dim": {})",
        slots * width);
    add(R"("type": "Reshape", "bottom": "weights", "top": "linear", "leading_dim": {})", slots);
    std::string features = "features", linear = "linear";
    if (m_.dense_dim > 0) {
      add(R"("type": "WeightMultiply", "bottom": "dense", "top": "dense_vectors", "weight_dims": [{}, {}])",
          m_.dense_dim, width);
      add(R"("type": "Concat", "bottom": ["features", "dense_vectors"], "top": "all_features")");
      add(R"("type": "WeightMultiply", "bottom": "dense", "top": "dense_linear", "weight_dims": [{}, 1])",
          m_.dense_dim);
      add(R"("type": "Concat", "bottom": ["linear", "dense_linear"], "top": "all_linear")");
      features = "all_features", linear = "all_linear";
    }
    add(R"("type": "ReduceSum", "bottom": "{}", "top": "wide", "axis": 1)", linear);
    if (pairs) {
      add(R"("type": "FmOrder2", "bottom": "{}", "top": "products", "out_dim": {})", features,
          width);
      add(R"("type": "ReduceSum", "bottom": "products", "top": "pairs", "axis": 1)");
    }
    deep(features);
    inner_product("hidden", "deep");
    add(R"("type": "Add", "bottom": ["deep", "wide"{}], "top": "logit")",
        pairs ? R"(, "pairs")" : "");
    return loss();
  }

 private:
  template <typename... Args>
  void add(fmt::format_string<Args...> text, Args&&... args) {
    text_ += "    {" + fmt::format(text, std::forward<Args>(args)...) + "},\n";
  }
  void embedding(int64_t width, double init_stddev = kInitStddev) {
    const std::string tables =
        m_.slot_tables.empty()
            ? ""
            : fmt::format(R"(, "slot_tables": [{}])", fmt::join(m_.slot_tables, ", "));
    const std::string penalty =
        sizes_.penalty > 0
            ? fmt::format(R"(, "regularizer": "L2", "lambda": {:.2g})", sizes_.penalty)
            : "";
    add(R"("type": "{}", "bottom": "keys", "top": "embedding",
     "sparse_embedding_hparam": {{"embedding_vec_size": {}, "combiner": "sum", "init_stddev": {}{}{}}})",
        one_hot() ? "LocalizedSlotSparseEmbeddingOneHot" : "HybridSparseEmbedding", width,
        init_stddev, penalty, tables);
  }
  [[nodiscard]] bool one_hot() const {
    return std::all_of(m_.hotness.begin(), m_.hotness.end(), [](auto n) { return n == 1; });
  }
  // All vectors and numbers of a sample as one row.
  void flat() {
    add(R"("type": "Reshape", "bottom": "embedding", "top": "features", "leading_dim": {})",
        std::ssize(m_.slot_sizes) * sizes_.width);
    all_ = "features";
    if (m_.dense_dim == 0) return;
    add(R"("type": "Concat", "bottom": ["features", "dense"], "top": "all_features")");
    all_ = "all_features";
  }
  void deep(const std::string& bottom) {
    add(R"("type": "MLP", "bottom": "{}", "top": "mlp", "mlp_param": {{"num_outputs": [{}]}})",
        bottom, sizes_.hidden);
    add(R"("type": "Dropout", "bottom": "mlp", "top": "hidden", "rate": 0.1)");
  }
  void inner_product(const char* bottom, const char* top) {
    add(R"("type": "InnerProduct", "bottom": "{}", "top": "{}", "fc_param": {{"num_output": 1}})",
        bottom, top);
  }
  std::string logit(const char* bottom) {
    inner_product(bottom, "logit");
    return loss();
  }
  std::string loss() {
    const char* const type = m_.real_label ? "MSELoss" : "BinaryCrossEntropyLoss";
    return text_ +
           fmt::format(R"(    {{"type": "{}", "bottom": ["logit", "label"], "top": "loss"}})"
                       "\n",
                       type);
  }

  const Manifest& m_;
  const Sizes& sizes_;
  std::string text_, all_;
};

std::string layers_of(const std::string& model, const Manifest& m, const Sizes& sizes) {
  Layers layers(m, sizes);
  if (model == "dlrm") return layers.dlrm();
  if (model == "dcnv2") return layers.dcn(R"(, "projection_dim": 32)", kInitStddev);
  if (model == "dcn") return layers.dcn("", kDcnInitStddev);
  if (model == "wdl") return layers.wide_and_deep(false);
  return layers.wide_and_deep(true);
}

}  // namespace

const std::vector<std::string>& first_config_models() {
  static const std::vector<std::string> models = {"dlrm", "dcnv2", "deepfm", "wdl", "dcn"};
  return models;
}

std::string first_config(const std::string& model, const Manifest& manifest,
                         const std::string& folder) {
  const auto& models = first_config_models();
  if (std::find(models.begin(), models.end(), model) == models.end())
    raise<ConfigError>("expected a model ({}), found \"{}\"", fmt::join(models, ", "), model);
  if (!file_of(manifest, "train") || manifest.rows_of("train") == 0)
    raise<ConfigError>("{}manifest.json: expected data with training rows, found none", folder);
  const Sizes sizes(manifest);
  return "{\n" + solver_of(manifest, sizes) + optimizer_of(sizes) + "  \"layers\": [\n" +
         data_of(manifest, sizes, folder) + layers_of(model, manifest, sizes) + "  ]\n}\n";
}

}  // namespace hlite::data
