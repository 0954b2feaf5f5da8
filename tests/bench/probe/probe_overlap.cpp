// P2: the gradients of weights, on some of the multiprocessors, beside the kernels of an iteration
// that wait for memory: the interaction's backward pass and the update of the tables.
#include <cmath>

#include "embedding/device_slots.h"
#include "embedding/sparse_update.h"
#include "hugectr_lite/core/device_memory.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/ops/interaction.h"
#include "tests/bench/dlrm_workload.h"
#include "tests/bench/probe/probe.h"

namespace hlite::probe {
namespace {

constexpr int64_t kWidth = 128, kTables = 26, kRows = 1'000'000;

class MemoryWork {
 public:
  MemoryWork(const cuda::Backend& backend, int64_t batch, int64_t cap, void* stream)
      : batch_(batch),
        exec_{.device = Device::kCuda, .cuda = &backend, .stream = stream},
        layout_(bench::shape_named("mlperf", cap).rows, kWidth),
        slots_(exec_, layout_),
        update_(exec_, slots_.ref(), {.max_batch = batch}),
        tables_(backend, bytes<float>(layout_.total_rows * kWidth)),
        bottom_(backend, bytes<bf16>(batch * kWidth)),
        vectors_(backend, bytes<bf16>(batch * kTables * kWidth)),
        gradients_(backend, vectors_.size()),
        dbottom_(backend, bottom_.size()),
        dout_(backend, bytes<bf16>(batch * ops::interaction_width(kTables, kWidth))),
        keys_(backend, bytes<uint32_t>(batch * kTables)),
        scalars_(backend, 256) {
    for (const DeviceMemory* m : {&bottom_, &vectors_, &gradients_, &dout_})
      fill_bf16(m->data(), static_cast<int64_t>(m->size() / sizeof(bf16)), 5, stream);
    for (const DeviceMemory* m : {&tables_, &scalars_}) backend.zero(m->data(), m->size(), stream);
    std::vector<uint32_t> keys(static_cast<size_t>(batch * kTables));
    for (int64_t t = 0; t < kTables; ++t) {
      const auto drawn = bench::zipf_keys(layout_.rows[static_cast<size_t>(t)], 1.05,
                                          static_cast<uint64_t>(t), batch);
      for (int64_t i = 0; i < batch; ++i)
        keys[static_cast<size_t>(i * kTables + t)] = drawn[static_cast<size_t>(i)];
    }
    backend.copy(keys_.data(), keys.data(), keys_.size(), stream);
    auto* const scalars = scalars_.data();
    update_.sort(exec_, {reinterpret_cast<uint32_t*>(keys_.data()), batch, kTables},
                 reinterpret_cast<float*>(scalars), reinterpret_cast<int64_t*>(scalars + 64),
                 reinterpret_cast<optimizer::StepScalars*>(scalars + 128));
    backend.stream_synchronize(stream);
  }

  void interaction() const {
    ops::interaction_backward<bf16>(exec_, matrix(bottom_, kWidth), view(vectors_),
                                    matrix(dout_, ops::interaction_width(kTables, kWidth)),
                                    matrix(dbottom_, kWidth), view(gradients_));
  }
  void update() {
    update_.update<bf16>(
        exec_, view(gradients_),
        {.w = Matrix<float>(reinterpret_cast<float*>(tables_.data()), layout_.total_rows, kWidth)});
  }

 private:
  template <typename T>
  static size_t bytes(int64_t n) {
    return static_cast<size_t>(n) * sizeof(T);
  }
  [[nodiscard]] Matrix<bf16> matrix(const DeviceMemory& m, int64_t columns) const {
    return {reinterpret_cast<bf16*>(m.data()), batch_, columns};
  }
  [[nodiscard]] View<bf16, 3> view(const DeviceMemory& m) const {
    return {reinterpret_cast<bf16*>(m.data()), batch_, kTables, kWidth};
  }

  int64_t batch_;
  Exec exec_;
  embedding::SlotLayout layout_;
  embedding::DeviceSlots slots_;
  embedding::SparseUpdate update_;
  DeviceMemory tables_, bottom_, vectors_, gradients_, dbottom_, dout_, keys_, scalars_;
};

}  // namespace

void probe_overlap(const Context& context) {
  HLITE_CHECK(context.backend, "P2 without a GPU");
  const std::vector<int64_t> batches =
      context.small ? std::vector<int64_t>{8} : std::vector<int64_t>{65536, 8192};
  for (const int64_t batch : batches) {
    const StreamHandle urgent = make_stream(true), lowest = make_stream(false);
    MemoryWork work(*context.backend, batch, context.small ? 10 : kRows, urgent.get());
    const struct {
      const char* name;
      std::function<void()> run;
    } neighbours[] = {{"interaction", [&] { work.interaction(); }},
                      {"update", [&] { work.update(); }},
                      {"interaction, update", [&] {
                         work.interaction();
                         work.update();
                       }}};
    constexpr int kTimes = 10;
    for (const int sms : sm_targets(multiprocessors())) {
      const auto products = weight_gradients(context, batch, sms);
      const auto multiply = [&] { products(lowest.get()); };
      const double product_us = time_together({lowest.get()}, kTimes, multiply);
      for (const auto& neighbour : neighbours) {
        const double memory_us = time_together({urgent.get()}, kTimes, neighbour.run);
        for (const bool products_first : {true, false}) {
          const double both = time_together({urgent.get(), lowest.get()}, kTimes, [&] {
            if (products_first) multiply();
            neighbour.run();
            if (!products_first) multiply();
          });
          const double sum = product_us + memory_us;
          context.put(Record("P2")
                          .add("batch", batch)
                          .add("sms", sms)
                          .add("beside", neighbour.name)
                          .add("first", products_first ? "products" : neighbour.name)
                          .add("products_us", product_us)
                          .add("beside_us", memory_us)
                          .add("sum_us", sum)
                          .add("together_us", both)
                          .add("saved_us", sum - both));
        }
      }
      if (context.left() <= 0)
        raise("its time is over at batch {}, {} multiprocessors", batch, sms);
    }
  }
}

}  // namespace hlite::probe
