// Launchers of the kernels in emulation_kernels.cu.
#pragma once

#include "hugectr_lite/core/launch.cuh"

namespace hlite::test {

void mirror(const LaunchShape& shape, const int* in, int* out);
void mirror_without_barrier(const LaunchShape& shape, const int* in, int* out);
void block_sum(const LaunchShape& shape, const int* in, int* out);
void atomics(const LaunchShape& shape, int* out);
void votes(const LaunchShape& shape, unsigned* out);
void segments(const LaunchShape& shape, int* before, double* second);
void dimensions(const LaunchShape& shape, int* out);

// to[i] = from[i], i < n.
void move_values(cudaStream_t stream, const float* from, float* to, int n);
// *word = value, after all that came before; and waits until *word >= value.
void signal_word(cudaStream_t stream, unsigned* word, unsigned value);
void await_word(cudaStream_t stream, unsigned* word, unsigned value);

void half_barrier(const LaunchShape& shape);
void two_barriers(const LaunchShape& shape);
void half_shuffle(const LaunchShape& shape, int* out);
void absent_lane(const LaunchShape& shape, int* out);
void unnamed_lane(const LaunchShape& shape, int* out);

}  // namespace hlite::test
