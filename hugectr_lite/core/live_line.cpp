#include "hugectr_lite/core/live_line.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <iterator>

namespace hlite {

namespace {
size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// Not fmt::print, which throws: a terminal that is gone must not end a run.
void write(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}
}  // namespace

LiveLine::LiveLine(bool wanted) : live_(wanted && isatty(STDERR_FILENO) == 1) {}

LiveLine::~LiveLine() { erase(); }

void LiveLine::draw(std::string_view text) {
  if (!live_) return;
  write(fmt::format("\r{}\x1b[K", text.substr(0, terminal_width() - 1)));
  drawn_ = true;
}

void LiveLine::erase() {
  if (!drawn_) return;
  write("\r\x1b[K");
  drawn_ = false;
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  const auto s = static_cast<int64_t>(seconds + 0.5);
  if (s >= 3600) return fmt::format("{}h{:02}m", s / 3600, s % 3600 / 60);
  if (s >= 60) return fmt::format("{}m{:02}s", s / 60, s % 60);
  return fmt::format("{}s", s);
}

std::string rate_text(double per_second) {
  if (per_second >= 1e6) return fmt::format("{:.2f} M", per_second / 1e6);
  if (per_second >= 1e4) return fmt::format("{:.1f} k", per_second / 1e3);
  return fmt::format("{:.0f} ", per_second);
}

std::string bytes_text(int64_t bytes) {
  const auto b = static_cast<double>(bytes);
  if (b >= 1e9) return fmt::format("{:.1f} GB", b / 1e9);
  if (b >= 1e6) return fmt::format("{:.1f} MB", b / 1e6);
  return fmt::format("{:.1f} kB", b / 1e3);
}

std::string count_text(int64_t count) {
  std::string text = std::to_string(count);
  for (int64_t at = std::ssize(text) - 3; at > (count < 0 ? 1 : 0); at -= 3)
    text.insert(static_cast<size_t>(at), ",");
  return text;
}

}  // namespace hlite
