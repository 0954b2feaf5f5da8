#include "hugectr_lite/preparation/engine/placed_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/output_place.h"

namespace hlite::prep {
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

// move(data, bytes, offset), a system call, until all bytes have come where they belong.
template <typename Byte, typename Move>
void move_all(const std::string& name, const char* what, int64_t offset, std::span<Byte> bytes,
              Move&& move) {
  while (!bytes.empty()) {
    const ssize_t n = move(bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      raise<FileError>("{}: cannot {} {} bytes at offset {}: {}", name, what, bytes.size(), offset,
                       n < 0 ? std::strerror(errno) : "it ends before");
    offset += n;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

}  // namespace

PlacedFile::PlacedFile(std::string path, int64_t bytes)
    : PlacedFile(path, open_output(path, O_RDWR | O_CREAT)) {
  if (fd_.get() < 0) raise<FileError>("{}: cannot create: {}", name_, std::strerror(errno));
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0)
    raise<FileError>("{}: cannot find its size: {}", name_, std::strerror(errno));
  if (status.st_size < bytes) {
    raise<DataError>(
        "{}: expected {} bytes of the unfinished run, found {}; --restart forgets that run", name_,
        bytes, static_cast<int64_t>(status.st_size));
  }
  if (::ftruncate(fd_.get(), bytes) != 0)
    raise<FileError>("{}: cannot cut to {} bytes: {}", name_, bytes, std::strerror(errno));
}

PlacedFile PlacedFile::scratch(const std::string& folder) {
  FileDescriptor fd(open_nameless(folder));
  if (fd.get() < 0)
    raise<FileError>("{}: cannot create a scratch file: {}", folder, std::strerror(errno));
  return {folder + ", scratch file", std::move(fd)};
}

void PlacedFile::write(int64_t offset, std::span<const std::byte> bytes) const {
  move_all(name_, "write", offset, bytes, [&](auto... at) { return ::pwrite(fd_.get(), at...); });
}

void PlacedFile::read(int64_t offset, std::span<std::byte> out) const {
  move_all(name_, "read", offset, out, [&](auto... at) { return ::pread(fd_.get(), at...); });
}

}  // namespace hlite::prep
