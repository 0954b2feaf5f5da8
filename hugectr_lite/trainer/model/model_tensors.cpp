#include "hugectr_lite/trainer/model/model_tensors.h"

#include <algorithm>
#include <numeric>

#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/log.h"

namespace hlite::trainer {
namespace {

using plan::BufferId;

// Floats of a buffer from element `first` on: in host memory, or by copies from and to a GPU.
TensorRef tensor_at(const Model& model, std::string name, std::vector<int64_t> shape, BufferId id,
                    int64_t first = 0) {
  TensorRef ref{.name = std::move(name), .shape = std::move(shape)};
  const plan::Buffers* const buffers = &model.buffers();
  if (!model.gpu()) {
    ref.data = buffers->data<float>(id) + first;
    return ref;
  }
  ref.get = [=](int64_t at, std::span<float> out) { buffers->read(id, first + at, out); };
  ref.put = [=](int64_t at, std::span<const float> in) { buffers->write(id, first + at, in); };
  return ref;
}

}  // namespace

void initialize(Model& model) {
  const network::Network* const network = model.layers().network.get();
  for (const auto& e : model.layers().embeddings) e->tables().initialize(model.host());
  std::vector<float> values;
  const auto draw = [&](const auto& tensor, BufferId id) {
    values.resize(static_cast<size_t>(network::elements(tensor.dims)));
    network::initialize(tensor.initializer, model.seed(), tensor.name, values);
    model.buffers().write<float>(id, 0, values);
  };
  for (const auto& p : network->parameters()) draw(p, p.buffers.value);
  for (const auto& t : network->running()) draw(t, t.value);
  const DenseOptimizer& dense = model.dense_optimizer();
  values.assign(static_cast<size_t>(network->parameter_bytes() / kFloatBytes),
                optimizer::initial_state(dense.rule()));
  for (const BufferId id : dense.states())
    model.buffers().write<float>(
        id, 0,
        std::span(values).first(static_cast<size_t>(model.buffers().bytes(id) / kFloatBytes)));
}

std::vector<TensorRef> weights_of(const Model& model, bool all_rows) {
  std::vector<TensorRef> list;
  for (const auto& p : model.layers().network->parameters())
    list.push_back(tensor_at(model, p.name, p.dims, p.buffers.value));
  for (const auto& t : model.layers().network->running())
    list.push_back(tensor_at(model, t.name, t.dims, t.value));
  for (const auto& e : model.layers().embeddings)
    for (TensorRef& t : e->tables().tables(all_rows)) list.push_back(std::move(t));
  return list;
}

std::vector<TensorRef> states_of(const Model& model) {
  std::vector<TensorRef> list;
  const DenseOptimizer& dense = model.dense_optimizer();
  for (size_t i = 0; i < dense.states().size(); ++i) {
    const std::string state = optimizer::state_name(dense.rule().type, static_cast<int>(i));
    for (const auto& p : model.layers().network->parameters())
      list.push_back(dense.shard()
                         ? dense.shard()->tensor({.name = p.name + "." + state, .shape = p.dims},
                                                 dense.states()[i], p.offset / kFloatBytes)
                         : tensor_at(model, p.name + "." + state, p.dims, dense.states()[i],
                                     p.offset / kFloatBytes));
  }
  for (const auto& e : model.layers().embeddings)
    for (TensorRef& t : e->tables().states()) list.push_back(std::move(t));
  return list;
}

std::optional<std::vector<uint32_t>> keys_in(const checkpoint::SafetensorsReader& file,
                                             const std::string& table, bool all) {
  std::vector<uint32_t> keys;
  if (file.find(table + ".keys") != nullptr) {
    keys = file.read_words(table + ".keys");
  } else if (!all) {
    return std::nullopt;
  } else if (const auto* rows = file.find(table); rows != nullptr && !rows->shape.empty()) {
    keys.resize(static_cast<size_t>(rows->shape[0]));
    std::iota(keys.begin(), keys.end(), 0u);
  }
  for (size_t i = 1; i < keys.size(); ++i)
    if (keys[i] <= keys[i - 1])
      raise<DataError>("{}: tensor {}.keys: expected ascending keys, found {} after {}",
                       file.name(), table, keys[i], keys[i - 1]);
  return keys;
}

static std::optional<std::vector<uint32_t>> words_in(const checkpoint::SafetensorsReader& file,
                                                     const std::string& name) {
  if (file.find(name) == nullptr) return std::nullopt;
  return file.read_words(name);
}

std::vector<TensorRef> weights_to_read(Model& model, const ByteSource& opened,
                                       const ByteSource* opened_states) {
  const checkpoint::SafetensorsReader file(opened);
  std::optional<checkpoint::SafetensorsReader> states;
  if (opened_states) states.emplace(*opened_states);
  const auto keys_of = [&](const std::string& table, bool all) {
    return keys_in(file, table, all);
  };
  const auto words_of = [&](const std::string& name) {
    return states ? words_in(*states, name) : std::nullopt;
  };
  for (const auto& e : model.layers().embeddings)
    e->tables().reserve(keys_of, words_of, model.host());
  std::vector<TensorRef> weights = weights_of(model);
  std::erase_if(weights, [&](const TensorRef& t) {
    return t.dtype == DType::kU32 && file.find(t.name) == nullptr;
  });
  return weights;
}

std::vector<TensorRef> states_to_read(Model& model, const ByteSource& opened, int64_t iteration) {
  const checkpoint::SafetensorsReader file(opened);
  const auto words_of = [&](const std::string& name) { return words_in(file, name); };
  for (const auto& e : model.layers().embeddings)
    if (e->tables().vocabulary_rules()) e->tables().read_vocabulary(words_of, iteration);
  std::vector<TensorRef> states = states_of(model);
  std::erase_if(states, [&](const TensorRef& t) {
    if (t.dtype != DType::kU32) return false;
    return file.find(t.name) == nullptr;
  });
  // Tensors of hash tables that the file has and the model has not.
  const auto is_kept = [](const std::string& name) {
    return name.ends_with(".rows") || name.ends_with(".uses") || name.ends_with(".candidates") ||
           name.ends_with(".filter");
  };
  for (const auto& entry : file.tensors()) {
    if (entry.name.ends_with(".filter") && model.rank() == 0)
      log::warning(
          "{}: {} has the counts of the admission \"bloom\", which is gone: keys without a row "
          "are counted from the start",
          file.name(), entry.name);
    if (is_kept(entry.name) && std::none_of(states.begin(), states.end(),
                                            [&](const auto& t) { return t.name == entry.name; }))
      states.push_back({.name = entry.name,
                        .shape = entry.shape,
                        .put = [](int64_t, std::span<const float>) {},
                        .dtype = DType::kU32});
  }
  return states;
}

void load_trained_weights(Model& model, const std::string& path) {
  const checkpoint::WeightsFile file = checkpoint::weights_in(path);
  const ReadFile opened(file.path);
  std::vector<TensorRef> weights = weights_to_read(model, opened);
  if (model.config().trains) {
    const checkpoint::SafetensorsReader reader(opened);
    const auto& running = model.layers().network->running();
    std::erase_if(weights, [&](const TensorRef& t) {
      return reader.find(t.name) == nullptr &&
             std::any_of(running.begin(), running.end(),
                         [&](const auto& of) { return of.name == t.name; });
    });
  }
  checkpoint::load_weights(file, weights);
}

void weights_changed(const Model& model) {
  for (const auto& e : model.layers().embeddings) e->tables().end_reading();
  model.dense_optimizer().round_weights(model.buffers(), model.executor().exec());
}

}  // namespace hlite::trainer
