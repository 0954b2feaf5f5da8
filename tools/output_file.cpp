#include "tools/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>

#include "hugectr_lite/core/error.h"

namespace hlite::tools {

static constexpr size_t kBufferBytes = size_t{1} << 20;

OutputFile::OutputFile(std::string path)
    : path_(std::move(path)), temporary_(path_ + ".tmp"), hash_(XXH3_createState()) {
  if (hash_ == nullptr) throw std::bad_alloc();
  XXH3_64bits_reset(hash_);
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    const int reason = errno;
    XXH3_freeState(hash_);
    raise<FileError>("{}: cannot create: {}", temporary_, std::strerror(reason));
  }
  pending_.reserve(kBufferBytes);
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!committed_) ::unlink(temporary_.c_str());
  XXH3_freeState(hash_);
}

void OutputFile::fail(const char* operation) const {
  raise<FileError>("{}: cannot {} at byte {}: {}", temporary_, operation, written_,
                   std::strerror(errno));
}

void OutputFile::write(const void* data, size_t bytes) {
  const char* from = static_cast<const char*>(data);
  XXH3_64bits_update(hash_, from, bytes);
  while (bytes > 0) {
    const size_t part = std::min(bytes, kBufferBytes - pending_.size());
    pending_.insert(pending_.end(), from, from + part);
    from += part;
    bytes -= part;
    if (pending_.size() == kBufferBytes) flush();
  }
}

void OutputFile::flush() {
  for (size_t done = 0; done < pending_.size();) {
    const ssize_t n = ::write(fd_, pending_.data() + done, pending_.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("write");
    done += static_cast<size_t>(n);
    written_ += n;
  }
  pending_.clear();
}

void OutputFile::sync() {
  flush();
  if (::fsync(fd_) != 0 && errno != EINVAL && errno != EROFS) fail("flush to the disk");
}

void OutputFile::commit() {
  sync();
  const int closed = ::close(std::exchange(fd_, -1));
  if (closed != 0) fail("close");
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    raise<FileError>("{}: cannot rename to {}: {}", temporary_, path_, std::strerror(errno));
  }
  committed_ = true;
}

std::string OutputFile::xxh3() const { return fmt::format("{:016x}", XXH3_64bits_digest(hash_)); }

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) raise<FileError>("{}: cannot create the folder: {}", path, error.message());
}

}  // namespace hlite::tools
