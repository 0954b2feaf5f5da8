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
  // `pad_inputs`: NetworkSetup's.
  NetworkFixture(const std::string& layers, std::vector<Input> inputs, int64_t batch,
                 int threads = 2, bool pad_inputs = false)
      : batch_(batch),
        inputs_(std::move(inputs)),
        root_(config::JsonNode::parse(R"({"layers":[)" + layers + "]}", "test.json")),
        pool_(threads) {
    std::vector<const config::JsonNode*> nodes;
    for (const auto& node : root_.find("layers")->elements()) nodes.push_back(&node);
    std::vector<network::NetworkInput> network_inputs;
    for (const Input& i : inputs_)
      network_inputs.push_back({.name = i.name,
                                .dims = i.dims,
                                .needs_grad = i.needs_grad,
                                .is_label = &i == inputs_.data(),
                                .has_weight = i.has_weight});
    network_ = std::make_unique<network::Network>(nodes, true, network_inputs);
    step_ = buffers_.add("step", plan::BufferKind::kState, sizeof(int64_t));
    for (const Input& i : inputs_)
      input_ids_.push_back(
          buffers_.add(i.name, plan::BufferKind::kInput, batch * i.row() * int64_t{sizeof(float)}));
    network_->declare(buffers_, {.max_batch = batch,
                                 .inputs = input_ids_,
                                 .step = step_,
                                 .seed = 11,
                                 .pad_inputs = pad_inputs});
    train_ = std::make_unique<plan::Plan>(buffers_);
    eval_ = std::make_unique<plan::Plan>(buffers_);
    // The plans must not complain that no step wrote the inputs' gradients, nor miss any step.
    network_->emit_forward(*train_, network::Phase::kTrain);
    network_->emit_backward(*train_);
    network_->emit_after_backward(*train_);
    train_->finalize();
    network_->emit_forward(*eval_, network::Phase::kEval);
    eval_->finalize();
    buffers_.allocate();
    for (const auto& p : network_->parameters())
      fill_random(
          {buffers_.data<float>(p.buffers.value), static_cast<size_t>(network::elements(p.dims))},
          random::stream_of(p.name), -0.5f, 0.5f);
    // Biases of +-3 keep most ReLUs well on one side of zero, where differences can be trusted.
    for (const auto& p : network_->parameters())
      if (p.name.ends_with(".bias") && p.dims[0] > 1)
        for (int64_t j = 0; j < p.dims[0]; ++j)
          buffers_.data<float>(p.buffers.value)[j] = j % 2 == 0 ? 3.0f : -3.0f;
    for (size_t i = 0; i < inputs_.size(); ++i) fill_random(input(i), 20 + i);
    for (size_t i = 0; i < input(0).size(); ++i) input(0)[i] = i % 3 == 0 ? 1.0f : 0.0f;
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (!inputs_[i].dims.lengths.empty() && !inputs_[i].dims.is_lengths) fill_history(i);
    *buffers_.data<int64_t>(step_) = 3;
  }

  [[nodiscard]] network::Network& net() { return *network_; }
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
  void train() { run(*train_); }
  void evaluate() { run(*eval_); }
  [[nodiscard]] float loss() { return *buffers_.data<float>(network_->loss()); }

  // Compares the gradient of every parameter and of every input that has one with central
  // differences of the mean loss. `loss_of` recomputes the loss in double from the logits.
  template <typename LossOf>
  void check_gradients(LossOf&& loss_of, float epsilon, Tolerance tolerance) {
    train();
    std::map<std::string, std::vector<float>> gradients;
    std::vector<std::pair<std::string, std::span<float>>> values;
    for (const auto& p : network_->parameters()) {
      const auto n = static_cast<size_t>(network::elements(p.dims));
      values.emplace_back(p.name, std::span<float>(buffers_.data<float>(p.buffers.value), n));
      const float* g = buffers_.data<float>(p.buffers.grad);
      gradients[p.name].assign(g, g + n);
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!inputs_[i].needs_grad) continue;
      values.emplace_back(inputs_[i].name, input(i));
      const auto g = floats(network_->input_grad(i));
      gradients[inputs_[i].name].assign(g.begin(), g.end());
    }
    size_t elements = 0, kinks = 0;
    for (auto& [name, value] : values) {
      for (size_t i = 0; i < value.size(); ++i, ++elements) {
        const double got = gradients[name][i];
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

  void fill_history(size_t i) {
    const network::Dims& dims = inputs_[i].dims;
    const auto of = static_cast<size_t>(
        std::find_if(inputs_.begin(), inputs_.end(),
                     [&](const Input& input) { return input.name == dims.lengths; }) -
        inputs_.begin());
    const int64_t row = inputs_[i].row();
    for (int64_t sample = 0; sample < batch_; ++sample) {
      const int64_t length = (sample + static_cast<int64_t>(i)) % (dims[0] + 1);
      input(of)[static_cast<size_t>(sample)] = static_cast<float>(length);
      const int64_t valid = length * row / dims[0];
      std::ranges::fill(input(i).subspan(static_cast<size_t>(sample * row + valid),
                                         static_cast<size_t>(row - valid)),
                        0.0f);
    }
  }

  void run(const plan::Plan& p) {
    plan::run_in_order(
        p, {.exec = {.device = Device::kCpu, .pool = &pool_}, .batch = batch_, .input = {}});
  }

  int64_t batch_;
  std::vector<Input> inputs_;
  config::JsonNode root_;
  ThreadPool pool_;
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
