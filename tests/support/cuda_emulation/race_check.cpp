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
#include <utility>
#include <vector>

#include "tests/support/cuda_emulation/block_fibers.h"
#include "tests/support/cuda_emulation/device_ranges.h"
#include "tests/support/cuda_emulation/fiber_stack.h"

// The start of this program or library; the linker defines it.
extern "C" __attribute__((visibility("hidden"))) const Elf64_Ehdr __ehdr_start;

namespace hlite::emulation {
namespace {

enum Who : uint8_t { kOne, kWarp, kBlock, kBlocks };

// The last access to a byte, or all accesses that nothing orders among themselves, and the number
// of barriers that their block and their warp had passed before, and of fences the thread, at most
// kMaxFences.
struct Record {
  uint64_t block : 18, thread : 10, block_barriers : 14, warp_barriers : 14, fences : 4;
  uint64_t who : 2, atomic : 1, present : 1;
};
constexpr unsigned kMaxFences = 15;
constexpr uint64_t kBlockMask = 0x3ffff;
static_assert(sizeof(Record) == sizeof(uint64_t));

struct Byte {
  Record write, read;
};

// What threads of blocks had done when they passed fences, as records, by their blocks.
using Fenced = std::unordered_map<uint64_t, std::vector<Record>>;
void add(Fenced& all, const Fenced& more) {
  for (const auto& [block, records] : more)
    all[block].insert(all[block].end(), records.begin(), records.end());
}

// A thread that passes fences.
struct FencingThread {
  unsigned fences = 0;
  Fenced behind;   // its last fence: what its next atomics hand on
  Fenced found;    // by its atomics since
  Fenced visible;  // what it found before its last fence, and no barrier has told the block
};

constexpr uintptr_t kPageBytes = 1024;
constexpr size_t kMaxPages = 16384;  // 16 MiB of memory, whose records take 256 MiB

struct Page {
  uint64_t grid = 0;  // that the records are of
  std::array<Byte, kPageBytes> bytes;
};

// A block of the cluster that runs.
struct Block {
  uint16_t block_barriers = 0;
  uint16_t met = 0;      // block_barriers when the cluster's blocks met last; 0: they have not
  bool touched = false;  // by another block, since they met
  std::array<uint16_t, 32> warp_barriers{};
  std::unordered_map<unsigned, FencingThread> fencing;  // threads of this block
  Fenced visible;                                       // to all threads of this block
};

// The grid that runs: there is one at a time.
struct Watched {
  bool wanted = false;
  const char* kernel = "";
  uint64_t grid = 0;
  uint64_t first_block = 0;  // of the cluster
  unsigned rank = 0;
  unsigned thread = 0;
  uintptr_t stack = 0;
  std::array<Block, kMaxClusterBlocks> blocks;
  Block* block = &blocks[0];                        // that runs now
  std::unordered_map<uintptr_t, Fenced> handed_on;  // by atomics on a word
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

// The block of the cluster in whose dynamic shared memory this lies, or none.
unsigned owner_of(uintptr_t at) {
  unsigned rank = 0;
  while (rank < here.cluster_blocks &&
         at - reinterpret_cast<uintptr_t>(here.shared_of[rank]) >= here.shared_bytes)
    ++rank;
  return rank;
}
bool is_shared(uintptr_t at) {
  return owner_of(at) < here.cluster_blocks || (at >= variables.begin && at < variables.end);
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

// Returns true if `done`, of another block, came before a fence that `found` has.
bool has(const Fenced& found, const Record& done) {
  const auto of_block = found.find(done.block);
  if (of_block == found.end()) return false;
  return std::any_of(of_block->second.begin(), of_block->second.end(), [&](const Record& fence) {
    return done.block_barriers < fence.block_barriers ||
           (done.who <= kWarp && done.thread / kWarpSize == fence.thread / kWarpSize &&
            done.warp_barriers < fence.warp_barriers) ||
           (done.who == kOne && done.thread == fence.thread && done.fences < fence.fences);
  });
}
bool is_visible(const Record& done, const Record& now) {
  if (has(watched.block->visible, done)) return true;
  const auto thread = watched.block->fencing.find(now.thread);
  return thread != watched.block->fencing.end() && has(thread->second.visible, done);
}
// The number of a block in the cluster that runs; not less than its blocks: of another cluster.
uint64_t rank_of(const Record& done) { return (done.block - watched.first_block) & kBlockMask; }

// Returns true if `done` happened before `now`.
bool is_before(const Record& done, const Record& now, bool shared) {
  if (!done.present) return true;
  const uint64_t rank = rank_of(done);
  if (done.who == kBlocks && !shared) return false;
  if (done.who == kBlocks || done.block != now.block) {
    if (rank < here.cluster_blocks && done.block_barriers < watched.blocks[rank].met) return true;
    if (shared) return rank >= here.cluster_blocks;  // another cluster's shared memory was there
    return !watched.handed_on.empty() && is_visible(done, now);
  }
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

[[noreturn]] void end_in_race(Access how, const Record& now, const std::string& what,
                              const void* code) {
  watch_thread(0, nullptr);
  const char* const does = how == Access::kRead         ? "reads"
                           : how == Access::kWrite      ? "writes"
                           : how == Access::kAtomicRead ? "reads, volatile,"
                                                        : "changes atomically";
  end_fiber(std::make_exception_ptr(EmulationError(fmt::format(
      "race in {}: {} {} {}; addr2line {:#x}", watched.kernel, name_of(now), does, what,
      reinterpret_cast<uintptr_t>(code) - reinterpret_cast<uintptr_t>(&__ehdr_start)))));
}
[[noreturn]] void end_in_race(uintptr_t at, Access how, const Record& now, const Record& before,
                              bool written, const void* code) {
  watch_thread(0, nullptr);
  end_in_race(
      how, now,
      fmt::format("a byte that {} {} {}, and nothing orders the two: {}", name_of(before),
                  before.who == kOne ? "has" : "have", written ? "written" : "read",
                  is_shared(at) ? "shared memory" : describe(reinterpret_cast<const void*>(at))),
      code);
}

}  // namespace

namespace {
// What the running thread does now.
Record record_of_now() {
  Record now{};
  const Block& block = *watched.block;
  now.block = (watched.first_block + watched.rank) & kBlockMask;
  now.thread = watched.thread & 0x3ff;
  now.block_barriers = block.block_barriers & 0x3fff;
  now.warp_barriers = block.warp_barriers[watched.thread / kWarpSize] & 0x3fff;
  if (const auto it = block.fencing.find(watched.thread); it != block.fencing.end())
    now.fences = std::min(it->second.fences, kMaxFences) & 0xf;
  now.present = 1;
  return now;
}
}  // namespace

WatchGrid::WatchGrid(const char* kernel) {
  const char* const wanted = kSeesAccesses ? std::getenv("HLITE_EMULATED_RACES") : nullptr;
  watched.wanted = wanted && *wanted == '1';
  if (!watched.wanted) return;
  watched.kernel = kernel;
  ++watched.grid;
  watched.handed_on.clear();
  watched.last_number = ~uintptr_t{0};
  if (watched.pages.size() >= kMaxPages) watched.pages.clear();
}
WatchGrid::~WatchGrid() { watching = false; }

void watch_cluster(uint64_t first, unsigned blocks) {
  watched.first_block = first;
  for (unsigned rank = 0; rank < blocks; ++rank) {
    Block& block = watched.blocks[rank];
    block.block_barriers = block.met = 0;
    block.touched = false;
    block.warp_barriers = {};
    block.fencing.clear();
    block.visible.clear();
  }
  watch_block(0);
}
void watch_block(unsigned rank) {
  watched.rank = rank;
  watched.block = &watched.blocks[rank];
}
void check_cluster_end() {
  for (unsigned rank = 0; rank < here.cluster_blocks; ++rank)
    if (watched.blocks[rank].touched)
      throw EmulationError(fmt::format(
          "race in {}: shared memory of block {} is touched by another block of its cluster, and no "
          "cluster_sync follows, before which it may have ended",
          watched.kernel, watched.first_block + rank));
}
void watch_thread(unsigned thread, const void* stack) {
  watched.thread = thread;
  watched.stack = reinterpret_cast<uintptr_t>(stack);
  watching = watched.wanted && stack;
}
void order_cluster() {
  for (unsigned rank = 0; rank < here.cluster_blocks; ++rank) {
    watch_block(rank);
    order_block();
    watched.block->met = watched.block->block_barriers;
    watched.block->touched = false;
  }
}
void order_block() {
  Block& block = *watched.block;
  ++block.block_barriers;
  for (auto& [thread, fencing] : block.fencing)
    add(block.visible, std::exchange(fencing.visible, {}));
}
void order_warp(unsigned warp) { ++watched.block->warp_barriers[warp]; }

void note_access(const void* data, size_t bytes, Access how, const void* code) {
  if (!watched.wanted) return;  // in no time
  const auto at = reinterpret_cast<uintptr_t>(data);
  if (!watching || at - watched.stack < FiberStack::kBytes ||  // a thread's own
      at - reinterpret_cast<uintptr_t>(&here) < sizeof(here))  // threadIdx and the like
    return;
  const bool writes = how == Access::kWrite || how == Access::kAtomic;
  const bool shared = is_shared(at);
  const unsigned owner = owner_of(at);
  Record now = record_of_now();
  if (owner < here.cluster_blocks && owner != watched.rank) {
    Block& other = watched.blocks[owner];
    if (other.met == 0)
      end_in_race(how, now, "shared memory of another block, which may not have begun", code);
    other.touched = true;
  }
  now.atomic = how == Access::kAtomicRead || how == Access::kAtomic;
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

void note_fence() {
  if (!watching) return;
  FencingThread& self = watched.block->fencing[watched.thread];
  self.fences++;
  add(self.visible, std::exchange(self.found, {}));
  self.behind = watched.block->visible;
  add(self.behind, self.visible);
  const Record now = record_of_now();
  self.behind[now.block] = {now};
}

void note_atomic(const void* word) {
  if (!watching) return;
  const auto at = reinterpret_cast<uintptr_t>(word);
  if (const auto before = watched.handed_on.find(at); before != watched.handed_on.end())
    add(watched.block->fencing[watched.thread].found, before->second);
  if (const auto self = watched.block->fencing.find(watched.thread);
      self != watched.block->fencing.end() && !self->second.behind.empty())
    add(watched.handed_on[at], self->second.behind);
}

}  // namespace hlite::emulation
