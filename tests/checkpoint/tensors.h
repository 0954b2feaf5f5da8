// Named tensors with memory of their own, to save and to load into.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "hugectr_lite/checkpoint/safetensors.h"
#include "tests/support/compare.h"

namespace hlite::test {

class Tensors {
 public:
  std::vector<float>& add(const std::string& name, std::vector<int64_t> shape) {
    TensorRef ref{name, std::move(shape)};
    auto& values = values_.emplace_back(static_cast<size_t>(ref.size()));
    ref.data = values.data();
    refs_.push_back(std::move(ref));
    return values;
  }
  void fill(uint64_t seed) {
    for (auto& v : values_) fill_random(v, seed++);
  }
  [[nodiscard]] const std::vector<TensorRef>& refs() const { return refs_; }
  [[nodiscard]] std::vector<TensorRef>& refs() { return refs_; }
  [[nodiscard]] const std::deque<std::vector<float>>& values() const { return values_; }
  [[nodiscard]] std::deque<std::vector<float>>& values() { return values_; }

 private:
  std::deque<std::vector<float>> values_;
  std::vector<TensorRef> refs_;
};

// The tensors of a small model, zero.
inline std::unique_ptr<Tensors> model_weights() {
  auto t = std::make_unique<Tensors>();
  t->add("top.weight", {7, 3});
  t->add("top.bias", {3});
  t->add("embedding.table_0", {101, 5});
  t->add("embedding.table_1", {1, 5});
  return t;
}
inline std::unique_ptr<Tensors> model_states() {
  auto t = std::make_unique<Tensors>();
  t->add("top.weight.momentum", {7, 3});
  t->add("step", {});
  return t;
}

}  // namespace hlite::test
