#include "tests/support/cuda_emulation/nccl_work.h"

#include <fmt/core.h>

#include <map>
#include <utility>

namespace hlite::emulation {
namespace {

// By device, the communicator whose work runs there and the number of its ranks with such work.
// Work of two communicators on one device may deadlock, so it is an error.
std::map<int, std::pair<const NcclWorld*, int>> in_flight;

}  // namespace

NcclWork::~NcclWork() {
  const auto lock = StreamQueues::lock();
  end();
}

void NcclWork::run() {
  const auto lock = StreamQueues::lock();
  NcclWorld& world = *member_->world;
  if (member_->ended) return end();
  if (world.failure.empty() && !run_) begin(world);
  if (!world.failure.empty()) {
    end();
    throw EmulationError(world.failure);
  }
  if (planted_) throw NotYet{fmt::format("rank {}: a planted fault", member_->rank)};
  NotYet why;
  if (!world.done(member_->rank, *run_, why)) throw why;
  end();
}

void NcclWork::begin(NcclWorld& world) {
  auto& [owner, ranks] = in_flight[member_->device];
  if (ranks > 0 && owner != &world) {
    world.failure =
        fmt::format("communicators {} and {} have work on device {} at the same time",
                    owner->rendezvous.number(), world.rendezvous.number(), member_->device);
    return;
  }
  owner = &world;
  ++ranks;
  run_.emplace();
  run_->calls = calls_;
  // A fault that a test injects is named by its kind, the rank and the number of the run.
  const std::string place = fmt::format(":{}:{}", member_->rank, ++member_->runs);
  const std::string& fault = nccl_machine().fault;
  planted_ = fault == "error" + place || fault == "silent" + place;
  if (fault == "error" + place) world.fail(member_->rank, ncclSystemError);
  if (planted_) return;
  world.rendezvous.begin(member_->rank, *run_);
  world.come(member_->rank, *run_);
}

void NcclWork::end() {
  if (!run_) return;
  member_->world->rendezvous.withdraw(member_->rank, *run_);
  run_.reset();
  --in_flight[member_->device].second;
}

}  // namespace hlite::emulation
