// Makes the linker take the emulated plug-in's one entry into the library.
#include "hugectr_lite/core/plugin_table.h"

extern "C" const hlite::cuda::OpTable* hlite_cuda_op_table(int abi_version);

namespace hlite::emulation {
extern const cuda::OpTableEntry kEntry;
const cuda::OpTableEntry kEntry = hlite_cuda_op_table;
}  // namespace hlite::emulation
