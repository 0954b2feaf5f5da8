// Page-locked memory of readers on a GPU.
#include "hugectr_lite/core/pinned_blocks.h"

#include <array>
#include <map>

#include "tests/data_reader/log_capture.h"
#include "tests/support/cuda_backends.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

std::map<const void*, int> locked;  // how often, by address
bool refuse = false;

// The emulated GPU, which lists page-locked memory.
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

// As a reader's ring of small batches has them.
TEST_CASE("a device copies from page-locked blocks that lie in one page", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    alignas(4096) std::array<std::byte, 4096> page{};
    for (size_t i = 0; i < page.size(); ++i) page[i] = static_cast<std::byte>(i * 7 % 251);
    std::vector<std::span<std::byte>> blocks;
    for (const size_t at : {64, 1088, 1152}) blocks.push_back(std::span(page).subspan(at, 64));
    const TestStream stream(*backend.table);
    DeviceArray<std::byte> copy(*backend.table, blocks.size() * 64);
    {
      const PinnedBlocks pinned(backend.table, blocks);
      CHECK(pinned.count() == blocks.size());
      for (size_t i = 0; i < blocks.size(); ++i)
        backend.table->copy(copy.data() + i * 64, blocks[i].data(), 64, stream.get());
    }  // which waits
    const auto got = copy.to_host(stream.get());
    for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == blocks[i / 64][i % 64]);
  }
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
