// Another order of work on the emulated devices' streams, and several devices, for a scope of a
// test.
#pragma once

#include <cuda_runtime.h>  // the emulated one

#include <string>

#include "tests/support/catch.h"
#include "tests/support/cuda_emulation/stream_queues.h"

namespace hlite::test {

class StreamOrderScope {
 public:
  explicit StreamOrderScope(emulation::StreamOrder order, uint64_t seed = 1) {
    emulation::machine().order = order;
    emulation::StreamQueues::begin_order(seed);
  }
  ~StreamOrderScope() {
    try {
      emulation::StreamQueues::finish_all();
    } catch (const std::exception& error) {
      FAIL_CHECK(error.what());
    }
    emulation::machine().order = order_;
  }
  StreamOrderScope(const StreamOrderScope&) = delete;
  StreamOrderScope& operator=(const StreamOrderScope&) = delete;

 private:
  const emulation::StreamOrder order_ = emulation::machine().order;
};

// Work runs as late as it may.
struct LateStreams : StreamOrderScope {
  LateStreams() : StreamOrderScope(emulation::StreamOrder::kLate) {}
};
// In an order that `seed` decides.
struct RandomStreams : StreamOrderScope {
  explicit RandomStreams(uint64_t seed) : StreamOrderScope(emulation::StreamOrder::kRandom, seed) {}
};

// A machine of `count` devices, none of which reaches another's memory or, with `peers`, all do.
class EmulatedDevices {
 public:
  explicit EmulatedDevices(int count, bool peers = false) {
    emulation::machine().devices = count;
    set_access(peers);
  }
  ~EmulatedDevices() {
    set_access(false);
    (void)cudaSetDevice(0);
    emulation::machine().devices = before_;
  }
  EmulatedDevices(const EmulatedDevices&) = delete;
  EmulatedDevices& operator=(const EmulatedDevices&) = delete;

 private:
  static void set_access(bool on) {
    for (int d = 0; d < emulation::machine().devices; ++d)
      for (int p = 0; p < emulation::machine().devices; ++p)
        emulation::set_peer_access(d, p, on && d != p);
  }
  const int before_ = emulation::machine().devices;
};

// A machine some of whose devices reach each other over the bus: pairs "0-1 2-3".
class EmulatedBus {
 public:
  explicit EmulatedBus(const std::string& pairs) { emulation::machine().bus_pairs = pairs; }
  ~EmulatedBus() { emulation::machine().bus_pairs.clear(); }
  EmulatedBus(const EmulatedBus&) = delete;
  EmulatedBus& operator=(const EmulatedBus&) = delete;
};

}  // namespace hlite::test
