// A model's weights and optimizer states by their names in files, and where their values come from.
#pragma once

#include <string>
#include <vector>

#include "hugectr_lite/checkpoint/safetensors.h"
#include "hugectr_lite/trainer/model/model.h"

namespace hlite::trainer {

// Sets the initial values of every weight and optimizer state, from the model's seed. REQUIRES
// allocate(), as all of these do. Call weights_changed() afterwards.
void initialize(Model& model);

// Every weight by its name in a weights file; the optimizer's states likewise. Collective. They
// borrow from the model. Of tables larger than memory, the rows that have been trained, with their
// keys, as a checkpoint has them, or all rows.
std::vector<TensorRef> weights_of(const Model& model, bool all_rows = false);
std::vector<TensorRef> states_of(const Model& model);

// The keys of a table's rows in a file of weights, ascending. For a table without a list of keys,
// those of all its rows or, if not `all`, none. Throws DataError when they are not ascending.
std::optional<std::vector<uint32_t>> keys_in(const checkpoint::SafetensorsReader& file,
                                             const std::string& table, bool all);

// The weights that a file is to fill: all of the model's, but for the keys of tables that have all
// keys there. Hashed tables reserve rows for the file's keys, as EmbeddingTables::reserve() says;
// `states`: the file of the states that belong to the weights, if there is one. Throws DataError
// when its keys are not ascending.
std::vector<TensorRef> weights_to_read(Model& model, const ByteSource& file,
                                       const ByteSource* states = nullptr);

// The states that a file is to fill, after weights_to_read(). A file may lack what hash tables keep
// in addition to optimizer states (`rows`, `uses`, `candidates`, `filter`), or have it without a use
// for it. `iteration`: that of the file, which is the last use of a row if it does not say.
std::vector<TensorRef> states_to_read(Model& model, const ByteSource& file, int64_t iteration);

// Fills them from a checkpoint's directory, with its best weights if it has them, or from an
// exported file. A model that trains keeps the first values of statistics that the file lacks.
void load_trained_weights(Model& model, const std::string& path);

// To be called when weights have been set, before a plan runs: working copies follow.
void weights_changed(const Model& model);

}  // namespace hlite::trainer
