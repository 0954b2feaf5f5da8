#include "hugectr_lite/trainer/model/model_results.h"

#include <cmath>

#include "hugectr_lite/core/backend.h"

namespace hlite::trainer {

float loss_of(const Model& model) {
  return model.buffers().value<float>(model.layers().network->loss());
}

// Training on a share r of the negatives divides the odds of a negative by 1/r: a probability q
// that was learnt from them stands for q / (q + (1 - q) / r) (He et al., "Practical Lessons from
// Predicting Clicks on Ads at Facebook", ADKDD 2014, section 6.3), whose logit is that of q plus
// log r.
static void correct_logits(double negative_share, std::span<float> logits) {
  if (negative_share == 1) return;
  const double correction = std::log(negative_share);
  for (float& z : logits) z = static_cast<float>(static_cast<double>(z) + correction);
}

void append_outputs(const Model& model, int64_t n, SampleOutputs& to) {
  const network::Network& network = *model.layers().network;
  const int64_t tasks = network.tasks();
  const auto append = [&](plan::BufferId from, int64_t width, std::vector<float>& list) {
    const size_t before = list.size();
    list.resize(before + static_cast<size_t>(n * width));
    model.buffers().read(from, 0, std::span(list).subspan(before));
  };
  append(network.logits(), tasks, to.logits);
  correct_logits(model.config().data.negative_share,
                 std::span(to.logits).last(static_cast<size_t>(n * tasks)));
  if (!model.config().data.sample_weight) return append(model.batch().labels(), tasks, to.labels);
  std::vector<float> rows;
  append(model.batch().labels(), tasks + 1, rows);
  for (auto row = rows.begin(); row != rows.end(); row += tasks + 1) {
    to.labels.insert(to.labels.end(), row, row + tasks);
    to.weights.push_back(row[tasks]);
  }
}

void append_groups(const config::TrainConfig& config, const data::HostBatch& batch,
                   SampleOutputs& to) {
  const auto& slot = config.solver.evaluation.group_slot;
  if (!slot) return;
  const int64_t column = config.data.key_layout().first_column[static_cast<size_t>(*slot)];
  for (int64_t b = 0; b < batch.size; ++b) to.groups.push_back(batch.keys(b, column));
}

float score_of(const Model& model, float logit) {
  if (model.layers().network->predicts_values()) return logit;
  return static_cast<float>(1 / (1 + std::exp(-static_cast<double>(logit))));
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
