#include "hugectr_lite/trainer/model/non_finite_search.h"

#include <algorithm>

#include "hugectr_lite/ops/non_finite.h"

namespace hlite::trainer {
namespace {

std::string producer_of(const Model& model, const network::Network::TensorEntry& tensor) {
  for (const auto& e : model.layers().embeddings)
    if (std::find(e->top_values().begin(), e->top_values().end(), tensor.value) !=
        e->top_values().end())
      return e->name();
  if (tensor.producer < 0) return model.config().data.name;
  return model.layers().network->layers()[static_cast<size_t>(tensor.producer)].layer->name();
}

}  // namespace

NonFinite find_non_finite(const Model& model, int64_t batch) {
  const network::Network& network = *model.layers().network;
  for (const auto& t : network.tensors()) {
    if (t.value == network.loss()) continue;
    const int64_t width = network::elements(t.dims);
    const std::span<const int64_t> packed = network.offsets(model.buffers(), t, batch);
    const int64_t row = width / network::rows_of_sample(t.dims);
    const int64_t size = packed.empty() ? batch * width : packed.back() * row;
    const int64_t at = with_float_type(t.type, [&]<typename T>() {
      return ops::first_non_finite<T>(model.executor().exec(),
                                      network::vector<T>(model.buffers(), t.value, size));
    });
    if (at < 0) continue;
    const int64_t sample =
        packed.empty()
            ? at / width
            : std::upper_bound(packed.begin(), packed.end(), at / row) - packed.begin() - 1;
    return {t.name, producer_of(model, t), sample};
  }
  return {};
}

NonFiniteWeight find_non_finite_weight(const Model& model) {
  const network::Network& network = *model.layers().network;
  const plan::BufferId all = network.working_buffer();
  return with_float_type(model.type(), [&]<typename T>() -> NonFiniteWeight {
    const int64_t at = ops::first_non_finite<T>(
        model.executor().exec(),
        network::vector<T>(model.buffers(), all, network.parameter_bytes() / kFloatBytes));
    if (at < 0) return {};
    T value;
    model.buffers().read(all, at, std::span<T>(&value, 1));
    const auto& parameters = network.parameters();
    auto p = parameters.begin();
    while (p + 1 != parameters.end() && (p + 1)->offset / kFloatBytes <= at) ++p;
    return {p->name, at - p->offset / kFloatBytes, to_float(value)};
  });
}

}  // namespace hlite::trainer
