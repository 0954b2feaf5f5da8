// What a sparse update on a GPU hands to the plug-in.
#pragma once

#include <cstddef>
#include <cstdint>

#include "embedding/slots_ref.h"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/optimizer/gradient_scale.h"
#include "hugectr_lite/optimizer/update_rules.h"

namespace hlite::embedding {

// What the size of the workspace depends on.
struct SparseUpdateShape {
  int64_t max_batch = 0;
  int32_t slots = 0;
  int32_t lookups = 0;  // of a sample
  int32_t width = 0;
  uint32_t total_rows = 0;
  bool scales = false;  // gradients of some rows are scaled: a mean
  bool sweeps = false;  // rows without a lookup move too
  bool atomic = false;  // gradients go straight into the table
};

// Shapes and meaning are those of GpuSparseUpdate::update; everything lies in device memory.
template <typename T>
struct SparseUpdateArgs {
  SparseUpdateShape shape;
  SlotsRef slots;
  optimizer::UpdateRule rule;
  const float* lr = nullptr;
  const int64_t* step = nullptr;
  optimizer::GradientScale gradient_scale;
  Matrix<const uint32_t> keys;  // [B,columns]
  View<const T, 3> dout;        // [B,S,V]
  Matrix<float> table, state0, state1;
  std::byte* workspace = nullptr;
  size_t workspace_bytes = 0;
};

}  // namespace hlite::embedding
