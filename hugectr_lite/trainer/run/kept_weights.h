// KeptWeights: a copy of a model's weights in a file, with the optimizer's states if training is to
// go on from it, which comes back to the bit. It is read through the descriptor that was opened
// when it was written, so another file of that name cannot come back in its place, and its checksum
// is compared.
#pragma once

#include <memory>
#include <string>

#include "hugectr_lite/core/checksum.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/trainer/run/trainer.h"

namespace hlite::trainer {

class KeptWeights {
 public:
  // Keeps weights of the trainer's model; the trainer must outlive this. `with_states`: also keeps
  // optimizer states, which hashed tables and tables beyond memory lose when other weights are
  // loaded.
  KeptWeights(Trainer& trainer, bool with_states) : trainer_(trainer), with_states_(with_states) {}

  // Writes the weights to "<snapshot prefix><name>". Collective, as is load().
  void keep(const std::string& name);
  // Takes those of a file, if there is one.
  void adopt(std::unique_ptr<ReadFile> file, const FileSum& sum);
  void drop() { file_ = nullptr; }
  // Puts them into the model. REQUIRES file(). Throws DataError where they have been changed.
  void load();
  // Null without a copy.
  [[nodiscard]] const ReadFile* file() const { return file_.get(); }

 private:
  Trainer& trainer_;
  const bool with_states_;
  std::unique_ptr<ReadFile> file_;
  FileSum sum_;
};

}  // namespace hlite::trainer
