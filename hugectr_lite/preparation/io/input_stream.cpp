#include "hugectr_lite/preparation/io/input_stream.h"

#include <fcntl.h>
#include <isa-l/igzip_lib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/preparation/io/parquet_text.h"

namespace hlite::prep {
namespace {

// The size of a read from the file, and what the kernel is asked to fetch beyond it.
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
    isal_inflate_init(state_.get());
  }

 private:
  size_t decode(char* out, size_t bytes) override {
    const auto want = static_cast<uint32_t>(std::min<size_t>(bytes, 1u << 30));
    state_->next_out = reinterpret_cast<uint8_t*>(out);
    state_->avail_out = want;
    while (state_->avail_out == want) {
      if (!failure_.empty()) fail(failure_);
      // A full output may have left decoded bytes inside: they need no new input.
      if (!more_inside_ && !buffer_.refill(source())) {
        if (inside_) fail("the gzip stream is cut short");
        return 0;
      }
      if (!inside_ && !next_member()) continue;
      state_->next_in = reinterpret_cast<uint8_t*>(buffer_.bytes.data() + buffer_.begin);
      state_->avail_in = static_cast<uint32_t>(buffer_.end - buffer_.begin);
      advance();
      buffer_.begin = buffer_.end - state_->avail_in;
      if (state_->block_state == ISAL_BLOCK_FINISH) inside_ = false;
      more_inside_ = inside_ && state_->avail_out == 0;
    }
    return want - state_->avail_out;
  }

  // Between members: zeros that pad a file to a block size are passed over, as gzip does.
  bool next_member() {
    while (buffer_.begin < buffer_.end && buffer_.bytes[buffer_.begin] == 0) ++buffer_.begin;
    inside_ = buffer_.begin < buffer_.end;
    if (!inside_) return false;
    // ISA-L looks at a header when it has the first ten bytes: what is no gzip may have fewer.
    if (buffer_.bytes[buffer_.begin] != '\x1f') fail(reason_of(ISAL_INVALID_WRAPPER));
    isal_inflate_reset(state_.get());
    state_->crc_flag = ISAL_GZIP_NO_HDR_VER;  // the header is read here, the trailer is checked
    isal_gzip_header_init(&header_);
    in_header_ = true;
    return true;
  }

  // Decodes what is there. A failure is kept: what was decoded before it is handed out first.
  void advance() {
    int code = ISAL_DECOMP_OK;
    if (in_header_) {
      code = isal_read_gzip_header(state_.get(), &header_);
      if (code == ISAL_END_INPUT) return;
      constexpr uint32_t kReserved = 0xe0;
      if (code == ISAL_DECOMP_OK && (header_.flags & kReserved) != 0)
        failure_ = "unknown header flags set";
      else if (code == ISAL_INCORRECT_CHECKSUM)
        failure_ = "header crc mismatch";
      in_header_ = false;
    }
    if (code == ISAL_DECOMP_OK && failure_.empty()) code = isal_inflate(state_.get());
    if (code < 0 && failure_.empty()) failure_ = reason_of(code);
  }

  static const char* reason_of(int code) {
    switch (code) {
      case ISAL_INVALID_WRAPPER:
        return "incorrect header check";
      case ISAL_UNSUPPORTED_METHOD:
        return "unknown compression method";
      case ISAL_INVALID_BLOCK:
        return "invalid block";
      case ISAL_INVALID_SYMBOL:
        return "invalid code";
      case ISAL_INVALID_LOOKBACK:
        return "invalid distance too far back";
      case ISAL_INCORRECT_CHECKSUM:
        return "incorrect data check";
      default:
        return "the gzip stream is damaged";
    }
  }

  StoredBuffer buffer_;
  // ISA-L decodes twice as fast as zlib. The state holds its window of 64 KiB.
  std::unique_ptr<inflate_state> state_ = std::make_unique<inflate_state>();
  isal_gzip_header header_ = {};  // kept while one goes over the end of a buffer
  bool inside_ = false;           // a member
  bool in_header_ = false, more_inside_ = false;
  std::string failure_;
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

bool is_read_once(const std::string& path) { return path == "-" || is_device_or_pipe(path); }

StoredBytes::StoredBytes(const std::string& path)
    : name_(path == "-" ? kStandardInput : path),
      // Opening a pipe without O_NONBLOCK waits for its writer.
      fd_(path == "-" ? ::dup(STDIN_FILENO)
                      : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (fd_.get() < 0) raise<FileError>("{}: cannot open: {}", name_, std::strerror(errno));
  struct stat status {};
  if (::fstat(fd_.get(), &status) == 0) {
    if (S_ISDIR(status.st_mode))
      raise<FileError>("{}: cannot open: expected a file, found a directory", name_);
    // Standard input may be somewhere inside its file: it counts as a pipe.
    regular_ = S_ISREG(status.st_mode) && path != "-";
    if (regular_) size_ = status.st_size;
  }
  if (path != "-") ::fcntl(fd_.get(), F_SETFL, O_RDONLY);
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
  if (regular_ && offset_ + kReadAhead / 2 > prefetched_to_) {
    prefetched_to_ = std::max(prefetched_to_, offset_);
    posix_fadvise(fd_.get(), prefetched_to_, kReadAhead, POSIX_FADV_WILLNEED);
    prefetched_to_ += kReadAhead;
  }
  return got + rest;
}

size_t StoredBytes::read_descriptor(char* out, size_t bytes) {
  constexpr size_t kMaxPerCall = size_t{64} << 20;
  size_t got = 0;
  while (got < bytes) {
    if (!regular_) wait_readable(fd_.get(), name_);
    const ssize_t n = ::read(fd_.get(), out + got, std::min(bytes - got, kMaxPerCall));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      raise<FileError>("{}: cannot read at byte {}: {}", name_, offset_, std::strerror(errno));
    if (n == 0) break;
    got += static_cast<size_t>(n);
    offset_ += n;
  }
  return got;
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

void InputStream::fail(const std::string& reason) const {
  raise<FileError>("{}: cannot read at byte {} (byte {} of the compressed file): {}", name(),
                   offset_, stored_->offset(), reason);
}

std::unique_ptr<InputStream> open_input_stream(const std::string& path, const TextForm& form) {
  auto stored = std::make_unique<StoredBytes>(path);
  if (stored->magic() == "PAR1") {
    if (stored->size() == 0)
      raise<DataError>("{}: expected text, found Parquet, which has to be in a file",
                       stored->name());
    return open_parquet_text(std::move(stored), form, available_threads());
  }
  if (is_gzip(stored->magic())) return std::make_unique<GzipStream>(std::move(stored));
  if (is_zstd(stored->magic())) return std::make_unique<ZstdStream>(std::move(stored));
  return std::make_unique<PlainStream>(std::move(stored));
}

}  // namespace hlite::prep
