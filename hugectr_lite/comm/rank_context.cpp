#include "hugectr_lite/comm/rank_context.h"

#include "hugectr_lite/comm/device_communicator.h"
#include "hugectr_lite/comm/mpi_plugin.h"
#include "hugectr_lite/comm/thread_communicator.h"

namespace hlite::comm {

// A model that is only looked at is one of the ranks that would be started here.
Route RankContext::possible(Route wanted, bool gpu) const {
  if (!gpu) return wanted;
  const bool processes = devices ? devices->several_processes() : under_mpirun();
  return processes && topology->nodes() > 1 ? wanted : Route::kFlat;
}

std::unique_ptr<Communicator> RankContext::split(int colour) const {
  return devices ? devices->split(colour) : world->split(colour);
}

std::unique_ptr<Communicator> RankContext::make_communicator(Route route) const {
  if (devices) return devices->copy(possible(route, true));
  if (world) {
    HLITE_CHECK(world->size() == ranks(), "{} ranks, a topology of {}", world->size(), ranks());
    return world->copy(route);
  }
  return ranks() == 1 ? std::move(make_thread_ranks(*topology)[0]) : nullptr;
}

}  // namespace hlite::comm
