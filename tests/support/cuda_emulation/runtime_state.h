// State that the files of the emulated runtime share.
#pragma once

#include "tests/support/cuda_emulation/cuda_runtime.h"
#include "tests/support/cuda_emulation/stream_queues.h"

namespace hlite::emulation {

// Remembers an error for cudaGetLastError(), and returns it.
cudaError_t keep(cudaError_t error);
// The error a test asked for, or that of `ok` being false.
cudaError_t outcome(bool ok, cudaError_t otherwise = cudaSuccess);

int current_device();  // of the running thread
// Null is the current device's default stream.
cudaError_t check_stream(cudaStream_t stream);
// Returns an error if the device is broken: a failure while work runs fails all later calls.
cudaError_t check_works(int device);
// And that it is of the current device, which launches ask for.
cudaError_t check_own_stream(cudaStream_t stream);
StreamHandle queue_of(cudaStream_t stream);
int device_of(cudaStream_t stream);
// Returns true if the running thread captures.
bool capturing();
// Returns an error during a capture, which allows no waiting and no allocation.
cudaError_t check_not_capturing();

}  // namespace hlite::emulation
