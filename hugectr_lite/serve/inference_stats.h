// Counts and times of the requests of one version, as Triton's statistics extension has them.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

namespace hlite::serve {

// Where the time of a request went.
struct RequestTimes {
  std::chrono::nanoseconds queue{};   // waiting for its batch
  std::chrono::nanoseconds input{};   // parsing, checks, ids of text, copy into the batch
  std::chrono::nanoseconds infer{};   // the network, for the batch that it was in
  std::chrono::nanoseconds output{};  // scores of its logits
};

// Any number of threads may use it.
class InferenceStats {
 public:
  // Requests, and the sum of their times.
  struct Sum {
    int64_t count = 0;
    std::chrono::nanoseconds time{};
    void add(std::chrono::nanoseconds more) {
      ++count;
      time += more;
    }
  };
  struct Counts {
    Sum success, fail;  // from the last byte of a request to its scores, or its error
    Sum queue, input, infer, output;
    int64_t samples = 0;    // of requests that succeeded
    int64_t last_unix = 0;  // milliseconds; 0: no request yet
  };

  void succeeded(const RequestTimes& times, int64_t samples, std::chrono::nanoseconds all) {
    const std::lock_guard lock(mutex_);
    counts_.success.add(all);
    counts_.queue.add(times.queue);
    counts_.input.add(times.input);
    counts_.infer.add(times.infer);
    counts_.output.add(times.output);
    counts_.samples += samples;
    counts_.last_unix = unix_now();
  }
  void failed(std::chrono::nanoseconds all) {
    const std::lock_guard lock(mutex_);
    counts_.fail.add(all);
    counts_.last_unix = unix_now();
  }
  [[nodiscard]] Counts counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }

 private:
  static int64_t unix_now() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
  mutable std::mutex mutex_;
  Counts counts_;
};

}  // namespace hlite::serve
