// What goes in and out of a model's buffers: first values, weights and states by their names in
// files, results of a run, activations by their names in messages.
#include <cstring>
#include <numeric>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/cast.h"
#include "hugectr_lite/ops/scan.h"
#include "hugectr_lite/trainer/gpu_run.h"
#include "hugectr_lite/trainer/model.h"

namespace hlite::trainer {

using plan::BufferId;

void Model::get(const void* from, void* to, size_t bytes) const {
  if (gpu_)
    read_device(*gpu_, to, from, bytes);
  else if (bytes > 0)
    std::memcpy(to, from, bytes);
}
void Model::put(const void* from, void* to, size_t bytes) const {
  if (gpu_)
    write_device(*gpu_, to, from, bytes);
  else if (bytes > 0)
    std::memcpy(to, from, bytes);
}

void Model::set_step(int64_t step) { put(&step, buffers_.data<int64_t>(step_), sizeof(step)); }

void Model::append_outputs(int64_t n, std::vector<float>& logits,
                           std::vector<float>& labels) const {
  const auto append = [&](BufferId from, std::vector<float>& to) {
    const size_t before = to.size();
    to.resize(before + static_cast<size_t>(n));
    get(buffers_.data<float>(from), to.data() + before, static_cast<size_t>(n * kFloatBytes));
  };
  append(network_->logits(), logits);
  append(labels_, labels);
}

void Model::copy_outputs(int64_t n, const OutputsPlace& to) {
  const auto bytes = static_cast<size_t>(n * kFloatBytes);
  gpu_->copy(to.logits, buffers_.data<float>(network_->logits()), bytes, stream());
  gpu_->copy(to.labels, buffers_.data<float>(labels_), bytes, stream());
  gpu_run_->extend_run();  // labels are an input
}

void* Model::stream() const { return gpu_run_->exec().stream; }

void Model::initialize(const Exec& exec) {
  for (const auto& e : embeddings_) e->tables().initialize(exec);
  std::vector<float> values;
  for (const auto& p : network_->parameters()) {
    values.resize(static_cast<size_t>(network::elements(p.dims)));
    network::initialize(p.initializer, seed_, p.name, values);
    put(values.data(), buffers_.data<float>(p.buffers.value), values.size() * sizeof(float));
  }
  values.assign(static_cast<size_t>(network_->parameter_bytes() / kFloatBytes),
                optimizer::initial_state(rule_));
  for (const BufferId id : dense_states_)
    put(values.data(), buffers_.data<float>(id), values.size() * sizeof(float));
}

void Model::check_keys() const {
  if (!gpu_run_) return;
  for (const auto& e : embeddings_) e->tables().check(gpu_run_->exec());
}

void Model::weights_changed() {
  const BufferId working = network_->working_buffer();
  if (working == network_->parameter_buffer()) return;
  const int64_t n = network_->parameter_bytes() / kFloatBytes;
  const Exec exec = gpu_run_->exec();
  with_float_type(type_, [&]<typename T>() {
    ops::cast_from_float<T>(exec, network::vector(buffers_, network_->parameter_buffer(), n),
                            network::vector<T>(buffers_, working, n));
  });
}

std::optional<optimizer::LossScale> Model::dynamic_loss_scale() const {
  if (!loss_scaling_.dynamic()) return std::nullopt;
  return read<optimizer::LossScale>(loss_scaling_.state());
}
void Model::set_dynamic_loss_scale(const optimizer::LossScale& state) {
  if (loss_scaling_.dynamic())
    put(&state, buffers_.data<optimizer::LossScale>(loss_scaling_.state()), sizeof(state));
}

// A tensor in host memory, or behind copies from and to a GPU.
checkpoint::TensorRef Model::tensor_at(std::string name, std::vector<int64_t> shape,
                                       float* data) const {
  checkpoint::TensorRef ref{.name = std::move(name), .shape = std::move(shape)};
  if (!gpu_) {
    ref.data = data;
    return ref;
  }
  ref.get = [this, data](int64_t first, std::span<float> out) {
    get(data + first, out.data(), out.size_bytes());
  };
  ref.put = [this, data](int64_t first, std::span<const float> in) {
    put(in.data(), data + first, in.size_bytes());
  };
  return ref;
}

void Model::make_room(const checkpoint::SafetensorsReader& file) {
  const auto keys_of = [&](const std::string& table) {
    std::vector<uint32_t> keys;
    if (file.find(table + ".keys") != nullptr) {
      keys = file.read_words(table + ".keys");
    } else if (const auto* rows = file.find(table); rows != nullptr && !rows->shape.empty()) {
      keys.resize(static_cast<size_t>(rows->shape[0]));
      std::iota(keys.begin(), keys.end(), 0u);
    }
    for (size_t i = 1; i < keys.size(); ++i)
      if (keys[i] <= keys[i - 1])
        raise<DataError>("{}: tensor {}.keys: expected ascending keys, found {} behind {}",
                         file.name(), table, keys[i], keys[i - 1]);
    return keys;
  };
  for (const auto& e : embeddings_) e->tables().make_room(keys_of);
}

std::vector<checkpoint::TensorRef> Model::weights() const {
  std::vector<checkpoint::TensorRef> list;
  for (const auto& p : network_->parameters())
    list.push_back(tensor_at(p.name, p.dims, buffers_.data<float>(p.buffers.value)));
  for (const auto& e : embeddings_)
    for (auto& t : e->tables().tables()) list.push_back(std::move(t));
  return list;
}

std::vector<checkpoint::TensorRef> Model::states() const {
  std::vector<checkpoint::TensorRef> list;
  for (size_t i = 0; i < dense_states_.size(); ++i)
    for (const auto& p : network_->parameters())
      list.push_back(
          tensor_at(p.name + "." + optimizer::state_name(rule_.type, static_cast<int>(i)), p.dims,
                    buffers_.data<float>(dense_states_[i]) + p.offset / kFloatBytes));
  for (const auto& e : embeddings_)
    for (auto& t : e->tables().states()) list.push_back(std::move(t));
  return list;
}

Model::NonFinite Model::find_non_finite(const Exec& exec, int64_t batch) const {
  const Exec where = gpu_run_ ? gpu_run_->exec() : exec;
  const auto first = [&](const network::Network::TensorEntry& t, int64_t n) {
    return with_float_type(t.type, [&]<typename T>() {
      return ops::first_non_finite<T>(where, network::vector<T>(buffers_, t.value, n));
    });
  };
  for (const auto& t : network_->tensors()) {
    const int64_t width = network::elements(t.dims);
    const bool loss = t.value == network_->loss();
    const int64_t at = loss ? -1 : first(t, batch * width);
    if (at < 0) continue;
    std::string layer = config_.data.name;
    if (t.producer >= 0) layer = network_->layers()[static_cast<size_t>(t.producer)].layer->name();
    for (const auto& e : embeddings_)
      if (e->output() == t.value) layer = e->name();
    return {t.name, layer, at / width};
  }
  return {};
}

Model::NonFiniteWeight Model::find_non_finite_weight(const Exec& exec) const {
  const Exec where = gpu_run_ ? gpu_run_->exec() : exec;
  const BufferId all = network_->working_buffer();
  return with_float_type(type_, [&]<typename T>() -> NonFiniteWeight {
    const int64_t at = ops::first_non_finite<T>(
        where, network::vector<T>(buffers_, all, network_->parameter_bytes() / kFloatBytes));
    if (at < 0) return {};
    T value;
    get(buffers_.data<T>(all) + at, &value, sizeof(value));
    const auto& parameters = network_->parameters();
    auto p = parameters.begin();
    while (p + 1 != parameters.end() && (p + 1)->offset / kFloatBytes <= at) ++p;
    return {p->name, at - p->offset / kFloatBytes, to_float(value)};
  });
}

}  // namespace hlite::trainer
