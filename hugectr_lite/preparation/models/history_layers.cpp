#include "hugectr_lite/preparation/models/history_layers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "hugectr_lite/config/block.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/preparation/models/layer_text.h"

namespace hlite::prep {
namespace {

// Attention compares rows by their products, which of smaller rows are too small to learn from.
constexpr double kHistoryInitStddev = 0.2;

using data::Manifest;

const std::string& name_of(const Manifest& m, int64_t slot) {
  return m.columns[static_cast<size_t>(slot)].name;
}

// The slot of what is asked for, of one of the history.
int64_t target_of(const PreparedData& data, const data::History& history, int64_t slot) {
  const Manifest& m = data.manifest;
  const auto table = [&](int64_t s) {
    return m.slot_tables.empty() ? s : m.slot_tables[static_cast<size_t>(s)];
  };
  std::vector<int64_t> found;
  for (int64_t s = 0; s < std::ssize(m.slot_sizes); ++s)
    if (table(s) == table(slot) &&
        (s < history.first_slot || s >= history.first_slot + history.slots)) {
      if (name_of(m, s) + "_history" == name_of(m, slot)) return s;
      found.push_back(s);
    }
  if (found.size() == 1) return found.front();
  std::vector<std::string> names;
  for (const int64_t s : found) names.push_back(name_of(m, s));
  raise<ConfigError>(
      "{}: expected one column, the target, with the vocabulary of the history's column \"{}\" "
      "(\"vocabulary\" in the schema), or of several one that is named like it without "
      "\"_history\", found {}",
      data.facts, name_of(m, slot),
      names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

// Appends a slot to the last input, or begins another.
void append(std::vector<SlotRun>& runs, const char* top, int64_t slot) {
  if (!runs.empty() && runs.back().first + runs.back().count == slot) {
    ++runs.back().count;
    return;
  }
  const std::string number = runs.empty() ? "" : std::to_string(runs.size() + 1);
  runs.push_back({top + number, slot, 1});
}

class HistoryModel : public LayerText {
 public:
  HistoryModel(const PreparedData& data, double penalty, const HistorySizes& sizes)
      : m_(data.manifest),
        in_(history_inputs(data)),
        sizes_(sizes),
        length_(m_.hotness[static_cast<size_t>(in_.history.first)]),
        event_(in_.history.count * sizes.width) {
    embedding(penalty);
    for (const SlotRun& run : in_.context) context_.push_back(row_of(run));
    TensorNames targets;
    for (const SlotRun& run : in_.targets) targets.push_back(row_of(run));
    target_ = targets.front();
    if (targets.size() > 1) join("Concat", targets, target_ = "target_rows");
  }

  // Zhou et al. 2018.
  void din() {
    // One row for each event of each sample.
    add(R"("type": "Scale", "bottom": "{}", "top": "q", "scale_param": {{"axis": 1, "factor": {}}})",
        target_, length_);
    reshape("history_vectors", "h", event_);
    join("Sub", {"q", "h"}, "difference");
    join("ElementwiseMultiply", {"q", "h"}, "product");
    join("Concat", {"q", "h", "difference", "product"}, "attention");
    std::string below = "attention";
    for (size_t i = 0; i < sizes_.attention.size(); ++i) {
      const std::string number = std::to_string(i);
      inner_product(below, "attention_fc" + number, sizes_.attention[i]);
      below = dice("attention_fc" + number, "attention_dice" + number);
    }
    // A softmax does not see what is added to all.
    inner_product(below, "score", 1, sizes_.softmax ? R"(, "use_bias": false)" : "");
    reshape("score", "scores", length_);
    weigh(sizes_.softmax ? "Softmax" : "ElementwiseMultiply");
    reshape("weights", "weights3", 1, length_);
    join("MatrixMultiply", {"weights3", "history_vectors"}, "interest3");
    reshape("interest3", "interest", event_);
    add(R"("type": "ReduceMean", "bottom": ["history_vectors", "history_len"], "top": "average3", "axis": 1)");
    reshape("average3", "average", event_);
    head({"average", "interest", target_}, /*with_dice=*/true);
  }

  // Zhou et al. 2019, without its second loss: states of the history, which the target weighs, and
  // the last state of the units that these weights hold back.
  void dien() {
    gru(R"("history_vectors", "history_len")", "states");
    inner_product("states", "bilinear", event_, R"(, "use_bias": false)");
    reshape(target_, "target_column", event_, 1);
    join("MatrixMultiply", {"bilinear", "target_column"}, "scores3");
    reshape("scores3", "scores", length_);
    weigh("Softmax");
    gru(R"("states", "history_len", "weights")", "evolution");
    last("evolution", "history_len", "interest");
    head({"interest", target_}, /*with_dice=*/true);
  }

  // Chen et al. 2019: the target behind the history.
  void bst() {
    if (event_ % sizes_.heads != 0)
      raise<ConfigError>("bst: expected heads that divide {}, the width of an event, found {}",
                         event_, sizes_.heads);
    reshape(target_, "target3", 1, event_);
    add(R"("type": "SequenceConcat", "bottom": ["history_vectors", "history_len", "target3"], "top": ["sequence", "sequence_len"])");
    add(R"("type": "PositionEmbedding", "bottom": ["sequence", "sequence_len"], "top": "positioned", "from": "end")");
    mask("sequence_len", length_ + 1, length_ + 1);
    std::string state = "positioned";
    for (int64_t i = 0; i < sizes_.blocks; ++i) state = block(state, fmt::format("block{}_", i));
    last(state, "sequence_len", "last");
    head({"last"}, /*with_dice=*/false);
  }

 private:
  // One set of tables, so that what is asked for and a history of it have the same vectors.
  void embedding(double penalty) {
    TensorNames bottoms, tops, combiners;
    std::vector<int64_t> slots;
    const auto look_up = [&](const SlotRun& run, const char* combiner) {
      bottoms.push_back(run.top);
      tops.push_back(run.top + "_vectors");
      combiners.emplace_back(combiner);
      for (int64_t s = 0; s < run.count; ++s) slots.push_back(run.first + s);
    };
    for (const SlotRun& run : in_.context) look_up(run, "sum");
    for (const SlotRun& run : in_.targets) look_up(run, "concat");
    look_up(in_.history, "concat");
    add(R"("type": "HybridSparseEmbedding", "name": "embedding", "bottom": [{}], "top": [{}],
     "sparse_embedding_hparam": {{"embedding_vec_size": {}, "combiner": [{}], "init_stddev": {}{},
      "slot_tables": [{}]}})",
        quoted(bottoms), quoted(tops), sizes_.width, quoted(combiners), kHistoryInitStddev,
        penalty > 0 ? fmt::format(R"(, "regularizer": "L2", "lambda": {:.2g})", penalty) : "",
        fmt::join(m_.tables_of(slots), ", "));
  }
  std::string row_of(const SlotRun& run) {
    reshape(run.top + "_vectors", run.top + "_row", run.count * sizes_.width);
    return run.top + "_row";
  }
  void mask(const char* lengths, int64_t from, int64_t to) {
    add(R"("type": "SequenceMask", "bottom": ["{0}", "{0}"], "top": "mask4", "max_sequence_len_from": {1}, "max_sequence_len_to": {2})",
        lengths, from, to);
  }
  // "weights" of events, of "scores" [B,T].
  void weigh(const char* type) {
    mask("history_len", 1, length_);
    reshape("mask4", "mask", length_);
    join(type, {"scores", "mask"}, "weights");
  }
  void gru(const char* bottoms, const char* top) {
    add(R"("type": "GRU", "bottom": [{}], "top": "{}", "gru_param": {{"num_output": {}}})", bottoms,
        top, event_);
  }
  void last(const std::string& rows, const char* lengths, const std::string& top) {
    add(R"("type": "SequenceLast", "bottom": ["{}", "{}"], "top": "{}3", "count": 1)", rows,
        lengths, top);
    reshape(top + "3", top, event_);
  }
  // Attention and two layers, with residuals. Returns the name of the state.
  std::string block(const std::string& state, const std::string& b) {
    inner_product(state, b + "query", event_);
    // A softmax would see nothing of a bias of keys.
    inner_product(state, b + "key", event_, R"(, "use_bias": false)");
    inner_product(state, b + "value", event_);
    add(R"("type": "MultiHeadAttention", "bottom": ["{0}query", "{0}key", "{0}value", "mask4"], "top": "{0}attention", "num_attention_heads": {1})",
        b, sizes_.heads);
    inner_product(b + "attention", b + "out", event_);
    const std::string norm = residual(b + "out", state, b, "1");
    inner_product(norm, b + "wide", 2 * event_);
    plain("ReLU", b + "wide", b + "relu");
    inner_product(b + "relu", b + "narrow", event_);
    return residual(b + "narrow", norm, b, "2");
  }
  std::string residual(const std::string& rows, const std::string& below, const std::string& b,
                       const char* number) {
    join("Add", {rows, below}, b + "sum" + number);
    add(R"("type": "LayerNorm", "bottom": "{0}sum{1}", "top": "{0}norm{1}", "ln_param": {{"eps": 1e-05}})",
        b, number);
    return b + "norm" + number;
  }
  std::string dice(const std::string& bottom, const std::string& top) {
    add(R"("type": "PReLU_Dice", "bottom": "{}", "top": "{}", "prelu_dice_param": {{"alpha": 0.2, "epsilon": 1e-08}})",
        bottom, top);
    return top;
  }
  // Hidden layers on `rows` beside all other inputs, to the logit.
  void head(const TensorNames& rows, bool with_dice) {
    TensorNames all = context_;
    all.insert(all.end(), rows.begin(), rows.end());
    if (m_.dense_dim > 0) all.emplace_back("dense");
    std::string below = all.front();
    if (all.size() > 1) join("Concat", all, below = "features");
    for (size_t i = 0; i < sizes_.hidden.size(); ++i) {
      const std::string number = std::to_string(i);
      inner_product(below, "fc" + number, sizes_.hidden[i]);
      if (with_dice)
        below = dice("fc" + number, "dice" + number);
      else
        plain("ReLU", "fc" + number, below = "relu" + number);
      if (sizes_.dropout == 0) continue;
      dropout(below, "dropout" + number, sizes_.dropout);
      below = "dropout" + number;
    }
    inner_product(below, "logit");
  }

  const Manifest& m_;
  const HistoryInputs in_;
  const HistorySizes& sizes_;
  const int64_t length_, event_;  // events of a history; width of one
  TensorNames context_;           // a row of each sample
  std::string target_;            // likewise
};

}  // namespace

bool reads_histories(const std::string& model) {
  return model == "din" || model == "dien" || model == "bst";
}

HistorySizes HistorySizes::of(const std::string& model, const config::JsonNode* sizes) {
  HistorySizes s;
  if (model == "bst") s.hidden = {256, 128, 64}, s.learning_rate = 0.002;
  if (!sizes) return s;
  config::read_object(*sizes, [&](config::Block& keys) {
    keys.integer("width", &s.width, {.min = 1});
    keys.integers("hidden", &s.hidden, {.min = 1});
    keys.number("dropout", &s.dropout, {.min = 0, .max = 1, .without_max = true});
    keys.number("learning_rate", &s.learning_rate, {.min = 0});
    if (model == "din") {
      keys.integers("attention", &s.attention, {.min = 1});
      keys.boolean("softmax", &s.softmax);
    }
    if (model == "bst") {
      keys.integer("heads", &s.heads, {.min = 1});
      keys.integer("blocks", &s.blocks, {.min = 1});
    }
  });
  return s;
}

HistoryInputs history_inputs(const PreparedData& data) {
  const Manifest& m = data.manifest;
  if (m.histories.size() != 1)
    raise<ConfigError>("{}: expected data with one history, found {}", data.facts,
                       m.histories.empty() ? "none" : std::to_string(m.histories.size()));
  const data::History& history = m.histories.front();
  HistoryInputs in{{}, {}, {"history", history.first_slot, history.slots}};
  std::vector<bool> other(m.slot_sizes.size(), true);
  for (int64_t s = history.first_slot; s < history.first_slot + history.slots; ++s) {
    const int64_t target = target_of(data, history, s);
    if (m.hotness[static_cast<size_t>(target)] != 1)
      raise<ConfigError>("{}: expected one key of the target \"{}\", found up to {}", data.facts,
                         name_of(m, target), m.hotness[static_cast<size_t>(target)]);
    if (!other[static_cast<size_t>(target)])
      raise<ConfigError>(
          "{}: expected a target for each column of the history, found \"{}\" for two", data.facts,
          name_of(m, target));
    append(in.targets, "target", target);
    other[static_cast<size_t>(s)] = other[static_cast<size_t>(target)] = false;
  }
  for (size_t s = 0; s < other.size(); ++s)
    if (other[s]) append(in.context, "context", static_cast<int64_t>(s));
  return in;
}

std::string history_layers(const std::string& model, const PreparedData& data, double penalty,
                           const HistorySizes& sizes) {
  HistoryModel layers(data, penalty, sizes);
  if (model == "din") layers.din();
  if (model == "dien") layers.dien();
  if (model == "bst") layers.bst();
  return std::move(layers).text();
}

}  // namespace hlite::prep
