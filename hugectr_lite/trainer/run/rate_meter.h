// Training rates: time runs only while training does, not during evaluations and saving.
//
// Times are seconds on any one clock; samples and waits are running totals of the caller's.
#pragma once

#include <cstdint>

namespace hlite::trainer {

class RateMeter {
 public:
  void resume(double now) {
    running_ = true;
    resumed_at_ = now;
  }
  void pause(double now) {
    total_ += running(now);
    lap_ += running(now);
    running_ = false;
  }
  // Starts a new lap: rates count from here.
  void start_lap(double now, int64_t samples, double waited) {
    pause(now);
    resume(now);
    lap_ = 0;
    lap_samples_ = samples;
    lap_waited_ = waited;
  }
  [[nodiscard]] double total_seconds(double now) const { return total_ + running(now); }
  [[nodiscard]] double samples_per_second(double now, int64_t samples) const {
    return over(static_cast<double>(samples - lap_samples_), lap_ + running(now));
  }
  // Share of the lap that was spent waiting.
  [[nodiscard]] double wait_share(double now, double waited) const {
    return over(waited - lap_waited_, lap_ + running(now));
  }

 private:
  [[nodiscard]] double running(double now) const { return running_ ? now - resumed_at_ : 0; }
  static double over(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

  bool running_ = false;
  double resumed_at_ = 0, total_ = 0, lap_ = 0, lap_waited_ = 0;
  int64_t lap_samples_ = 0;
};

}  // namespace hlite::trainer
