// A model's weights and optimizer states by their names in files, and where their values come from.
#pragma once

#include <vector>

#include "hugectr_lite/checkpoint/safetensors.h"
#include "hugectr_lite/trainer/model/model.h"

namespace hlite::trainer {

// First values of every weight and optimizer state, from the model's seed. REQUIRES allocate(), as
// all of these do. weights_changed() belongs behind it.
void initialize(Model& model);

// Every weight by its name in a weights file; the optimizer's states likewise. Collective. They
// borrow from the model.
std::vector<TensorRef> weights_of(const Model& model);
std::vector<TensorRef> states_of(const Model& model);

// Where tables hold the keys that have come: makes room for a file's, before its weights are read.
// Throws DataError when its keys are not ascending.
void make_room(Model& model, const checkpoint::SafetensorsReader& file);

// To be called when weights have been set, before a plan runs: working copies follow.
void weights_changed(const Model& model);

}  // namespace hlite::trainer
