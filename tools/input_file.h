// InputFile: text in, plain or gzip, as blocks of whole lines.
//
// A block ends with the last line feed that fits; the rest of the bytes opens the next block. Each
// block knows the number of its first line, so that blocks can be parsed in any order and errors
// still name the line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

struct gzFile_s;

namespace hlite::tools {

struct LineBlock {
  std::vector<char> bytes;  // reused from call to call
  size_t size = 0;          // valid bytes: whole lines, each ended by '\n'
  int64_t first_line = 1;   // counted from 1
  int64_t lines = 0;
  [[nodiscard]] std::string_view text() const { return {bytes.data(), size}; }
};

class InputFile {
 public:
  // "-" is standard input. Throws FileError when the file cannot be opened.
  explicit InputFile(std::string path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // Fills `block` with whole lines of at most `capacity` bytes together. A last line without a line
  // feed gets one. Returns false at the end of the file. Throws FileError when reading or
  // decompressing fails, DataError for a line longer than `capacity`.
  bool next(LineBlock& block, size_t capacity);

  // "standard input" or the path, as messages and manifests name it.
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] int64_t bytes_read() const { return bytes_read_; }  // decompressed

 private:
  size_t fill(char* out, size_t bytes);

  std::string name_;
  gzFile_s* file_ = nullptr;
  std::vector<char> rest_;  // the bytes after the last line feed of the previous block
  int64_t next_line_ = 1;
  int64_t bytes_read_ = 0;
  bool end_ = false;
};

}  // namespace hlite::tools
