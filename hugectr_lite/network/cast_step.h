// Steps between float and the type of a network's activations.
#pragma once

#include <string>

#include "hugectr_lite/network/layer.h"

namespace hlite::network {

// `to` [B, columns] of `type` = `from` [B, width], float, and zeros in the columns beyond.
struct CastFromFloat {
  BufferId from = kNoBuffer, to = kNoBuffer;
  int64_t width = 0, columns = 0;
};
void add_cast_from_float(plan::Plan& plan, const Buffers& buffers, FloatType type,
                         const std::string& name, const CastFromFloat& cast);

// `to` [B, width], float = `from` [B, width] of `type`.
void add_cast_to_float(plan::Plan& plan, const Buffers& buffers, FloatType type,
                       const std::string& name, BufferId from, BufferId to, int64_t width);

}  // namespace hlite::network
