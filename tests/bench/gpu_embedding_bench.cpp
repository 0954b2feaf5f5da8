// Times the embedding of the MLPerf DLRM and the AUC of its evaluation set on a GPU.
//
//   gpu_embedding_bench [--batch N] [--width V] [--cap ROWS] [--alpha A] [--rounds N] [--samples N]
//
// 26 tables of Criteo Terabyte's cardinalities, at most --cap rows each (40,000,000: all of them,
// 96 GB at width 128). Keys: Zipf (alpha), ranks scattered over each table; 0 is uniform. Prints
// milliseconds, the mean of `rounds` calls in a row, and lookups (samples, bytes) a second.
#include <CLI/CLI.hpp>

#include <chrono>
#include <unordered_set>
#include <vector>

#include "embedding/device_slots.h"
#include "embedding/lookup.h"
#include "embedding/sparse_update.h"
#include "embedding/table_init.h"
#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/cuda_plugin.h"
#include "hugectr_lite/core/fill.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/number_option.h"
#include "hugectr_lite/core/run_program.h"
#include "hugectr_lite/ops/metrics.h"
#include "tests/bench/dlrm_workload.h"

namespace hlite {
namespace {

constexpr int kBatches = 4;

struct Options {
  int64_t batch = 65536, width = 128, cap = 10'000'000, samples = 89'137'319;
  double alpha = 1.05;
  int rounds = 20;
};

// Device memory as an array.
template <typename T>
class Array {
 public:
  Array(const Exec& exec, int64_t n)
      : memory_(*exec.cuda, static_cast<size_t>(n) * sizeof(T)), size_(n) {}
  [[nodiscard]] T* data() const { return reinterpret_cast<T*>(memory_.data()); }
  void put(const Exec& exec, const std::vector<T>& values) const {
    exec.cuda->copy(data(), values.data(), values.size() * sizeof(T), exec.stream);
    exec.cuda->stream_synchronize(exec.stream);
  }
  void zero(const Exec& exec) const { exec.cuda->zero(data(), memory_.size(), exec.stream); }
  [[nodiscard]] Matrix<T> matrix(int64_t columns) const {
    return {data(), size_ / columns, columns};
  }

 private:
  DeviceMemory memory_;
  int64_t size_;
};

// Seconds of one body(i), i in [0, rounds), after two to warm up.
template <typename Body>
double mean_seconds(const Exec& exec, int rounds, Body&& body) {
  for (int i = 0; i < 2; ++i) body(i);
  exec.cuda->stream_synchronize(exec.stream);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < rounds; ++i) body(i);
  exec.cuda->stream_synchronize(exec.stream);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / rounds;
}

void print(const std::string& what, double seconds, double units, const char* unit) {
  fmt::print("{:34} {:9.3f} ms {:8.2f} G {}/s\n", what, 1e3 * seconds, units / seconds * 1e-9,
             unit);
}

template <typename T>
void measure(const Exec& exec, const Options& o, const std::string& type,
             const embedding::DeviceSlots& slots, const std::vector<Array<uint32_t>>& keys,
             Matrix<float> table) {
  const int64_t columns = slots.ref().columns, n = o.batch * columns;
  const Array<T> out(exec, n * o.width);
  const View<T, 3> view(out.data(), o.batch, columns, o.width);
  const Array<float> rate(exec, 1);
  const Array<int64_t> step(exec, 1);
  const Array<optimizer::StepScalars> scalars(exec, 1);
  rate.zero(exec);
  step.zero(exec);
  const auto keys_of = [&](int i) {
    return Matrix<const uint32_t>(keys[static_cast<size_t>(i % kBatches)].data(), o.batch, columns);
  };
  const double lookup = mean_seconds(exec, o.rounds, [&](int i) {
    lookup_forward<T>(exec, slots.ref(), table, keys_of(i), view);
  });
  print(type + " lookup", lookup, static_cast<double>(n), "lookups");
  for (const bool atomic : {false, true}) {
    embedding::SparseUpdate update(exec, slots.ref(), {.atomic = atomic, .max_batch = o.batch});
    const auto sort = [&](int i) {
      update.sort(exec, keys_of(i), rate.data(), step.data(), scalars.data());
    };
    const double seconds = mean_seconds(exec, o.rounds, [&](int i) {
      sort(i);
      update.update<T>(exec, view, {.w = table});
    });
    const std::string name = atomic ? "atomic" : "sorted";
    if (!atomic)
      print(type + " update, of which the sort", mean_seconds(exec, o.rounds, sort),
            static_cast<double>(n), "lookups");
    print(type + " update, " + name, seconds, static_cast<double>(n), "lookups");
    print(type + " lookup and update, " + name, lookup + seconds, static_cast<double>(n),
          "lookups");
  }
}

void measure_auc(const Exec& exec, const Options& o) {
  const Array<float> logits(exec, o.samples), labels(exec, o.samples);
  kernels::fill_uniform(exec, {logits.data(), o.samples}, 1, 1, 0, -4, 4);
  kernels::fill_uniform(exec, {labels.data(), o.samples}, 1, 2, 0, 0, 0.6f);
  ops::GpuMetrics metrics(exec, o.samples);
  const double seconds = mean_seconds(exec, o.rounds, [&](int) {
    metrics.start(exec, {logits.data(), o.samples}, {labels.data(), o.samples});
  });
  print("AUC and log loss", seconds, static_cast<double>(o.samples), "samples");
}

void run(const Options& o) {
  const cuda::CudaPlugin plugin = cuda::CudaPlugin::load();
  Exec exec{.device = Device::kCuda, .cuda = &plugin.require_device()};
  exec.cuda->stream_create(&exec.stream);
  const std::vector<int64_t> rows = bench::shape_named("mlperf", o.cap).rows;
  const embedding::SlotLayout layout(rows, o.width);
  const int64_t columns = layout.slots(), n = o.batch * columns;
  const embedding::DeviceSlots slots(exec, layout);

  std::vector<std::vector<uint32_t>> host(kBatches, std::vector<uint32_t>(static_cast<size_t>(n)));
  for (int64_t s = 0; s < columns; ++s) {
    const auto drawn = bench::zipf_keys(rows[static_cast<size_t>(s)], o.alpha,
                                        static_cast<uint64_t>(s), kBatches * o.batch);
    for (int64_t i = 0; i < kBatches * o.batch; ++i)
      host[static_cast<size_t>(i / o.batch)][static_cast<size_t>(i % o.batch * columns + s)] =
          drawn[static_cast<size_t>(i)];
  }
  std::unordered_set<int64_t> distinct;
  for (int64_t i = 0; i < n; ++i)
    distinct.insert(layout.offset[static_cast<size_t>(i % columns)] +
                    host[0][static_cast<size_t>(i)]);
  std::vector<Array<uint32_t>> keys;
  for (const auto& batch : host) keys.emplace_back(exec, n).put(exec, batch);

  const Array<float> table(exec, layout.total_rows * o.width);
  fmt::print("batch {}, {} slots x {}, {:.1f} GB of tables, {:.3f} distinct rows a lookup\n",
             o.batch, columns, o.width, static_cast<double>(layout.total_rows * o.width) * 4e-9,
             static_cast<double>(distinct.size()) / static_cast<double>(n));
  const double seconds = mean_seconds(
      exec, 1, [&](int) { embedding::init_tables(exec, 1, "emb", layout, table.matrix(o.width)); });
  print("initial values", seconds, static_cast<double>(layout.total_rows * o.width) * 4, "B");
  measure<float>(exec, o, "fp32", slots, keys, table.matrix(o.width));
  measure<bf16>(exec, o, "bf16", slots, keys, table.matrix(o.width));
  measure_auc(exec, o);
}

}  // namespace
}  // namespace hlite

int main(int argc, char** argv) {
  hlite::Options o;
  CLI::App app("Times the embedding and the AUC on a GPU", "gpu_embedding_bench");
  app.set_version_flag("--version", fmt::format("gpu_embedding_bench {}", hlite::kVersion));
  const auto add = [&](const char* name, auto& value, const char* help) {
    app.add_option(name, value, help)
        ->check(hlite::whole_number(1, 1 << 30))
        ->capture_default_str();
  };
  add("--batch", o.batch, "samples");
  add("--width", o.width, "floats a row");
  add("--cap", o.cap, "most rows of a table");
  app.add_option("--alpha", o.alpha, "of the keys' Zipf distribution")->capture_default_str();
  add("--rounds", o.rounds, "calls that are timed");
  add("--samples", o.samples, "of the evaluation set");
  return hlite::run_program(app, argc, argv, [&] {
    hlite::run(o);
    return hlite::kExitDone;
  });
}
