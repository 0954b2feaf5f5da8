// How messages show text from a file: in quotes, unprintable bytes escaped,
// cut to a readable length.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace hlite::tools {

inline std::string in_quotes(std::string_view text) {
  constexpr size_t kShown = 40;
  std::string out = "\"";
  for (const char c : text.substr(0, kShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + (text.size() > kShown ? "...\"" : "\"");
}

}  // namespace hlite::tools
