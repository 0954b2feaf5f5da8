#include "data_reader/text/text_file.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "data_reader/no_samples.h"
#include "hugectr_lite/core/error.h"

namespace hlite::data {

namespace {

constexpr int64_t kReadBytes = 1 << 20;

void refuse_compressed(const ReadFile& file) {
  std::byte head[4] = {};
  if (file.size() < std::ssize(head)) return;
  file.read(0, head);
  const auto is = [&](std::initializer_list<int> bytes) {
    return std::equal(bytes.begin(), bytes.end(), head,
                      [](int byte, std::byte found) { return std::byte(byte) == found; });
  };
  const bool gzip = is({0x1f, 0x8b}), zstd = is({0x28, 0xb5, 0x2f, 0xfd});
  if (gzip || zstd)
    raise<DataError>(
        "{}: expected lines of text, found a file compressed by {}; unpack it, or prepare it with "
        "criteo_prep, which reads it as it is",
        file.name(), gzip ? "gzip" : "zstd");
}

}  // namespace

TextFile::TextFile(const std::string& path, int64_t lines_of_piece, int64_t most) : file_(path) {
  HLITE_CHECK(lines_of_piece >= 1 && most >= 1, "{} lines, pieces of {}", most, lines_of_piece);
  refuse_compressed(file_);
  std::vector<char> buffer(static_cast<size_t>(std::min(kReadBytes, file_.size())));
  int64_t line_begin = 0;
  const auto end_line = [&](int64_t end) {
    if (lines_ % lines_of_piece == 0) begins_.push_back(line_begin);
    ++lines_;
    line_begin = end;
  };
  for (int64_t at = 0; at < file_.size() && lines_ < most; at += kReadBytes) {
    const std::span<char> piece(buffer.data(),
                                static_cast<size_t>(std::min(kReadBytes, file_.size() - at)));
    file_.read(at, std::as_writable_bytes(piece));
    const char *p = piece.data(), *const end = p + piece.size();
    while (lines_ < most) {
      p = static_cast<const char*>(std::memchr(p, '\n', static_cast<size_t>(end - p)));
      if (p == nullptr) break;
      end_line(at + (++p - piece.data()));
    }
  }
  if (lines_ < most && line_begin < file_.size()) end_line(file_.size());
  if (lines_ == 0) raise<NoSamplesError>("{}: expected lines of text, found an empty file", path);
  begins_.push_back(line_begin);
}

void TextFile::read(int64_t piece, std::string& text) const {
  const auto i = static_cast<size_t>(piece);
  HLITE_CHECK(i + 1 < begins_.size(), "piece {} of {}", piece, begins_.size() - 1);
  text.resize(static_cast<size_t>(begins_[i + 1] - begins_[i]));
  file_.read(begins_[i], std::as_writable_bytes(std::span(text)));
  if (text.back() != '\n') text += '\n';
}

}  // namespace hlite::data
