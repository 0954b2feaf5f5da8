#include "tools/io/input_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/thread_pool.h"
#include "tools/io/parquet_text.h"

namespace hlite::tools {
namespace {

// What is read from the file at a time, and what the kernel is asked to fetch beyond it.
constexpr size_t kStoredBlock = size_t{1} << 20;
constexpr int64_t kReadAhead = int64_t{8} << 20;
constexpr const char* kStandardInput = "standard input";

bool is_gzip(std::string_view magic) { return magic.substr(0, 2) == "\x1f\x8b"; }

// RFC 8878: a frame, or a skippable one (0x184D2A50 to 0x184D2A5F).
bool is_zstd(std::string_view magic) {
  if (magic.size() < 4) return false;
  const bool skippable = (magic[0] & 0xf0) == 0x50 && magic.substr(1) == "\x2a\x4d\x18";
  return skippable || magic == "\x28\xb5\x2f\xfd";
}

class PlainStream final : public InputStream {
 public:
  explicit PlainStream(std::unique_ptr<StoredBytes> stored) : InputStream(std::move(stored)) {}

 private:
  size_t decode(char* out, size_t bytes) override { return source().read(out, bytes); }
  bool seek(int64_t offset) override { return source().seek(offset); }
};

// Compressed bytes waiting to be decoded.
class StoredBuffer {
 public:
  // False at the end of the file.
  bool refill(StoredBytes& from) {
    if (begin < end) return true;
    begin = 0;
    end = from.read(bytes.data(), bytes.size());
    return end > 0;
  }
  std::vector<char> bytes = std::vector<char>(kStoredBlock);
  size_t begin = 0, end = 0;
};

class GzipStream final : public InputStream {
 public:
  explicit GzipStream(std::unique_ptr<StoredBytes> stored) : InputStream(std::move(stored)) {
    constexpr int kGzipOnly = 15 + 16;
    if (inflateInit2(&state_, kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~GzipStream() override { inflateEnd(&state_); }

 private:
  size_t decode(char* out, size_t bytes) override {
    const auto want = static_cast<uInt>(std::min<size_t>(bytes, 1u << 30));
    state_.next_out = reinterpret_cast<Bytef*>(out);
    state_.avail_out = want;
    while (state_.avail_out == want) {
      if (!buffer_.refill(source())) {
        if (inside_) fail("the gzip stream is cut short");
        return 0;
      }
      if (!inside_ && !next_member()) continue;
      state_.next_in = reinterpret_cast<Bytef*>(buffer_.bytes.data() + buffer_.begin);
      state_.avail_in = static_cast<uInt>(buffer_.end - buffer_.begin);
      const int code = inflate(&state_, Z_NO_FLUSH);
      buffer_.begin = buffer_.end - state_.avail_in;
      if (code == Z_STREAM_END) {
        inside_ = false;
        inflateReset(&state_);
      } else if (code != Z_OK && code != Z_BUF_ERROR) {
        if (state_.avail_out != want) break;  // hand out what is good; the next call fails again
        fail(state_.msg != nullptr ? state_.msg : "the gzip stream is damaged");
      }
    }
    return want - state_.avail_out;
  }

  // Between members: zeros that pad a file to a block size are passed over, as gzip does.
  bool next_member() {
    while (buffer_.begin < buffer_.end && buffer_.bytes[buffer_.begin] == 0) ++buffer_.begin;
    inside_ = buffer_.begin < buffer_.end;
    return inside_;
  }

  StoredBuffer buffer_;
  z_stream state_ = {};
  bool inside_ = false;  // a member
};

class ZstdStream final : public InputStream {
 public:
  explicit ZstdStream(std::unique_ptr<StoredBytes> stored)
      : InputStream(std::move(stored)), state_(ZSTD_createDStream()) {
    if (state_ == nullptr) throw std::bad_alloc();
  }
  ~ZstdStream() override { ZSTD_freeDStream(state_); }

 private:
  size_t decode(char* out, size_t bytes) override {
    ZSTD_outBuffer to{out, bytes, 0};
    while (to.pos == 0) {
      // A full output may have left decoded bytes inside: they need no new input.
      if (!more_inside_ && !buffer_.refill(source())) {
        if (inside_) fail("the zstd stream is cut short");
        return 0;
      }
      ZSTD_inBuffer from{buffer_.bytes.data(), buffer_.end, buffer_.begin};
      const size_t code = ZSTD_decompressStream(state_, &to, &from);
      if (ZSTD_isError(code)) fail(ZSTD_getErrorName(code));
      buffer_.begin = from.pos;
      inside_ = code != 0;
      more_inside_ = inside_ && to.pos == to.size;
    }
    return to.pos;
  }

  StoredBuffer buffer_;
  ZSTD_DStream* state_;
  bool inside_ = false;  // a frame
  bool more_inside_ = false;
};

}  // namespace

StoredBytes::StoredBytes(const std::string& path)
    : name_(path == "-" ? kStandardInput : path),
      fd_(path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (fd_.get() < 0) raise<FileError>("{}: cannot open: {}", name_, std::strerror(errno));
  struct stat status {};
  if (::fstat(fd_.get(), &status) == 0) {
    if (S_ISDIR(status.st_mode))
      raise<FileError>("{}: cannot open: expected a file, found a directory", name_);
    // Standard input may be somewhere inside its file: it counts as a pipe.
    regular_ = S_ISREG(status.st_mode) && path != "-";
    if (regular_) size_ = status.st_size;
  }
  posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  magic_size_ = read_descriptor(magic_, sizeof(magic_));
  offset_ = 0;
}

size_t StoredBytes::read(char* out, size_t bytes) {
  size_t got = 0;
  if (offset_ < static_cast<int64_t>(magic_size_)) {
    const auto at = static_cast<size_t>(offset_);
    got = std::min(bytes, magic_size_ - at);
    std::memcpy(out, magic_ + at, got);
    offset_ += static_cast<int64_t>(got);
  }
  const size_t rest = read_descriptor(out + got, bytes - got);
  // Not at every read: the kernel looks at each page that is asked for.
  if (regular_ && offset_ + kReadAhead / 2 > asked_for_) {
    asked_for_ = std::max(asked_for_, offset_);
    posix_fadvise(fd_.get(), asked_for_, kReadAhead, POSIX_FADV_WILLNEED);
    asked_for_ += kReadAhead;
  }
  return got + rest;
}

size_t StoredBytes::read_descriptor(char* out, size_t bytes) {
  constexpr size_t kMostPerCall = size_t{64} << 20;
  size_t got = 0;
  while (got < bytes) {
    const ssize_t n = ::read(fd_.get(), out + got, std::min(bytes - got, kMostPerCall));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      raise<FileError>("{}: cannot read at byte {}: {}", name_, offset_, std::strerror(errno));
    if (n == 0) break;
    got += static_cast<size_t>(n);
    offset_ += n;
  }
  return got;
}

bool StoredBytes::seek(int64_t offset) {
  if (!regular_) return false;
  if (offset > size_)
    raise<FileError>("{}: cannot continue at byte {}: the file has {} bytes", name_, offset, size_);
  if (offset < static_cast<int64_t>(magic_size_)) return false;
  if (::lseek(fd_.get(), offset, SEEK_SET) != offset)
    raise<FileError>("{}: cannot continue at byte {}: {}", name_, offset, std::strerror(errno));
  offset_ = asked_for_ = offset;
  return true;
}

size_t InputStream::read(char* out, size_t bytes) {
  size_t got = 0;
  while (got < bytes) {
    const size_t n = decode(out + got, bytes - got);
    if (n == 0) break;
    got += n;
    offset_ += static_cast<int64_t>(n);
  }
  return got;
}

void InputStream::skip_to(int64_t offset) {
  HLITE_CHECK(offset >= offset_, "{}: from byte {} back to {}", name(), offset_, offset);
  if (seek(offset)) {
    offset_ = offset;
    return;
  }
  std::vector<char> dropped(kStoredBlock);
  while (offset_ < offset) {
    const auto want = std::min<int64_t>(offset - offset_, kStoredBlock);
    if (read(dropped.data(), static_cast<size_t>(want)) < static_cast<size_t>(want))
      raise<FileError>("{}: cannot continue at byte {}: the data ends at byte {}", name(), offset,
                       offset_);
  }
}

void InputStream::fail(const std::string& reason) const {
  raise<FileError>("{}: cannot read at byte {} (byte {} of the compressed file): {}", name(),
                   offset_, stored_->offset(), reason);
}

std::unique_ptr<InputStream> open_input_stream(const std::string& path, const TextForm& form) {
  auto stored = std::make_unique<StoredBytes>(path);
  if (stored->magic() == "PAR1") {
    if (path == "-")
      raise<DataError>("{}: expected text, found Parquet, which has to be in a file",
                       stored->name());
    return open_parquet_text(std::move(stored), form, available_threads());
  }
  if (is_gzip(stored->magic())) return std::make_unique<GzipStream>(std::move(stored));
  if (is_zstd(stored->magic())) return std::make_unique<ZstdStream>(std::move(stored));
  return std::make_unique<PlainStream>(std::move(stored));
}

}  // namespace hlite::tools
