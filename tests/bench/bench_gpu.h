// A GPU on which single pieces of work are timed.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "hugectr_lite/core/cuda_plugin.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/matmul_context.h"

namespace hlite::bench {

using Clock = std::chrono::steady_clock;
inline double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The device with a stream and what multiplies on it.
class Gpu {
 public:
  explicit Gpu(bool tf32) : plugin_(cuda::CudaPlugin::load()), table_(plugin_.require_device()) {
    table_.use_device(0);
    table_.stream_create(&stream_);
    const std::string file = default_algorithm_file();
    matmul_ = MatmulContext(table_, {.tf32 = tf32, .algorithm_file = file.c_str()});
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu() {
    cuda::Failure ignored;
    (void)table_.stream_destroy.entry(&ignored, stream_);
  }

  [[nodiscard]] const cuda::Backend& table() const { return table_; }
  [[nodiscard]] Exec exec() const {
    return {.device = Device::kCuda, .cuda = &table_, .stream = stream_, .matmul = matmul_.get()};
  }
  void synchronize() const { table_.stream_synchronize(stream_); }
  [[nodiscard]] std::string name() const {
    char text[256] = {};
    table_.device_description(0, text, sizeof text);
    return text;
  }

  // Seconds of one body() of many in a row on the stream, for `seconds` or a little more. As a
  // graph, so that short ones need not wait for the host; where it cannot be captured, without.
  template <typename Body>
  double mean_seconds(double seconds, bool capture, Body&& body) const {
    body();  // the first run may search algorithms and take memory
    synchronize();
    auto start = Clock::now();
    body();
    synchronize();
    const int64_t times =
        std::clamp(static_cast<int64_t>(1e-3 / since(start)), int64_t{1}, int64_t{50});
    void* const graph = capture ? captured(times, body) : nullptr;
    const auto issue = [&] {
      if (graph)
        table_.graph_launch(graph, stream_);
      else
        for (int64_t i = 0; i < times; ++i) body();
      synchronize();
    };
    if (times > 1) issue();
    int64_t rounds = 0;
    start = Clock::now();
    do {
      issue();
      ++rounds;
    } while (since(start) < seconds);
    const double mean = since(start) / static_cast<double>(rounds * times);
    if (graph) table_.graph_destroy(graph);
    return mean;
  }

 private:
  template <typename Body>
  [[nodiscard]] void* captured(int64_t times, Body&& body) const {
    void* graph = nullptr;
    cuda::Failure ignored;
    try {
      table_.capture_begin(stream_);
      for (int64_t i = 0; i < times; ++i) body();
      table_.capture_end(stream_, &graph);
    } catch (const DeviceError& error) {
      fmt::print(stderr, "train_bench: timed without a graph: {}\n", error.what());
      (void)table_.capture_end.entry(&ignored, stream_, &graph);
      if (graph) (void)table_.graph_destroy.entry(&ignored, graph);
      graph = nullptr;
    }
    return graph;
  }

  cuda::CudaPlugin plugin_;
  const cuda::Backend& table_;
  void* stream_ = nullptr;
  MatmulContext matmul_;
};

}  // namespace hlite::bench
