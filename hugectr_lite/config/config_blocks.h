// The blocks of a config, for train_config.cpp. Each function declares the keys of its block
// (block.h) and checks what they must be together.
#pragma once

#include "hugectr_lite/config/block.h"
#include "hugectr_lite/config/train_config.h"

namespace hlite::config {

void declare(Block& s, SolverConfig& solver);
// Keys of the solver that name weights of HugeCTR.
inline constexpr const char* kModelFileKeys[] = {"model_file", "dense_model_file",
                                                 "sparse_model_file"};
void declare(Block& s, AllReduceConfig& all_reduce);
// layers[0]. `directory`: of the config file.
void declare(Block& s, const std::string& directory, DataConfig& data);
// The key `sparse` of the Data layer; `raw`: its records have a fixed number of keys.
void declare_sparse(Block& s, bool raw, std::vector<SparseInputConfig>& inputs);

}  // namespace hlite::config
