#include "hugectr_lite/trainer/run/run_record.h"

#include "hugectr_lite/core/log.h"

namespace hlite::trainer {

void RunRecords::lose(size_t index, const char* why) {
  log::warning("{}; the run goes on without it, and exits with {}", why, int{kExitData});
  records_.erase(records_.begin() + static_cast<std::ptrdiff_t>(index));
  lost_any_ = true;
}

}  // namespace hlite::trainer
