// Weights of a model of which large tables stay in the file and are mapped, so that a model of
// gigabytes is there at once and processes share its memory.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/checkpoint/safetensors.h"
#include "hugectr_lite/core/mapped_file.h"
#include "hugectr_lite/plan/buffers.h"
#include "hugectr_lite/trainer/model/model.h"

namespace hlite::predict {

// Outlives the model that it lends memory to, which must only evaluate.
class MappedWeights {
 public:
  // `model`: a checkpoint's directory or a file of weights. Throws DataError, FileError. The size
  // and the names of the tensors are checked, the checksum is by verify().
  explicit MappedWeights(const std::string& model);

  // The buffers of `model` that lie in the file as they would in memory: those of an embedding
  // layer whose tables have all rows, in the file's type. None on a GPU.
  [[nodiscard]] std::vector<plan::LentMemory> lend(const trainer::Model& model);
  // Reads all other tensors. REQUIRES that lend()'s memory was lent. Throws DataError where the
  // file's tensors are not the model's; FileError where it changes meanwhile.
  void read_others(trainer::Model& model) const;

  // Throws FileError where lent memory may hold something else than the file had when it was
  // opened: what was computed of it before is good only if this returns afterwards. Any thread may
  // call it.
  void expect_unchanged() const;
  // Reads the whole file of a checkpoint and throws DataError where its sum is not the manifest's.
  void verify() const;
  [[nodiscard]] const MappedFile& memory() const { return memory_; }

 private:
  [[nodiscard]] std::byte* tables_at(const embedding::EmbeddingLayer& layer) const;

  const checkpoint::WeightsFile weights_;
  const ReadFile file_;
  const MappedFile memory_;
  const checkpoint::SafetensorsReader reader_;
  std::set<std::string> lent_;  // tensors
};

}  // namespace hlite::predict
