#include "tests/support/cuda_emulation/device_ranges.h"

#include <fmt/core.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <exception>
#include <span>
#include <utility>
#include <vector>

#include "tests/support/cuda_emulation/block_fibers.h"
#include "tests/support/cuda_emulation/runtime_state.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISON(data, bytes) __asan_poison_memory_region(data, bytes)
#define UNPOISON(data, bytes) __asan_unpoison_memory_region(data, bytes)
#else
#define POISON(data, bytes)
#define UNPOISON(data, bytes)
#endif

namespace hlite::emulation {
namespace {

// Addresses are never used again, so that old pointers stay wrong.
constexpr size_t kRangeBytes = size_t{1} << 36;
constexpr size_t kAlignment = 256, kRedZone = 64;

struct Range {
  std::atomic<std::byte*> base{nullptr};
  size_t used = 0;
  bool open = true;
};
std::array<Range, 2 * kMaxDevices> ranges;  // of each device: plain memory, pools
std::array<std::array<std::atomic<bool>, kMaxDevices>, kMaxDevices> access_to;  // [device][owner]

// Index in `ranges`, or -1.
int range_of(const void* data) {
  for (size_t r = 0; r < ranges.size(); ++r) {
    const std::byte* const base = ranges[r].base;
    if (base && data >= base && data < base + kRangeBytes) return static_cast<int>(r);
  }
  return -1;
}

bool reaches(int device, int range) {
  const int owner = range / 2;
  return owner == device || (range % 2 == 0 && peer_access(device, owner));
}

int protection(const Range& range) { return range.open ? PROT_READ | PROT_WRITE : PROT_NONE; }

void protect(Range& range, bool open) {
  if (!range.base || range.open == open) return;
  range.open = open;
  mprotect(range.base, kRangeBytes, protection(range));
}

// A file of NaNs in memory; -1: there is none.
constexpr size_t kFileBytes = size_t{1} << 22;
int file_of_nans() {
  static const int file = [] {
    const int made = memfd_create("nan", MFD_CLOEXEC);
    if (made < 0) return -1;
    const std::vector<std::byte> bytes(kFileBytes, std::byte{0xFF});
    if (write(made, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size())) return made;
    close(made);
    return -1;
  }();
  return file;
}

// The whole pages of a large block are those of the file until they are written to: workspaces
// are large, and few look at much of them.
std::span<std::byte> pages_of(std::byte* data, size_t bytes) {
  constexpr uintptr_t kPage = 4096;
  const auto at = reinterpret_cast<uintptr_t>(data);
  const uintptr_t begin = (at + kPage - 1) / kPage * kPage, end = (at + bytes) / kPage * kPage;
  if (bytes < kFileBytes || end <= begin) return {};
  return {data + (begin - at), end - begin};
}
void fill_with_nan(std::byte* data, size_t bytes) {
  std::byte* filled = data;  // up to here
  const auto pages = pages_of(data, bytes);
  if (!pages.empty() && file_of_nans() >= 0) {
    std::memset(data, 0xFF, static_cast<size_t>(pages.data() - data));
    filled = pages.data();
    std::byte* const end = filled + pages.size();
    while (filled < end) {
      const size_t n = std::min(kFileBytes, static_cast<size_t>(end - filled));
      if (mmap(filled, n, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_NORESERVE,
               file_of_nans(), 0) == MAP_FAILED)
        break;
      filled += n;
    }
  }
  std::memset(filled, 0xFF, static_cast<size_t>(data + bytes - filled));
}

// The work that the thread runs, for the handler of its faults.
struct Running {
  int device;
  const char* name;
  sigjmp_buf back;
  std::string fault;
};
thread_local Running* running = nullptr;
thread_local const void* last_word = nullptr;
thread_local long long last_value = 0;
struct sigaction before;

std::string forbidden(int device, const char* what, const void* data) {
  const int owner = range_of(data) / 2;
  return fmt::format(
      "{} of device {} touches memory of device {} without access to it: {} (needs {})", what,
      device, owner, describe(data),
      range_of(data) % 2 == 0 ? "cudaDeviceEnablePeerAccess" : "memory that is not of a pool");
}

void on_fault(int, siginfo_t* info, void*) {
  if (!running || range_of(info->si_addr) < 0) {
    sigaction(SIGSEGV, &before, nullptr);  // no business of ours: faults again
    return;
  }
  running->fault = forbidden(running->device, running->name, info->si_addr);
  std::exception_ptr error = std::make_exception_ptr(EmulationError(running->fault));
  if (in_fiber()) end_fiber(std::move(error));  // nothing stays on this stack
  error = nullptr;
  siglongjmp(running->back, 1);
}

// For the time of a piece of work: test programs have handlers of their own.
class WatchFaults {
 public:
  explicit WatchFaults(Running& self) : outer_(running) {
    running = &self;
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, &before);
  }
  ~WatchFaults() {
    sigaction(SIGSEGV, &before, nullptr);
    running = outer_;
  }
  WatchFaults(const WatchFaults&) = delete;
  WatchFaults& operator=(const WatchFaults&) = delete;

 private:
  Running* outer_;
};

}  // namespace

bool peer_access(int device, int owner) {
  return access_to[static_cast<size_t>(device)][static_cast<size_t>(owner)];
}
void set_peer_access(int device, int owner, bool on) {
  access_to[static_cast<size_t>(device)][static_cast<size_t>(owner)] = on;
}

void* take_range(int device, bool of_pool, size_t bytes) {
  Range& range = ranges[static_cast<size_t>(2 * device + (of_pool ? 1 : 0))];
  if (!range.base) {
    void* const base = mmap(nullptr, kRangeBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return nullptr;
    range.base = static_cast<std::byte*>(base);
  }
  const size_t size = (bytes + 2 * kRedZone + kAlignment - 1) / kAlignment * kAlignment;
  if (size > kRangeBytes - range.used) return nullptr;
  protect(range, true);
  std::byte* const data = range.base + range.used + kAlignment;
  POISON(range.base + range.used, size + kAlignment);
  UNPOISON(data, bytes);
  range.used += size + kAlignment;
  fill_with_nan(data, bytes);
  return data;
}

bool give_range(void* data, size_t bytes) {
  const int range = range_of(data);
  if (range < 0) return false;
  if (const auto pages = pages_of(static_cast<std::byte*>(data), bytes); !pages.empty())
    mmap(pages.data(), pages.size(), protection(ranges[static_cast<size_t>(range)]),
         MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  POISON(data, bytes);
  return true;
}

void check_reach(int device, const char* what, const void* data, size_t n) {
  const int range = range_of(data);
  if (n > 0 && range >= 0 && !reaches(device, range))
    throw EmulationError(forbidden(device, what, data));
}

void open_range(const void* data, size_t n) {
  const int range = range_of(data);
  if (n > 0 && range >= 0) protect(ranges[static_cast<size_t>(range)], true);
}

void note_poll(const void* word, long long value) {
  last_word = word;
  last_value = value;
}

void wait_for_word() {
  throw NotYet{.waits_for = fmt::format("a word that is {}: {}", last_value, describe(last_word)),
               .runs = true};
}

void run_on_device(int device, const char* name, FunctionRef<void()> work) {
  if (machine().devices <= 1) return work();
  for (size_t r = 0; r < ranges.size(); ++r)
    protect(ranges[r], reaches(device, static_cast<int>(r)));
  Running self{device, name, {}, {}};
  const WatchFaults watch(self);
  if (sigsetjmp(self.back, 0) != 0) throw EmulationError(self.fault);
  work();
}

}  // namespace hlite::emulation
