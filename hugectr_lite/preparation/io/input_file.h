// InputFile: text in, plain, gzip or zstd, as blocks of whole rows.
//
// A row is a line or, where the text has quotes, several: a line feed inside a quoted field does
// not end it. A block ends with the last row that fits; the rest of the bytes opens the next block.
// Each block knows the number of its first line, so that blocks can be parsed in any order and
// errors still name the line. Quotes are followed here, in the order of the file, because a block
// in the middle of a file does not show whether it begins inside a field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hugectr_lite/preparation/io/input_stream.h"

namespace hlite::prep {

// Some programs put it before the first line, which it is no part of.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

struct LineBlock {
  std::vector<char> bytes;  // reused from call to call
  size_t size = 0;          // valid bytes: whole rows, each ended by '\n'
  int64_t first_line = 1;   // counted from 1
  int64_t lines = 0;
  std::vector<size_t> inner_feeds;  // offsets of the line feeds inside quoted fields
  [[nodiscard]] std::string_view text() const { return {bytes.data(), size}; }
  // The place where a row begins.
  struct Place {
    size_t offset = 0;
    int64_t line = 1;
    size_t inner = 0;  // inner_feeds before it
  };
  [[nodiscard]] Place begin() const { return {.line = first_line}; }
  // The row at `place`, without its line feed, and moves on to the next one. False at the end.
  bool next(Place& place, std::string_view& row) const {
    if (place.offset >= size) return false;
    size_t end = text().find('\n', place.offset);
    for (; place.inner < inner_feeds.size() && inner_feeds[place.inner] == end; ++place.inner) {
      end = text().find('\n', end + 1);
      ++place.line;
    }
    row = text().substr(place.offset, end - place.offset);
    place.offset = end + 1;
    ++place.line;
    return true;
  }
  // Calls visit(row, number of its first line) for the rows, without their line feeds, until it
  // returns false.
  template <typename Visit>
  void for_each_row(Visit&& visit) const {
    std::string_view row;
    for (Place place = begin();;) {
      const int64_t number = place.line;
      if (!next(place, row) || !visit(row, number)) return;
    }
  }
  // The first row, without its line feed.
  [[nodiscard]] std::string_view front() const {
    std::string_view first;
    Place place = begin();
    next(place, first);
    return first;
  }
};

// Returns how many bytes of `text`, which begins with a row, are whole rows. `inner_feeds`: the
// line feeds among them that end no row. `open_quote`: where a field begins that is not closed in
// `text`, or npos.
size_t find_whole_rows(std::string_view text, const TextForm& form,
                       std::vector<size_t>& inner_feeds, size_t& open_quote);

class InputFile {
 public:
  // "-" is standard input. Throws FileError when the file cannot be opened.
  explicit InputFile(const std::string& path, const TextForm& form = {})
      : form_(form), stream_(open_input_stream(path, form)) {
    if (stream_->is_parquet()) form_.comments.clear();
  }

  // Fills `block` with whole rows of at most `capacity` bytes together. A last line without a line
  // feed gets one, the first one loses a byte-order mark. Returns false at the end of the file.
  // Throws FileError when reading or decompressing fails, DataError for a row longer than
  // `capacity`, for a quote that is not closed, with its line, and for a file that is no text.
  bool next(LineBlock& block, size_t capacity);

  // "standard input" or the path, as messages and manifests name it.
  [[nodiscard]] const std::string& name() const { return stream_->name(); }
  [[nodiscard]] bool is_parquet() const { return stream_->is_parquet(); }
  [[nodiscard]] int64_t bytes_read() const { return stream_->offset(); }  // decompressed
  // Progress in the file as it is stored: bytes taken, and all bytes (0 for a pipe).
  [[nodiscard]] int64_t stored_bytes_read() const { return stream_->stored_bytes_read(); }
  [[nodiscard]] int64_t stored_bytes() const { return stream_->stored_bytes(); }

 private:
  void refuse_binary(std::string_view head) const;
  [[noreturn]] void fail_no_row(std::string_view text, size_t open_quote, size_t capacity) const;

  TextForm form_;
  std::unique_ptr<InputStream> stream_;
  std::vector<char> rest_;  // the bytes after the last row of the previous block
  int64_t next_line_ = 1;
  bool end_ = false;
};

}  // namespace hlite::prep
