#include "hugectr_lite/ops/bf16_onednn.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/gemm_piece.h"

#if HLITE_GEMM_ONEDNN
#include <map>
#include <mutex>

#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/ops/onednn.h"

// dnnl.hpp calls the functions of the library by name; these names lead to the loaded ones. This
// file is compiled alone, so nothing else sees them.
#define dnnl_engine_create(...) hlite::ops::onednn().dnnl_engine_create_function(__VA_ARGS__)
#define dnnl_engine_destroy(...) hlite::ops::onednn().dnnl_engine_destroy_function(__VA_ARGS__)
#define dnnl_matmul_desc_init(...) hlite::ops::onednn().dnnl_matmul_desc_init_function(__VA_ARGS__)
#define dnnl_matmul_primitive_desc_create(...) \
  hlite::ops::onednn().dnnl_matmul_primitive_desc_create_function(__VA_ARGS__)
#define dnnl_memory_create(...) hlite::ops::onednn().dnnl_memory_create_function(__VA_ARGS__)
#define dnnl_memory_create_v2(...) hlite::ops::onednn().dnnl_memory_create_v2_function(__VA_ARGS__)
#define dnnl_memory_desc_clone(...) \
  hlite::ops::onednn().dnnl_memory_desc_clone_function(__VA_ARGS__)
#define dnnl_memory_desc_create_with_tag(...) \
  hlite::ops::onednn().dnnl_memory_desc_create_with_tag_function(__VA_ARGS__)
#define dnnl_memory_desc_destroy(...) \
  hlite::ops::onednn().dnnl_memory_desc_destroy_function(__VA_ARGS__)
#define dnnl_memory_desc_get_size(...) \
  hlite::ops::onednn().dnnl_memory_desc_get_size_function(__VA_ARGS__)
#define dnnl_memory_desc_get_size_v2(...) \
  hlite::ops::onednn().dnnl_memory_desc_get_size_v2_function(__VA_ARGS__)
#define dnnl_memory_desc_init_by_tag(...) \
  hlite::ops::onednn().dnnl_memory_desc_init_by_tag_function(__VA_ARGS__)
#define dnnl_memory_destroy(...) hlite::ops::onednn().dnnl_memory_destroy_function(__VA_ARGS__)
#define dnnl_memory_get_data_handle(...) \
  hlite::ops::onednn().dnnl_memory_get_data_handle_function(__VA_ARGS__)
#define dnnl_memory_get_data_handle_v2(...) \
  hlite::ops::onednn().dnnl_memory_get_data_handle_v2_function(__VA_ARGS__)
#define dnnl_memory_set_data_handle(...) \
  hlite::ops::onednn().dnnl_memory_set_data_handle_function(__VA_ARGS__)
#define dnnl_memory_set_data_handle_v2(...) \
  hlite::ops::onednn().dnnl_memory_set_data_handle_v2_function(__VA_ARGS__)
#define dnnl_primitive_attr_create(...) \
  hlite::ops::onednn().dnnl_primitive_attr_create_function(__VA_ARGS__)
#define dnnl_primitive_attr_destroy(...) \
  hlite::ops::onednn().dnnl_primitive_attr_destroy_function(__VA_ARGS__)
#define dnnl_primitive_attr_set_scratchpad_mode(...) \
  hlite::ops::onednn().dnnl_primitive_attr_set_scratchpad_mode_function(__VA_ARGS__)
#define dnnl_primitive_create(...) hlite::ops::onednn().dnnl_primitive_create_function(__VA_ARGS__)
#define dnnl_primitive_desc_destroy(...) \
  hlite::ops::onednn().dnnl_primitive_desc_destroy_function(__VA_ARGS__)
#define dnnl_primitive_desc_iterator_create(...) \
  hlite::ops::onednn().dnnl_primitive_desc_iterator_create_function(__VA_ARGS__)
#define dnnl_primitive_desc_iterator_destroy(...) \
  hlite::ops::onednn().dnnl_primitive_desc_iterator_destroy_function(__VA_ARGS__)
#define dnnl_primitive_desc_iterator_fetch(...) \
  hlite::ops::onednn().dnnl_primitive_desc_iterator_fetch_function(__VA_ARGS__)
#define dnnl_primitive_desc_query(...) \
  hlite::ops::onednn().dnnl_primitive_desc_query_function(__VA_ARGS__)
#define dnnl_primitive_desc_query_md(...) \
  hlite::ops::onednn().dnnl_primitive_desc_query_md_function(__VA_ARGS__)
#define dnnl_primitive_destroy(...) \
  hlite::ops::onednn().dnnl_primitive_destroy_function(__VA_ARGS__)
#define dnnl_primitive_execute(...) \
  hlite::ops::onednn().dnnl_primitive_execute_function(__VA_ARGS__)
#define dnnl_stream_create(...) hlite::ops::onednn().dnnl_stream_create_function(__VA_ARGS__)
#define dnnl_stream_destroy(...) hlite::ops::onednn().dnnl_stream_destroy_function(__VA_ARGS__)
#include <oneapi/dnnl/dnnl.hpp>
#endif

namespace hlite::ops {

#if HLITE_GEMM_ONEDNN
namespace {

using dnnl::memory;

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::matmul::primitive_desc description(const Bf16Sizes& s) {
  using Type = memory::data_type;
  using Tag = memory::format_tag;
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const memory::desc a({s.m, s.k}, Type::bf16, Tag::ab);
  const memory::desc b({s.k, s.n}, Type::bf16, Tag::BA16a64b2a);
  const memory::desc c({s.m, s.n}, Type::f32, Tag::ab);
#if DNNL_VERSION_MAJOR == 2
  return {{a, b, c}, attributes, cpu_engine()};
#else
  return {cpu_engine(), a, b, c, attributes};
#endif
}

// A primitive and the handles of what it works on.
class PieceProduct {
 public:
  explicit PieceProduct(const dnnl::matmul::primitive_desc& of)
      : primitive_(of),
        a_(of.src_desc(), cpu_engine(), nullptr),
        b_(of.weights_desc(), cpu_engine(), nullptr),
        c_(of.dst_desc(), cpu_engine(), nullptr),
        scratch_(of.scratchpad_desc(), cpu_engine(), nullptr),
        scratch_bytes_(of.scratchpad_desc().get_size()) {}

  void run(const dnnl::stream& stream, const bf16* a, const bf16* b, float* c) {
    thread_local HostMemory scratch;  // grown once
    if (scratch.size() < scratch_bytes_) scratch = HostMemory(scratch_bytes_, "a product");
    set(a_, const_cast<bf16*>(a));
    set(b_, const_cast<bf16*>(b));
    set(c_, c);
    set(scratch_, scratch.data());
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, a_.get()},
                                         {DNNL_ARG_WEIGHTS, b_.get()},
                                         {DNNL_ARG_DST, c_.get()},
                                         {DNNL_ARG_SCRATCHPAD, scratch_.get()}};
    const dnnl_status_t status =
        dnnl_primitive_execute(primitive_.get(), stream.get(), 4, arguments);
    HLITE_CHECK(status == dnnl_success, "dnnl_primitive_execute: status {}",
                static_cast<int>(status));
  }

 private:
  // To set a handle costs a pass over the zeros beyond an array's edge.
  static void set(const memory& of, void* data) {
    if (of.get_data_handle() != data) of.set_data_handle(data);
  }

  dnnl::matmul primitive_;
  memory a_, b_, c_, scratch_;
  size_t scratch_bytes_;
};

PieceProduct make_piece(const Bf16Sizes& s) {
  try {
    return PieceProduct(description(s));
  } catch (const dnnl::error& e) {
    raise("oneDNN cannot multiply bf16 [{},{}] by [{},{}]: {}", s.m, s.k, s.k, s.n, e.what());
  }
}

}  // namespace

std::string onednn_bf16_products() {
  keep_single_threaded();
  try {
    const std::string name = description({64, 64, 64}).impl_info_str();
    return name.starts_with("brg") ? name : "";
  } catch (const dnnl::error&) {
    return "";  // below AVX-512 it has none at all
  }
}

void onednn_bf16_piece(const Bf16Sizes& sizes, const bf16* a, const bf16* b, float* c) {
  keep_single_threaded();
  thread_local const dnnl::stream stream(cpu_engine());
  thread_local std::map<Bf16Sizes, PieceProduct> pieces;
  auto piece = pieces.find(sizes);
  if (piece == pieces.end()) {
    // The library looks for one that another thread has made: its cache is everybody's.
    static std::mutex making;
    const std::lock_guard lock(making);
    piece = pieces.emplace(sizes, make_piece(sizes)).first;
  }
  piece->second.run(stream, a, b, c);
}

#else

std::string onednn_bf16_products() { return ""; }

void onednn_bf16_piece(const Bf16Sizes&, const bf16*, const bf16*, float*) {
  raise("this build has no oneDNN");
}

#endif

}  // namespace hlite::ops
