#include "hugectr_lite/preparation/models/model_layers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "hugectr_lite/preparation/models/layer_text.h"

namespace hlite::prep {
namespace {

constexpr double kInitStddev = 0.05;
constexpr int kCrossLayers = 3;    // of dcn, dcnv2, gdcn
constexpr int kExperts = 4;        // of mmoe
constexpr int kSharedExperts = 2;  // of a level of ple, beside an own one of each task
constexpr int kTowerWidth = 32;    // of mmoe and ple
constexpr int kMasks = 3;          // blocks of masknet
constexpr int kMaskWidth = 2;      // times that of what is masked: of the layer that makes a mask
constexpr int kHeads = 4;          // of finalmlp

using Names = TensorNames;

class Layers : public LayerText {
 public:
  Layers(const data::Manifest& m, const LayerSizes& sizes) : m_(m), sizes_(sizes) {}

  void dlrm() {
    embedding(sizes_.width);
    if (m_.dense_dim == 0) {  // vectors as they are, as nothing stands for the numbers
      flat();
      deep(all_, "hidden");
      return inner_product("hidden", "logit");
    }
    add(R"("type": "MLP", "bottom": "dense", "top": "bottom", "mlp_param": {{"num_outputs": [{}, {}]}})",
        4 * sizes_.width, sizes_.width);
    add(R"("type": "Interaction", "bottom": ["bottom", "embedding"], "top": "interaction")");
    deep("interaction", "hidden");
    inner_product("hidden", "logit");
  }

  // `cross`: parameters of the cross layers.
  void dcn(const char* cross) {
    inputs();
    add(R"("type": "MultiCross", "bottom": "{}", "top": "cross", "mc_param": {{"num_layers": {}{}}})",
        all_, kCrossLayers, cross);
    beside_deep("cross");
  }

  // Wang et al. 2023: x' = x0 (x W + b) plain("Sigmoid", x G) + x.
  void gdcn() {
    inputs();
    std::string x = all_;
    for (int i = 0; i < kCrossLayers; ++i) {
      const std::string top = fmt::format("cross{}", i);
      inner_product(x, top + "_fc", width_);
      inner_product(x, top + "_gate_fc", width_, ", \"use_bias\": false");
      plain("Sigmoid", top + "_gate_fc", top + "_gate");
      join("ElementwiseMultiply", {all_, top + "_fc", top + "_gate"}, top + "_product");
      join("Add", {top + "_product", x}, top);
      x = top;
    }
    beside_deep(x);
  }

  // A weight for each vector, and `pairs`: products of vectors, two by two.
  void wide_and_deep(bool pairs) {
    const int64_t width = sizes_.width, slots = std::ssize(m_.slot_sizes);
    embedding(width + 1);
    reshape("embedding", "rows", width + 1);
    add(R"("type": "Slice", "bottom": "rows", "top": ["vectors", "weights"], "ranges": [[0, {0}], [{0}, {1}]])",
        width, width + 1);
    reshape("vectors", "features", slots * width);
    reshape("weights", "linear", slots);
    std::string features = "features", linear = "linear";
    if (m_.dense_dim > 0) {
      add(R"("type": "WeightMultiply", "bottom": "dense", "top": "dense_vectors", "weight_dims": [{}, {}])",
          m_.dense_dim, width);
      join("Concat", {"features", "dense_vectors"}, "all_features");
      add(R"("type": "WeightMultiply", "bottom": "dense", "top": "dense_linear", "weight_dims": [{}, 1])",
          m_.dense_dim);
      join("Concat", {"linear", "dense_linear"}, "all_linear");
      features = "all_features", linear = "all_linear";
    }
    reduce_sum(linear, "wide");
    if (pairs) {
      add(R"("type": "FmOrder2", "bottom": "{}", "top": "products", "out_dim": {})", features,
          width);
      reduce_sum("products", "pairs");
    }
    deep(features, "hidden");
    inner_product("hidden", "deep");
    join("Add", pairs ? Names{"deep", "wide", "pairs"} : Names{"deep", "wide"}, "logit");
  }

  // Zhu et al. 2023, one block: of z = x W + b, in halves z2 and z1, [z2, z2 z1].
  void finalnet() {
    inputs();
    std::string x = all_;
    for (size_t i = 0; i < sizes_.hidden.size(); ++i) {
      const int64_t width = sizes_.hidden[i];
      const std::string n = std::to_string(i);
      inner_product(x, "fc" + n, width);
      add(R"("type": "Slice", "bottom": "fc{0}", "top": ["linear{0}", "factor{0}"], "ranges": [[0, {1}], [{1}, {2}]])",
          n, width / 2, width);
      join("ElementwiseMultiply", {"linear" + n, "factor" + n}, "quadratic" + n);
      join("Concat", {"linear" + n, "quadratic" + n}, "z" + n);
      x = activated("z" + n, "", n, "hidden" + n);
    }
    inner_product(x, "logit");
  }

  // Mao et al. 2023: two MLPs of gated inputs, and the products of their outputs by heads. The
  // gates' input is a trained vector each.
  void finalmlp() {
    inputs();
    // The softmax of one number: 1.
    reduce_sum(all_, "sum");
    plain("Softmax", "sum", "one");
    const Names sides = {"x", "y"};
    const int64_t width = sizes_.hidden.back();
    for (const std::string& side : sides) {
      inner_product("one", side + "_context", sizes_.width,
                    R"(, "use_bias": false, "weight_init": "Zero")");
      mlp(side + "_context", side + "_gate_fc", {sizes_.hidden.front(), width_});
      plain("Sigmoid", side + "_gate_fc", side + "_gate");
      join("Add", {side + "_gate", side + "_gate"}, side + "_gate2");
      join("ElementwiseMultiply", {all_, side + "_gate2"}, side + "_input");
      deep(side + "_input", side);
      inner_product(side, side + "_logit");
    }
    Names heads, products;
    std::string ranges;
    for (int h = 0; h < kHeads; ++h) {
      heads.push_back(fmt::format("x{}", h));
      products.push_back(fmt::format("x{}_fc", h));
      ranges += fmt::format("{}[{}, {}]", h > 0 ? ", " : "", h * width / kHeads,
                            (h + 1) * width / kHeads);
    }
    add(R"("type": "Slice", "bottom": "x", "top": [{}], "ranges": [{}])", quoted(heads), ranges);
    for (int h = 0; h < kHeads; ++h)
      inner_product(heads[static_cast<size_t>(h)], products[static_cast<size_t>(h)], width / kHeads,
                    R"(, "use_bias": false)");
    join("Concat", products, "x_heads");
    join("ElementwiseMultiply", {"x_heads", "y"}, "xy");
    reduce_sum("xy", "xy_logit");
    join("Add", {"x_logit", "y_logit", "xy_logit"}, "logit");
  }

  // Wang et al. 2021, parallel blocks: relu(LayerNorm((mask x) W)), mask = MLP(x).
  void masknet() {
    inputs();
    Names blocks;
    for (int i = 0; i < kMasks; ++i) {
      const auto name = [i](const char* of) { return fmt::format("{}{}", of, i); };
      mlp(all_, name("mask"), {kMaskWidth * width_, width_});
      join("ElementwiseMultiply", {all_, name("mask")}, name("masked"));
      inner_product(name("masked"), name("block_fc"), sizes_.hidden.back(),
                    R"(, "use_bias": false)");
      add(R"("type": "LayerNorm", "bottom": "{}", "top": "{}", "ln_param": {{"eps": 1e-05}})",
          name("block_fc"), name("block_norm"));
      plain("ReLU", name("block_norm"), name("block"));
      blocks.push_back(name("block"));
    }
    join("Concat", blocks, "blocks");
    deep("blocks", "hidden");
    inner_product("hidden", "logit");
  }

  // Ma et al. 2018: experts that all tasks share, and a mixture of them for each.
  void mmoe() {
    inputs();
    Names experts;
    for (int e = 0; e < kExperts; ++e) {
      experts.push_back(fmt::format("expert{}", e));
      deep(all_, experts.back());
    }
    join("Concat", experts, "experts");
    Names mixtures;
    for (int64_t t = 0; t < m_.label_dim; ++t) {
      mixtures.push_back(fmt::format("task{}", t));
      mixture(all_, "experts", kExperts, sizes_.hidden.back(), mixtures.back());
    }
    towers(mixtures);
  }

  // Tang et al. 2020: in each level experts of each task and shared ones. A task's mixture has its
  // own and the shared ones, that of the shared path the shared ones.
  void ple() {
    inputs();
    const auto tasks = static_cast<size_t>(m_.label_dim);
    Names from(tasks + 1, all_);  // what the next level reads; the last: the shared path
    for (size_t level = 0; level < sizes_.hidden.size(); ++level) {
      const int64_t width = sizes_.hidden[level];
      const auto expert = [&](const std::string& bottom, const std::string& top) {
        inner_product(bottom, top + "_fc", width);
        activated(top + "_fc", top + "_", "", top);
      };
      Names shared;
      for (int e = 0; e < kSharedExperts; ++e) {
        shared.push_back(fmt::format("level{}_shared{}", level, e));
        expert(from[tasks], shared.back());
      }
      Names tops;
      for (size_t t = 0; t < tasks; ++t) {
        tops.push_back(fmt::format("level{}_task{}", level, t));
        Names experts = shared;
        experts.insert(experts.begin(), tops.back() + "_own");
        expert(from[t], experts.front());
        join("Concat", experts, tops.back() + "_experts");
        mixture(from[t], tops.back() + "_experts", kSharedExperts + 1, width, tops.back());
      }
      if (level + 1 < sizes_.hidden.size()) {
        tops.push_back(fmt::format("level{}_shared", level));
        join("Concat", shared, tops.back() + "_experts");
        mixture(from[tasks], tops.back() + "_experts", kSharedExperts, width, tops.back());
      }
      from = tops;
    }
    towers(from);
  }

 private:
  void embedding(int64_t width) {
    const std::string tables =
        m_.slot_tables.empty()
            ? ""
            : fmt::format(R"(, "slot_tables": [{}])", fmt::join(m_.slot_tables, ", "));
    const std::string penalty =
        sizes_.penalty > 0
            ? fmt::format(R"(, "regularizer": "L2", "lambda": {:.2g})", sizes_.penalty)
            : "";
    const bool one_hot =
        std::all_of(m_.hotness.begin(), m_.hotness.end(), [](auto n) { return n == 1; });
    add(R"("type": "{}", "bottom": "keys", "top": "embedding",
     "sparse_embedding_hparam": {{"embedding_vec_size": {}, "combiner": "sum", "init_stddev": {}{}{}}})",
        one_hot ? "LocalizedSlotSparseEmbeddingOneHot" : "HybridSparseEmbedding", width,
        kInitStddev, penalty, tables);
  }
  // All vectors and numbers of a sample as one row.
  void flat() {
    width_ = std::ssize(m_.slot_sizes) * sizes_.width;
    reshape("embedding", "features", width_);
    all_ = "features";
    if (m_.dense_dim == 0) return;
    join("Concat", {"features", "dense"}, "all_features");
    all_ = "all_features";
    width_ += m_.dense_dim;
  }
  void inputs() {
    embedding(sizes_.width);
    flat();
  }
  // Further layers of `top` have its name in front, or none if it is "hidden".
  void deep(const std::string& bottom, const std::string& top) {
    const std::string prefix = top == "hidden" ? "" : top + "_";
    if (!sizes_.normalized) {
      mlp(bottom, prefix + "mlp", sizes_.hidden, /*last_is_linear=*/false);
      return dropout(prefix + "mlp", top, sizes_.dropout);
    }
    std::string below = bottom;
    for (size_t i = 0; i < sizes_.hidden.size(); ++i) {
      const std::string number = std::to_string(i), fc = prefix + "fc" + number;
      inner_product(below, fc, sizes_.hidden[i]);
      below = activated(fc, prefix, number,
                        i + 1 == sizes_.hidden.size() ? top : prefix + "hidden" + number);
    }
  }
  // What follows an inner product: a normalization, if any, ReLU and Dropout. `prefix` and `number`
  // are those of the names of layers. Returns `top`.
  const std::string& activated(std::string below, const std::string& prefix,
                               const std::string& number, const std::string& top) {
    if (sizes_.normalized) {
      const std::string norm = prefix + "norm" + number;
      add(R"("type": "BatchNorm", "bottom": "{}", "top": "{}", "bn_param": {{"factor": 0.1, "eps": 1e-05}})",
          below, norm);
      below = norm;
    }
    const std::string relu = prefix + "relu" + number;
    plain("ReLU", below, relu);
    dropout(relu, top, sizes_.dropout);
    return top;
  }
  void mlp(const std::string& bottom, const std::string& top, const std::vector<int64_t>& widths,
           bool last_is_linear = true) {
    add(R"("type": "MLP", "bottom": "{}", "top": "{}", "mlp_param": {{"num_outputs": [{}]{}}})",
        bottom, top, fmt::join(widths, ", "),
        last_is_linear ? R"(, "activations": ["Relu", "None"])" : "");
  }
  void reduce_sum(const std::string& bottom, const std::string& top) {
    add(R"("type": "ReduceSum", "bottom": "{}", "top": "{}", "axis": 1)", bottom, top);
  }
  // The logit of `cross` and hidden layers beside it.
  void beside_deep(const std::string& cross) {
    deep(all_, "hidden");
    join("Concat", {cross, "hidden"}, "both");
    inner_product("both", "logit");
  }
  // The sum of so many experts, `width` numbers each, side by side, each times the softmax of an
  // inner product.
  void mixture(const std::string& bottom, const std::string& experts, int64_t count, int64_t width,
               const std::string& top) {
    inner_product(bottom, top + "_gate_fc", count);
    plain("Softmax", top + "_gate_fc", top + "_gate");
    add(R"("type": "Scale", "bottom": "{0}_gate", "top": "{0}_gates", "scale_param": {{"axis": 0, "factor": {1}}})",
        top, width);
    join("ElementwiseMultiply", {experts, top + "_gates"}, top + "_gated");
    reshape(top + "_gated", top + "_parts", count, width);
    reduce_sum(top + "_parts", top + "_part");
    reshape(top + "_part", top, width);
  }
  // A logit for each task.
  void towers(const Names& bottoms) {
    Names logits;
    for (size_t t = 0; t < bottoms.size(); ++t) {
      logits.push_back(fmt::format("logit{}", t));
      mlp(bottoms[t], logits.back(), {kTowerWidth, 1});
    }
    join("Concat", logits, "logit");
  }

  const data::Manifest& m_;
  const LayerSizes& sizes_;
  std::string all_;
  int64_t width_ = 0;  // of all_
};

struct Model {
  const char* name;
  void (*make)(Layers&);
  bool tasks = false;
};

const Model kModels[] = {{"dlrm", [](Layers& l) { l.dlrm(); }},
                         {"dcnv2", [](Layers& l) { l.dcn(R"(, "projection_dim": 32)"); }},
                         {"deepfm", [](Layers& l) { l.wide_and_deep(true); }},
                         {"wdl", [](Layers& l) { l.wide_and_deep(false); }},
                         {"dcn", [](Layers& l) { l.dcn(""); }},
                         {"gdcn", [](Layers& l) { l.gdcn(); }},
                         {"finalmlp", [](Layers& l) { l.finalmlp(); }},
                         {"finalnet", [](Layers& l) { l.finalnet(); }},
                         {"masknet", [](Layers& l) { l.masknet(); }},
                         {"mmoe", [](Layers& l) { l.mmoe(); }, true},
                         {"ple", [](Layers& l) { l.ple(); }, true}};

const Model& model_of(const std::string& name) {
  return *std::find_if(std::begin(kModels), std::end(kModels),
                       [&](const Model& m) { return m.name == name; });
}

}  // namespace

const std::vector<std::string>& first_config_models() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Model& m : kModels) all.emplace_back(m.name);
    all.insert(all.end(), {"din", "dien", "bst"});
    return all;
  }();
  return names;
}

bool has_tasks(const std::string& model) {
  return !reads_histories(model) && model_of(model).tasks;
}

std::string model_layers(const std::string& model, const PreparedData& data,
                         const LayerSizes& sizes) {
  if (reads_histories(model)) return history_layers(model, data, sizes.penalty, sizes.histories);
  Layers layers(data.manifest, sizes);
  model_of(model).make(layers);
  return std::move(layers).text();
}

}  // namespace hlite::prep
