#include "hugectr_lite/core/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <mutex>
#include <thread>

#include "hugectr_lite/core/error.h"

namespace hlite {

struct KnownMapping {
  std::atomic<std::byte*> begin{nullptr};  // null: free for another one
  std::atomic<size_t> bytes{0};
  std::atomic<bool> lost{false};
  KnownMapping* next = nullptr;
};

namespace {

// A list that only grows, so that a signal handler can walk it at any time.
std::atomic<KnownMapping*> known_mappings{nullptr};
struct sigaction before_mappings;

// The kernel sends SIGBUS for a page that the file does not have any more. The thread goes on with
// zeros, and learns of it by has_lost_pages().
extern "C" void replace_lost_page(int, siginfo_t* info, void*) {
  const int error = errno;
  auto* const at = static_cast<std::byte*>(info->si_addr);
  for (KnownMapping* known = known_mappings; known != nullptr; known = known->next) {
    std::byte* const begin = known->begin;
    // What kill() sends has no address.
    if (info->si_code <= 0 || begin == nullptr || at < begin || at >= begin + known->bytes)
      continue;
    known->lost = true;
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    std::byte* const from = begin + static_cast<size_t>(at - begin) / page * page;
    if (::mmap(from, page, PROT_READ, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != from)
      break;
    errno = error;
    return;
  }
  ::sigaction(SIGBUS, &before_mappings, nullptr);  // which the same access comes to next
}

KnownMapping* make_known(std::byte* begin, size_t bytes) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  KnownMapping* known = known_mappings;
  if (known == nullptr) {
    struct sigaction action = {};
    action.sa_sigaction = replace_lost_page;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGBUS, &action, &before_mappings);
  }
  while (known != nullptr && known->begin != nullptr) known = known->next;
  if (known == nullptr) {
    known = new KnownMapping;
    known->next = known_mappings;
    known_mappings = known;
  }
  known->bytes = bytes;
  known->lost = false;
  known->begin = begin;
  return known;
}

// The kernel's clock for the times of files advances in ticks of up to 10 ms: two writes within one
// leave the same times. After this the next one leaves others.
void wait_for_tick_after_last_write(const ReadFile& file) {
  constexpr int kMost = 50;  // the clock of another machine may be ahead
  struct stat status {};
  timespec now{};
  for (int i = 0; i < kMost && ::fstat(file.descriptor(), &status) == 0 &&
                  ::clock_gettime(CLOCK_REALTIME_COARSE, &now) == 0 &&
                  std::pair(now.tv_sec, now.tv_nsec) <=
                      std::pair(status.st_ctim.tv_sec, status.st_ctim.tv_nsec);
       ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

MappedFile::MappedFile(const ReadFile& file) {
  if (file.size() == 0) return;
  wait_for_tick_after_last_write(file);
  const auto bytes = static_cast<size_t>(file.size());
  void* const data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (data == MAP_FAILED)
    raise<FileError>("{}: cannot map {} bytes: {}", file.name(), bytes, std::strerror(errno));
  data_ = static_cast<std::byte*>(data);
  bytes_ = bytes;
  known_ = make_known(data_, bytes_);
}

bool MappedFile::has_lost_pages() const { return known_ != nullptr && known_->lost; }

void MappedFile::populate(const std::function<bool()>& stop) const {
  constexpr size_t kPart = size_t{16} << 20;
  for (size_t at = 0; at < bytes_ && !stop(); at += kPart)
    if (::madvise(data_ + at, std::min(kPart, bytes_ - at), MADV_POPULATE_READ) != 0) return;
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  known_->begin = nullptr;
  ::munmap(data_, bytes_);
}

}  // namespace hlite
