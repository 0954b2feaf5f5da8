// Hidden symbols are the rule in the plug-in; this is the one that shows.
#include "hugectr_lite/cuda/plugin.h"

extern "C" __attribute__((visibility("default"))) const hlite::cuda::Plugin* hlite_cuda_plugin() {
  return &hlite::cuda::this_plugin();
}
