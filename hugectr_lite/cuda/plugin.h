// The plug-in from within.
#pragma once

#include "hugectr_lite/core/plugin_interface.h"

namespace hlite {
class KernelList;  // core/kernel_list.cuh
}

namespace hlite::cuda {

// Lists every source of kernels; its definition is generated from the list in sources.cmake.
void list_all_kernels(KernelList& list);

// Lives as long as the process.
const Plugin& this_plugin();

}  // namespace hlite::cuda
