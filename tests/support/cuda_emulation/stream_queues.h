// The work that is on the emulated devices' streams and has not run yet, and the order it runs in.
//
// A device may run work any time between the call that put it on a stream and whatever waits for
// it, and streams that nothing orders run in any order. Machine::order says what happens here:
//
// Work that waits for other work by looking at memory, or for other ranks, says so by NotYet; it is
// called again when something has changed. If nothing can go on any more, every waiting thread gets
// an EmulationError that lists who waits for what, and all that was left is dropped. While another
// process may change that, it takes elsewhere_ms() instead of Machine::stuck_ms.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/support/cuda_emulation/block_fibers.h"

namespace hlite::emulation {

// Thrown by work that cannot go on before other work has run: nothing has happened, but for signals
// (signals.h), and it will be called again.
struct NotYet {
  std::string waits_for;
  bool elsewhere = false;  // another process may be what it waits for
  bool runs = false;       // meanwhile: a kernel that has begun
};

// A call that waits until no kernel runs, during a kernel that waits for work not launched yet.
class BlockedByWaitingKernel : public EmulationError {
  using EmulationError::EmulationError;
};

// The time in which nothing may run here while another process may unblock it;
// $HLITE_EMULATED_ELSEWHERE_MS.
std::atomic<int>& elsewhere_ms();

struct Piece {
  std::function<void()> run;
  const char* name = "work";
  int device = 0;
};
// Pieces with their order: `before` counts those that piece i waits for, `next` names those that
// wait for it.
struct PieceGraph {
  std::vector<Piece> pieces;
  std::vector<size_t> before;
  std::vector<std::vector<size_t>> next;
};
using Graph = std::shared_ptr<const PieceGraph>;

class StreamQueue;
using StreamHandle = std::shared_ptr<StreamQueue>;

// For each other stream, the work that a stream's next work is ordered after, by streams, events
// and waits of the thread that puts it there. Kept only while waits are left out (planted.h).
using Predecessors = std::map<const StreamQueue*, uint64_t>;

// Everything that had been put on a stream at some time; empty: nothing.
struct StreamPoint {
  StreamHandle queue;
  uint64_t count = 0;
  std::shared_ptr<const Predecessors> predecessors = {};
  const char* last = "nothing";  // name of the last work before it
  [[nodiscard]] bool passed() const;
};

// The work of one stream, in order.
class StreamQueue {
 public:
  // `blocking`: ordered with the device's default stream, both ways.
  StreamQueue(int device, int number, bool blocking)
      : device_(device), number_(number), blocking_(blocking) {}

 private:
  friend class StreamQueues;
  friend struct StreamPoint;
  struct Ready {  // a piece that comes next
    size_t piece;
    uint64_t priority;
    uint64_t asked = 0;  // at which state of the world it said NotYet
    std::string waits_for = {};
    bool elsewhere = false, runs = false;
  };
  struct Work {
    Piece single;
    Graph graph;  // or null
    std::vector<StreamPoint> after;
    std::vector<Ready> ready;
    std::vector<size_t> missing;  // [pieces] of a graph: how many before it have not run
    size_t left = 1;
    [[nodiscard]] const Piece& piece(size_t i) const { return graph ? graph->pieces[i] : single; }
  };
  const int device_, number_;
  const bool blocking_;
  bool destroyed_ = false;
  uint64_t priority_ = 0;
  std::deque<Work> waiting_;
  uint64_t done_ = 0;
  std::vector<StreamPoint> held_by_;  // what the next work has to wait for
  Predecessors predecessors_;
  const char* last_ = "nothing";
  struct LeftOut {
    StreamPoint point;
    int number;
  };
  std::vector<LeftOut> left_out_;  // since the last work
};

// All streams of the process. Functions may be called from any thread; work that waits runs in the
// one that waits for it.
class StreamQueues {
 public:
  // While it is held no work of several devices runs.
  [[nodiscard]] static std::unique_lock<std::recursive_mutex> lock();

  [[nodiscard]] static StreamHandle add(int device, bool blocking);
  // From now on the generator's picks are those of `seed`.
  static void begin_order(uint64_t seed);
  // Work left on the stream still runs.
  static void remove(const StreamHandle& stream);
  [[nodiscard]] static StreamHandle default_stream(int device);
  [[nodiscard]] static int device_of(const StreamHandle& stream) { return stream->device_; }

  static void put(const StreamHandle& stream, Piece piece);
  static void put(const StreamHandle& stream, Graph graph);
  [[nodiscard]] static StreamPoint end(const StreamHandle& stream);
  // Work put on `stream` from now on comes after `point`.
  static void hold_back(const StreamHandle& stream, const StreamPoint& point);

  // Leaves out the call of hold_back(); reports by note_left_out() whether other dependencies
  // already imply that order. `number`: the number of the wait on the device.
  static void leave_out(const StreamHandle& stream, const StreamPoint& point, int number);

  // Runs what has to run before the host goes on: up to `point`, all of a device, or all.
  static void finish(const StreamPoint& point);
  static void finish_device(int device);
  static void finish_all();
  // For a call that takes or frees memory of several devices: a driver may wait until no kernel
  // runs, on peers either, and blocks all launches meanwhile. Where graphs are on streams,
  // runs all that may run. Throws EmulationError where a kernel then waits for work that has not
  // been launched.
  static void let_kernels_end(const char* call);
  // Returns true if that is done; otherwise it lets something run, so that polling ends.
  [[nodiscard]] static bool query(const StreamPoint& point);
  // REQUIRES lock(). Call when what work looks at, or waits for, has changed.
  static void wake();

 private:
  using Work = StreamQueue::Work;
  struct Choice {
    StreamHandle stream;
    size_t ready;
  };
  static void push(const StreamHandle& stream, Work work);
  static void judge_left_out(const StreamHandle& stream, const char* next);
  static void run_at_put();
  static bool may_run(const StreamQueue& stream);
  static std::vector<Choice> choices();
  static bool choose(std::span<const StreamPoint> wanted, Choice& choice);
  static bool choose_for(const StreamPoint& point, Choice& choice);
  static bool choose_ready(const StreamHandle& stream, Choice& choice);
  static bool run_one(std::span<const StreamPoint> wanted);
  static void run(const Choice& choice);
  static void finish_piece(const StreamHandle& stream, size_t ready);
  static void wait(std::vector<StreamPoint> wanted);
  static std::vector<StreamPoint> ends(int device);
  static void pause(std::unique_lock<std::recursive_mutex>& held,
                    std::span<const StreamPoint> for_good);
  static int patience_ms();
  static void fail_stuck();
  static std::string who_waits();

  static std::vector<StreamHandle> list_;
};

}  // namespace hlite::emulation
