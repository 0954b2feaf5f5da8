#include "tools/prep/column_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "hugectr_lite/core/error.h"

namespace hlite::tools {

ColumnFile::ColumnFile(std::string path, int64_t bytes)
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  if (fd_.get() < 0) raise<FileError>("{}: cannot create: {}", path_, std::strerror(errno));
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0)
    raise<FileError>("{}: cannot find its size: {}", path_, std::strerror(errno));
  if (status.st_size < bytes) {
    raise<DataError>(
        "{}: expected {} bytes of the unfinished run, found {}; --restart forgets that run", path_,
        bytes, static_cast<int64_t>(status.st_size));
  }
  if (::ftruncate(fd_.get(), bytes) != 0)
    raise<FileError>("{}: cannot cut to {} bytes: {}", path_, bytes, std::strerror(errno));
}

void ColumnFile::write(int64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd_.get(), bytes.data(), bytes.size(), offset);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      raise<FileError>("{}: cannot write {} bytes at offset {}: {}", path_, bytes.size(), offset,
                       std::strerror(errno));
    }
    offset += put;
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
}

void ColumnFile::make_durable() const {
  if (::fdatasync(fd_.get()) != 0)
    raise<FileError>("{}: cannot make durable: {}", path_, std::strerror(errno));
}

}  // namespace hlite::tools
