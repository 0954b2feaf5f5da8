// A library for LD_PRELOAD. It makes the disk fail at a chosen call, or ends the process there.
//
//   HLITE_FAILING_DISK=CALL:N:RESULT   from the Nth CALL on (counted from 1)
//     CALL    read, write    of a file without a name, through libaio: the rows of tables beyond
//     memory
//             sync, rename   fsync() and rename(), as in checkpoints
//             change         whatever makes, renames or removes a name: rename(), open() of a new
//             file, mkdir(), link(), unlink(), remove() and their like
//     RESULT  a number of errno, with which each of them fails, "kill": SIGKILL in its place, or
//             "hang": the call writes its process id to the file HLITE_HANGING and never returns
//   HLITE_COUNTED_CALLS=FILE           at the end of the process: "CALL N" for each kind, a line
//   each
#include <dlfcn.h>
#include <fcntl.h>
#include <libaio.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace {

enum class Call { kRead, kWrite, kSync, kRename, kChange };
constexpr const char* kCallNames[] = {"read", "write", "sync", "rename", "change"};
constexpr int kCalls = 5;
std::atomic<long> calls[kCalls];

struct Plan {
  int call = -1;
  long from = 0;
  int error = 0;  // 0: kill
  bool hangs = false;

  Plan() {
    const char* const text = std::getenv("HLITE_FAILING_DISK");
    char name[16] = {}, result[16] = {};
    if (!text || std::sscanf(text, "%15[a-z]:%ld:%15s", name, &from, result) != 3) return;
    for (int i = 0; i < kCalls; ++i)
      if (std::strcmp(kCallNames[i], name) == 0) call = i;
    error = std::atoi(result);
    hangs = std::strcmp(result, "hang") == 0;
  }
};

[[noreturn]] void hang() {
  const char* const path = std::getenv("HLITE_HANGING");
  if (std::FILE* const file = path ? std::fopen(path, "w") : nullptr) {
    std::fprintf(file, "%d\n", ::getpid());
    std::fclose(file);
  }
  for (;;) ::pause();
}

// Counts a call. Returns the error that it has to fail with, or 0.
int error_of(Call call) {
  static const Plan plan;
  const int index = static_cast<int>(call);
  const long now = ++calls[index];
  if (index != plan.call || now < plan.from) return 0;
  if (plan.hangs) hang();
  if (plan.error == 0) ::kill(::getpid(), SIGKILL);
  return plan.error;
}

bool has_no_name(int fd) {
  char target[512];
  const auto n =
      ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), target, sizeof(target));
  const std::string path(target, n > 0 ? static_cast<size_t>(n) : 0);
  return path.ends_with(" (deleted)");
}

// What requests in flight do, by context and data; those of one tag do the same. When one completes, its block may already belong
// to another request: the kernel has taken a copy.
class Requests {
 public:
  void add(io_context_t context, const iocb& request) {
    const std::lock_guard lock(mutex_);
    reads_.insert({{context, request.data}, request.aio_lio_opcode == IO_CMD_PREAD});
  }
  // Whether the completed one was a read.
  bool take(io_context_t context, void* data) {
    const std::lock_guard lock(mutex_);
    const auto found = reads_.find({context, data});
    if (found == reads_.end()) std::abort();  // was not submitted
    const bool reads = found->second;
    reads_.erase(found);
    return reads;
  }

 private:
  std::mutex mutex_;
  std::multimap<std::pair<io_context_t, void*>, bool> reads_;
};
Requests& requests() {
  static auto* const all = new Requests;  // threads may outlive static objects
  return *all;
}

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// Calls a function that changes a name, unless it has to fail.
template <typename Function>
int changes(const Function& function) {
  const int error = error_of(Call::kChange);
  if (error == 0) return function();
  errno = error;
  return -1;
}

__attribute__((destructor)) void write_counts() {
  const char* const path = std::getenv("HLITE_COUNTED_CALLS");
  std::FILE* const file = path ? std::fopen(path, "w") : nullptr;
  if (!file) return;
  for (int i = 0; i < kCalls; ++i) std::fprintf(file, "%s %ld\n", kCallNames[i], calls[i].load());
  std::fclose(file);
}

}  // namespace

extern "C" {

int io_submit(io_context_t context, long n, iocb* blocks[]) {
  static const auto next = real<decltype(io_submit)>("io_submit");
  // Before the call: another thread may see one complete before it returns.
  for (long i = 0; i < n; ++i) requests().add(context, *blocks[i]);
  return next(context, n, blocks);
}

int io_getevents(io_context_t context, long least, long most, io_event* events, timespec* timeout) {
  static const auto next = real<decltype(io_getevents)>("io_getevents");
  const int n = next(context, least, most, events, timeout);
  for (int i = 0; i < n; ++i) {
    const bool reads = requests().take(context, events[i].data);
    if (!has_no_name(static_cast<int>(events[i].obj->aio_fildes)))
      continue;  // a queue has one file
    if (const int error = error_of(reads ? Call::kRead : Call::kWrite))
      events[i].res = static_cast<unsigned long>(-static_cast<long>(error));
  }
  return n;
}

int fsync(int fd) {
  static const auto next = real<decltype(fsync)>("fsync");
  const int error = error_of(Call::kSync);
  if (error == 0) return next(fd);
  errno = error;
  return -1;
}

int rename(const char* from, const char* to) {
  static const auto next = real<int(const char*, const char*)>("rename");
  if (const int error = error_of(Call::kRename)) {
    errno = error;
    return -1;
  }
  return changes([&] { return next(from, to); });
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  static const auto next = real<decltype(renameat2)>("renameat2");
  return changes([&] { return next(from_folder, from, to_folder, to, flags); });
}

int link(const char* from, const char* to) {
  static const auto next = real<int(const char*, const char*)>("link");
  return changes([&] { return next(from, to); });
}

int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  static const auto next = real<decltype(linkat)>("linkat");
  return changes([&] { return next(from_folder, from, to_folder, to, flags); });
}

int mkdir(const char* path, mode_t mode) {
  static const auto next = real<int(const char*, mode_t)>("mkdir");
  return changes([&] { return next(path, mode); });
}

int unlink(const char* path) {
  static const auto next = real<int(const char*)>("unlink");
  return changes([&] { return next(path); });
}

int unlinkat(int folder, const char* path, int flags) {
  static const auto next = real<decltype(unlinkat)>("unlinkat");
  return changes([&] { return next(folder, path, flags); });
}

int rmdir(const char* path) {
  static const auto next = real<int(const char*)>("rmdir");
  return changes([&] { return next(path); });
}

int remove(const char* path) {
  static const auto next = real<int(const char*)>("remove");
  return changes([&] { return next(path); });
}

#define HLITE_OPEN(NAME)                                                   \
  int NAME(const char* path, int flags, ...) {                             \
    static const auto next = real<int(const char*, int, ...)>(#NAME);      \
    va_list rest;                                                          \
    va_start(rest, flags);                                                 \
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0; \
    va_end(rest);                                                          \
    if ((flags & O_CREAT) == 0) return next(path, flags);                  \
    return changes([&] { return next(path, flags, mode); });               \
  }
#define HLITE_OPENAT(NAME)                                                 \
  int NAME(int folder, const char* path, int flags, ...) {                 \
    static const auto next = real<int(int, const char*, int, ...)>(#NAME); \
    va_list rest;                                                          \
    va_start(rest, flags);                                                 \
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0; \
    va_end(rest);                                                          \
    if ((flags & O_CREAT) == 0) return next(folder, path, flags);          \
    return changes([&] { return next(folder, path, flags, mode); });       \
  }
HLITE_OPEN(open)
HLITE_OPEN(open64)
HLITE_OPENAT(openat)
HLITE_OPENAT(openat64)

}  // extern "C"
