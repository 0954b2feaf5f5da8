// A step that widens a float tensor by columns of zeros.
#pragma once

#include <string>

#include "hugectr_lite/network/layer.h"

namespace hlite::network {

// `to` [B, columns] = `from` [B, width], and zeros in the columns beyond; columns > width.
void add_pad_step(plan::Plan& plan, const Buffers& buffers, const std::string& name, BufferId from,
                  int64_t width, BufferId to, int64_t columns);

}  // namespace hlite::network
