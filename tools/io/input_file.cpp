#include "tools/io/input_file.h"

#include <algorithm>
#include <cstring>

#include "hugectr_lite/core/error.h"

namespace hlite::tools {

// Sums of bytes, 255 at most, so that the compiler compares and adds 32 at a time.
static int64_t count_lines(const char* bytes, size_t size) {
  int64_t lines = 0;
  while (size > 0) {
    const size_t part = std::min<size_t>(size, 255 * 32);
    uint8_t sums[32] = {};
    size_t i = 0;
    for (; i + 32 <= part; i += 32)
      for (size_t j = 0; j < 32; ++j)
        sums[j] = static_cast<uint8_t>(sums[j] + (bytes[i + j] == '\n'));
    for (const uint8_t sum : sums) lines += sum;
    for (; i < part; ++i) lines += bytes[i] == '\n';
    bytes += part;
    size -= part;
  }
  return lines;
}

void InputFile::skip_to(Position position) {
  HLITE_CHECK(stream_->offset() == 0 && position.line >= 1, "{}: byte {}, line {}", name(),
              stream_->offset(), position.line);
  stream_->skip_to(position.offset);
  next_line_ = position.line;
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
    size += stream_->read(bytes + size, capacity - size);
    end_ = size < capacity;
  }
  // Some programs put a byte-order mark before the first line; it is no part of it.
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (next_line_ == 1 && std::string_view(bytes, size).starts_with(kMark)) {
    size -= kMark.size();
    std::memmove(bytes, bytes + kMark.size(), size);
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
      raise<DataError>("{}:{}: expected a line of at most {} bytes, found a longer one", name(),
                       next_line_, capacity);
    }
    rest_.assign(bytes + whole, bytes + size);
  }
  block.size = whole;
  block.lines = count_lines(bytes, whole);
  next_line_ += block.lines;
  return true;
}

}  // namespace hlite::tools
