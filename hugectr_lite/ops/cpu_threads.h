// The threads of the CPU implementations in this folder.
#pragma once

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/exec.h"

namespace hlite::ops {

// Elements worth waking a thread for, where each takes an operation or two.
constexpr int64_t kElementGrain = 1 << 14;

inline ThreadPool& cpu_threads(const Exec& exec, const char* op) {
  HLITE_CHECK(!exec.on_gpu() && exec.pool != nullptr, "{} runs on CPU threads", op);
  return exec.threads();
}

// An op on tensors of a type was asked of the CPU that it does not compute on (kOnCpu).
[[noreturn]] inline void needs_gpu(const char* op) { raise<Error>("{}: fp16 needs a GPU", op); }

}  // namespace hlite::ops
