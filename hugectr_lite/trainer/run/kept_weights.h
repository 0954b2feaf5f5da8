// KeptWeights: a copy of a model's weights in a file, with the optimizer's states if training is to
// go on from it, which comes back to the bit. Its checksum is compared. It is read through the
// descriptor that was opened when it was written: the file has no name from then on, so that none is
// left when the run ends, whatever ends it. Where other machines have opened it too, as on NFS, it
// has its name as long as it is kept.
#pragma once

#include <memory>
#include <string>

#include "hugectr_lite/core/checksum.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/trainer/run/saver.h"

namespace hlite::trainer {

class KeptWeights {
 public:
  // Keeps weights of the run's model. `with_states`: also keeps optimizer states, which hashed
  // tables and tables beyond memory lose when other weights are loaded.
  KeptWeights(RunContext& run, Saver& saver, bool with_states)
      : run_(run), saver_(saver), with_states_(with_states) {}
  ~KeptWeights() { drop(); }
  KeptWeights(const KeptWeights&) = delete;
  KeptWeights& operator=(const KeptWeights&) = delete;

  // Writes the weights to RunOutputs::scratch(name). Collective, as is load().
  void keep(const std::string& name);
  // Takes those of a file, if there is one.
  void adopt(std::unique_ptr<ReadFile> file, const FileSum& sum);
  void drop();
  // Puts them into the model. REQUIRES file(). Throws DataError where they have been changed.
  void load();
  // Null without a copy.
  [[nodiscard]] const ReadFile* file() const { return file_.get(); }

 private:
  void remove_name();

  RunContext& run_;
  Saver& saver_;
  const bool with_states_;
  std::unique_ptr<ReadFile> file_;
  FileSum sum_;
  std::string place_;  // of a file that has its name yet, on rank 0
};

}  // namespace hlite::trainer
