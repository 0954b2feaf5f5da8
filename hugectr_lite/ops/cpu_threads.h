// The threads of the CPU implementations in this folder.
#pragma once

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/exec.h"

namespace hlite::ops {

inline ThreadPool& cpu_threads(const Exec& exec, const char* op) {
  HLITE_CHECK(!exec.on_gpu() && exec.pool != nullptr, "{} runs on CPU threads", op);
  return exec.threads();
}

// An op on 16-bit tensors was asked of the CPU, where everything is float.
[[noreturn]] inline void needs_gpu(const char* op) {
  raise<Error>("{}: bf16 and fp16 need a GPU", op);
}

}  // namespace hlite::ops
