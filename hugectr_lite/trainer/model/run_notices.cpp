#include "hugectr_lite/trainer/model/run_notices.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "hugectr_lite/comm/device_communicator.h"
#include "hugectr_lite/core/error.h"

namespace hlite::trainer {

// A notice comes within an iteration. After a while without it others may have the processor, and
// the driver, whose lock other ranks' threads want too, is asked what has become of the run.
static constexpr auto kEager = std::chrono::microseconds(100), kNap = std::chrono::microseconds(20);

RunNotices::RunNotices(const comm::RankContext& ranks, const cuda::Backend& gpu)
    : ranks_(ranks), runs_(gpu, sizeof(uint64_t)), notice_(gpu), wish_(gpu) {
  gpu.zero(runs_.data(), runs_.size(), nullptr);
  gpu.stream_synchronize(nullptr);
}

void RunNotices::notify(const Exec& exec, const int32_t* overflow, const float* wish) {
  kernels::notify_host(exec, reinterpret_cast<uint64_t*>(runs_.data()), overflow, wish,
                       notice_.get());
}

void RunNotices::begin_run(bool wish) {
  std::atomic_ref(*wish_.get()).store(wish ? 1.0f : 0.0f);
  ++issued_;
}

const kernels::Notice& RunNotices::wait(const Exec& exec, const std::function<void()>& look) {
  const auto told = [&] {
    return std::atomic_ref(notice_.get()->run).load(std::memory_order_acquire) >= issued_;
  };
  const auto start = std::chrono::steady_clock::now();
  while (!told()) {
    if (std::chrono::steady_clock::now() - start < kEager) {
      std::this_thread::yield();
      continue;
    }
    if (kernels::stream_is_idle(exec) && !told())
      raise<DeviceError>("a run ended without its notice");
    ranks_.devices->check();
    comm::check_time(start, ranks_.rank, "for the first exchanges of a run");
    std::this_thread::sleep_for(kNap);
  }
  if (notice_->overflow != 0) look();
  // A rank that has failed lets the others' runs end, whatever they then told.
  ranks_.world->barrier();
  return *notice_;
}

}  // namespace hlite::trainer
