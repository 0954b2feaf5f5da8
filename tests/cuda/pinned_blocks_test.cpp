// Page-locked memory of readers on a GPU.
#include "hugectr_lite/core/pinned_blocks.h"

#include <map>

#include "tests/data_reader/log_capture.h"
#include "tests/support/cuda_backends.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

std::map<const void*, int> locked;  // how often, by address
bool refuse = false;

// The emulated GPU, which tells of what is page-locked.
cuda::Backend spy() {
  locked.clear();
  refuse = false;
  cuda::Backend backend = emulated_cuda();
  backend.pin.entry = [](cuda::Failure* why, void* data, size_t bytes) noexcept {
    if (!refuse) ++locked[data];
    return emulated_cuda().pin.entry(why, refuse ? nullptr : data, bytes);
  };
  backend.unpin.entry = [](cuda::Failure* why, void* data) noexcept {
    --locked[data];
    return emulated_cuda().unpin.entry(why, data);
  };
  return backend;
}

struct Blocks {
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::span<std::byte>> spans;
  explicit Blocks(size_t count) : memory(count, std::vector<std::byte>(64)) {
    for (auto& block : memory) spans.emplace_back(block);
  }
};

int64_t locked_now() {
  int64_t n = 0;
  for (const auto& [data, times] : locked) n += times;
  return n;
}

TEST_CASE("blocks are page-locked while their owner lives, and not too many of them") {
  const cuda::Backend backend = spy();
  for (const size_t count : {0, 1, 7, 1500}) {
    INFO(count << " blocks");
    Blocks blocks(count);
    PinnedBlocks pinned;
    {
      PinnedBlocks first(&backend, blocks.spans);
      CHECK(first.count() == std::min<size_t>(count, 1024));
      pinned = std::move(first);
    }
    CHECK(locked_now() == static_cast<int64_t>(pinned.count()));
    pinned = PinnedBlocks();
    CHECK(locked_now() == 0);
  }
  Blocks blocks(3);
  const PinnedBlocks nothing(nullptr, blocks.spans);
  CHECK(nothing.count() == 0);
}

TEST_CASE("where the system refuses to lock memory, one warning says so") {
  const cuda::Backend backend = spy();
  refuse = true;
  Blocks blocks(5);
  const LogCapture log;
  const PinnedBlocks pinned(&backend, blocks.spans);
  CHECK(pinned.count() == 0);
  CHECK(log.count("warning") == 1);
  check_contains(log.text(), {"batches cannot be page-locked, copies to the GPU will be slower"});
}

}  // namespace
}  // namespace hlite::test
