// The work that is on the emulated device's streams and has not run yet.
//
// A device may run work any time between the call that put it on a stream and whatever waits for
// it. Here it runs at once or, with Machine::late_streams, as late as that: when the host waits, or
// when other work that is ordered behind it has to run. What waits for nothing then reads what was
// there before, so that a missing wait shows.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace hlite::emulation {

class StreamQueue;

// Everything that had been put on a stream at some time; empty: nothing.
struct StreamPoint {
  std::shared_ptr<StreamQueue> queue;
  uint64_t count = 0;
};

// The work of one stream, in order.
class StreamQueue {
 public:
  // `blocking`: ordered with the default stream, both ways.
  explicit StreamQueue(bool blocking) : blocking_(blocking) {}

 private:
  friend class StreamQueues;
  struct Work {
    std::function<void()> run;
    std::vector<StreamPoint> after;  // points of other streams
  };
  const bool blocking_;
  std::deque<Work> waiting_;
  uint64_t done_ = 0;
  std::vector<StreamPoint> held_by_;  // what the next work has to wait for
};
using StreamHandle = std::shared_ptr<StreamQueue>;

// All streams of the process. Functions may be called from any thread; work that waits runs in the
// one that waits for it.
class StreamQueues {
 public:
  [[nodiscard]] static StreamHandle add(bool blocking);
  // Runs what is left.
  static void remove(const StreamHandle& stream);
  [[nodiscard]] static const StreamHandle& default_stream();

  // `late`: keeps the work until something waits for it; else runs it, and what it waits for, now.
  static void put(const StreamHandle& stream, std::function<void()> work, bool late);
  [[nodiscard]] static StreamPoint end(const StreamHandle& stream);
  // Work put on `stream` from now on comes after `point`.
  static void hold_back(const StreamHandle& stream, const StreamPoint& point);
  // Runs what has to run before the host goes on:
  // up to `point`, or on all streams, the youngest first.
  static void finish(const StreamPoint& point);
  static void finish_all();

 private:
  static void run_until(const StreamPoint& point);
  static std::vector<StreamHandle> list_;  // the default stream first
};

}  // namespace hlite::emulation
