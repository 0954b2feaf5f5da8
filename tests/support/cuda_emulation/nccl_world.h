// A communicator of the emulated NCCL as one process knows it. Its ranks are threads of one process
// or of several.
//
// The process that made the id is the centre: what a rank does (joins, reaches calls, leaves) is
// reported to it, and it forwards it to all processes, itself among them, in one order. So all find
// the same ranks in disagreement, in the same words. Data go the same way, to those who need them.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/cuda_emulation/nccl_links.h"
#include "tests/support/cuda_emulation/nccl_rendezvous.h"

namespace hlite::emulation {

// All members REQUIRE StreamQueues::lock().
class NcclWorld : public std::enable_shared_from_this<NcclWorld> {
 public:
  // A new id, whose centre this process is.
  static ncclUniqueId make_id();
  // The world of an id, of `ranks` ranks if it is new here. Throws EmulationError for what is no
  // id.
  static std::shared_ptr<NcclWorld> of(const ncclUniqueId& id, int ranks);

  NcclWorld(const NcclIdentity& identity, int ranks);

  // A rank of this process asks to join. Returns why it may not, as far as that is known at once;
  // later it is what refusal() says.
  std::string join(int rank, int ranks, int device);
  [[nodiscard]] std::string refusal(int rank) const;
  // ncclInProgress until all ranks have joined; later what has gone wrong.
  [[nodiscard]] ncclResult_t state() const;
  [[nodiscard]] bool complete() const {
    return static_cast<int>(ranks_.size()) == rendezvous.ranks();
  }
  [[nodiscard]] size_t joined() const { return ranks_.size(); }

  void come(int rank, const NcclRun& run);
  // False: `why` says who is missing, and whether another process may change that.
  bool done(int rank, NcclRun& run, NotYet& why);
  // All ranks will see it as the communicator's state.
  void fail(int rank, ncclResult_t error);
  void leave(int rank, bool abort);

  NcclRendezvous rendezvous;
  std::string failure;  // ranks that disagree: it fails the work of all
  std::string loss;     // who cannot be reached any more: state() is ncclRemoteError
  std::condition_variable_any changed;  // state() or refusal()

 private:
  enum class Kind : uint32_t { kHello, kJoin, kRefused, kCome, kData, kError, kLeave, kGone };
  struct Rank {
    int process = 0, device = 0;
    bool left = false;
  };
  struct Peer {
    int process;
    std::shared_ptr<NcclLink> link;
  };
  struct Come;

  static NcclMessage message(Kind kind, int rank, int value = 0, int to = -1);
  static NcclLink::Handler greet(const std::shared_ptr<NcclLink>& link);
  static void end_all();
  void reach_centre();
  // A rank of this process says something to all.
  void publish(NcclMessage said);
  void relay(const NcclMessage& said, int except) const;
  void hear(int process, NcclMessage said);
  void apply(const NcclMessage& said);
  void apply_come(const NcclMessage& said);
  void apply_join(const NcclMessage& said);
  [[nodiscard]] std::string check_join(const NcclMessage& asked) const;
  void admit(int process, NcclMessage asked);
  void lose(int process, const std::string& why);
  void send_data(const NcclData& data);
  void attach(const std::shared_ptr<NcclLink>& link);
  void forget_if_over();

  const NcclIdentity identity_;
  std::map<int, Rank> ranks_;  // that have joined
  std::set<int> here_;         // ranks that this process has asked to join
  std::map<int, std::string> refused_;
  ncclResult_t error_ = ncclSuccess;
  std::shared_ptr<NcclLink> centre_;  // null: it is here
  std::vector<Peer> peers_;           // of the centre
  int processes_ = 1;                 // that the centre has seen
  int unconfirmed_ = 0;               // calls that the centre has not confirmed yet
};

}  // namespace hlite::emulation
