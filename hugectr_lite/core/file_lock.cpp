#include "hugectr_lite/core/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/log.h"

namespace hlite {
namespace fs = std::filesystem;

namespace {

std::string reason() { return std::generic_category().message(errno); }

// Returns the path of the lock file. Resolves links, so that all paths to one target share a lock.
std::string lock_file_of(const std::string& path) {
  fs::path target = fs::absolute(path).lexically_normal();
  if (!target.has_filename()) target = target.parent_path();
  std::error_code error;
  if (const fs::path real = fs::weakly_canonical(target, error); !error) target = real;
  return (target.parent_path() / ("." + target.filename().string() + ".lock")).string();
}

// Returns true if `path` still names the file that `fd` has open. A holder unlinks it at the end of
// its claim, perhaps between our open() and flock().
bool is_current(int fd, const std::string& path) {
  struct stat opened {
  }, named{};
  return fstat(fd, &opened) == 0 && stat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

std::string name_of_process(pid_t id) {
  return fmt::format("process {} on host {}", id, host_name());
}

// Returns true if `holder` names a process of this host that has ended.
bool has_ended(const std::string& holder) {
  int id = 0;
  return std::sscanf(holder.c_str(), "process %d ", &id) == 1 && id > 0 &&
         holder == name_of_process(id) && kill(id, 0) != 0 && errno == ESRCH;
}

// A killed holder may leave a child (ForkedTask), which inherits the lock and keeps it until it
// ends as well. The constructor waits up to two minutes for that: on a busy machine a process that
// was killed ends only when it has its turn.
constexpr useconds_t kRetryMicroseconds = 10'000;
constexpr int kRetries = 12'000;

}  // namespace

FileLock::FileLock(const std::string& path) : path_(lock_file_of(path)) {
  while (!open()) continue;
  for (int i = 0; i < kRetries && !held() && has_ended(holder_); ++i) {
    usleep(kRetryMicroseconds);
    while (!open()) continue;
  }
}

// Makes one attempt. Returns false if it has to be repeated: open() was interrupted, or the
// previous holder removed the file.
bool FileLock::open() {
  FileDescriptor fd(::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (fd.get() < 0) {
    if (errno == EINTR) return false;
    raise<FileError>("{}: cannot create: {}", path_, reason());
  }
  int locked;
  do locked = flock(fd.get(), LOCK_EX | LOCK_NB);
  while (locked != 0 && errno == EINTR);
  if (locked != 0 && errno == EWOULDBLOCK) {
    constexpr size_t kMaxHolderBytes = 512;
    std::array<char, kMaxHolderBytes> text{};
    const ssize_t size = pread(fd.get(), text.data(), text.size(), 0);
    holder_ = size > 0 ? std::string(text.data(), static_cast<size_t>(size)) : "another process";
    return true;
  }
  if (locked != 0)
    log::warning("{}: cannot lock: {}; make sure that no other run writes there", path_, reason());
  else if (!is_current(fd.get(), path_))
    return false;
  const std::string self = name_of_process(getpid());
  // The claim holds even if the name cannot be written.
  if (ftruncate(fd.get(), 0) == 0)
    static_cast<void>(!pwrite(fd.get(), self.data(), self.size(), 0));
  fd_ = std::move(fd);
  return true;
}

// Unlinks before unlocking, so that no other process can have locked the file that is removed.
// LOCK_UN ends the claim even if a child process has inherited the descriptor.
FileLock::~FileLock() {
  if (!held()) return;
  unlink(path_.c_str());
  flock(fd_.get(), LOCK_UN);
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

}  // namespace hlite
