// What a run of a model has come to. On a GPU all wait for it, but copy_outputs().
#pragma once

#include <cstdint>
#include <vector>

#include "hugectr_lite/trainer/model/model.h"

namespace hlite::trainer {

// Mean loss of the last batch; on several ranks, in training, of all of them.
float loss_of(const Model& model);

// Appends logits and labels of the last batch's first n samples: as many each as there are tasks.
void append_outputs(const Model& model, int64_t n, std::vector<float>& logits,
                    std::vector<float>& labels);

// Device memory for the outputs of some samples: a float each.
struct OutputsPlace {
  float *logits = nullptr, *labels = nullptr;
};
// The same of a single task on a GPU, without waiting: two copies behind the run.
void copy_outputs(const Model& model, int64_t n, const OutputsPlace& to);

// Waits for all runs of a GPU: see embedding::EmbeddingTables::check().
void check_keys(const Model& model);

}  // namespace hlite::trainer
