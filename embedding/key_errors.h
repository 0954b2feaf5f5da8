// KeyErrors: keys beyond their table, found by kernels and reported by the host when it waits for
// the device anyway.
//
//   lookup_forward(exec, slots.ref(), table, keys, out, errors.check(step));
//   errors.fetch(exec);                     // with the loss, every so many steps
//   exec.cuda->stream_synchronize(exec.stream);
//   if (const auto error = errors.found()) ...
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "embedding/key_error_record.h"
#include "hugectr_lite/core/device_memory.h"
#include "hugectr_lite/core/exec.h"

namespace hlite::embedding {

// The error of the first step with such keys, of the lowest sample, then column.
struct KeyError {
  int64_t step = 0;
  int64_t sample = 0;  // in the batch
  int64_t column = 0;  // in the batch's keys: KeyLayout::describe() says which slot's
  uint32_t key = 0;
  bool operator==(const KeyError&) const = default;
};

class KeyErrors {
 public:
  // Checks batches of keys [B, columns]. Synchronizes exec.stream.
  KeyErrors(const Exec& exec, int64_t columns);

  // Returns the recorder of a lookup; `step` lies in device memory or is null. Steps must not go
  // back.
  [[nodiscard]] KeyRecorder check(const int64_t* step) const {
    return {reinterpret_cast<KeyErrorRecord*>(record_.data()), step};
  }
  // Starts the copy of the record on exec.stream.
  void fetch(const Exec& exec);
  // Returns what the last fetch() brought. REQUIRES that its stream has been synchronized since.
  [[nodiscard]] std::optional<KeyError> found() const;

 private:
  int64_t columns_;
  DeviceMemory record_;
  PinnedValue<KeyErrorRecord> fetched_;
};

// Key errors of a layer's lookups, in training and in evaluations, which have no steps. They record
// nothing on the CPU, nor before allocate().
class LayerKeyErrors {
 public:
  // Takes memory on a GPU, and waits for it.
  void allocate(const Exec& exec, int64_t columns);
  [[nodiscard]] KeyRecorder check(bool training, const int64_t* step) const;
  // Throws DeviceError, naming the layer, for the first key that either has found. On a GPU waits
  // for exec.stream.
  void report(const std::string& layer, const Exec& exec);

 private:
  std::unique_ptr<KeyErrors> training_, evaluation_;
};

}  // namespace hlite::embedding
