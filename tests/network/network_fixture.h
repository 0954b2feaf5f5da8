// Builds a network from JSON text and runs it on given inputs.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hugectr_lite/config/json_node.h"
#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/network/network.h"
#include "tests/support/compare.h"

namespace hlite::test {

inline int64_t parameter_count(const network::Network& network) {
  int64_t n = 0;
  for (const auto& p : network.parameters()) n += network::elements(p.dims);
  return n;
}

class NetworkFixture {
 public:
  struct Input {
    std::string name;
    network::Dims dims;
    bool needs_grad = false;
    bool has_weight = false;  // of labels: each row has the weight of the sample, too

    [[nodiscard]] int64_t row() const { return network::elements(dims) + (has_weight ? 1 : 0); }
  };

  // `layers`: the elements of a JSON list. Input 0 holds labels, 0 or 1; lengths hold all that a
  // history may have, from 0; the others random numbers, and zeros after a history's valid rows.
  // `pad_inputs`, `type`, `packs_histories`: NetworkSetup's. `device`: a GPU in place of CPU threads; its buffers are
  // not for input(), floats() and tensor().
  NetworkFixture(const std::string& layers, std::vector<Input> inputs, int64_t batch,
                 int threads = 2, bool pad_inputs = false, FloatType type = FloatType::kFloat,
                 const Exec* device = nullptr, bool packs_histories = true)
      : batch_(batch),
        inputs_(std::move(inputs)),
        root_(config::JsonNode::parse(R"({"layers":[)" + layers + "]}", "test.json")),
        type_(type),
        pool_(threads),
        exec_(device ? *device : Exec{.device = Device::kCpu, .pool = &pool_}) {
    std::vector<const config::JsonNode*> nodes;
    for (const auto& node : root_.find("layers")->elements()) nodes.push_back(&node);
    std::vector<network::NetworkInput> network_inputs;
    for (const Input& i : inputs_)
      network_inputs.push_back({.name = i.name,
                                .dims = i.dims,
                                .needs_grad = i.needs_grad,
                                .type = type_of(i),
                                .is_label = &i == inputs_.data(),
                                .has_weight = i.has_weight});
    network_ = std::make_unique<network::Network>(nodes, true, network_inputs);
    step_ = buffers_.add("step", plan::BufferKind::kState, sizeof(int64_t));
    for (const Input& i : inputs_)
      input_ids_.push_back(buffers_.add(i.name, plan::BufferKind::kInput,
                                        batch * i.row() * float_type_bytes(type_of(i))));
    network_->declare(buffers_, {.max_batch = batch,
                                 .inputs = input_ids_,
                                 .step = step_,
                                 .seed = 11,
                                 .type = type,
                                 .pad_inputs = pad_inputs,
                                 .loss_heads = exec_.on_gpu(),
                                 .weight_gradient_lane =
                                     exec_.on_gpu() ? plan::Lane::kWeights : plan::Lane::kCompute,
                                 .packs_histories = packs_histories && !exec_.on_gpu()});
    train_ = std::make_unique<plan::Plan>(buffers_);
    eval_ = std::make_unique<plan::Plan>(buffers_);
    // The plans must not complain that no step wrote the inputs' gradients, nor miss any step.
    network_->emit_input_offsets(*train_);
    network_->emit_forward(*train_, network::Phase::kTrain);
    network_->emit_backward(*train_);
    network_->emit_after_backward(*train_);
    train_->finalize();
    network_->emit_input_offsets(*eval_);
    network_->emit_forward(*eval_, network::Phase::kEval);
    eval_->finalize();
    if (exec_.on_gpu())
      buffers_.allocate(*exec_.cuda);
    else
      buffers_.allocate();
    fill_parameters();
    fill_inputs();
    buffers_.set_value(step_, int64_t{3});
  }

  [[nodiscard]] network::Network& net() { return *network_; }
  [[nodiscard]] const plan::Buffers& buffers() const { return buffers_; }
  [[nodiscard]] const plan::Plan& train_plan() const { return *train_; }
  [[nodiscard]] std::span<float> input(size_t i) {
    return {buffers_.data<float>(input_ids_[i]), static_cast<size_t>(batch_ * inputs_[i].row())};
  }
  [[nodiscard]] std::span<float> floats(plan::BufferId id) {
    return {buffers_.data<float>(id), static_cast<size_t>(buffers_.bytes(id)) / sizeof(float)};
  }
  [[nodiscard]] std::span<float> tensor(const std::string& name) {
    for (const auto& t : network_->tensors())
      if (t.name == name) return floats(t.value);
    FAIL("no tensor " << name);
    return {};
  }
  // The gradients of parameters and of the inputs that have one, by name, wherever they are.
  [[nodiscard]] std::map<std::string, std::vector<float>> gradients() {
    std::map<std::string, std::vector<float>> all;
    for (const auto& p : network_->parameters())
      all[p.name] = read(p.buffers.grad, network::elements(p.dims), FloatType::kFloat);
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i].needs_grad)
        all[inputs_[i].name] = read(network_->input_grad(i), batch_ * inputs_[i].row(), type_);
    return all;
  }
  void train() { run(*train_, batch_); }
  void evaluate() { run(*eval_, batch_); }
  void evaluate(int64_t samples) { run(*eval_, samples); }  // the first ones alone
  // Sets the rows of histories that are not valid.
  void fill_padding(float value) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const network::Dims& dims = inputs_[i].dims;
      if (dims.lengths.empty() || dims.is_lengths) continue;
      const std::span<float> lengths = tensor(dims.lengths);
      for (size_t b = 0; b < lengths.size(); ++b)
        for (auto at = static_cast<int64_t>(lengths[b]) * dims[1]; at < inputs_[i].row(); ++at)
          input(i)[b * static_cast<size_t>(inputs_[i].row()) + static_cast<size_t>(at)] = value;
    }
  }
  [[nodiscard]] float loss() { return buffers_.value<float>(network_->loss()); }

  // Compares the gradient of every parameter and of every input that has one with central
  // differences of the mean loss. `loss_of` recomputes the loss in double from the logits.
  template <typename LossOf>
  void check_gradients(LossOf&& loss_of, float epsilon, Tolerance tolerance) {
    train();
    auto want = gradients();
    std::vector<std::pair<std::string, std::span<float>>> values;
    for (const auto& p : network_->parameters()) {
      const auto n = static_cast<size_t>(network::elements(p.dims));
      values.emplace_back(p.name, std::span<float>(buffers_.data<float>(p.buffers.value), n));
    }
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i].needs_grad) values.emplace_back(inputs_[i].name, input(i));
    size_t elements = 0, kinks = 0;
    for (auto& [name, value] : values) {
      for (size_t i = 0; i < value.size(); ++i, ++elements) {
        const double got = want[name][i];
        const auto off = [&](double numeric) {
          return std::abs(got - numeric) - tolerance.absolute -
                 tolerance.relative * std::abs(numeric);
        };
        const double wide = difference(value[i], epsilon, loss_of);
        if (off(wide) <= 0) continue;
        // A ReLU that switches within the step makes the difference depend on the step.
        const double narrow = difference(value[i], epsilon / 3, loss_of);
        if (off(narrow) <= 0) continue;
        INFO(name << " element " << i << ": gradient " << got << ", differences " << wide << ", "
                  << narrow);
        REQUIRE(std::abs(wide - narrow) > 3 * tolerance.absolute);
        ++kinks;
      }
    }
    CHECK(kinks * 50 <= elements);
  }

 private:
  template <typename LossOf>
  double difference(float& x, float epsilon, LossOf&& loss_of) {
    const float kept = x;
    x = kept + epsilon;
    train();
    const double up = loss_of(*this);
    x = kept - epsilon;
    train();
    const double down = loss_of(*this);
    const double step = static_cast<double>(kept + epsilon) - static_cast<double>(kept - epsilon);
    x = kept;
    return (up - down) / step;
  }

  [[nodiscard]] std::vector<float> read(plan::BufferId id, int64_t n, FloatType type) {
    std::vector<float> values;
    with_float_type(type, [&]<typename T>() {
      std::vector<T> of(static_cast<size_t>(n));
      buffers_.read(id, 0, std::span<T>(of));
      for (const T x : of) values.push_back(to_float(x));
    });
    return values;
  }
  void write(plan::BufferId id, const std::vector<float>& values, FloatType type) {
    with_float_type(type, [&]<typename T>() {
      std::vector<T> as;
      for (const float x : values) as.push_back(from_float<T>(x));
      buffers_.write(id, 0, std::span<const T>(as));
    });
  }

  // Vectors of embeddings are of the network's type, other inputs floats.
  [[nodiscard]] FloatType type_of(const Input& input) const {
    return input.needs_grad ? type_ : FloatType::kFloat;
  }

  void fill_parameters() {
    for (const auto& p : network_->parameters()) {
      std::vector<float> values(static_cast<size_t>(network::elements(p.dims)));
      fill_random(values, random::stream_of(p.name), -0.5f, 0.5f);
      // Biases of +-3 keep most ReLUs well on one side of zero, where differences can be trusted.
      if (p.name.ends_with(".bias") && p.dims[0] > 1)
        for (size_t j = 0; j < values.size(); ++j) values[j] = j % 2 == 0 ? 3.0f : -3.0f;
      write(p.buffers.value, values, FloatType::kFloat);
      if (type_ != FloatType::kFloat) write(p.buffers.working, values, type_);
    }
  }

  void fill_inputs() {
    std::map<std::string, std::vector<float>> values;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      std::vector<float>& of = values[inputs_[i].name];
      of.resize(static_cast<size_t>(batch_ * inputs_[i].row()));
      fill_random(of, 20 + i);
      if (i == 0)
        for (size_t j = 0; j < of.size(); ++j) of[j] = j % 3 == 0 ? 1.0f : 0.0f;
    }
    for (const Input& input : inputs_) {
      const network::Dims& dims = input.dims;
      if (dims.lengths.empty() || dims.is_lengths) continue;
      for (int64_t sample = 0; sample < batch_; ++sample) {
        const int64_t length = (sample + std::ssize(input.name)) % (dims[0] + 1);
        values[dims.lengths][static_cast<size_t>(sample)] = static_cast<float>(length);
        std::fill_n(values[input.name].begin() + (sample * dims[0] + length) * dims[1],
                    (dims[0] - length) * dims[1], 0.0f);
      }
    }
    for (size_t i = 0; i < inputs_.size(); ++i)
      write(input_ids_[i], values[inputs_[i].name], type_of(inputs_[i]));
  }

  void run(const plan::Plan& p, int64_t batch) {
    plan::run_in_order(p, {.exec = exec_, .batch = batch, .input = {}});
  }

  int64_t batch_;
  std::vector<Input> inputs_;
  config::JsonNode root_;
  FloatType type_;
  ThreadPool pool_;
  Exec exec_;
  std::unique_ptr<network::Network> network_;
  plan::Buffers buffers_;
  plan::BufferId step_;
  std::vector<plan::BufferId> input_ids_;
  std::unique_ptr<plan::Plan> train_, eval_;
};

// The history `name` and its lengths, <name>_len.
inline void add_history(std::vector<NetworkFixture::Input>& inputs, const std::string& name,
                        network::Dims dims) {
  dims.lengths = name + "_len";
  inputs.push_back({name, dims, true});
  inputs.push_back({dims.lengths, network::lengths_dims(dims.lengths)});
}

// Mean binary cross-entropy in double, from the logits.
inline double bce_of(NetworkFixture& f, std::span<const float> labels) {
  const auto z = f.floats(f.net().logits());
  double sum = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const double x = z[i], y = labels[i];
    sum += std::max(x, 0.0) - x * y + std::log1p(std::exp(-std::abs(x)));
  }
  return sum / static_cast<double>(labels.size());
}

// Mean squared error in double, from the values in place of logits.
inline double mse_of(NetworkFixture& f, std::span<const float> labels) {
  const auto z = f.floats(f.net().logits());
  double sum = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const double error = static_cast<double>(z[i]) - static_cast<double>(labels[i]);
    sum += error * error;
  }
  return sum / static_cast<double>(labels.size());
}

}  // namespace hlite::test
