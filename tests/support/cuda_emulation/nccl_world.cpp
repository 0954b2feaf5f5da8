#include "tests/support/cuda_emulation/nccl_world.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace hlite::emulation {
namespace {

std::map<NcclIdentity, std::shared_ptr<NcclWorld>> worlds;
std::map<NcclIdentity, bool> made;  // ids of this process

// The request of a rank that joins.
struct Question {
  int ranks, device, process;
};
// The calls in a message, one after the other.
struct CallAt {
  NcclCall call;
  NcclPlace place;
};
struct DataHead {
  NcclPlace place;
  size_t part;
};

template <typename T>
void append(std::vector<std::byte>& body, const T& value) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
  body.insert(body.end(), bytes, bytes + sizeof(T));
}
template <typename T>
T read_at(const std::vector<std::byte>& body, size_t at) {
  T value;
  if (body.size() < at + sizeof(T)) throw EmulationError("NCCL: a message is too short");
  std::memcpy(&value, body.data() + at, sizeof(T));
  return value;
}

}  // namespace

// ---- Worlds by their ids ----

ncclUniqueId NcclWorld::make_id() {
  static const uint64_t process = std::random_device()() | uint64_t{std::random_device()()} << 32;
  static int ids = 0;
  NcclLinks& links = NcclLinks::get();
  links.accepted = greet;
  links.ending = end_all;
  const NcclIdentity identity{links.listen(), process, ++ids};
  made[identity] = true;
  return to_id(identity);
}

std::shared_ptr<NcclWorld> NcclWorld::of(const ncclUniqueId& id, int ranks) {
  NcclIdentity identity;
  if (!from_id(id, identity)) throw EmulationError("it is no id of ncclGetUniqueId()");
  if (const auto known = worlds.find(identity); known != worlds.end()) return known->second;
  const auto world = std::make_shared<NcclWorld>(identity, ranks);
  if (!made.contains(identity)) world->reach_centre();
  return worlds[identity] = world;
}

void NcclWorld::reach_centre() {
  NcclLinks::get().ending = end_all;
  const std::weak_ptr<NcclWorld> weak = weak_from_this();
  centre_ = NcclLinks::get().connect(identity_.address, {[weak](NcclMessage said) {
                                                           if (const auto self = weak.lock())
                                                             self->hear(0, std::move(said));
                                                         },
                                                         [weak](const std::string& why) {
                                                           if (const auto self = weak.lock())
                                                             self->lose(0, why);
                                                         }});
  NcclMessage hello = message(Kind::kHello, -1, rendezvous.ranks());
  append(hello.body, identity_);
  centre_->send(hello);
}

NcclWorld::NcclWorld(const NcclIdentity& identity, int ranks)
    : rendezvous(ranks, identity.number, [this](const NcclData& data) { send_data(data); }),
      identity_(identity) {}

// The process ends. Who has not left is lost to the others; for those who have, the centre goes on
// relaying.
void NcclWorld::end_all() {
  for (const auto& [identity, world] : worlds) {
    const auto& mine = world->here_;
    const bool left = std::all_of(mine.begin(), mine.end(), [&w = *world](int rank) {
      const auto at = w.ranks_.find(rank);
      return at != w.ranks_.end() && at->second.left;
    });
    if (left) continue;
    if (world->centre_) world->centre_->close();
    for (const Peer& peer : world->peers_) peer.link->close();
  }
}

// Another process has connected: its first message says what for.
NcclLink::Handler NcclWorld::greet(const std::shared_ptr<NcclLink>& link) {
  struct Guest {
    std::weak_ptr<NcclLink> link;
    std::shared_ptr<NcclWorld> world;
    int process = 0;
  };
  const auto guest = std::make_shared<Guest>();
  guest->link = link;
  const auto answer = [guest](const NcclMessage& hello) {
    const auto identity = read_at<NcclIdentity>(hello.body, 0);
    if (hello.head.kind != static_cast<uint32_t>(Kind::kHello) || !made.contains(identity)) {
      NcclMessage refusal = message(Kind::kRefused, -1);
      const std::string why = "the process that made the id knows nothing of it";
      for (const char c : why) append(refusal.body, c);
      if (const auto open = guest->link.lock()) open->send(refusal);
      return;
    }
    guest->world = of(to_id(identity), hello.head.value);
    guest->process = guest->world->processes_++;
    guest->world->attach(guest->link.lock());
  };
  return {[guest, answer](NcclMessage said) {
            if (!guest->world) return answer(said);
            guest->world->hear(guest->process, std::move(said));
          },
          [guest](const std::string& why) {
            if (guest->world) guest->world->lose(guest->process, why);
            guest->world.reset();
          }};
}

void NcclWorld::attach(const std::shared_ptr<NcclLink>& link) {
  peers_.push_back({processes_ - 1, link});
  for (const auto& [rank, joined] : ranks_) {
    NcclMessage join = message(Kind::kJoin, rank);
    append(join.body, Question{rendezvous.ranks(), joined.device, joined.process});
    link->send(join);
  }
}

// A world without a rank of this process, which relays for no other process.
void NcclWorld::forget_if_over() {
  const auto left = [](const auto& entry) { return entry.second.left; };
  const bool all = std::all_of(ranks_.begin(), ranks_.end(), left);
  const bool all_here = std::all_of(here_.begin(), here_.end(), [&](int rank) {
    return refused_.contains(rank) || (ranks_.contains(rank) && ranks_.at(rank).left);
  });
  if (!all_here || (!centre_ && !(all && complete()))) return;
  if (centre_) centre_->close();
  worlds.erase(identity_);  // the caller holds it by a pointer of its own
}

// ---- Messages ----

NcclMessage NcclWorld::message(Kind kind, int rank, int value, int to) {
  NcclMessage said;
  said.head = {static_cast<uint32_t>(kind), rank, value, to, 0};
  return said;
}

void NcclWorld::publish(NcclMessage said) {
  if (centre_) return centre_->send(said);
  relay(said, 0);
  apply(said);
}

void NcclWorld::relay(const NcclMessage& said, int except) const {
  for (const Peer& peer : peers_)
    if (peer.process != except && (said.head.to < 0 || said.head.to == peer.process))
      peer.link->send(said);
}

// From process `process`: at the centre from others, elsewhere from the centre.
void NcclWorld::hear(int process, NcclMessage said) {
  const auto kind = static_cast<Kind>(said.head.kind);
  const auto self = shared_from_this();
  if (centre_) return apply(said);
  if (kind == Kind::kJoin) return admit(process, std::move(said));
  // The sender of data has noted them; all else counts when the centre has confirmed it.
  relay(said, kind == Kind::kData ? process : 0);
  if (said.head.to <= 0) apply(said);
}

void NcclWorld::apply(const NcclMessage& said) {
  switch (static_cast<Kind>(said.head.kind)) {
    case Kind::kHello:
      break;
    case Kind::kJoin:
      apply_join(said);
      break;
    case Kind::kRefused:
      for (const int rank : said.head.rank < 0 ? here_ : std::set<int>{said.head.rank})
        refused_[rank] =
            std::string(reinterpret_cast<const char*>(said.body.data()), said.body.size());
      break;
    case Kind::kCome:
      apply_come(said);
      break;
    case Kind::kData: {
      const auto head = read_at<DataHead>(said.body, 0);
      rendezvous.receive(
          {head.place, head.part, {said.body.begin() + sizeof(head), said.body.end()}});
      break;
    }
    case Kind::kError:
      error_ = static_cast<ncclResult_t>(said.head.value);
      break;
    case Kind::kLeave: {
      const int rank = said.head.rank;
      ranks_[rank].left = true;
      if (said.head.value != 0) rendezvous.leave(rank);
      if (!here_.contains(rank)) rendezvous.set_where(rank, NcclRendezvous::Where::kGone);
      // A rank that gives up takes its connections with it, which those of other machines notice.
      if (said.head.value != 0 && !here_.contains(rank) && error_ == ncclSuccess) {
        error_ = ncclRemoteError;
        loss = fmt::format("rank {}, of another process, has given up", rank);
      }
      forget_if_over();
      break;
    }
    case Kind::kGone: {
      std::string lost;
      for (auto& [rank, joined] : ranks_)
        if (joined.process == said.head.value && !joined.left) {
          lost += fmt::format(" {}", rank);
          rendezvous.leave(rank);
          rendezvous.set_where(rank, NcclRendezvous::Where::kGone);
        }
      error_ = ncclRemoteError;
      loss = fmt::format("the process of rank{} has ended", lost);
      break;
    }
  }
  changed.notify_all();
}

// ---- Joining and leaving ----

std::string NcclWorld::check_join(const NcclMessage& asked) const {
  const auto body = read_at<Question>(asked.body, 0);
  const int rank = asked.head.rank;
  if (rendezvous.ranks() != body.ranks)
    return fmt::format("rank {} expects {} ranks, others expect {}", rank, body.ranks,
                       rendezvous.ranks());
  for (const auto& [other, joined] : ranks_)
    if (joined.process == body.process && joined.device == body.device && other != rank &&
        !nccl_machine().several_ranks_a_gpu)
      return fmt::format("ranks {} and {} are both on device {}", other, rank, body.device);
  return ranks_.contains(rank) ? fmt::format("rank {} joins twice", rank) : "";
}

std::string NcclWorld::join(int rank, int ranks, int device) {
  NcclMessage asked = message(Kind::kJoin, rank);
  append(asked.body, Question{ranks, device, 0});
  if (centre_) {
    here_.insert(rank);
    centre_->send(asked);
    return {};
  }
  if (std::string why = check_join(asked); !why.empty()) return why;
  here_.insert(rank);
  publish(std::move(asked));
  return {};
}

// At the centre: a rank of another process asks.
void NcclWorld::admit(int process, NcclMessage asked) {
  auto body = read_at<Question>(asked.body, 0);
  body.process = process;
  asked.body.clear();
  append(asked.body, body);
  const std::string why = check_join(asked);
  if (why.empty()) {
    relay(asked, 0);
    return apply(asked);
  }
  NcclMessage refusal = message(Kind::kRefused, asked.head.rank, 0, process);
  for (const char c : why) append(refusal.body, c);
  relay(refusal, 0);
}

void NcclWorld::apply_join(const NcclMessage& said) {
  const auto body = read_at<Question>(said.body, 0);
  const int rank = said.head.rank;
  ranks_[rank] = {body.process, body.device, false};
  rendezvous.set_where(rank, here_.contains(rank) ? NcclRendezvous::Where::kHere
                                                  : NcclRendezvous::Where::kElsewhere);
}

std::string NcclWorld::refusal(int rank) const {
  const auto at = refused_.find(rank);
  return at == refused_.end() ? "" : at->second;
}

ncclResult_t NcclWorld::state() const {
  if (error_ != ncclSuccess) return error_;
  if (!complete()) return ncclInProgress;
  return failure.empty() ? ncclSuccess : ncclInvalidUsage;
}

void NcclWorld::leave(int rank, bool abort) {
  const auto self = shared_from_this();
  if (ranks_.contains(rank)) return publish(message(Kind::kLeave, rank, abort ? 1 : 0));
  forget_if_over();  // it was refused
}

// A connection has ended.
void NcclWorld::lose(int process, const std::string& why) {
  const auto self = shared_from_this();
  std::erase_if(peers_, [&](const Peer& peer) { return peer.process == process; });
  if (centre_) {  // no process can be reached any more
    const bool alone = std::all_of(ranks_.begin(), ranks_.end(), [&](const auto& entry) {
      return entry.second.left || here_.contains(entry.first);
    });
    if (complete() && alone) return;
    for (int rank = 0; rank < rendezvous.ranks(); ++rank)
      if (!here_.contains(rank)) {
        rendezvous.leave(rank);
        rendezvous.set_where(rank, NcclRendezvous::Where::kGone);
      }
    error_ = ncclRemoteError;
    loss = fmt::format("the connection to {}, where the id was made, has ended: {}",
                       identity_.address.text(), why);
    unconfirmed_ = 0;
    return changed.notify_all();
  }
  const bool left = std::all_of(ranks_.begin(), ranks_.end(), [&](const auto& entry) {
    return entry.second.process != process || entry.second.left;
  });
  if (!left) publish(message(Kind::kGone, -1, process));
}

// ---- Work ----

void NcclWorld::come(int rank, const NcclRun& run) {
  NcclMessage said = message(Kind::kCome, rank);
  for (size_t i = 0; i < run.calls.size(); ++i)
    append(said.body, CallAt{run.calls[i], run.places[i]});
  if (centre_) ++unconfirmed_;
  publish(std::move(said));
}

void NcclWorld::apply_come(const NcclMessage& said) {
  std::vector<NcclCall> calls;
  std::vector<NcclPlace> places;
  for (size_t at = 0; at < said.body.size(); at += sizeof(CallAt)) {
    const auto one = read_at<CallAt>(said.body, at);
    calls.push_back(one.call);
    places.push_back(one.place);
  }
  const int rank = said.head.rank;
  if (centre_ && here_.contains(rank)) --unconfirmed_;
  try {
    rendezvous.come(rank, calls, places);
  } catch (const EmulationError& error) {
    if (failure.empty()) failure = error.what();
  }
}

bool NcclWorld::done(int rank, NcclRun& run, NotYet& why) {
  const bool all = rendezvous.done(rank, run, why);
  if (unconfirmed_ > 0) why.elsewhere = true;
  return all;
}

void NcclWorld::send_data(const NcclData& data) {
  // A message has one receiver, whose process needs it.
  const int to = data.place.from < 0 ? -1 : ranks_.at(data.place.to).process;
  NcclMessage said = message(Kind::kData, -1, 0, to);
  append(said.body, DataHead{data.place, data.part});
  said.body.insert(said.body.end(), data.bytes.begin(), data.bytes.end());
  if (centre_) return centre_->send(said);
  relay(said, 0);
}

void NcclWorld::fail(int rank, ncclResult_t error) {
  publish(message(Kind::kError, rank, static_cast<int>(error)));
}

}  // namespace hlite::emulation
