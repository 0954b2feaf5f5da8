// The threads of the CPU implementations in this folder.
#pragma once

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/core/wide.h"

namespace hlite::ops {

// Elements worth waking a thread for, where each takes an operation or two.
constexpr int64_t kElementGrain = 1 << 14;

inline ThreadPool& cpu_threads(const Exec& exec, const char* op) {
  HLITE_CHECK(!exec.on_gpu() && exec.pool != nullptr, "{} runs on CPU threads", op);
  return exec.threads();
}

// An op on tensors of a type was asked of the CPU that it does not compute on (kOnCpu).
[[noreturn]] inline void needs_gpu(const char* op) { raise<Error>("{}: fp16 needs a GPU", op); }

// The threads of an op on tensors of T.
template <typename T>
ThreadPool& cpu_threads_for(const Exec& exec, const char* op) {
  if constexpr (!kOnCpu<T>) needs_gpu(op);
  return cpu_threads(exec, op);
}

// body(begin, end) over ranges of [0, n) on the threads, as ThreadPool::parallel_for() cuts them,
// and as wide() compiles it. T: as above.
template <typename T, typename Body>
void wide_for(const Exec& exec, const char* op, int64_t n, int64_t grain, const Body& body) {
  cpu_threads_for<T>(exec, op).parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    if constexpr (kOnCpu<T>) wide([&] { body(begin, end); });
  });
}

// Calls body(row) for each of `rows` rows; `operations`: of one row, so that no thread gets too
// few.
template <typename Body>
void for_each_row(const Exec& exec, const char* op, int64_t rows, int64_t operations, Body&& body) {
  cpu_threads(exec, op).parallel_for(rows, kElementGrain / (operations + 1) + 1,
                                     [&](int64_t begin, int64_t end) {
                                       for (int64_t row = begin; row < end; ++row) body(row);
                                     });
}

}  // namespace hlite::ops
