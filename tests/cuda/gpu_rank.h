// A rank of several GPUs, as a thread of a test: emulated ones, or ranks that share the machine's.
#pragma once

#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "hugectr_lite/comm/device_communicator.h"
#include "hugectr_lite/comm/thread_communicator.h"
#include "tests/support/cuda_backends.h"

namespace hlite::test {

// A rank's communicator and stream, and floats in its memory.
class GpuRank {
 public:
  GpuRank(comm::Communicator& host, int device, const comm::DeviceRanks& how,
          const cuda::Backend& table = emulated_cuda())
      : host_(host), table_(table) {
    table_.use_device(device);
    stream_.emplace(table_);
    comm_ = std::make_unique<comm::DeviceCommunicator>(host.copy(comm::Route::kFlat), table_,
                                                       device, how);
  }
  [[nodiscard]] comm::Communicator& comm() const { return *comm_; }
  [[nodiscard]] comm::DeviceCommunicator& devices() const { return *comm_; }
  // Of the ranks' threads; the test's own calls.
  [[nodiscard]] comm::Communicator& host() const { return host_; }
  [[nodiscard]] int rank() const { return comm_->rank(); }
  [[nodiscard]] Exec exec() const {
    return {.device = Device::kCuda, .cuda = &table_, .stream = stream_->get()};
  }
  // In device memory until the rank ends: peers may use it as long.
  template <typename T>
  std::span<T> put(const std::vector<T>& values) {
    DeviceMemory& memory =
        memory_.emplace_back(table_, std::max<size_t>(1, values.size()) * sizeof(T));
    auto* const data = reinterpret_cast<T*>(memory.data());
    table_.copy(data, values.data(), values.size() * sizeof(T), stream_->get());
    table_.stream_synchronize(stream_->get());
    return {data, values.size()};
  }
  // The same, but work on the stream brings the values, and the host has not waited for it.
  template <typename T>
  std::span<T> produce(const std::vector<T>& values) {
    const auto from = put(values), to = put(std::vector<T>(values.size()));
    produce(from, to);
    return to;
  }
  template <typename T>
  void produce(std::span<T> from, std::span<T> to) const {
    table_.copy(to.data(), from.data(), to.size_bytes(), stream_->get());
  }
  template <typename T>
  [[nodiscard]] std::vector<T> get(std::span<T> values) const {
    std::vector<T> host(values.size());
    table_.copy(host.data(), values.data(), values.size_bytes(), stream_->get());
    table_.stream_synchronize(stream_->get());
    return host;
  }
  // Runs work() as a graph, `times` times.
  template <typename Work>
  void captured(int times, Work&& work) {
    void* graph = nullptr;
    table_.capture_begin(stream_->get());
    work();
    table_.capture_end(stream_->get(), &graph);
    host_.barrier();  // a graph is made while no other one waits
    for (int i = 0; i < times; ++i) table_.graph_launch(graph, stream_->get());
    table_.stream_synchronize(stream_->get());
    table_.graph_destroy(graph);
  }
  void leave() const { comm_->leave(stream_->get()); }
  // A T that lives until all ranks have left.
  template <typename T, typename... Args>
  T& keep(Args&&... args) {
    auto made = std::make_shared<T>(std::forward<Args>(args)...);
    kept_.push_back(made);
    return *made;
  }
  void require(bool right, const char* what, size_t n) const {
    if (!right) raise("{} is wrong on rank {} of {}, size {}", what, rank(), comm_->size(), n);
  }

 private:
  comm::Communicator& host_;
  const cuda::Backend& table_;
  std::optional<TestStream> stream_;
  std::unique_ptr<comm::DeviceCommunicator> comm_;
  std::vector<std::shared_ptr<void>> kept_;
  std::vector<DeviceMemory> memory_;
};

// body(rank) on a thread for each rank of the topology, and the device that device_of(rank) says.
inline void on_gpus(const comm::Topology& topology, const comm::DeviceRanks& how,
                    const std::function<int(int)>& device_of,
                    const std::function<void(GpuRank&)>& body,
                    const cuda::Backend& table = emulated_cuda()) {
  // Emulated processes share a driver, which would free no memory during another one's kernels that
  // wait: ranks are destroyed when the work of all has ended.
  std::latch ended(topology.ranks());
  comm::run_ranks(topology, [&](comm::Communicator& host) {
    std::optional<GpuRank> rank;
    try {
      rank.emplace(host, device_of(host.rank()), how, table);
      body(*rank);
    } catch (const std::exception& error) {
      if (!rank) {
        ended.count_down();
        throw;
      }
      rank->comm().abort(error.what());
      rank->leave();
      ended.arrive_and_wait();
      throw;
    }
    rank->leave();
    ended.arrive_and_wait();
  });
}
// On `ranks` threads of one process, spread over the devices.
inline void on_gpus(int ranks, int devices, const std::function<void(GpuRank&)>& body,
                    const cuda::Backend& table = emulated_cuda()) {
  on_gpus(
      comm::Topology({ranks}), {}, [&](int rank) { return rank % devices; }, body, table);
}

}  // namespace hlite::test
