// State that the files of the streams share (stream_queues.h); the lock guards all of it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/support/cuda_emulation/runtime_state.h"
#include "tests/support/cuda_emulation/stream_queues.h"

namespace hlite::emulation::queues {

using Clock = std::chrono::steady_clock;

inline std::recursive_mutex mutex;  // work that runs may put work on streams
inline std::condition_variable_any changed;
inline size_t waiting_works = 0;  // of all streams
inline uint64_t world = 1;        // changes whenever a piece that said NotYet may be asked again
inline int stuck = 0;             // how often nothing could go on
inline std::string why_stuck;
inline Clock::time_point last_change = Clock::now();
inline std::vector<std::span<const StreamPoint>> blocked;  // what threads wait for, for good
inline std::mt19937_64 generator{machine().seed};
inline int host_threads = 0;

// Threads of the host that use streams: if all of them wait, none is left to make progress.
void register_thread();
// The running thread of the host has waited for these.
void note_host_wait(std::span<const StreamPoint> points);

inline void note_change() {
  ++world;
  last_change = Clock::now();
  changed.notify_all();
}
inline bool one_in(uint64_t n) { return generator() % n == 0; }

}  // namespace hlite::emulation::queues
