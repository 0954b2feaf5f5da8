#include "hugectr_lite/preparation/io/numpy_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/in_quotes.h"
#include "hugectr_lite/core/parse_number.h"

namespace hlite::prep {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr int64_t kAlignment = 64;
constexpr int64_t kMaxHeader = 1 << 16;  // plain arrays need some 100 bytes

// Python's literal of a dictionary, read as JSON.
NumpyHeader parse_header(const std::string& file, std::string text) {
  for (char& c : text) c = c == '\'' ? '"' : c == '(' ? '[' : c == ')' ? ']' : c;
  for (const auto& [from, to] : {std::pair("True", "true"), std::pair("False", "false")})
    if (const size_t at = text.find(from); at != text.npos) text.replace(at, std::strlen(from), to);
  for (size_t at = text.find(','); at != text.npos; at = text.find(',', at + 1))
    if (const size_t next = text.find_first_not_of(" \n", at + 1);
        next != text.npos && (text[next] == '}' || text[next] == ']'))
      text[at] = ' ';
  try {
    const auto json = nlohmann::json::parse(text);
    return {.type = json.at("descr").get<std::string>(),
            .shape = json.at("shape").get<std::vector<int64_t>>(),
            .fortran_order = json.at("fortran_order").get<bool>()};
  } catch (const nlohmann::json::exception& error) {
    raise<DataError>("{}: expected a .npy header of descr, fortran_order and shape, found {} ({})",
                     file, in_quotes(text), error.what());
  }
}

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
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return -1;
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
  NumpyHeader header = parse_header(file.name(), std::move(text));
  if (header.item_bytes() == 0)
    raise<DataError>("{}: expected numbers, found items of type {}", file.name(),
                     in_quotes(header.type));
  header.data_offset = before + length;
  if (data_bytes(header) != size - header.data_offset)
    raise<DataError>("{}: expected {} bytes of data (type {}, shape [{}]), found {}", file.name(),
                     data_bytes(header) < 0 ? "below 2^63" : fmt::format("{}", data_bytes(header)),
                     header.type, fmt::join(header.shape, ", "), size - header.data_offset);
  return header;
}

}  // namespace hlite::prep
