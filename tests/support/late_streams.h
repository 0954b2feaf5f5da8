// LateStreams: in its life, work on the emulated device's streams runs as late as it may.
#pragma once

#include <cuda_runtime.h>  // the emulated one

namespace hlite::test {

class LateStreams {
 public:
  LateStreams() { emulation::machine().late_streams = true; }
  ~LateStreams() {
    (void)cudaDeviceSynchronize();
    emulation::machine().late_streams = before_;
  }
  LateStreams(const LateStreams&) = delete;
  LateStreams& operator=(const LateStreams&) = delete;

 private:
  const bool before_ = emulation::machine().late_streams;
};

}  // namespace hlite::test
