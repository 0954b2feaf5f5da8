// Formatting of text from files for messages.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "hugectr_lite/core/utf8.h"

namespace hlite {

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
