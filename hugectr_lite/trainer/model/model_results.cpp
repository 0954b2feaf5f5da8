#include "hugectr_lite/trainer/model/model_results.h"

#include "hugectr_lite/core/backend.h"

namespace hlite::trainer {

float loss_of(const Model& model) {
  return model.buffers().value<float>(model.layers().network->loss());
}

void append_outputs(const Model& model, int64_t n, std::vector<float>& logits,
                    std::vector<float>& labels) {
  const auto append = [&](plan::BufferId from, std::vector<float>& to) {
    const size_t before = to.size();
    to.resize(before + static_cast<size_t>(n * model.layers().network->tasks()));
    model.buffers().read(from, 0, std::span(to).subspan(before));
  };
  append(model.layers().network->logits(), logits);
  append(model.batch().labels(), labels);
}

void copy_outputs(const Model& model, int64_t n, const OutputsPlace& to) {
  const plan::Buffers& buffers = model.buffers();
  const auto bytes = static_cast<size_t>(n * kFloatBytes);
  const Exec exec = model.executor().exec();
  exec.cuda->copy(to.logits, buffers.data<float>(model.layers().network->logits()), bytes,
                  exec.stream);
  exec.cuda->copy(to.labels, buffers.data<float>(model.batch().labels()), bytes, exec.stream);
  model.executor().extend_run();  // labels are an input
}

void check_keys(const Model& model) {
  model.executor().synchronize();  // with its limit
  for (const auto& e : model.layers().embeddings) e->tables().check(model.executor().exec());
}

}  // namespace hlite::trainer
