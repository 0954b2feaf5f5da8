#include "hugectr_lite/core/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"

namespace hlite {

MappedFile::MappedFile(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status = {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0)
    raise<FileError>("{}: cannot open: {}", path, std::strerror(errno));
  bytes_ = static_cast<size_t>(status.st_size);
  if (bytes_ == 0) return;
  void* const data = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED)
    raise<FileError>("{}: cannot map {} bytes: {}", path, std::exchange(bytes_, 0),
                     std::strerror(errno));
  data_ = static_cast<std::byte*>(data);
}

void MappedFile::populate(const std::function<bool()>& stop) const {
  constexpr size_t kPart = size_t{16} << 20;
  for (size_t at = 0; at < bytes_ && !stop(); at += kPart)
    if (::madvise(data_ + at, std::min(kPart, bytes_ - at), MADV_POPULATE_READ) != 0) return;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace hlite
