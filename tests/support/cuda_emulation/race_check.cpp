#include "tests/support/cuda_emulation/race_check.h"

#include <elf.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <span>
#include <unordered_map>

#include "tests/support/cuda_emulation/block_fibers.h"
#include "tests/support/cuda_emulation/device_ranges.h"
#include "tests/support/cuda_emulation/fiber_stack.h"

// The start of this program or library; the linker defines it.
extern "C" __attribute__((visibility("hidden"))) const Elf64_Ehdr __ehdr_start;

namespace hlite::emulation {
namespace {

enum Who : uint8_t { kOne, kWarp, kBlock, kBlocks };

// The last access to a byte, or all accesses that nothing orders among themselves, and the number
// of barriers that their block and their warp had passed before.
struct Record {
  uint64_t block : 18, thread : 10, block_barriers : 16, warp_barriers : 16;
  uint64_t who : 2, atomic : 1, present : 1;
};
static_assert(sizeof(Record) == sizeof(uint64_t));

struct Byte {
  Record write, read;
};

constexpr uintptr_t kPageBytes = 1024;
constexpr size_t kMaxPages = 16384;  // 16 MiB of memory, whose records take 256 MiB

struct Page {
  uint64_t grid = 0;  // that the records are of
  std::array<Byte, kPageBytes> bytes;
};

// The grid that runs: there is one at a time.
struct Watched {
  bool wanted = false;
  const char* kernel = "";
  uint64_t grid = 0;
  uint64_t block = 0;  // how many came before
  unsigned thread = 0;
  uintptr_t stack = 0;
  uint16_t block_barriers = 0;
  std::array<uint16_t, 32> warp_barriers{};
  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages;
  uintptr_t last_number = ~uintptr_t{0};
  Page* last_page = nullptr;
};
Watched watched;
thread_local bool watching = false;

// The variables of the program or library that this is part of: static shared memory is among them.
struct Range {
  uintptr_t begin = 0, end = 0;
};
Range find_variables() {
  const auto start = reinterpret_cast<uintptr_t>(&__ehdr_start);
  const auto* const parts = reinterpret_cast<const Elf64_Phdr*>(start + __ehdr_start.e_phoff);
  uintptr_t first = 0;  // where the program believes to begin
  Range found;
  for (int i = __ehdr_start.e_phnum; i-- > 0;) {
    if (parts[i].p_type != PT_LOAD) continue;
    first = parts[i].p_vaddr;
    if ((parts[i].p_flags & PF_W) == 0) continue;
    if (found.end == 0) found.end = first + parts[i].p_memsz;
    found.begin = first;
  }
  return {found.begin + start - first, found.end + start - first};
}

const Range variables = find_variables();

bool is_shared(uintptr_t at) {
  return at - reinterpret_cast<uintptr_t>(here.shared) < here.shared_bytes ||
         (at >= variables.begin && at < variables.end);
}

// The records of as many bytes from `at` on as lie side by side, at most n; none of memory beyond
// kMaxPages.
std::span<Byte> bytes_at(uintptr_t at, size_t n) {
  const uintptr_t number = at / kPageBytes, first = at % kPageBytes;
  if (number != watched.last_number) {
    auto found = watched.pages.find(number);
    if (found == watched.pages.end()) {
      if (watched.pages.size() >= kMaxPages) return {};
      found = watched.pages.emplace(number, std::make_unique<Page>()).first;
    }
    Page* const page = found->second.get();
    if (page->grid != watched.grid) {
      page->bytes = {};
      page->grid = watched.grid;
    }
    watched.last_number = number;
    watched.last_page = page;
  }
  return std::span(watched.last_page->bytes).subspan(first, std::min(n, kPageBytes - first));
}

// Returns true if `done` happened before `now`.
bool is_before(const Record& done, const Record& now, bool shared) {
  if (!done.present) return true;
  if (done.who == kBlocks) return false;
  if (done.block != now.block) return shared;  // another block's memory was there
  if (done.who == kOne && done.thread == now.thread) return true;
  if (done.block_barriers != now.block_barriers) return true;
  return done.who <= kWarp && done.thread / kWarpSize == now.thread / kWarpSize &&
         done.warp_barriers != now.warp_barriers;
}

void add(Record& done, const Record& now, bool shared) {
  Record all = now;
  if (!is_before(done, now, shared)) {
    const Who who = done.block != now.block                             ? kBlocks
                    : done.thread / kWarpSize != now.thread / kWarpSize ? kBlock
                    : done.thread != now.thread                         ? kWarp
                                                                        : kOne;
    if (done.who > who)
      all.who = done.who;
    else
      all.who = who & 3u;
    if (!done.atomic) all.atomic = 0;
  }
  done = all;
}

std::string name_of(const Record& record) {
  switch (record.who) {
    case kBlocks:
      return "threads of several blocks";
    case kBlock:
      return fmt::format("several threads of block {}", uint64_t{record.block});
    case kWarp:
      return fmt::format("several threads of warp {} of block {}", record.thread / kWarpSize,
                         uint64_t{record.block});
    default:
      return fmt::format("thread {} of block {}", uint64_t{record.thread}, uint64_t{record.block});
  }
}

[[noreturn]] void end_in_race(uintptr_t at, Access how, const Record& now, const Record& before,
                              bool written, const void* code) {
  watch_thread(0, nullptr);
  const std::string memory =
      is_shared(at) ? "shared memory" : describe(reinterpret_cast<const void*>(at));
  const char* const does = how == Access::kRead         ? "reads"
                           : how == Access::kWrite      ? "writes"
                           : how == Access::kAtomicRead ? "reads, volatile,"
                                                        : "changes atomically";
  end_fiber(std::make_exception_ptr(EmulationError(fmt::format(
      "race in {}: {} {} a byte that {} {} {}, and nothing orders the two: {}; addr2line {:#x}",
      watched.kernel, name_of(now), does, name_of(before), before.who == kOne ? "has" : "have",
      written ? "written" : "read", memory,
      reinterpret_cast<uintptr_t>(code) - reinterpret_cast<uintptr_t>(&__ehdr_start)))));
}

}  // namespace

WatchGrid::WatchGrid(const char* kernel) {
  const char* const wanted = kSeesAccesses ? std::getenv("HLITE_EMULATED_RACES") : nullptr;
  watched.wanted = wanted && *wanted == '1';
  if (!watched.wanted) return;
  watched.kernel = kernel;
  ++watched.grid;
  watched.block = ~uint64_t{0};
  watched.last_number = ~uintptr_t{0};
  if (watched.pages.size() >= kMaxPages) watched.pages.clear();
}
WatchGrid::~WatchGrid() { watching = false; }

void watch_block() {
  ++watched.block;
  watched.block_barriers = 0;
  watched.warp_barriers = {};
}
void watch_thread(unsigned thread, const void* stack) {
  watched.thread = thread;
  watched.stack = reinterpret_cast<uintptr_t>(stack);
  watching = watched.wanted && stack;
}
void order_block() { ++watched.block_barriers; }
void order_warp(unsigned warp) { ++watched.warp_barriers[warp]; }

void note_access(const void* data, size_t bytes, Access how, const void* code) {
  if (!watched.wanted) return;  // in no time
  const auto at = reinterpret_cast<uintptr_t>(data);
  if (!watching || at - watched.stack < FiberStack::kBytes ||  // a thread's own
      at - reinterpret_cast<uintptr_t>(&here) < sizeof(here))  // threadIdx and the like
    return;
  const bool writes = how == Access::kWrite || how == Access::kAtomic;
  const bool shared = is_shared(at);
  Record now{};
  now.block = watched.block & 0x3ffff;
  now.thread = watched.thread & 0x3ff;
  now.block_barriers = watched.block_barriers;
  now.warp_barriers = watched.warp_barriers[watched.thread / kWarpSize];
  now.atomic = how == Access::kAtomicRead || how == Access::kAtomic;
  now.present = 1;
  const auto races = [&](const Record& done) {
    return !is_before(done, now, shared) && !(done.atomic && now.atomic);
  };
  for (size_t begin = 0; begin < bytes;) {
    const std::span<Byte> records = bytes_at(at + begin, bytes - begin);
    if (records.empty()) return;
    for (Byte& of : records) {
      if (races(of.write)) end_in_race(at, how, now, of.write, true, code);
      if (writes && races(of.read)) end_in_race(at, how, now, of.read, false, code);
      add(writes ? of.write : of.read, now, shared);
    }
    begin += records.size();
  }
}

}  // namespace hlite::emulation
