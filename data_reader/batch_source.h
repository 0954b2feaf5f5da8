// A BatchSource gives batches. A source decodes ahead into a ring of slots and hands them out one
// at a time. Callers do not see its format or its kind of reading.
//
// Which batch next() gives is a pure function of the source's options and of the number of batches
// handed out before, counted from the very first: a run that resumes at position p sees exactly
// what the uninterrupted one saw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/core/view.h"

namespace hlite::data {

// A batch in host memory. The views have the size of a full batch; rows [size, full) are zero.
struct HostBatch {
  int64_t first_sample = 0;   // number of its first sample in the file
  int64_t size = 0;           // samples; fewer than a full batch at the end of an epoch
  Matrix<float> labels;       // [batch, label_width]
  Matrix<float> dense;        // [batch, dense_width], padding columns zero
  Matrix<uint32_t> keys;      // [batch, key columns] of the KeyLayout, local to each slot's table
  int64_t replaced_keys = 0;  // keys outside of their tables that the key policy replaced
  std::span<const std::byte> memory;  // the one block that all of the above lies in
};

// Places of the arrays of a batch in its block: labels, dense features, keys, in that order, each
// at a multiple of 64 bytes. Blocks of one size have one layout, whatever batches they are for.
struct BatchLayout {
  int64_t dense = 0, keys = 0;  // where they begin; labels do at 0
  int64_t bytes = 0;
};
BatchLayout batch_layout(int64_t batch, int64_t label_width, int64_t dense_width,
                         int64_t key_columns);

// Owns the memory of one HostBatch as one block, which a GPU backend can pin and copy as one.
class BatchBuffer {
 public:
  BatchBuffer(int64_t batch, int64_t label_width, int64_t dense_width, int64_t key_columns);
  [[nodiscard]] HostBatch& batch() { return batch_; }
  [[nodiscard]] const HostBatch& batch() const { return batch_; }
  [[nodiscard]] std::span<std::byte> memory() const { return {memory_.data(), memory_.size()}; }
  // Begins a batch of that many samples: zeroes the later rows that the last batch used, and
  // replaced_keys.
  void set_size(int64_t size);

 private:
  HostMemory memory_;
  HostBatch batch_;
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // The next batch: waits until it is ready. It stays valid until the next call. A source that does
  // not repeat gives a batch of size 0 when it is at its end. Throws DataError when the data is
  // unusable or cannot be read; so does every later call.
  virtual const HostBatch& next() = 0;
  // The batch that next() will give, where it is ready; valid as long as that is not called. Null
  // otherwise, and for sources that do not look ahead.
  [[nodiscard]] virtual const HostBatch* ready() const { return nullptr; }

  [[nodiscard]] virtual int64_t batch_size() const = 0;  // of a full batch
  [[nodiscard]] virtual int64_t samples() const = 0;     // in one epoch
  // Batches in one epoch, a partial last one counted.
  [[nodiscard]] int64_t batches_per_epoch() const {
    return (samples() + batch_size() - 1) / batch_size();
  }
  // Batches handed out so far, those before a resume counted.
  [[nodiscard]] virtual int64_t position() const = 0;
  // Keys that the key policy replaced in the batches handed out by this source.
  [[nodiscard]] virtual int64_t replaced_keys() const { return 0; }
  // Seconds that next() has spent waiting.
  [[nodiscard]] virtual double wait_seconds() const = 0;
  // Bytes read from files so far, by a source that reads any; seconds that its threads, all
  // together, have spent decoding them.
  [[nodiscard]] virtual int64_t bytes_read() const { return 0; }
  [[nodiscard]] virtual double decode_seconds() const { return 0; }
  // The memory that batches lie in, the same throughout.
  [[nodiscard]] virtual std::vector<std::span<std::byte>> memory() const = 0;
};

}  // namespace hlite::data
