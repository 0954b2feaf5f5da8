#include "tools/prep/scratch_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "hugectr_lite/core/error.h"

namespace hlite::tools {
namespace {

int open_nameless(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
  // A file system that has no nameless files: one with a name that goes at once.
  std::string path = folder + "/scratch.XXXXXX";
  const int named = ::mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(path.c_str());
  return named;
}

[[noreturn]] void fail(const std::string& folder, const char* what, size_t bytes, int64_t offset,
                       const char* reason) {
  raise<FileError>("{}: cannot {} {} bytes at offset {} of a scratch file: {}", folder, what, bytes,
                   offset, reason);
}

}  // namespace

ScratchFile::ScratchFile(const std::string& folder) : folder_(folder), fd_(open_nameless(folder)) {
  if (fd_.get() < 0)
    raise<FileError>("{}: cannot create a scratch file: {}", folder, std::strerror(errno));
}

void ScratchFile::write(int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_.get(), bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(folder_, "write", bytes.size(), offset, std::strerror(errno));
    offset += n;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

void ScratchFile::read(int64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd_.get(), out.data(), out.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(folder_, "read", out.size(), offset, std::strerror(errno));
    if (n == 0) fail(folder_, "read", out.size(), offset, "it ends before");
    offset += n;
    out = out.subspan(static_cast<size_t>(n));
  }
}

}  // namespace hlite::tools
