// Text for commands that people paste.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace hlite {

// `text` in a shell's quotes.
inline std::string shell_quoted(std::string_view text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

// `text` as one word of a shell's command, in quotes only where it needs them.
inline std::string shell_word(std::string_view text) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("_-./,:=+@%").find(c) != std::string_view::npos;
  };
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), is_plain);
  return plain ? std::string(text) : shell_quoted(text);
}

}  // namespace hlite
