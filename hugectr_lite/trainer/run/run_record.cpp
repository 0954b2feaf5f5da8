#include "hugectr_lite/trainer/run/run_record.h"

#include "hugectr_lite/core/log.h"

namespace hlite::trainer {

const char* name_of(EndReason reason) {
  switch (reason) {
    case EndReason::kMaxIter:
      return "max_iter";
    case EndReason::kEpochs:
      return "epochs";
    case EndReason::kTarget:
      return "target";
    case EndReason::kInterrupted:
      return "interrupted";
    case EndReason::kEarlyStop:
      return "early_stop";
    case EndReason::kEndOfData:
      return "end_of_data";
  }
  raise("end reason {}", static_cast<int>(reason));
}

void RunRecords::lose(size_t index, const char* why) {
  log::warning("{}; the run goes on without it, and exits with {}", why, int{kExitData});
  records_.erase(records_.begin() + static_cast<std::ptrdiff_t>(index));
  lost_any_ = true;
}

}  // namespace hlite::trainer
