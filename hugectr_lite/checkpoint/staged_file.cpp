#include "hugectr_lite/checkpoint/staged_file.h"

#include <algorithm>
#include <cstring>

namespace hlite::checkpoint {

// A piece keeps a disk busy for some milliseconds, and reads of training data get their turn.
static constexpr size_t kStageBytes = size_t{2} << 20;
static_assert(kStageBytes % WriteFile::kDirectAlign == 0 && kStageBytes >= WriteFile::kDirectBytes);

void StagedFile::write(std::span<const std::byte> bytes) {
  if (stage_.size() == 0) stage_ = HostMemory(kStageBytes, "checkpoint");
  while (!bytes.empty()) {
    const size_t n = std::min(bytes.size(), kStageBytes - staged_);
    std::memcpy(stage_.data() + staged_, bytes.data(), n);
    staged_ += n;
    bytes = bytes.subspan(n);
    if (staged_ == kStageBytes) write_staged();
  }
}

void StagedFile::write_staged() {
  file_.write({stage_.data(), staged_});
  staged_ = 0;
}

void StagedFile::close() {
  write_staged();
  file_.close();
}

}  // namespace hlite::checkpoint
