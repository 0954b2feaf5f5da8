#include "hugectr_lite/preparation/io/stage_progress.h"

#include "hugectr_lite/core/log.h"
#include "hugectr_lite/core/stopwatch.h"

namespace hlite::prep {

StageProgress::StageProgress(bool quiet) : quiet_(quiet), line_(!quiet) {}

void StageProgress::begin(const std::string& stage, int64_t total, int64_t done) {
  const std::lock_guard lock(mutex_);
  stage_ = stage;
  total_ = total;
  done_ = first_ = done;
  first_rows_ = -1;
  start_ = shown_ = Clock::now();
}

void StageProgress::update(int64_t done, int64_t rows) {
  if (quiet_) return;
  const std::lock_guard lock(mutex_);
  done_ = done;
  show(rows);
}

void StageProgress::advance(int64_t more_rows) {
  if (quiet_) return;
  const std::lock_guard lock(mutex_);
  done_ += more_rows;
  show(done_);
}

void StageProgress::show(int64_t rows) {
  const auto now = Clock::now();
  if (first_rows_ < 0) first_rows_ = rows;
  if (now - shown_ < (line_.live() ? std::chrono::milliseconds(100) : std::chrono::seconds(30)))
    return;
  shown_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  std::string text = fmt::format("{}  {}rows/s", stage_,
                                 rate_text(static_cast<double>(rows - first_rows_) / seconds));
  if (total_ > 0 && done_ > first_) {
    const double left =
        seconds * static_cast<double>(total_ - done_) / static_cast<double>(done_ - first_);
    text += fmt::format("  {:.1f}%  ETA {}",
                        100 * static_cast<double>(done_) / static_cast<double>(total_),
                        duration_text(left));
  }
  if (line_.live()) {
    line_.draw(text);
  } else {
    log::info("{}", text);
  }
}

void StageProgress::end() {
  const std::lock_guard lock(mutex_);
  line_.erase();
}

}  // namespace hlite::prep
