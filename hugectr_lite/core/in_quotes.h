// Formatting of text from files for messages.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "hugectr_lite/core/utf8.h"

namespace hlite {

// Returns `text` without what may move a terminal's cursor or change its colours, as names of files
// can: control characters, but for newline and tab, and bytes that are no UTF-8 are escaped.
inline std::string printable(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    const std::string_view one = text.substr(at, std::max<size_t>(1, length));
    const auto first = static_cast<unsigned char>(one[0]);
    const bool is_control =  // U+0000 to U+001F, U+007F to U+009F
        (first < 0x20 && first != '\n' && first != '\t') || first == 0x7f ||
        (first == 0xc2 && length == 2 && static_cast<unsigned char>(one[1]) < 0xa0);
    if (length == 0 || is_control) {
      for (const char byte : one) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    } else {
      out += one;
    }
    at += one.size();
  }
  return out;
}

// Returns `text` in quotes. Bytes that are not printable UTF-8 are escaped, and text after about 40
// bytes is replaced by "...".
inline std::string in_quotes(std::string_view text) {
  constexpr size_t kMaxBytes = 40;
  std::string out = "\"";
  size_t at = 0;
  while (at < std::min(text.size(), kMaxBytes)) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const size_t length = byte < 0x20 || byte == 0x7f ? 0 : utf8_length(text, at);
    out += length > 0 ? std::string(text.substr(at, length)) : fmt::format("\\x{:02x}", byte);
    at += std::max<size_t>(length, 1);
  }
  return out + (text.size() > at ? "...\"" : "\"");
}

}  // namespace hlite
