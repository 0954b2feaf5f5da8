// CopyIn: the batch, from host memory to where the steps read it.
#pragma once

#include "data_reader/batch_source.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/plan/plan.h"

namespace hlite::trainer {

// A batch as the model's steps find it; `next`: the one after it, if that is there already.
inline plan::HostInput input_of(const data::HostBatch& batch,
                                const data::HostBatch* next = nullptr) {
  return {batch.labels.data(),
          batch.dense.data(),
          batch.keys.data(),
          batch.memory,
          next ? next->keys.data() : nullptr,
          next ? next->size : 0};
}

class CopyIn {
 public:
  // `max_batch`: samples of the largest batch. `data` must outlive the part.
  CopyIn(const config::DataConfig& data, int64_t max_batch) : data_(data), max_batch_(max_batch) {}

  void declare(plan::Buffers& buffers);
  // Adds copy_in to `copies`, which may be the same plan, and <lengths> of each history that has a
  // name for them to the other.
  void emit(plan::Plan& copies, plan::Plan& plan);

  // Bytes that have gone from host memory to a GPU so far.
  [[nodiscard]] int64_t copied_bytes() const { return copied_bytes_; }

  [[nodiscard]] plan::BufferId labels() const { return labels_; }  // float [B, label_width]
  [[nodiscard]] plan::BufferId dense() const { return dense_; }    // float [B, dense_width]
  [[nodiscard]] plan::BufferId keys() const { return keys_; }      // uint32 [B, key columns]
  // float [B,1]: keys of a sample in the history that is this sparse input; kNoBuffer: no name.
  [[nodiscard]] plan::BufferId lengths(size_t input) const { return lengths_[input]; }

 private:
  void emit_lengths(plan::Plan& plan, size_t input) const;

  const config::DataConfig& data_;
  const int64_t max_batch_;
  int64_t copied_bytes_ = 0;
  plan::BufferId batch_ = plan::kNoBuffer;  // of which the next three are parts
  // Of each sparse input that is a history or the first part of one.
  std::vector<plan::BufferId> lengths_;
  plan::BufferId labels_ = plan::kNoBuffer, dense_ = plan::kNoBuffer, keys_ = plan::kNoBuffer;
};

}  // namespace hlite::trainer
