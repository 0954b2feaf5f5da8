// Models in bf16 and fp16 against the same ones in float on the CPU: one step, every layer type.
#include <algorithm>
#include <cmath>
#include <map>

#include "hugectr_lite/core/no_key.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/trainer/model/model_results.h"
#include "hugectr_lite/trainer/model/model_tensors.h"
#include "tests/support/cuda_backends.h"
#include "tests/support/cuda_emulation/cuda_runtime_api.h"
#include "tests/support/errors.h"
#include "tests/support/stream_order.h"

namespace hlite::test {
namespace {

constexpr int64_t kTrainedBatch = 48, kDense = 5, kSlots = 3;
const std::vector<int64_t> kRows = {40, 5, 300};

// Dense features reach inner products alone, and logits come from one.
const std::string kPlain = R"(
  {"name":"b","type":"FusedInnerProduct","bottom":"dense","top":"b","fc_param":{"num_output":4}},
  {"name":"i","type":"Interaction","bottom":["b","emb"],"top":"i"},
  {"name":"f","type":"FusedInnerProduct","bottom":"i","top":"f","fc_param":{"num_output":24}},
  {"name":"g","type":"FusedInnerProduct","bottom":"f","top":"g","fc_param":{"num_output":9}},
  {"name":"z","type":"InnerProduct","bottom":"g","top":"z","fc_param":{"num_output":1}})";
// Every layer type, tensors with several readers, logits that are a sum.
const std::string kEverything = R"(
  {"name":"b","type":"FusedInnerProduct","bottom":"dense","top":"b","fc_param":{"num_output":4}},
  {"name":"i","type":"Interaction","bottom":["b","emb"],"top":"i"},
  {"name":"e","type":"Reshape","bottom":"emb","top":"e"},
  {"name":"es","type":"Reshape","bottom":"emb","top":"es","selected":[2,0]},
  {"name":"el","type":"ELU","bottom":"es","top":"el","elu_param":{"alpha":0.5}},
  {"name":"p","type":"Slice","bottom":"e","top":["p","q"],"ranges":[[0,7],[4,11]]},
  {"name":"s","type":"Add","bottom":["p","q"],"top":"s"},
  {"name":"r","type":"ReLU","bottom":"s","top":"r"},
  {"name":"c","type":"Concat","bottom":["i","r","el","dense"],"top":"c"},
  {"name":"d","type":"Dropout","bottom":"c","top":"d","rate":0.2},
  {"name":"k","type":"Cast","bottom":"d","top":"k"},
  {"name":"f","type":"FusedInnerProduct","bottom":"k","top":"f","fc_param":{"num_output":24}},
  {"name":"z1","type":"InnerProduct","bottom":"f","top":"z1","fc_param":{"num_output":1}},
  {"name":"z2","type":"InnerProduct","bottom":"i","top":"z2","fc_param":{"num_output":1}},
  {"name":"z","type":"Add","bottom":["z1","z2"],"top":"z"})";

// The layers of Wide & Deep, DeepFM and DCN.
const std::string kFamily = R"(
  {"name":"rows","type":"Reshape","bottom":"emb","top":"rows","leading_dim":4},
  {"name":"cut","type":"Slice","bottom":"rows","top":["v","w"],"ranges":[[0,3],[3,4]]},
  {"name":"vs","type":"Reshape","bottom":"v","top":"vs","leading_dim":9},
  {"name":"ws","type":"Reshape","bottom":"w","top":"ws","leading_dim":3},
  {"name":"m1","type":"Multiply","bottom":"dense","top":"m1","weight_dims":[5,3]},
  {"name":"m2","type":"WeightMultiply","bottom":"dense","top":"m2","weight_dims":[5,1]},
  {"name":"c","type":"Concat","bottom":["vs","m1"],"top":"c"},
  {"name":"low","type":"MultiCross","bottom":"c","top":"low","mc_param":{"num_layers":2,"projection_dim":5}},
  {"name":"one","type":"MultiCross","bottom":"low","top":"one","mc_param":{"num_layers":2}},
  {"name":"f","type":"InnerProduct","bottom":"one","top":"f","fc_param":{"num_output":12}},
  {"name":"t","type":"Tanh","bottom":"f","top":"t"},
  {"name":"s","type":"Sigmoid","bottom":"f","top":"s"},
  {"name":"p","type":"ElementwiseMultiply","bottom":["t","s","f"],"top":"p"},
  {"name":"bn","type":"BatchNorm","bottom":"p","top":"pn","bn_param":{"factor":0.5,"eps":0.01}},
  {"name":"sub","type":"Sub","bottom":["pn","t"],"top":"sub"},
  {"name":"mean","type":"ReduceMean","bottom":"sub","top":"mean","axis":1},
  {"name":"fm","type":"FmOrder2","bottom":"c","top":"fm","out_dim":3},
  {"name":"fms","type":"ReduceSum","bottom":"fm","top":"fms","axis":1},
  {"name":"wide","type":"Concat","bottom":["ws","m2"],"top":"wide"},
  {"name":"ones","type":"ReduceSum","bottom":"wide","top":"ones","axis":1},
  {"name":"z","type":"Add","bottom":["mean","fms","ones"],"top":"z"})";

// Those of Deep Interest Network and of attention.
const std::string kAttention = R"(
  {"name":"cut","type":"FusedReshapeConcat","bottom":["emb","emb"],"top":["items","target"]},
  {"name":"rep","type":"Scale","bottom":"target","top":"rep","scale_param":{"axis":1,"factor":2}},
  {"name":"pairs","type":"Concat","bottom":["items","rep"],"top":"pairs"},
  {"name":"a","type":"InnerProduct","bottom":"pairs","top":"a","fc_param":{"num_output":6}},
  {"name":"dice","type":"PReLU_Dice","bottom":"a","top":"da","prelu_dice_param":{"alpha":0.25,"epsilon":0.01}},
  {"name":"flat","type":"Reshape","bottom":"da","top":"flat","leading_dim":12},
  {"name":"s","type":"Softmax","bottom":"flat","top":"s"},
  {"name":"wide","type":"Scale","bottom":"s","top":"wide","scale_param":{"axis":0,"factor":2}},
  {"name":"b","type":"MLP","bottom":"dense","top":"b","mlp_param":{"num_outputs":[16,8,24],
    "activations":["Relu","Relu","None"],"biases":[false,true,true]}},
  {"name":"n","type":"LayerNorm","bottom":"b","top":"n","ln_param":{"eps":0.01}},
  {"name":"p","type":"ElementwiseMultiply","bottom":["n","wide"],"top":"p"},
  {"name":"c","type":"Concat","bottom":["p","target"],"top":"c"},
  {"name":"z","type":"InnerProduct","bottom":"c","top":"z","fc_param":{"num_output":1}})";

std::string config_text(const std::string& layers) {
  return R"({"solver":{"seed":5,"lr_policy":"fixed","display":10,"max_iter":9,"gpu":[0],"batchsize":48,
  "snapshot":1000,"snapshot_prefix":"./s_"},
 "optimizer":{"type":"SGD","update_type":"Local","sgd_hparam":{"learning_rate":1.0}},
 "layers":[{"name":"data","type":"Data","format":"Raw","source":"none","eval_source":"none","check":"None",
   "num_samples":48,"eval_num_samples":48,"label":{"top":"label","label_dim":1},
   "dense":{"top":"dense","dense_dim":5},
   "sparse":[{"top":"keys","type":"DistributedSlot","max_feature_num_per_sample":3,"max_nnz":1,"slot_num":3}]},
  {"name":"emb","type":"HybridSparseEmbedding","bottom":"keys","top":"emb",
   "sparse_embedding_hparam":{"slot_size_array":[40,5,300],"combiner":0,"embedding_vec_size":)" +
         std::string(layers.find("\"num_output\":16}") == std::string::npos ? "4" : "16") + "}}," +
         layers +
         R"(,{"name":"loss","type":"BinaryCrossEntropyLoss","bottom":["z","label"],"top":"loss",
          "regularizer":"L2","lambda":0.02}]})";
}

// The same layers with vectors of 16, which tensor cores take.
std::string with_width_16(std::string layers) {
  const std::string four = "\"num_output\":4}";
  return layers.replace(layers.find(four), four.size(), "\"num_output\":16}");
}

// The layer of one output with an input of whole 16 bytes: the loss's step does its work.
const std::string kHead = [] {
  std::string layers = kPlain;
  const std::string nine = "\"num_output\":9}";
  return layers.replace(layers.find(nine), nine.size(), "\"num_output\":8}");
}();

struct TrainedBatch {
  std::vector<float> labels, dense;
  std::vector<uint32_t> keys;
  TrainedBatch() {
    for (uint64_t b = 0; b < kTrainedBatch; ++b) {
      labels.push_back(static_cast<float>(random::word(1, 0, b) % 2));
      for (uint64_t i = 0; i < kDense; ++i)
        dense.push_back(static_cast<float>(random::word(2, i, b) % 100) / 25);
      for (uint64_t s = 0; s < kSlots; ++s)
        keys.push_back(random::word(3, s, b) % static_cast<uint32_t>(kRows[s]));
    }
  }
};

using Tensors = std::map<std::string, std::vector<float>>;

class Trained {
 public:
  Trained(const std::string& layers, const std::vector<std::string>& changes,
          const cuda::Backend* gpu)
      : config_(config::parse_train_config(config_text(layers), "test.json", changes)),
        model_(*config_, 5, 1, {}, gpu) {
    model_.compile({.device = Device::kCpu, .pool = &pool_});
    model_.allocate();
    trainer::initialize(model_);
    trainer::weights_changed(model_);
  }
  [[nodiscard]] trainer::Model& model() { return model_; }
  [[nodiscard]] const trainer::Model& model() const { return model_; }
  [[nodiscard]] TrainedBatch& batch() { return batch_; }
  void train() { model_.train(context()); }
  [[nodiscard]] std::vector<float> logits() {
    model_.evaluate(context());
    trainer::SampleOutputs outputs;
    trainer::append_outputs(model_, kTrainedBatch, outputs);
    CHECK((outputs.labels == batch_.labels));
    return outputs.logits;
  }
  [[nodiscard]] Tensors weights() const {
    Tensors all;
    for (const auto& t : trainer::weights_of(model_)) {
      int64_t n = 1;
      for (const int64_t d : t.shape) n *= d;
      auto& values = all[t.name];
      values.resize(static_cast<size_t>(n));
      if (t.data)
        values.assign(t.data, t.data + n);
      else
        t.get(0, values);
    }
    return all;
  }

 private:
  plan::StepContext context() {
    return {.batch = kTrainedBatch,
            .input = {batch_.labels.data(), batch_.dense.data(), batch_.keys.data(), {}}};
  }
  TrainedBatch batch_;
  ThreadPool pool_{1};
  std::unique_ptr<config::TrainConfig> config_;
  trainer::Model model_;
};

// |got - want| / |want| over whole tensors.
double distance(const std::vector<float>& got, const std::vector<float>& want) {
  REQUIRE(got.size() == want.size());
  double off = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    off += std::pow(static_cast<double>(got[i]) - want[i], 2);
    size += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(off / std::max(size, 1e-30));
}

Tensors difference(Tensors a, const Tensors& b) {
  for (auto& [name, values] : a)
    for (size_t i = 0; i < values.size(); ++i) values[i] -= b.at(name)[i];
  return a;
}

struct PrecisionCase {
  const char* change;
  double tolerance;  // a few roundings: 2^-8 for bf16, 2^-11 for fp16
};

// Emulated devices whose L2 cache holds nothing: an interaction then looks up as few vectors as a
// test has.
class SmallL2 {
 public:
  SmallL2() { emulation::l2_bytes() = 0; }
  ~SmallL2() { emulation::l2_bytes() = before_; }
  SmallL2(const SmallL2&) = delete;
  SmallL2& operator=(const SmallL2&) = delete;

 private:
  const int before_ = emulation::l2_bytes();
};

// The layers with one between the vectors and the interaction, which changes nothing: the
// interaction then finds the vectors looked up.
std::string with_cast(std::string layers) {
  const std::string both = R"("bottom":["b","emb"])";
  layers.replace(layers.find(both), both.size(), R"("bottom":["b","cast"])");
  return R"({"name":"cast","type":"Cast","bottom":"emb","top":"cast"},)" + layers;
}

bool has_step(const plan::Plan& plan, const std::string& name) {
  return std::ranges::any_of(plan.steps(),
                             [&](const plan::Step& step) { return step.name == name; });
}

// Kernels, copies and other pieces of work in the graph of an iteration.
size_t nodes_of(const std::string& layers, const std::vector<std::string>& changes) {
  Trained gpu(layers, changes, &emulated_cuda());
  for (int i = 0; i < 3; ++i) gpu.train();  // the last one as a graph
  return emulation::graph_nodes();
}

}  // namespace

TEST_CASE("gradients and logits of 16-bit models are those of float ones, rounded", "[gpu]") {
  constexpr PrecisionCase kBf16{"solver.precision=bf16", 0.03};
  const std::vector<std::string> squared = {"layers.loss.type=MSELoss", "layers.loss.regularizer=",
                                            "layers.loss.lambda=", "layers.loss.base_score=0.4",
                                            "layers.loss.score_scale=3"};
  using Changes = std::vector<std::string>;
  for (const auto& [layers, changes] : {std::pair(kPlain, Changes{}),
                                        {kHead, {"layers.loss.pos_weight=2"}},
                                        {kEverything, {}},
                                        {kFamily, {}},
                                        {kAttention, {}},
                                        {kPlain, {"layers.loss.base_score=0.2"}},
                                        {kEverything, squared}}) {
    const auto with = [&changes = changes](const char* change) {
      Changes all = changes;
      all.push_back(change);
      return all;
    };
    Trained cpu(layers, changes, nullptr);
    const auto want_logits = cpu.logits();
    const Tensors first = cpu.weights();
    cpu.train();
    const Tensors want = difference(cpu.weights(), first);
    const auto check = [&](Trained got, const PrecisionCase& c) {
      INFO(c.change << layers);
      REQUIRE((got.weights() == first));
      CHECK(distance(got.logits(), want_logits) < c.tolerance);
      got.train();
      CHECK(trainer::loss_of(got.model()) ==
            Approx(trainer::loss_of(cpu.model())).epsilon(c.tolerance));
      const Tensors moved = difference(got.weights(), first);
      for (const auto& [name, values] : want) {
        INFO(name);
        CHECK(distance(moved.at(name), values) < c.tolerance);
        CHECK(distance(moved.at(name), values) > 0);  // it was not float
      }
    };
    check(Trained(layers, with(kBf16.change), nullptr), kBf16);
    check(Trained(layers, with("solver.mixed_precision=1024"), nullptr), kBf16);
    for (const CudaBackend& backend : cuda_backends())
      for (const PrecisionCase& c : {kBf16, PrecisionCase{"solver.precision=fp16", 4e-3},
                                     PrecisionCase{"solver.mixed_precision=1024", 4e-3}}) {
        INFO(backend.name);
        backend.table->use_device(0);
        check(Trained(layers, with(c.change), backend.table), c);
      }
  }
}

TEST_CASE("a dynamic loss scale leaves out a step that overflows, and halves", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    backend.table->use_device(0);
    Trained gpu(kPlain, {"solver.precision=fp16"}, backend.table);
    // Gradients of the logits are about 1/100: 2^24 of them is more than fp16 holds.
    gpu.model().loss_scaling().set_dynamic_state(optimizer::loss_scale_from(0x1p24f));
    const Tensors first = gpu.weights();
    gpu.train();
    CHECK((gpu.weights() == first));
    CHECK(gpu.model().loss_scaling().dynamic_state()->scale == 0x1p23f);
    int skipped = 1;
    for (; skipped < 20 && gpu.weights() == first; ++skipped) gpu.train();
    CHECK(skipped > 2);
    CHECK(skipped < 20);
    CHECK(gpu.model().loss_scaling().dynamic_state()->good == 1);
    CHECK(std::isfinite(trainer::loss_of(gpu.model())));
  }
}

// Large features make large bottom vectors: their products with the loss's gradient, which are the
// embedding's gradient, pass what fp16 holds. All other gradients stay within it.
TEST_CASE("an overflow in the embedding's gradient alone leaves out a step", "[gpu]") {
  const auto enlarge_features = [](Trained& run) {
    for (float& x : run.batch().dense) x *= 12000;
  };
  struct Layers {
    std::string text;
    bool found_by_interaction;
  };
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    backend.table->use_device(0);
    for (const auto& [layers, found_by_interaction] :
         {Layers{kPlain, true}, {with_width_16(kPlain), true}, {kEverything, false}}) {
      INFO(layers);
      Trained fixed(layers, {"solver.mixed_precision=1024"}, backend.table);
      enlarge_features(fixed);
      fixed.train();
      for (const auto& [name, values] : fixed.weights()) {
        INFO(name);
        const bool finite =
            std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
        CHECK(finite == !name.starts_with("emb."));
      }

      Trained gpu(layers, {"solver.precision=fp16"}, backend.table);
      enlarge_features(gpu);
      const plan::Plan& plan = gpu.model().train_plan();
      const plan::Step& check = plan.steps()[static_cast<size_t>(plan.index_of("loss_scale"))];
      const network::Network& network = *gpu.model().layers().network;
      CHECK(network.finds_gradient_overflow(2) == found_by_interaction);
      CHECK(std::count(check.reads.begin(), check.reads.end(), network.input_grad(2)) ==
            (found_by_interaction ? 0 : 1));
      CHECK(!plan.may_overlap(plan.index_of("i.bprop"), plan.index_of("loss_scale")));
      const Tensors first = gpu.weights();
      // The second run is captured into a graph, the third launches it.
      for (int run = 0; run < 3; ++run) {
        gpu.model().loss_scaling().set_dynamic_state(optimizer::loss_scale_from(1024));
        gpu.train();
        CHECK((gpu.weights() == first));
        CHECK(gpu.model().loss_scaling().dynamic_state()->scale == 512);
      }
      gpu.model().loss_scaling().set_dynamic_state(optimizer::loss_scale_from(1));
      gpu.train();
      CHECK((gpu.weights() != first));
      CHECK(gpu.model().loss_scaling().dynamic_state()->good == 1);
    }
  }
}

TEST_CASE("a key that changes between reader and GPU is found when the host looks", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends())
    for (const std::string& layers : {kPlain, with_width_16(kPlain)}) {
      const SmallL2 small;
      INFO(backend.name << layers);
      backend.table->use_device(0);
      Trained gpu(layers, {"solver.precision=bf16"}, backend.table);
      gpu.train();
      CHECK(gpu.logits().size() == kTrainedBatch);
      trainer::check_keys(gpu.model());
      gpu.batch().keys[7 * kSlots + 1] = 5;  // tables of 40, 5 and 300 rows
      gpu.train();
      gpu.train();
      check_contains(message_of<DeviceError>([&] { trainer::check_keys(gpu.model()); }),
                     {"emb", "5 in column 1 of sample 7", "iteration 2"});
    }
}

TEST_CASE("the check of keys waits for the lookups that it is about") {
  const LateStreams late;
  const SmallL2 small;
  emulated_cuda().use_device(0);
  for (const std::string& layers : {kPlain, with_width_16(kPlain)}) {
    Trained gpu(layers, {"solver.precision=bf16"}, &emulated_cuda());
    gpu.train();  // the first run waits here and there, to find algorithms
    gpu.batch().keys[2 * kSlots] = 40;
    gpu.train();
    check_contains(message_of<DeviceError>([&] { trainer::check_keys(gpu.model()); }),
                   {"40 in column 0 of sample 2", "iteration 2"});
  }
}

TEST_CASE("a model on late streams computes the same bits") {
  const SmallL2 small;
  for (const std::string& layers :
       {kPlain, with_width_16(kPlain), kHead, kEverything, kFamily, kAttention}) {
    emulated_cuda().use_device(0);
    const auto run = [&] {
      Trained gpu(layers, {"solver.precision=bf16", "optimizer.sgd_hparam.learning_rate=0.01"},
                  &emulated_cuda());
      for (int i = 0; i < 4; ++i) gpu.train();                // two of them as a graph
      REQUIRE(std::isfinite(trainer::loss_of(gpu.model())));  // no bits are those of NaN
      const auto logits = gpu.logits();
      return std::pair(gpu.weights(), logits);
    };
    const auto want = run();
    const LateStreams late;
    CHECK((run() == want));
  }
}

TEST_CASE("an interaction that looks up its vectors trains to the bits of a lookup before it") {
  const SmallL2 small;
  emulated_cuda().use_device(0);
  const std::string layers = with_width_16(kPlain);
  for (const char* change : {"solver.precision=bf16", "solver.precision=fp16"}) {
    INFO(change);
    const auto run = [&](const std::string& of, bool looks_up) {
      Trained gpu(of, {change, "optimizer.sgd_hparam.learning_rate=0.01"}, &emulated_cuda());
      for (const plan::Plan* plan : {&gpu.model().train_plan(), &gpu.model().eval_plan()}) {
        CHECK(has_step(*plan, "emb.rows") == looks_up);
        CHECK(has_step(*plan, "i.lookup_fprop") == looks_up);
        CHECK(has_step(*plan, "emb.lookup") != looks_up);
        CHECK(has_step(*plan, "i.fprop") != looks_up);
      }
      gpu.batch().keys[3 * kSlots + 1] = kNoKey;
      std::vector<float> losses;
      for (int i = 0; i < 4; ++i) {
        gpu.train();
        losses.push_back(trainer::loss_of(gpu.model()));
      }
      const auto logits = gpu.logits();
      return std::tuple(losses, gpu.weights(), logits);
    };
    const auto got = run(layers, true);
    REQUIRE(std::isfinite(std::get<0>(got).back()));
    CHECK((got == run(with_cast(layers), false)));
  }
}

TEST_CASE("few vectors, those of floats, of 16-bit tables, with two readers are looked up before") {
  emulated_cuda().use_device(0);
  const std::string layers = with_width_16(kPlain);
  const auto check = [](const std::string& of, const std::vector<std::string>& changes) {
    const Trained gpu(of, changes, &emulated_cuda());
    CHECK(has_step(gpu.model().train_plan(), "emb.lookup"));
    CHECK(has_step(gpu.model().train_plan(), "i.fprop"));
  };
  check(layers, {"solver.precision=bf16"});
  const SmallL2 small;
  check(layers, {"solver.precision=fp32"});
  check(layers, {"solver.precision=bf16", "solver.table_precision=bf16"});
  check(kPlain, {"solver.precision=bf16"});
  check(with_width_16(kEverything), {"solver.precision=bf16"});
}

TEST_CASE("on a GPU nothing but updates waits for learning rates, and none of them for sorts") {
  emulated_cuda().use_device(0);
  Trained gpu(kPlain, {"solver.precision=bf16"}, &emulated_cuda());
  const plan::Plan& plan = gpu.model().train_plan();
  const auto overlap = [&](const char* a, const char* b) {
    return plan.may_overlap(plan.index_of(a), plan.index_of(b));
  };
  for (const char* step : {"dense.cast", "b.fprop", "i.fprop", "loss.fbprop", "i.bprop"}) {
    CHECK(overlap("learning_rate", step));
    CHECK(overlap("emb.sort", step));
  }
  CHECK(!overlap("learning_rate", "dense_update"));
  CHECK(!overlap("emb.sort", "emb.update"));
  const auto& lookup = plan.steps()[static_cast<size_t>(plan.index_of("emb.lookup"))];
  CHECK(lookup.after == std::vector{plan.index_of("copy_in")});
}

TEST_CASE("on a GPU gradients of weights overlap those of activations") {
  emulated_cuda().use_device(0);
  for (const char* change : {"solver.precision=bf16", "solver.precision=fp32"}) {
    Trained gpu(kPlain, {change}, &emulated_cuda());
    const plan::Plan& plan = gpu.model().train_plan();
    const auto overlap = [&](const char* a, const char* b) {
      return plan.may_overlap(plan.index_of(a), plan.index_of(b));
    };
    CHECK(overlap("g.wgrad", "f.bprop"));
    CHECK(overlap("f.wgrad", "i.bprop"));
    CHECK(overlap("f.wgrad", "emb.update"));
    CHECK(overlap("z.wgrad", "z.bprop"));
    for (const char* step : {"b.dbias", "g.dbias", "z.dbias"})  // done by their .wgrad
      CHECK_THROWS_AS(plan.index_of(step), Error);
    const auto writes = [&](const char* step) {
      return plan.steps()[static_cast<size_t>(plan.index_of(step))].writes.size();
    };
    CHECK(writes("g.wgrad") == 2);
    CHECK(writes("b.wgrad") == 2);
    CHECK(writes("b.fprop") == 1);  // no mask of its ReLU: the interaction reads what it let pass
    CHECK(writes("f.fprop") == 2);
    CHECK(!overlap("g.bprop", "f.wgrad"));
    CHECK(!overlap("b.wgrad", "dense_update"));
  }
  Trained cpu(kPlain, {}, nullptr);
  const plan::Plan& plan = cpu.model().train_plan();
  CHECK(!plan.may_overlap(plan.index_of("g.wgrad"), plan.index_of("f.bprop")));
  CHECK(plan.index_of("b.dbias") > 0);
}

TEST_CASE("on a GPU the ReLU below an interaction takes no kernel of its own") {
  emulated_cuda().use_device(0);
  for (const std::string& layers : {kHead, with_width_16(kHead)}) {
    std::string without = layers;
    without.replace(without.find("FusedInnerProduct"), 17, "InnerProduct");
    CHECK(nodes_of(layers, {"solver.precision=bf16"}) ==
          nodes_of(without, {"solver.precision=bf16"}));
  }
}

TEST_CASE("on a GPU the loss's step does the work of the layer of one output below it") {
  emulated_cuda().use_device(0);
  for (const char* change : {"solver.precision=bf16", "solver.precision=fp32"}) {
    Trained gpu(kHead, {change}, &emulated_cuda());
    const plan::Plan& plan = gpu.model().train_plan();
    for (const char* step : {"z.fprop", "z.bprop", "z.wgrad", "z.dbias"})
      CHECK_THROWS_AS(plan.index_of(step), Error);
    const auto writes = [&](const char* step) {
      return plan.steps()[static_cast<size_t>(plan.index_of(step))].writes.size();
    };
    CHECK(writes("loss.fbprop") == 6);
    CHECK(writes("g.fprop") == 1);  // no mask of its ReLU
    CHECK(writes("f.fprop") == 2);
    CHECK(gpu.model().eval_plan().index_of("z.fprop") > 0);
  }
  // One kernel, in place of seven: of the offset, of the loss two, of z's products four.
  CHECK(nodes_of(kHead, {"solver.precision=bf16"}) + 6 ==
        nodes_of(kHead, {"solver.precision=bf16", "layers.loss.base_score=0.2"}));
  // A loss that adds to the logits, a width that is no multiple of 16 bytes.
  for (const auto& [layers, change] :
       {std::pair(kHead, "layers.loss.base_score=0.2"), {kPlain, "solver.precision=bf16"}}) {
    Trained gpu(layers, {change}, &emulated_cuda());
    CHECK(gpu.model().train_plan().index_of("z.bprop") > 0);
  }
}

TEST_CASE("the kernels of a DLRM's iteration, and those of them that wait for one another") {
  emulated_cuda().use_device(0);
  const SmallL2 small;
  CHECK(nodes_of(with_width_16(kHead), {"solver.precision=bf16"}) == 21);
  CHECK(emulation::graph_path() == 13);
}

TEST_CASE("bf16 needs no loss scale, and float has none") {
  for (const char* change : {"solver.precision=bf16", "solver.precision=fp32"}) {
    emulated_cuda().use_device(0);
    Trained gpu(kPlain, {change}, &emulated_cuda());
    CHECK(!gpu.model().loss_scaling().dynamic_state());
  }
}

}  // namespace hlite::test
