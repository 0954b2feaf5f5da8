// Configs of the structure that HugeCTR's sample models have, written here from their tables of
// layers: each model in the formats, spellings and topologies in which it comes there.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

namespace hlite::test {

// Of a sample: which one, and how it is spelled.
struct SampleConfig {
  std::string model;            // the function below that has its layers
  std::string format = "Norm";  // or "Raw", "RawAsync", "Parquet"
  std::string gpu = "[0]";
  bool later = false;      // spelled as from 3.1 on, not as in 3.1_beta
  bool fp16 = false;       // mixed_precision
  bool localized = false;  // tables on one rank each
  bool plan_file = false;  // what is left of an older all-to-all

  [[nodiscard]] std::string name() const {
    return fmt::format("{} {} {}{}{}{} gpu {}", model, format, later ? "3.1" : "3.1_beta",
                       fp16 ? " fp16" : "", localized ? " localized" : "",
                       plan_file ? " plan_file" : "", gpu);
  }
  [[nodiscard]] std::string text() const;
};

class SampleText {
 public:
  explicit SampleText(const SampleConfig& c) : c_(c) {}

  std::string solver(int64_t batch) const {
    return fmt::format(
        R"("solver":{{"lr_policy":"fixed","display":200,"max_iter":1000,"gpu":{},"batchsize":{},)"
        R"("batchsize_eval":{},"snapshot":10000000,"snapshot_prefix":"./","eval_interval":500,"{}":4{}{}}})",
        c_.gpu, batch, batch, c_.later ? "max_eval_batches" : "eval_batches",
        c_.fp16 ? R"(,"mixed_precision":1024)" : "",
        c_.format == "Parquet" ? R"(,"input_key_type":"I64")" : "");
  }
  static std::string adam(const char* update_type) {
    return fmt::format(
        R"("optimizer":{{"type":"Adam","update_type":"{}","adam_hparam":{{"learning_rate":0.001,)"
        R"("beta1":0.9,"beta2":0.999,"epsilon":0.0000001}}}})",
        update_type);
  }
  static std::string sgd(const char* rate) {
    return fmt::format(
        R"("optimizer":{{"type":"SGD","update_type":"Local","sgd_hparam":{{"learning_rate":{},)"
        R"("warmup_steps":1000,"decay_start":40000,"decay_steps":10000,"decay_power":2,"end_lr":0}}}})",
        rate);
  }

  // A sparse input, and the embedding layer on it.
  struct Sparse {
    std::string top;
    int slots = 26, features = 30, width = 16;
    const char* combiner = "sum";
    int rows = 100000;  // of all slots together, a rank
    bool wide = false;  // spread over all ranks where the others are localized
  };

  // From here on a list of layers grows.
  SampleText& data(int dense, std::vector<Sparse> sparse, int labels = 1) {
    sparse_ = std::move(sparse);
    std::string inputs;
    for (const Sparse& s : sparse_) inputs += (inputs.empty() ? "" : ",") + input_of(s);
    std::string more = c_.later ? R"("num_workers":4,)" : "";
    if (raw()) {
      more += R"("num_samples":4096,"eval_num_samples":1024,)";
      std::string sizes;
      for (const Sparse& s : sparse_)
        for (int i = 0; i < s.slots; ++i) sizes += (sizes.empty() ? "" : ",") + rows_of_slot(s);
      more += "\"slot_size_array\":[" + sizes + "],";
    }
    if (c_.format == "RawAsync")
      more += R"("async_param":{"num_threads":1,"num_batches_per_thread":4,"io_block_size":4096,)"
              R"("io_depth":1,"io_alignment":512},)";
    add(fmt::format(
        R"({{"name":"data","type":"Data","format":"{}","source":"train","eval_source":"eval",)"
        R"("check":"{}",{}"label":{{"top":"label","label_dim":{}}},)"
        R"("dense":{{"top":"dense","dense_dim":{}}},"sparse":[{}]}})",
        c_.format, c_.format == "Norm" ? "Sum" : "None", more, labels, dense, inputs));
    for (const Sparse& s : sparse_) add(embedding_of(s));
    return *this;
  }

  // {"type":...,"bottom":...,"top":... more}; bottom and top: a name, or names with commas.
  SampleText& layer(const std::string& type, const std::string& bottom, const std::string& top,
                    const std::string& more = "") {
    return add(fmt::format(R"({{"name":"{}_{}","type":"{}","bottom":{},"top":{}{}{}}})", type,
                           ++count_, type, names(bottom), names(top), more.empty() ? "" : ",",
                           more));
  }
  SampleText& fc(const std::string& bottom, const std::string& top, int out) {
    return layer("InnerProduct", bottom, top,
                 fmt::format(R"("fc_param":{{"num_output":{}}})", out));
  }
  // fc, ReLU, and Dropout where `rate` is one.
  SampleText& dense_block(const std::string& bottom, const std::string& top, int out,
                          const char* rate = "") {
    fc(bottom, top + "_fc", out);
    if (*rate == 0) return layer("ReLU", top + "_fc", top);
    layer("ReLU", top + "_fc", top + "_relu");
    return layer("Dropout", top + "_relu", top, fmt::format(R"("rate":{})", rate));
  }
  SampleText& reshape(const std::string& bottom, const std::string& top, int width, int steps = 0) {
    return layer("Reshape", bottom, top,
                 fmt::format(R"("leading_dim":{}{})", width,
                             steps ? fmt::format(R"(,"time_step":{})", steps) : ""));
  }
  SampleText& slice(const std::string& bottom, const std::string& top, const char* ranges) {
    return layer("Slice", bottom, top, fmt::format(R"("ranges":{})", ranges));
  }
  SampleText& loss(const std::string& logits) {
    return layer("BinaryCrossEntropyLoss", logits + ",label", "loss");
  }
  [[nodiscard]] const char* multiply() const { return c_.later ? "WeightMultiply" : "Multiply"; }

  [[nodiscard]] std::string finish(const std::string& solver, const std::string& optimizer) const {
    return "{" + solver + "," + optimizer + ",\"layers\":[" + layers_ + "]}";
  }

 private:
  [[nodiscard]] bool raw() const { return c_.format == "Raw" || c_.format == "RawAsync"; }
  [[nodiscard]] static std::string rows_of_slot(const Sparse& s) {
    return std::to_string(std::max(2, s.rows / s.slots));
  }
  SampleText& add(const std::string& layer) {
    layers_ += (layers_.empty() ? "" : ",\n") + layer;
    return *this;
  }
  static std::string names(const std::string& list) {
    if (list.find(',') == std::string::npos) return "\"" + list + "\"";
    std::string text = "[\"";
    for (const char c : list) text += c == ',' ? std::string("\",\"") : std::string(1, c);
    return text + "\"]";
  }
  [[nodiscard]] std::string input_of(const Sparse& s) const {
    const bool one_table_a_rank = c_.localized && !s.wide;
    const int features = raw() ? s.slots : s.features;
    return fmt::format(R"({{"top":"{}_keys","type":"{}",{},"slot_num":{}}})", s.top,
                       one_table_a_rank ? "LocalizedSlot" : "DistributedSlot",
                       c_.later ? fmt::format(R"("nnz_per_slot":{},"is_fixed_length":{})",
                                              raw() ? 1 : (features + s.slots - 1) / s.slots, raw())
                                : fmt::format(R"("max_feature_num_per_sample":{})", features),
                       s.slots);
  }
  [[nodiscard]] std::string embedding_of(const Sparse& s) const {
    const bool one_table_a_rank = c_.localized && !s.wide;
    return fmt::format(
        R"({{"name":"{0}","type":"{1}","bottom":"{0}_keys","top":"{0}",{2})"
        R"("sparse_embedding_hparam":{{{3},"embedding_vec_size":{4},"combiner":{5}}}}})",
        s.top,
        one_table_a_rank ? "LocalizedSlotSparseEmbeddingHash"
                         : "DistributedSlotSparseEmbeddingHash",
        c_.plan_file && one_table_a_rank ? R"("plan_file":"all2all_plan.json",)" : "",
        c_.later ? R"("workspace_size_per_gpu_in_mb":24)"
                 : fmt::format(R"("max_vocabulary_size_per_gpu":{})", s.rows),
        s.width,
        c_.later ? fmt::format("\"{}\"", s.combiner)
                 : std::to_string(std::string(s.combiner) == "mean"));
  }

  const SampleConfig& c_;
  std::vector<Sparse> sparse_;
  std::string layers_;
  int count_ = 0;
};

}  // namespace hlite::test
