#include "hugectr_lite/trainer/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "hugectr_lite/core/log.h"

namespace hlite::trainer {
namespace {
constexpr auto kRedrawEvery = std::chrono::milliseconds(100);

size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string rate_text(double per_second) {
  if (per_second >= 1e6) return fmt::format("{:.2f} M", per_second / 1e6);
  if (per_second >= 1e4) return fmt::format("{:.1f} k", per_second / 1e3);
  return fmt::format("{:.0f} ", per_second);
}
}  // namespace

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  const auto s = static_cast<int64_t>(seconds + 0.5);
  if (s >= 3600) return fmt::format("{}h{:02}m", s / 3600, s % 3600 / 60);
  if (s >= 60) return fmt::format("{}m{:02}s", s / 60, s % 60);
  return fmt::format("{}s", s);
}

std::string progress_text(const ProgressState& s, size_t width) {
  std::string text = fmt::format("iter {}/{}  loss {:.5f}  ", s.iter, s.last_iter, s.loss);
  if (s.auc) text += fmt::format("AUC {:.5f}  ", *s.auc);
  text += fmt::format("{}samples/s  wait {:.1f}%  ETA {}", rate_text(s.samples_per_s),
                      100 * s.wait_share, duration_text(s.eta_seconds));
  return text.substr(0, width);
}

Progress::Progress(bool quiet)
    : quiet_(quiet),
      live_(!quiet && isatty(STDERR_FILENO) == 1),
      last_(std::chrono::steady_clock::now()) {}

Progress::~Progress() { erase(); }

bool Progress::due() const {
  return live_ && std::chrono::steady_clock::now() - last_ >= kRedrawEvery;
}

void Progress::redraw(const ProgressState& state) {
  if (!live_) return;
  fmt::print(stderr, "\r{}\x1b[K", progress_text(state, terminal_width() - 1));
  std::fflush(stderr);
  drawn_ = true;
  last_ = std::chrono::steady_clock::now();
}

void Progress::erase() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  drawn_ = false;
}

void Progress::display(const ProgressState& state) {
  if (quiet_ || live_) return;
  log::info("{}  lr {:.6g}", progress_text(state, 200), state.lr);
}

void Progress::line(const std::string& text) {
  if (quiet_) return;
  erase();
  log::info("{}", text);
}

}  // namespace hlite::trainer
