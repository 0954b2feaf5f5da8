#include "hugectr_lite/preparation/io/numpy_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>
#include <string_view>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/in_quotes.h"
#include "hugectr_lite/core/parse_number.h"

namespace hlite::prep {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr int64_t kAlignment = 64;
constexpr int64_t kMaxHeader = 1 << 16;  // plain arrays need some 100 bytes

// The literal of a Python dictionary, as far as the header needs it.
class HeaderText {
 public:
  HeaderText(const std::string& file, std::string_view text)
      : file_(file), whole_(text), text_(text) {}

  NumpyHeader parse() {
    NumpyHeader header;
    bool type = false, order = false, shape = false;
    expect("{");
    while (!take("}")) {
      const std::string_view key = string();
      expect(":");
      if (key == "descr") {
        header.type = string();
        type = true;
      } else if (key == "fortran_order") {
        header.fortran_order = take("True");
        if (!header.fortran_order) expect("False");
        order = true;
      } else if (key == "shape") {
        header.shape = tuple();
        shape = true;
      } else {
        fail(fmt::format("expected descr, fortran_order or shape, found {}", in_quotes(key)));
      }
      if (!take(",")) {
        expect("}");
        break;
      }
    }
    skip_blanks();
    if (!text_.empty()) fail(fmt::format("expected its end, found {}", in_quotes(text_)));
    if (!type || !order || !shape) fail("expected descr, fortran_order and shape, one is missing");
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    raise<DataError>("{}: .npy header, character {}: {}", file_, whole_.size() - text_.size(),
                     problem);
  }
  void skip_blanks() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n')) text_.remove_prefix(1);
  }
  bool take(std::string_view token) {
    skip_blanks();
    if (text_.substr(0, token.size()) != token) return false;
    text_.remove_prefix(token.size());
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) fail(fmt::format("expected {}, found {}", token, in_quotes(text_)));
  }
  std::string_view string() {
    const bool single = take("'");
    if (!single) expect("\"");
    const size_t end = text_.find(single ? '\'' : '"');
    if (end == std::string_view::npos) fail("expected a closing quote, found none");
    const std::string_view value = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return value;
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> values;
    expect("(");
    while (!take(")")) {
      skip_blanks();
      int64_t value = 0;
      const auto [stop, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
      if (error != std::errc() || value < 0)
        fail(fmt::format("expected a size, found {}", in_quotes(text_)));
      text_.remove_prefix(static_cast<size_t>(stop - text_.data()));
      values.push_back(value);
      if (!take(",")) {
        expect(")");
        break;
      }
    }
    return values;
  }

  const std::string& file_;
  std::string_view whole_, text_;
};

// Returns the bytes of "<f4", "|b1"; 0 for what is no plain number.
int64_t bytes_of(std::string_view type) {
  if (type.size() < 3 || std::string_view("<>|=").find(type[0]) == std::string_view::npos ||
      std::string_view("biufc").find(type[1]) == std::string_view::npos)
    return 0;
  const auto bytes = parse_number<int64_t>(type.substr(2)).value_or(0);
  return bytes >= 1 && bytes <= 32 ? bytes : 0;
}

// The bytes of the data, or -1 when 64 bits cannot hold them.
int64_t data_bytes(const NumpyHeader& header) {
  int64_t bytes = header.item_bytes();
  for (const int64_t size : header.shape)
    if (__builtin_mul_overflow(bytes, size, &bytes)) return -1;
  return bytes;
}

}  // namespace

int64_t NumpyHeader::item_bytes() const { return bytes_of(type); }

std::string numpy_preamble(const NumpyHeader& header) {
  HLITE_CHECK(header.item_bytes() > 0, "type {}", header.type);
  std::string shape;
  for (const int64_t size : header.shape) shape += fmt::format("{}, ", size);
  if (header.shape.size() > 1) shape.resize(shape.size() - 2);
  if (header.shape.size() == 1) shape.pop_back();  // "(3,)"
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': ({}), }}",
                                 header.type, header.fortran_order ? "True" : "False", shape);
  constexpr size_t kBefore = 10;  // magic, version, length
  const size_t used = kBefore + text.size() + 1;
  text.append((kAlignment - used % kAlignment) % kAlignment, ' ');
  text += '\n';
  const auto length = static_cast<uint16_t>(text.size());
  std::string bytes(kMagic);
  bytes += '\x01';
  bytes += '\0';
  bytes += static_cast<char>(length & 0xff);
  bytes += static_cast<char>(length >> 8);
  return bytes + text;
}

NumpyHeader read_numpy_header(const ByteSource& file) {
  const int64_t size = file.size();
  std::string start(static_cast<size_t>(std::min<int64_t>(size, 12)), '\0');
  file.read(0, std::as_writable_bytes(std::span(start)));
  if (start.substr(0, kMagic.size()) != kMagic)
    raise<DataError>("{}: expected a .npy file, found one that begins with {}", file.name(),
                     in_quotes(start));
  const auto byte = [&](size_t i) -> int64_t {
    if (i >= start.size())
      raise<DataError>("{}: expected a .npy header, found the file's end at byte {}", file.name(),
                       size);
    return static_cast<unsigned char>(start[i]);
  };
  const int64_t version = byte(6);
  if (version < 1 || version > 3)
    raise<DataError>("{}: expected .npy version 1, 2 or 3, found {}", file.name(), version);
  const int64_t before = version == 1 ? 10 : 12;
  int64_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > kMaxHeader || before + length > size)
    raise<DataError>("{}: expected a .npy header of at most {} bytes, found one of {}", file.name(),
                     std::min(kMaxHeader, size - before), length);
  std::string text(static_cast<size_t>(length), '\0');
  file.read(before, std::as_writable_bytes(std::span(text)));
  NumpyHeader header = HeaderText(file.name(), text).parse();
  if (header.item_bytes() == 0)
    raise<DataError>("{}: expected numbers, found items of type {}", file.name(),
                     in_quotes(header.type));
  header.data_offset = before + length;
  if (data_bytes(header) != size - header.data_offset)
    raise<DataError>(
        "{}: expected {} bytes of data (type {}, shape [{}]), found {}", file.name(),
        data_bytes(header) < 0 ? "more than 2^63" : fmt::format("{}", data_bytes(header)),
        header.type, fmt::join(header.shape, ", "), size - header.data_offset);
  return header;
}

}  // namespace hlite::prep
