// A process's record of the calls that the ranks of an emulated NCCL communicator have begun, and
// of the data that have come for them. Every process that has ranks of the communicator keeps such
// a record, and all receive the same messages in the same order (nccl_world.h).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/cuda_emulation/nccl.h"
#include "tests/support/cuda_emulation/stream_queues.h"

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
  [[nodiscard]] bool one_to_one() const {
    return kind == NcclKind::kSend || kind == NcclKind::kRecv;
  }
  // Returns a text of what all ranks, or both ends, must agree on.
  [[nodiscard]] std::string text() const;
};

// Which collective of the communicator, or which message from one rank to another.
struct NcclPlace {
  int from = -1, to = -1;  // of a message
  size_t number = 0;
  auto operator<=>(const NcclPlace&) const = default;
};

// The calls of one group, as they run once: each waits for its partners.
struct NcclRun {
  std::vector<NcclCall> calls;
  std::vector<NcclPlace> places;
  std::vector<bool> ended;
};

// The data of a rank for a call. `part`: its rank, or 0 for a sender, 1 for a receiver.
struct NcclData {
  NcclPlace place;
  size_t part = 0;
  std::vector<std::byte> bytes;
};

// REQUIRES StreamQueues::lock().
class NcclRendezvous {
 public:
  enum class Where { kUnknown, kHere, kElsewhere, kGone };  // kHere: a rank of this process
  using Send = std::function<void(const NcclData&)>;        // to processes of other ranks

  NcclRendezvous(int ranks, int number, Send send)
      : number_(number), send_(std::move(send)), where_(size(ranks)), collectives_(size(ranks)) {}
  [[nodiscard]] int ranks() const { return static_cast<int>(where_.size()); }
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] Where where(int rank) const { return where_[size(rank)]; }
  void set_where(int rank, Where where) { where_[size(rank)] = where; }

  // Decides where the calls of a rank of this process will meet others.
  void begin(int rank, NcclRun& run);
  // A rank of any process has come to these calls, which are compared with those that others have
  // brought. Throws EmulationError when they disagree.
  void come(int rank, const std::vector<NcclCall>& calls, const std::vector<NcclPlace>& places);
  // Data of a rank of another process.
  void receive(NcclData data);
  // Returns true if the calls of a rank of this process are done: partners have come, data have
  // been exchanged. Otherwise `why` names the missing ranks.
  bool done(int rank, NcclRun& run, NotYet& why);
  // The rank goes on without what has not been done.
  void withdraw(int rank, NcclRun& run);
  // A rank has given up: it brings no data any more but those that it has sent.
  void leave(int rank);

 private:
  struct Part {
    bool here = false, given = false;
    NcclCall call{NcclKind::kSend};
    std::vector<std::byte> data;
  };
  struct Round {
    std::vector<Part> parts;
    size_t open = 0;  // parts of this process's ranks that have not ended
  };
  static size_t size(int n) { return static_cast<size_t>(n); }
  static int rank_of(const NcclPlace& place, size_t part);
  static size_t part_of(int rank, const NcclCall& call);
  Round& round_at(const NcclPlace& place);
  void drop_if_over(const NcclPlace& place);
  void give(const NcclPlace& place, Round& round);
  static bool lacks_data(size_t part, const Round& round);
  static void take(size_t part, const Round& round);
  [[nodiscard]] bool may_come(int rank) const { return where(rank) == Where::kElsewhere; }

  const int number_;
  const Send send_;
  std::vector<Where> where_;
  std::vector<size_t> collectives_;  // [ranks] that those of this process have begun
  std::map<std::pair<int, int>, size_t> sent_, got_;  // from, to: the same of messages
  std::map<NcclPlace, Round> rounds_;
};

}  // namespace hlite::emulation
