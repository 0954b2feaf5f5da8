#include "hugectr_lite/trainer/evaluation/gpu_evaluation.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/live_line.h"
#include "hugectr_lite/core/log.h"

namespace hlite::trainer {
namespace {
constexpr int64_t kValueBytes = 2 * sizeof(float);  // of a sample: score, label
}  // namespace

int64_t GpuEvaluation::device_bytes(const cuda::Backend& gpu, int64_t samples) {
  int64_t workspace = 10 * samples;
  if (ops::kernels::evaluation_workspace.is_in(gpu)) {
    const Exec exec{.device = Device::kCuda, .cuda = &gpu};
    workspace = static_cast<int64_t>(ops::kernels::evaluation_workspace(exec, samples));
  }
  return workspace + kValueBytes * samples;
}

std::unique_ptr<GpuEvaluation> GpuEvaluation::make(const cuda::Backend& gpu, int64_t samples) {
  try {
    int64_t free = 0, total = 0;
    gpu.memory_info(&free, &total);
    if (const int64_t needed = device_bytes(gpu, samples); needed > free)
      raise<DeviceError>("{} of device memory needed, {} free", bytes_text(needed),
                         bytes_text(free));
    return std::make_unique<GpuEvaluation>(gpu, samples);
  } catch (const DeviceError& why) {
    log::warning(
        "evaluation: the GPU cannot hold scores, labels and metrics of {} samples ({}); the CPU "
        "computes the metrics, and training waits for them",
        samples, why.what());
    return nullptr;
  }
}

GpuEvaluation::GpuEvaluation(const cuda::Backend& gpu, int64_t max_samples)
    : gpu_(gpu),
      max_samples_(max_samples),
      values_(gpu, static_cast<size_t>(kValueBytes * max_samples)),
      metrics_(exec(), max_samples) {
  gpu.stream_create(&stream_);
  gpu.event_create(&collected_);
}

// A destructor cannot report errors.
GpuEvaluation::~GpuEvaluation() {
  cuda::Failure ignored;
  if (stream_) (void)gpu_.stream_synchronize.entry(&ignored, stream_);
  if (collected_) (void)gpu_.event_destroy.entry(&ignored, collected_);
  if (stream_) (void)gpu_.stream_destroy.entry(&ignored, stream_);
}

void GpuEvaluation::begin() {
  HLITE_CHECK(!started_, "an evaluation begins before the metrics of the last one are there");
  samples_ = 0;
}

OutputsPlace GpuEvaluation::next(int64_t n) {
  HLITE_CHECK(!started_ && samples_ + n <= max_samples_, "evaluation: {} samples and {} more of {}",
              samples_, n, max_samples_);
  const OutputsPlace place{scores() + samples_, labels() + samples_};
  samples_ += n;
  return place;
}

void GpuEvaluation::start(void* after) {
  gpu_.event_record(collected_, after);
  gpu_.stream_wait_event(stream_, collected_);
  metrics_.start(exec(), {scores(), samples_}, {labels(), samples_});
  started_ = true;
}

void GpuEvaluation::read(SampleOutputs& to) const {
  for (const auto& [list, values] :
       {std::pair(&to.logits, scores()), std::pair(&to.labels, labels())}) {
    const size_t before = list->size(), n = static_cast<size_t>(samples_);
    list->resize(before + n);
    gpu_.copy(list->data() + before, values, n * sizeof(float), stream_);
  }
  gpu_.stream_synchronize(stream_);
}

void GpuEvaluation::wait() {
  gpu_.stream_synchronize(stream_);
  started_ = false;
}

}  // namespace hlite::trainer
