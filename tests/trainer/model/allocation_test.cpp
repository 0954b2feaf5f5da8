// An iteration allocates nothing once it is warm.
// Counts every call of operator new in this program.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <thread>

#include "hugectr_lite/comm/thread_communicator.h"
#include "hugectr_lite/ops/bf16_piece.h"
#include "hugectr_lite/trainer/model/model_tensors.h"
#include "hugectr_lite/trainer/model/placements.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/catch.h"
#include "tests/support/memory_source.h"

namespace {
std::atomic<int64_t> allocations{0};

void* counted(std::size_t bytes, std::size_t alignment) {
  ++allocations;
  void* p = alignment > alignof(std::max_align_t)
                ? std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)
                : std::malloc(bytes ? bytes : 1);
  if (!p) throw std::bad_alloc();
  return p;
}
}  // namespace

void* operator new(std::size_t n) { return counted(n, 0); }
void* operator new[](std::size_t n) { return counted(n, 0); }
void* operator new(std::size_t n, std::align_val_t a) {
  return counted(n, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t n, std::align_val_t a) {
  return counted(n, static_cast<std::size_t>(a));
}
// The ones that do not throw too: a sanitizer's own would not go with our delete.
void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(n ? n : 1);
}
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(n ? n : 1);
}
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

namespace hlite::test {

namespace {

// Allocations in two stretches of 50 warm iterations of the small model.
std::pair<int64_t, int64_t> warm_allocations(const std::vector<std::string>& changes) {
  const auto config = config::parse_train_config(small_config(), "small.json", changes);
  ThreadPool pool(1);
  const Exec exec{.device = Device::kCpu, .pool = &pool};
  trainer::Model model(*config, 1, pool.threads());
  model.compile(exec);
  model.allocate();
  trainer::initialize(model);
  trainer::weights_changed(model);
  test::MemorySource source(test::random_batches(4, 32, 2, 8, {40, 5, 300}, 1));
  const auto iterate = [&](int times) {
    const int64_t before = allocations;
    for (int i = 0; i < times; ++i) {
      const data::HostBatch& b = source.next();
      model.train({.batch = b.size, .input = trainer::input_of(b)});
    }
    return allocations - before;
  };
  const int64_t cold = allocations;
  iterate(8);  // grows scratch, unless an earlier test on this thread has
  ::operator delete(::operator new(1));
  CHECK(allocations > cold);  // the counter counts
  const int64_t first = iterate(50);
  return {first, iterate(50)};
}

}  // namespace

TEST_CASE("a warm training iteration allocates nothing") {
  const auto [first, second] = warm_allocations({});
  CHECK(first == 0);
  CHECK(second == 0);
}

// oneDNN's calls, which multiply by AMX, take a few small blocks and give them back.
TEST_CASE("a warm training iteration in bf16 allocates nothing of its own") {
  const auto [first, second] = warm_allocations({"solver.precision=bf16"});
  CHECK(first == second);
  if (ops::bf16_products() != ops::Bf16Products::kAmx) CHECK(first == 0);
}

// Exchanges, all-reduce, and rows of hashed tables included.
TEST_CASE("a warm training iteration of several ranks allocates nothing", "[threads]") {
  for (const char* type : {"HybridSparseEmbedding", "DistributedSlotSparseEmbeddingHash"}) {
    INFO(type);
    const auto config = config::parse_train_config(
        small_config(), "small.json",
        {"solver.gpu=[[0,1],[2,3]]", std::string("layers.emb.type=") + type,
         std::string(R"(layers.emb.sparse_embedding_hparam={"slot_size_array":[40,5,300],)"
                     R"("embedding_vec_size":4,)") +
             (*type == 'H' ? R"("communication_type":"IB_NVLink_Hierarchical"})"
                           : R"("max_vocabulary_size_per_gpu":1000})")});
    const auto topology =
        std::make_shared<const comm::Topology>(trainer::topology_of(config->solver));
    const auto placements = trainer::make_placements(*config, *topology, false);
    int64_t cold = 0, warm = 0, after = 0;
    comm::run_ranks(*topology, [&](comm::Communicator& world) {
      ThreadPool pool(1);
      const Exec exec{.device = Device::kCpu, .pool = &pool};
      trainer::Model model(*config, 1, 1,
                           {.context = {world.rank(), topology, &world}, .placements = placements});
      model.compile(exec);
      model.allocate();
      trainer::initialize(model);
      test::MemorySource source(
          test::random_batches(4, 8, 2, 8, {40, 5, 300}, static_cast<uint64_t>(world.rank())));
      const auto iterate = [&](int times) {
        for (int i = 0; i < times; ++i) {
          const data::HostBatch& b = source.next();
          model.train({.batch = b.size,
                       .input = trainer::input_of(b),
                       .global_batch = 4 * b.size,
                       .first_row = world.rank() * b.size});
        }
        world.barrier();
      };
      const auto count = [&](int64_t& to) {
        if (world.rank() == 0) to = allocations;
        world.barrier();
      };
      count(cold);
      iterate(8);
      count(warm);
      iterate(49);
      // As on a busy machine: the others wait long for this one.
      if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(120));
      iterate(1);
      count(after);
    });
    CHECK(warm > cold);
    CHECK(after == warm);
  }
}

}  // namespace hlite::test
