// What the ranks of an emulated NCCL communicator know of each other's calls.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/cuda_emulation/nccl.h"

namespace hlite::emulation {

enum class NcclKind { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kAlltoAll, kSend, kRecv };

// One call of a rank. `peer`: the other end, or the root.
struct NcclCall {
  NcclKind kind;
  const void* send = nullptr;
  void* receive = nullptr;
  size_t count = 0;
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t op = ncclSum;
  int peer = 0;
  bool captured = false;

  [[nodiscard]] size_t bytes() const;
  // What all ranks, or both ends, must agree on, in words.
  [[nodiscard]] std::string text() const;
};

// The calls of one group, as they run once: each waits for its partners.
struct NcclRun {
  std::vector<NcclCall> calls;
  std::vector<size_t> numbers;  // of each: which of its kind (or pair) on this communicator
  bool came = false;
};

// The ranks of one communicator. For whoever holds StreamQueues::lock().
class NcclMeeting {
 public:
  NcclMeeting(int ranks, int number)
      : ranks_(ranks), number_(number), runs_(size(ranks)), collectives_(size(ranks)) {}
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] int number() const { return number_; }

  // Rank `rank` begins a run: its calls are compared with those that others have brought.
  // Throws EmulationError when they disagree.
  void come(int rank, NcclRun& run);
  // Whether everybody's part is there; then the data have been moved. `missing`: who is not.
  bool done(int rank, NcclRun& run, std::string& missing);
  // Number of the run that a rank begins.
  int next_run(int rank) { return ++runs_[size(rank)]; }

 private:
  struct Part {
    bool here = false;
    NcclCall call{NcclKind::kSend};
  };
  struct Round {  // one collective, or both ends of a message: [0] sends, [1] receives
    std::vector<Part> parts;
    bool moved = false;
  };
  using Pair = std::pair<int, int>;  // from, to
  static size_t size(int n) { return static_cast<size_t>(n); }
  Round& round_of(int rank, const NcclCall& call, size_t number, size_t& part);
  void move_data(Round& round) const;

  const int ranks_, number_;
  std::vector<int> runs_;
  std::vector<size_t> collectives_;  // [ranks] that each has begun
  std::deque<Round> rounds_;
  std::map<Pair, std::deque<Round>> messages_;
  std::map<Pair, size_t> sent_, received_;
};

}  // namespace hlite::emulation
