// A rank of an emulated NCCL communicator, and its work on a stream.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/cuda_emulation/nccl_world.h"

namespace hlite::emulation {

// REQUIRES StreamQueues::lock().
struct NcclMember {
  std::shared_ptr<NcclWorld> world;
  int rank = 0, device = 0;
  bool ended = false;  // aborted or revoked: its work ends at once
  bool finalized = false;
  int runs = 0;  // that it has begun
  // Who holds these: captured work, and work that has not ended.
  std::shared_ptr<int> graphs = std::make_shared<int>(), waiting = std::make_shared<int>();
  std::string last_error;
};

// One piece of work on a stream: the calls of a group. It begins anew at each launch of a graph.
class NcclWork {
 public:
  // `holds`: one of the member's counters.
  NcclWork(std::shared_ptr<NcclMember> member, std::vector<NcclCall> calls,
           std::shared_ptr<int> holds)
      : member_(std::move(member)), calls_(std::move(calls)), holds_(std::move(holds)) {}
  NcclWork(const NcclWork&) = delete;
  NcclWork& operator=(const NcclWork&) = delete;
  ~NcclWork();  // it may have been dropped where nothing could go on

  // Throws NotYet while ranks are missing.
  void run();

 private:
  void begin(NcclWorld& world);
  void end();

  const std::shared_ptr<NcclMember> member_;
  const std::vector<NcclCall> calls_;
  const std::shared_ptr<int> holds_;
  std::optional<NcclRun> run_;
  bool planted_ = false;
};

}  // namespace hlite::emulation
