// oneDNN, loaded by the first product that needs it. The library has 38 MB and 37,000 relocations,
// which take longer than everything else that a program does to start, and evaluation in float, as
// in `predict` and `serve`, does without it.
#pragma once

#include <oneapi/dnnl/dnnl.h>

// All functions of the library that are called here and by what is used of dnnl.hpp: of every
// version, and of this one.
#define HLITE_ONEDNN_COMMON_FUNCTIONS(DO)     \
  DO(dnnl_engine_create)                      \
  DO(dnnl_engine_destroy)                     \
  DO(dnnl_memory_create)                      \
  DO(dnnl_memory_desc_get_size)               \
  DO(dnnl_memory_destroy)                     \
  DO(dnnl_memory_get_data_handle)             \
  DO(dnnl_primitive_attr_create)              \
  DO(dnnl_primitive_attr_destroy)             \
  DO(dnnl_primitive_attr_set_scratchpad_mode) \
  DO(dnnl_primitive_create)                   \
  DO(dnnl_primitive_desc_destroy)             \
  DO(dnnl_primitive_desc_query)               \
  DO(dnnl_primitive_desc_query_md)            \
  DO(dnnl_primitive_destroy)                  \
  DO(dnnl_primitive_execute)                  \
  DO(dnnl_stream_create)                      \
  DO(dnnl_stream_destroy)
#if DNNL_VERSION_MAJOR == 2
#define HLITE_ONEDNN_FUNCTIONS(DO)         \
  HLITE_ONEDNN_COMMON_FUNCTIONS(DO)        \
  DO(dnnl_matmul_desc_init)                \
  DO(dnnl_memory_desc_init_by_tag)         \
  DO(dnnl_memory_set_data_handle_v2)       \
  DO(dnnl_primitive_desc_iterator_create)  \
  DO(dnnl_primitive_desc_iterator_destroy) \
  DO(dnnl_primitive_desc_iterator_fetch)
#else
#define HLITE_ONEDNN_FUNCTIONS(DO)      \
  HLITE_ONEDNN_COMMON_FUNCTIONS(DO)     \
  HLITE_ONEDNN_SPARSE_FUNCTIONS(DO)     \
  DO(dnnl_matmul_primitive_desc_create) \
  DO(dnnl_memory_desc_clone)            \
  DO(dnnl_memory_desc_create_with_tag)  \
  DO(dnnl_memory_desc_destroy)          \
  DO(dnnl_memory_set_data_handle)
#ifdef DNNL_EXPERIMENTAL_SPARSE  // dnnl.hpp then calls these, also for what is dense
#define HLITE_ONEDNN_SPARSE_FUNCTIONS(DO) \
  DO(dnnl_memory_create_v2)               \
  DO(dnnl_memory_desc_get_size_v2)        \
  DO(dnnl_memory_get_data_handle_v2)      \
  DO(dnnl_memory_set_data_handle_v2)
#else
#define HLITE_ONEDNN_SPARSE_FUNCTIONS(DO)
#endif
#endif

namespace hlite::ops {

struct OneDnn {
  decltype(&::dnnl_sgemm) sgemm = nullptr;
  void (*omp_set_num_threads)(int) = nullptr;  // of the OpenMP that came with the library
#define HLITE_ONEDNN_MEMBER(name) decltype(&::name) name##_function = nullptr;
  HLITE_ONEDNN_FUNCTIONS(HLITE_ONEDNN_MEMBER)
#undef HLITE_ONEDNN_MEMBER
};

// Throws Error if the library cannot be loaded.
const OneDnn& onednn();

}  // namespace hlite::ops
