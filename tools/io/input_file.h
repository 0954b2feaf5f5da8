// InputFile: text in, plain, gzip or zstd, as blocks of whole lines.
//
// A block ends with the last line feed that fits; the rest of the bytes opens the next block. Each
// block knows the number of its first line, so that blocks can be parsed in any order and errors
// still name the line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tools/io/input_stream.h"

namespace hlite::tools {

struct LineBlock {
  std::vector<char> bytes;  // reused from call to call
  size_t size = 0;          // valid bytes: whole lines, each ended by '\n'
  int64_t first_line = 1;   // counted from 1
  int64_t lines = 0;
  [[nodiscard]] std::string_view text() const { return {bytes.data(), size}; }
  // The first line, without its line feed.
  [[nodiscard]] std::string_view front() const { return text().substr(0, text().find('\n')); }
  // Calls visit(line, number) for every line, without its line feed.
  template <typename Visit>
  void for_each_line(Visit&& visit) const {
    std::string_view rest = text();
    for (int64_t number = first_line; !rest.empty(); ++number) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(line.size() + 1);
      visit(line, number);
    }
  }
};

class InputFile {
 public:
  // A place between two lines.
  struct Position {
    int64_t offset = 0;  // decompressed bytes before it
    int64_t line = 1;    // number of the line that follows
  };

  // "-" is standard input. Throws FileError when the file cannot be opened.
  // `form`: of lines that come from no text.
  explicit InputFile(const std::string& path, const TextForm& form = {})
      : stream_(open_input_stream(path, form)) {}

  // Fills `block` with whole lines of at most `capacity` bytes together. A last line without a line
  // feed gets one, the first one loses a byte-order mark. Returns false at the end of the file.
  // Throws FileError when reading or decompressing fails, DataError for a line longer than
  // `capacity`.
  bool next(LineBlock& block, size_t capacity);

  // Where the next block begins.
  [[nodiscard]] Position position() const {
    return {stream_->offset() - static_cast<int64_t>(rest_.size()), next_line_};
  }
  // Continues at what position() said of the same bytes before; only before the first next().
  // Plain files seek; compressed ones and standard input are read up to there. Throws FileError
  // when the file ends before.
  void skip_to(Position position);

  // "standard input" or the path, as messages and manifests name it.
  [[nodiscard]] const std::string& name() const { return stream_->name(); }
  [[nodiscard]] int64_t bytes_read() const { return stream_->offset(); }  // decompressed
  // Progress in the file as it is stored: bytes taken, and all bytes (0 for a pipe).
  [[nodiscard]] int64_t stored_bytes_read() const { return stream_->stored_bytes_read(); }
  [[nodiscard]] int64_t stored_bytes() const { return stream_->stored_bytes(); }

 private:
  std::unique_ptr<InputStream> stream_;
  std::vector<char> rest_;  // the bytes after the last line feed of the previous block
  int64_t next_line_ = 1;
  bool end_ = false;
};

}  // namespace hlite::tools
