// InputStream: the bytes of a file or of standard input, decompressed.
//
// Rows of a Parquet file are written as lines (parquet_text.h). gzip (also several members) and
// zstd (also several frames, skippable ones too) are recognized by their first bytes; everything
// else is plain.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "hugectr_lite/core/file.h"
#include "hugectr_lite/preparation/io/text_form.h"

namespace hlite::prep {

// Returns true for standard input ("-"), a pipe or a device: what gives its bytes once, and must not
// be opened to look at it, since those that are read are gone, and a pipe's writer ends.
bool is_read_once(const std::string& path);

// The bytes as they are stored.
class StoredBytes {
 public:
  // "-" is standard input. Waits for a pipe's first bytes, as read() does for more. Throws FileError
  // "<path>: cannot open: <reason>"; InterruptedError while it waits.
  explicit StoredBytes(const std::string& path);
  StoredBytes(const StoredBytes&) = delete;
  StoredBytes& operator=(const StoredBytes&) = delete;

  // Up to `bytes` bytes; fewer only at the end of the file. Throws FileError.
  size_t read(char* out, size_t bytes);
  // The first bytes, up to 4, without taking them.
  [[nodiscard]] std::string_view magic() const { return {magic_, magic_size_}; }

  // "standard input" or the path.
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] int64_t offset() const { return offset_; }  // bytes taken
  [[nodiscard]] int64_t size() const { return size_; }      // 0 for a pipe

 private:
  size_t read_descriptor(char* out, size_t bytes);

  std::string name_;
  FileDescriptor fd_;
  bool regular_ = false;
  int64_t offset_ = 0, size_ = 0;
  int64_t prefetched_to_ = 0;  // up to here the kernel fetches
  char magic_[4] = {};
  size_t magic_size_ = 0;
};

class InputStream {
 public:
  virtual ~InputStream() = default;
  // Fills `out` with the next bytes; fewer than `bytes` only at the end. Throws FileError "<path>:
  // cannot read at byte N (byte M of the compressed file): <reason>", also for a stream that is
  // damaged or cut short. N counts decompressed bytes; M is where the reader is, at most a block of
  // 1 MiB after the damage.
  size_t read(char* out, size_t bytes);

  [[nodiscard]] const std::string& name() const { return stored_->name(); }
  // Returns true if its text is written from the rows of a Parquet file.
  [[nodiscard]] bool is_parquet() const { return stored_->magic() == "PAR1"; }
  [[nodiscard]] int64_t offset() const { return offset_; }  // decompressed bytes handed out
  // Progress in the file as it is stored.
  [[nodiscard]] virtual int64_t stored_bytes_read() const { return stored_->offset(); }
  [[nodiscard]] int64_t stored_bytes() const { return stored_->size(); }

 protected:
  explicit InputStream(std::unique_ptr<StoredBytes> stored) : stored_(std::move(stored)) {}
  // Between 1 and `bytes` bytes, 0 at the end.
  virtual size_t decode(char* out, size_t bytes) = 0;
  [[noreturn]] void fail(const std::string& reason) const;
  StoredBytes& source() { return *stored_; }

 private:
  std::unique_ptr<StoredBytes> stored_;
  int64_t offset_ = 0;
};

// `form`: of lines that come from no text. Throws FileError; DataError for a Parquet file that is
// damaged, or on standard input.
std::unique_ptr<InputStream> open_input_stream(const std::string& path, const TextForm& form = {});

}  // namespace hlite::prep
