#include "hugectr_lite/comm/rank_context.h"

#include "hugectr_lite/comm/device_communicator.h"
#include "hugectr_lite/comm/thread_communicator.h"

namespace hlite::comm {

std::unique_ptr<Communicator> RankContext::make_communicator(Route route) const {
  if (devices) return devices->copy(Route::kFlat);
  if (world) {
    HLITE_CHECK(world->size() == ranks(), "{} ranks, a topology of {}", world->size(), ranks());
    return world->copy(route);
  }
  return ranks() == 1 ? std::move(make_thread_ranks(*topology)[0]) : nullptr;
}

}  // namespace hlite::comm
