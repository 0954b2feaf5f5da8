#include "tools/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "hugectr_lite/core/error.h"

namespace hlite::tools {

InputFile::InputFile(std::string path) : name_(path == "-" ? "standard input" : std::move(path)) {
  const bool standard_input = name_ == "standard input";
  const int fd = standard_input ? ::dup(STDIN_FILENO) : ::open(name_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) raise<FileError>("{}: cannot open: {}", name_, std::strerror(errno));
  struct stat status {};
  if (::fstat(fd, &status) == 0 && S_ISDIR(status.st_mode)) {
    ::close(fd);
    raise<FileError>("{}: cannot open: expected a file, found a directory", name_);
  }
  file_ = gzdopen(fd, "rb");
  if (file_ == nullptr) {
    ::close(fd);
    raise<FileError>("{}: cannot open: out of memory", name_);
  }
  gzbuffer(file_, 1u << 18);
}

InputFile::~InputFile() { gzclose_r(file_); }

size_t InputFile::fill(char* out, size_t bytes) {
  size_t got = 0;
  while (got < bytes) {
    const auto want = static_cast<unsigned>(std::min<size_t>(bytes - got, 1u << 30));
    const int n = gzread(file_, out + got, want);
    // A file that ends inside a gzip member is reported only once its data has been handed out.
    int code = Z_OK;
    const char* message = gzerror(file_, &code);
    if (n < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      raise<FileError>("{}: cannot read at byte {}: {}", name_,
                       bytes_read_ + static_cast<int64_t>(got),
                       code == Z_ERRNO       ? std::strerror(errno)
                       : code == Z_BUF_ERROR ? "the gzip stream is cut short"
                                             : message);
    }
    if (n == 0) break;
    got += static_cast<size_t>(n);
  }
  bytes_read_ += static_cast<int64_t>(got);
  return got;
}

bool InputFile::next(LineBlock& block, size_t capacity) {
  block.size = 0;
  block.first_line = next_line_;
  block.lines = 0;
  if (block.bytes.size() < capacity + 1) block.bytes.resize(capacity + 1);
  char* bytes = block.bytes.data();
  std::copy(rest_.begin(), rest_.end(), bytes);
  size_t size = rest_.size();
  rest_.clear();
  if (!end_) {
    size += fill(bytes + size, capacity - size);
    end_ = size < capacity;
  }
  if (size == 0) return false;

  size_t whole = size;
  if (end_) {
    if (bytes[size - 1] != '\n') {
      bytes[size] = '\n';
      whole = size + 1;
    }
  } else {
    while (whole > 0 && bytes[whole - 1] != '\n') --whole;
    if (whole == 0) {
      raise<DataError>("{}:{}: expected a line of at most {} bytes, found a longer one", name_,
                       next_line_, capacity);
    }
    rest_.assign(bytes + whole, bytes + size);
  }
  block.size = whole;
  block.lines = std::count(bytes, bytes + whole, '\n');
  next_line_ += block.lines;
  return true;
}

}  // namespace hlite::tools
