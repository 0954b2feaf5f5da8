// Results of a run of a model. On a GPU all functions wait for it, except copy_outputs(). On a GPU
// all wait for it, but copy_outputs().
#pragma once

#include <cstdint>
#include <vector>

#include "hugectr_lite/trainer/model/model.h"

namespace hlite::trainer {

// Mean loss of the last batch; on several ranks, in training, of all of them.
float loss_of(const Model& model);

// Outputs of samples, one sample after the other.
struct SampleOutputs {
  std::vector<float> logits, labels;  // as many each as there are tasks
  std::vector<float> weights;         // of samples; empty: they have none
  std::vector<uint32_t> groups;       // of samples; empty: they have none (eval_group_slot)
  void clear() {
    for (auto* list : {&logits, &labels, &weights}) list->clear();
    groups.clear();
  }
};
// Appends those of the last batch's first n samples. If training saw a share of the negatives
// (negative_share of the Data layer), the logits are those for all of them.
void append_outputs(const Model& model, int64_t n, SampleOutputs& to);
// Appends the groups of a batch's samples, if solver.eval_group_slot says what those are.
void append_groups(const config::TrainConfig& config, const data::HostBatch& batch,
                   SampleOutputs& to);

// The score of a logit, for people: 1 / (1 + e^-logit) rounded to float once, or of a model that
// predicts values (MSELoss) the value.
float score_of(const Model& model, float logit);

// Device memory for the outputs of some samples: a float each.
struct OutputsPlace {
  float *logits = nullptr, *labels = nullptr;
};
// The same for a single task on a GPU, without waiting: two copies on the stream after the run.
void copy_outputs(const Model& model, int64_t n, const OutputsPlace& to);

// Waits for all runs of a GPU: see embedding::EmbeddingTables::check().
void check_keys(const Model& model);

}  // namespace hlite::trainer
