#include "hugectr_lite/trainer/report/progress.h"

#include <fmt/core.h>

#include "hugectr_lite/core/log.h"

namespace hlite::trainer {
namespace {
constexpr auto kRedrawEvery = std::chrono::milliseconds(100);
}  // namespace

std::string progress_text(const ProgressState& s) {
  const std::string of = s.last_iter == kNoEnd ? "" : fmt::format("/{}", s.last_iter);
  std::string text = fmt::format("iter {}{}  loss {:.5f}  ", s.iter, of, s.loss);
  if (s.auc) text += fmt::format("evaluation AUC {:.5f} (iter {})  ", *s.auc, s.auc_iter);
  if (s.watts) text += fmt::format("{:.0f} W  ", *s.watts);
  if (s.celsius) text += fmt::format("{:.0f} C  ", *s.celsius);
  text += fmt::format("{}samples/s  wait {:.1f}%", rate_text(s.samples_per_s), 100 * s.wait_share);
  if (s.last_iter != kNoEnd)
    text +=
        fmt::format("  ETA {}{}", s.may_end_early ? "at most " : "", duration_text(s.eta_seconds));
  return text;
}

std::string waiting_verdict(double seconds, double waited, int64_t bytes_read,
                            double decode_seconds) {
  if (waited <= 1 || waited <= seconds / 10 || waited >= seconds) return {};
  const auto bytes = static_cast<double>(bytes_read);
  return fmt::format(
      "waited for data {:.0f} % of the time: {:.0f} MB/s came, {:.0f} MB/s would have been used; "
      "decoding took {:.0f} % of one core",
      100 * waited / seconds, bytes / seconds / 1e6, bytes / (seconds - waited) / 1e6,
      100 * decode_seconds / seconds);
}

Progress::Progress(bool quiet)
    : quiet_(quiet), line_(!quiet), last_(std::chrono::steady_clock::now()) {}

bool Progress::due() const {
  return line_.live() && std::chrono::steady_clock::now() - last_ >= kRedrawEvery;
}

void Progress::redraw(const ProgressState& state) {
  line_.draw(progress_text(state));
  last_ = std::chrono::steady_clock::now();
}

void Progress::display(const ProgressState& state) {
  if (quiet_ || line_.live()) return;
  log::info("{}  lr {:.6g}", progress_text(state), state.lr);
}

void Progress::line(const std::string& text) {
  if (quiet_) return;
  line_.erase();
  log::info("{}", text);
}

}  // namespace hlite::trainer
