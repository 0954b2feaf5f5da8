// A line on standard error that is redrawn in place, where standard error is a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hlite {

class LiveLine {
 public:
  // Without `wanted`, or without a terminal, nothing is ever drawn.
  explicit LiveLine(bool wanted);
  ~LiveLine();
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  [[nodiscard]] bool live() const { return live_; }
  // Draws the part of `text` that fits the terminal, in the place of what was drawn before.
  void draw(std::string_view text);
  // Clears the line, for others to print.
  void erase();

 private:
  bool live_, drawn_ = false;
};

// "1h02m", "3m05s", "12s"; "?" for what is not finite.
std::string duration_text(double seconds);
// "1.23 M", "45.6 k", "789 ": a unit follows.
std::string rate_text(double per_second);
// "96.1 GB", "12.0 MB", "0.6 kB".
std::string bytes_text(int64_t bytes);
// "6,617".
std::string count_text(int64_t count);

}  // namespace hlite
