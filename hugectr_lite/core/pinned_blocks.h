// PinnedBlocks: another owner's host memory, page-locked while this lives, so that a GPU's
// copies from it overlap with work.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "hugectr_lite/core/backend.h"

namespace hlite {

class PinnedBlocks {
 public:
  PinnedBlocks() = default;
  // On a GPU, the first 1024 blocks: a reader's ring has a few dozen, and a set that is all in
  // memory is too much to lock. Where the system refuses, which one warning says, copies are slower
  // and nothing else changes. `gpu` null: nothing.
  PinnedBlocks(const cuda::Backend* gpu, std::span<const std::span<std::byte>> blocks);
  // Waits for the device. To be destroyed before the memory is freed.
  ~PinnedBlocks();
  PinnedBlocks(PinnedBlocks&& other) noexcept { *this = std::move(other); }
  PinnedBlocks& operator=(PinnedBlocks&& other) noexcept;

  [[nodiscard]] size_t count() const { return pinned_.size(); }

 private:
  const cuda::Backend* gpu_ = nullptr;
  std::vector<void*> pinned_;
};

}  // namespace hlite
