// Kernels of a KeyFilter.
#include "embedding/filter_count.cuh"
#include "embedding/hashed_args.h"
#include "embedding/item_threads.cuh"
#include "hugectr_lite/core/kernel_list.cuh"

namespace hlite::embedding::gpu {
namespace {

// Raises a counter to `count`: a maximum, whatever the order of threads.
__device__ inline void raise(uint8_t* counter, uint32_t count) {
  const auto address = reinterpret_cast<uintptr_t>(counter);
  auto* const word = reinterpret_cast<uint32_t*>(address & ~uintptr_t{3});
  const auto shift = static_cast<uint32_t>(address & 3) * 8;  // little-endian
  uint32_t found = *static_cast<const volatile uint32_t*>(word);
  while ((found >> shift & 0xff) < count) {
    const uint32_t before = found, raised = (found & ~(0xffu << shift)) | count << shift;
    found = atomicCAS(word, before, raised);
    if (found == before) return;
  }
}

// A thread a key that waits; none if the iteration that they are of is still at hand. `step`: null
// if it is over.
__global__ void __launch_bounds__(kItemThreads)
    raise_kernel(KeyFilterRef filter, const int64_t* step) {
  const KeyFilterRef::State state = *filter.state;
  if (step && state.step == iteration_after(step)) return;
  const int64_t waiting = state.waiting < filter.max_waiting ? state.waiting : filter.max_waiting;
  for (int64_t i = global_thread(); i < waiting; i += grid_threads()) {
    const FilterEntry entry = filter.waiting[i];
    const KeyFilterRef::Places of = filter.places_of(entry.key);
    for (int32_t f = 0; f < filter.functions; ++f)
      raise(filter.counters + filter.place(of, f), entry.count);
  }
}

__global__ void start_kernel(KeyFilterRef filter, const int64_t* step) {
  *filter.state = {iteration_after(step), 0};
}

void launch_raise(cudaStream_t stream, const KeyFilterRef& filter, const int64_t* step) {
  constexpr int64_t kBlocks = 1024;  // usually few keys wait
  launch(item_shape("raise_counts", filter.max_waiting, stream, kBlocks), raise_kernel, filter,
         step);
}

}  // namespace

void open_filter(cudaStream_t stream, const KeyFilterRef& filter, const int64_t* step) {
  launch_raise(stream, filter, step);
  launch({.name = "start_filter", .stream = stream}, start_kernel, filter, step);
}

void raise_counts(cudaStream_t stream, const KeyFilterRef& filter) {
  launch_raise(stream, filter, nullptr);
}

HLITE_KERNELS(key_filter) { list.add<raise_counts>(kernels::raise_counts); }

}  // namespace hlite::embedding::gpu
