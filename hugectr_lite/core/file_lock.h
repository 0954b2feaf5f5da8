// FileLock: claims a path, so that another live process cannot claim it too.
//
// The claim is an flock() on ".<name>.lock" in the path's directory, a file that names its holder.
// The kernel ends the claim when the process ends, however it ends. The lock file of a process that
// was killed stays until the next claim, which takes it over and removes it at its own end.
#pragma once

#include <string>

#include "hugectr_lite/core/file.h"

namespace hlite {

class FileLock {
 public:
  // Tries to claim a file or directory, which need not exist. Waits up to two minutes for the
  // children of a holder that has ended. Throws FileError when the lock file cannot be made. Where
  // the file system has no locks it warns, and the claim counts as made.
  explicit FileLock(const std::string& path);
  FileLock(FileLock&& other) noexcept = default;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

  [[nodiscard]] bool held() const { return fd_.get() >= 0; }
  // Who has it where it is not held: "process 4711 on host a".
  [[nodiscard]] const std::string& holder() const { return holder_; }

 private:
  bool open();
  std::string path_;  // the lock file's
  FileDescriptor fd_;
  std::string holder_;
};

// The name of this machine, or "unknown".
std::string host_name();

}  // namespace hlite
