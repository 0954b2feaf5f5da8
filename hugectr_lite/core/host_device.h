// HLITE_HD marks functions that nvcc compiles for host and device, other compilers for the host.
#pragma once

#if defined(__CUDACC__)
#define HLITE_HD __host__ __device__
#else
#define HLITE_HD
#endif
