#include "hugectr_lite/trainer/model/copy_in.h"

#include <cstring>
#include <string>

#include "embedding/key_columns.h"
#include "hugectr_lite/core/backend.h"

namespace hlite::trainer {

using plan::BufferId;

// One block, laid out like a reader's: a batch can come in one copy.
void CopyIn::declare(plan::Buffers& buffers) {
  std::string keys_name = "batch";
  for (const auto& sparse : data_.sparse) keys_name += "." + sparse.top;
  const int64_t key_columns = data_.key_layout().columns;
  const data::BatchLayout layout =
      data::batch_layout(max_batch_, data_.label_width(), data_.dense_width(), key_columns);
  batch_ = buffers.add("batch", plan::BufferKind::kInput, layout.bytes);
  labels_ = buffers.slice("batch." + data_.label_top, batch_, 0,
                          max_batch_ * data_.label_width() * kFloatBytes);
  dense_ = buffers.slice("batch." + data_.dense_top, batch_, layout.dense,
                         max_batch_ * data_.dense_width() * kFloatBytes);
  keys_ = buffers.slice(keys_name, batch_, layout.keys,
                        max_batch_ * key_columns * static_cast<int64_t>(sizeof(uint32_t)));
  for (size_t i = 0; i < data_.sparse.size(); ++i) {
    const config::SparseInputConfig& sparse = data_.sparse[i];
    const bool counted = i > 0 && sparse.continues(data_.sparse[i - 1]);
    lengths_.push_back(
        sparse.lengths.empty() || counted
            ? plan::kNoBuffer
            : buffers.add(sparse.lengths, plan::BufferKind::kActivation, max_batch_ * kFloatBytes));
  }
}

// All slots of a history have equally many keys: the first one's are counted.
void CopyIn::emit_lengths(plan::Plan& plan, size_t input) const {
  const KeyLayout layout = data_.key_layout();
  size_t slot = 0;
  for (size_t i = 0; i < input; ++i) slot += static_cast<size_t>(data_.sparse[i].slot_num);
  const int64_t first = layout.first_column[slot], most = layout.hotness[slot],
                columns = layout.columns;
  plan.add({.name = data_.sparse[input].lengths,
            .lane = plan::Lane::kEmbedding,
            .reads = {keys_},
            .writes = {lengths_[input]},
            .run =
                [=, this, buffers = &plan.buffers()](const plan::StepContext& c) {
                  embedding::count_keys(c.exec, {buffers->data<uint32_t>(keys_), c.batch, columns},
                                        first, most,
                                        {buffers->data<float>(lengths_[input]), c.batch});
                },
            .bytes_per_sample = static_cast<double>(most) * 4 + 4});
}

void CopyIn::emit(plan::Plan& copies, plan::Plan& plan) {
  const int64_t label_bytes = data_.label_width() * kFloatBytes,
                dense_bytes = data_.dense_width() * kFloatBytes,
                key_bytes = data_.key_layout().columns * static_cast<int64_t>(sizeof(uint32_t));
  copies.add({.name = "copy_in",
              .lane = plan::Lane::kCopy,
              .reads = {},
              .writes = {batch_},
              .run = [=, this, buffers = &plan.buffers()](const plan::StepContext& c) {
                const auto copy = [&](BufferId to, const void* from, int64_t bytes) {
                  const auto n = static_cast<size_t>(bytes);
                  if (!c.exec.on_gpu()) {
                    std::memcpy(buffers->data<std::byte>(to), from, n);
                    return;
                  }
                  copied_bytes_ += bytes;
                  c.exec.cuda->copy(buffers->data<std::byte>(to), from, n, c.exec.stream);
                };
                // Each call costs the host a few microseconds on a GPU.
                if (c.exec.on_gpu() && std::ssize(c.input.memory) == buffers->bytes(batch_))
                  return copy(batch_, c.input.memory.data(), buffers->bytes(batch_));
                copy(labels_, c.input.labels, c.batch * label_bytes);
                copy(dense_, c.input.dense, c.batch * dense_bytes);
                copy(keys_, c.input.keys, c.batch * key_bytes);
              }});
  for (size_t i = 0; i < lengths_.size(); ++i)
    if (lengths_[i] != plan::kNoBuffer) emit_lengths(plan, i);
}

}  // namespace hlite::trainer
