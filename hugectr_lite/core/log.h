// Lines for people, on standard error. What a program was asked to print goes to standard output.
#pragma once

#include <fmt/core.h>

#include <string_view>

namespace hlite::log {

enum class Level { kInfo, kWarning, kNothing };

// Below this level nothing is printed (--quiet sets kWarning).
void set_level(Level level);
Level level();
// Nothing more from this thread: one of several ranks, of which another says the same.
void mute_this_thread();
void write(Level level, std::string_view message);

template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kWarning, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace hlite::log
