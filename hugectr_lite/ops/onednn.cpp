#if HLITE_GEMM_ONEDNN
#include "hugectr_lite/ops/onednn.h"

#include <dlfcn.h>

#include <string>
#include <string_view>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/plugin_file.h"

namespace hlite::ops {
namespace {

template <typename Function>
void find(void* library, const char* name, Function& function) {
  void* const symbol = dlsym(library, name);
  if (symbol == nullptr) raise("oneDNN lacks a function: {}", loader_error());
  function = reinterpret_cast<Function>(symbol);
}

OneDnn load_onednn() {
  // Where plug-ins lie, as a wheel has it there, or the loader's own choice: a program may run on
  // another machine than it was built on.
  const std::string name = HLITE_ONEDNN_NAME;
  void* library = dlopen(plugin_file(name).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string reason = loader_error();
    library = dlopen(HLITE_ONEDNN_FILE, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
      raise("cannot load oneDNN, which multiplies matrices: {}; install libdnnl{}", reason,
            name.substr(std::string_view("libdnnl.so.").size()));
  }
  OneDnn found;
  find(library, "dnnl_sgemm", found.sgemm);
  find(library, "omp_set_num_threads", found.omp_set_num_threads);
#define HLITE_ONEDNN_FIND(name) find(library, #name, found.name##_function);
  HLITE_ONEDNN_FUNCTIONS(HLITE_ONEDNN_FIND)
#undef HLITE_ONEDNN_FIND
  return found;
}

}  // namespace

const OneDnn& onednn() {
  static const OneDnn library = load_onednn();
  return library;
}

}  // namespace hlite::ops
#endif
