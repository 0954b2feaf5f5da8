#include "hugectr_lite/core/memory.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

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

// Returns the number after `key` in a file of lines "key number ...".
static std::optional<int64_t> number_of(const std::string& file, std::string_view key) {
  std::ifstream lines(file);
  std::string name, rest;
  for (int64_t number = 0; lines >> name >> number; std::getline(lines, rest))
    if (name == key) return number;
  return std::nullopt;
}

// Returns what the limit of one control group leaves. Files that it has in memory make room.
static int64_t left_in_group(const std::string& folder, bool unified) {
  int64_t limit = 0, used = 0;
  std::ifstream most(folder + (unified ? "/memory.max" : "/memory.limit_in_bytes")),
      now(folder + (unified ? "/memory.current" : "/memory.usage_in_bytes"));
  if (!(most >> limit) || !(now >> used)) return std::numeric_limits<int64_t>::max();  // no limit
  for (const char* const list : {"inactive_file", "active_file"})
    used -= number_of(folder + "/memory.stat", (unified ? "" : "total_") + std::string(list))
                .value_or(0);
  return std::max<int64_t>(0, limit - std::max<int64_t>(0, used));
}

int64_t available_memory_bytes(const std::string& root) {
  constexpr int64_t kKiB = 1024;
  int64_t available = number_of(root + "/proc/meminfo", "MemAvailable:").value_or(0) * kKiB;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "4:memory:/job" (v1) or "0::/job" (v2)
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && controllers != "memory") continue;
    const std::string top =
        root + (controllers.empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory");
    // A group above may have the limit. In a container the path may be the host's, and then its own
    // group is at the top.
    std::string group = line.substr(second + 1);
    for (;; group.resize(group.find_last_of('/'))) {
      available = std::min(available, left_in_group(top + group, controllers.empty()));
      if (group.find('/') == std::string::npos) break;
    }
  }
  return available;
}

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace hlite
