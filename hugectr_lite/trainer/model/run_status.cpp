#include "hugectr_lite/trainer/model/run_status.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "hugectr_lite/comm/device_communicator.h"
#include "hugectr_lite/comm/wait_limit.h"
#include "hugectr_lite/core/copy_two.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/float_type.h"

namespace hlite::trainer {

// A notice comes within an iteration. After a while without it others may have the processor, and
// the driver, whose lock other ranks' threads want too, is asked what has become of the run.
static constexpr auto kEager = std::chrono::microseconds(100), kNap = std::chrono::microseconds(20);

RunStatus::RunStatus(comm::RankContext ranks, std::function<bool()> stop_request,
                     const cuda::Backend* gpu)
    : ranks_(std::move(ranks)), stop_request_(std::move(stop_request)), gpu_(gpu) {
  if (!ranks_.devices) return;
  notices_.reset(new Notices{.runs = DeviceMemory(*gpu, sizeof(uint64_t)),
                             .notice = PinnedValue<kernels::Notice>(*gpu),
                             .stop = PinnedValue<float>(*gpu)});
  gpu->zero(notices_->runs.data(), notices_->runs.size(), nullptr);
  gpu->stream_synchronize(nullptr);
}

void RunStatus::declare(plan::Buffers& buffers, bool keys_ahead) {
  buffers_ = &buffers;
  const auto kind = keys_ahead ? plan::BufferKind::kAhead : plan::BufferKind::kState;
  const auto add = [&](const char* name) { return buffers.add(name, kind, sizeof(int32_t)); };
  capacity_exceeded_ = add("solver.capacity_exceeded");
  if (gpu_) stop_ = add("solver.stop_requests");
}

void RunStatus::set_words(plan::Buffers& buffers, plan::BufferId words) {
  words_ = words;
  gradient_overflow_ =
      buffers.slice("reduced.gradient_overflow", words, 2 * kFloatBytes, kFloatBytes);
}

void RunStatus::emit_notice(plan::Plan& plan) {
  if (!gpu_) return;
  plan.add({.name = "notice",
            .lane = plan::Lane::kComm,
            .reads = {capacity_exceeded_, stop_},
            .writes = {},
            .run = [this](const plan::StepContext& c) {
              kernels::notify_host(c.exec, reinterpret_cast<uint64_t*>(notices_->runs.data()),
                                   buffers_->data<int32_t>(capacity_exceeded_),
                                   buffers_->data<float>(stop_), notices_->notice.get());
            }});
}

// The host of a GPU writes its stop request to page-locked memory, which is read when the kernel
// runs.
void RunStatus::put(const Exec& exec, const float* loss) const {
  float* const words = buffers_->data<float>(words_);
  if (exec.on_gpu())
    return kernels::copy_two(exec,
                             {.from = {loss, notices_->stop.get()}, .to = {&words[0], &words[1]}});
  words[0] = *loss;
  words[1] = stop_request_ && stop_request_() ? 1.0f : 0.0f;
}

void RunStatus::take(const Exec& exec, float* loss) const {
  const float* const words = buffers_->data<float>(words_);
  if (exec.on_gpu())
    return kernels::copy_two(
        exec, {.from = {&words[0], &words[1]}, .to = {loss, buffers_->data<float>(stop_)}});
  *loss = words[0];
}

void RunStatus::begin_run() {
  if (!notices_) return;
  const bool stop = stop_request_ && stop_request_();
  std::atomic_ref(*notices_->stop.get()).store(stop ? 1.0f : 0.0f);
  ++notices_->issued;
}

bool RunStatus::check_capacity(const Exec& exec, const std::function<void()>& check) {
  if (!notices_) {
    const bool exceeded = buffers_->value<int32_t>(capacity_exceeded_) != 0;
    if (exceeded) check();
    return exceeded;
  }
  const kernels::Notice& notice = wait_for_notice(exec, check);
  stop_requested_ = notice.stop_requests > 0;
  return notice.capacity_exceeded != 0;
}

const kernels::Notice& RunStatus::wait_for_notice(const Exec& exec,
                                                  const std::function<void()>& check) {
  const kernels::Notice& notice = *notices_->notice.get();
  const auto given = [&] {
    return std::atomic_ref(notices_->notice.get()->run).load(std::memory_order_acquire) >=
           notices_->issued;
  };
  comm::Wait wait;
  while (!given()) {
    if (wait.so_far() < kEager) {
      std::this_thread::yield();
      continue;
    }
    if (kernels::stream_is_idle(exec) && !given())
      raise<DeviceError>("a run ended without its notice");
    ranks_.devices->check();
    wait.check(ranks_.rank, "for the first exchanges of a run");
    std::this_thread::sleep_for(kNap);
  }
  if (notice.capacity_exceeded != 0) check();
  // If a rank has failed, the others' runs end all the same, and their notices mean nothing.
  ranks_.world->barrier();
  return notice;
}

bool RunStatus::stop_requested() const {
  return gpu_ ? stop_requested_ : buffers_->data<float>(words_)[1] > 0;
}

}  // namespace hlite::trainer
