// A step that copies one tensor into another of the same size.
#pragma once

#include <string>

#include "hugectr_lite/network/layer.h"

namespace hlite::network {

void add_copy_step(plan::Plan& plan, const LayerIo& io, const std::string& name, BufferId from,
                   BufferId to, const Dims& dims);

}  // namespace hlite::network
