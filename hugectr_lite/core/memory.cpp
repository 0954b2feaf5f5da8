#include "hugectr_lite/core/memory.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "hugectr_lite/core/error.h"

namespace hlite {
namespace {
constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kPage = 4096;
// From here on memory comes from the kernel, already zeroed.
constexpr size_t kMapThreshold = size_t{128} << 10;

size_t round_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

std::byte* map_pages(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p);
}

// mmap aligns to 4 KiB only; map one huge page more and give the ends back.
std::byte* map_huge_aligned(size_t bytes) {
  const size_t padded = bytes + kHugePage;
  void* p = mmap(nullptr, padded, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(p);
  const auto address = reinterpret_cast<uintptr_t>(p);
  const size_t lead = round_up(address, kHugePage) - address;
  if (lead > 0) munmap(begin, lead);
  if (const size_t tail = padded - lead - bytes; tail > 0) munmap(begin + lead + bytes, tail);
  madvise(begin + lead, bytes, MADV_HUGEPAGE);
  return begin + lead;
}
}  // namespace

HostMemory::HostMemory(size_t bytes, const char* what) : bytes_(bytes) {
  if (bytes == 0) return;
  // Decided by the rounded size, which is what the destructor knows.
  if (round_up(bytes, kAlignment) >= kHugePage) {
    bytes_ = round_up(bytes, kHugePage);
    data_ = map_huge_aligned(bytes_);
  } else if (round_up(bytes, kAlignment) >= kMapThreshold) {
    bytes_ = round_up(bytes, kPage);
    data_ = map_pages(bytes_);
  } else {
    bytes_ = round_up(bytes, kAlignment);
    data_ = static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes_));
    if (data_) std::memset(data_, 0, bytes_);
  }
  if (!data_)
    raise<DataError>("{}: expected {} bytes of memory, the system gave none ({} bytes available)",
                     what, bytes, available_memory_bytes());
}

HostMemory::~HostMemory() {
  if (!data_) return;
  if (bytes_ >= kMapThreshold)
    munmap(data_, bytes_);
  else
    std::free(data_);
}

int64_t available_memory_bytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string key, unit;
  int64_t kib = 0;
  while (meminfo >> key >> kib) {
    if (key == "MemAvailable:") return kib * 1024;
    std::getline(meminfo, unit);
  }
  return 0;
}

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace hlite
