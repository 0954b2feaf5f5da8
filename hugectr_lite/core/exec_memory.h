// ExecMemory: bytes in memory of the device that an Exec names, the host's or a GPU's, and copies
// between them and the host.
#pragma once

#include <cstddef>
#include <cstring>

#include "hugectr_lite/core/device_memory.h"
#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/memory.h"

namespace hlite {

class ExecMemory {
 public:
  ExecMemory() = default;
  // Zeroed on the host, uninitialised on a GPU. Throws DataError naming `what`, or DeviceError,
  // where there is not enough memory.
  ExecMemory(const Exec& exec, size_t bytes, const char* what) {
    if (exec.on_gpu())
      device_ = DeviceMemory(*exec.cuda, bytes);
    else
      host_ = HostMemory(bytes, what);
  }
  [[nodiscard]] std::byte* data() const { return device_.data() ? device_.data() : host_.data(); }
  [[nodiscard]] size_t size() const { return device_.data() ? device_.size() : host_.size(); }

 private:
  HostMemory host_;
  DeviceMemory device_;
};

// Copies between the host's memory and the device's. On a GPU they wait: for all that was issued
// before, and until they are done.
inline void get_bytes(const Exec& exec, void* to, const void* from, size_t bytes) {
  if (exec.on_gpu())
    read_device(*exec.cuda, to, from, bytes);
  else if (bytes > 0)
    std::memcpy(to, from, bytes);
}
inline void put_bytes(const Exec& exec, void* to, const void* from, size_t bytes) {
  get_bytes(exec, to, from, bytes);  // a copy knows its direction
}

}  // namespace hlite
