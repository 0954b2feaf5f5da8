#include "hugectr_lite/core/pinned_blocks.h"

#include <algorithm>
#include <utility>

#include "hugectr_lite/core/log.h"

namespace hlite {

PinnedBlocks::PinnedBlocks(const cuda::Backend* gpu, std::span<const std::span<std::byte>> blocks)
    : gpu_(gpu) {
  if (!gpu) return;
  constexpr size_t kMax = 1024;
  bool refused = false;
  for (const auto block : blocks.first(std::min(blocks.size(), kMax))) {
    if (block.empty()) continue;
    cuda::Failure why;
    if (gpu->pin.entry(&why, block.data(), block.size()))
      pinned_.push_back(block.data());
    else if (!std::exchange(refused, true))
      log::warning("batches cannot be page-locked, copies to the GPU will be slower: {}", why.text);
  }
}

// Also runs during stack unwinding, where a second error cannot be reported.
PinnedBlocks::~PinnedBlocks() {
  if (!gpu_) return;
  cuda::Failure ignored;
  (void)gpu_->device_synchronize.entry(&ignored);
  for (void* block : pinned_) (void)gpu_->unpin.entry(&ignored, block);
}

PinnedBlocks& PinnedBlocks::operator=(PinnedBlocks&& other) noexcept {
  std::swap(gpu_, other.gpu_);
  std::swap(pinned_, other.pinned_);
  return *this;
}

}  // namespace hlite
