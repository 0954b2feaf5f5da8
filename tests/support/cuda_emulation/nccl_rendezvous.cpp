#include "tests/support/cuda_emulation/nccl_rendezvous.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "tests/support/cuda_emulation/device_ranges.h"
#include "tests/support/cuda_emulation/nccl_values.h"

namespace hlite::emulation {
namespace {

const char* name_of(NcclKind kind) {
  constexpr const char* kNames[] = {"all-reduce", "reduce-scatter", "all-gather", "broadcast",
                                    "all-to-all", "message",        "message"};
  return kNames[static_cast<size_t>(kind)];
}

bool is_reduction(NcclKind kind) {
  return kind == NcclKind::kAllReduce || kind == NcclKind::kReduceScatter;
}

// Returns how many bytes part `part` of `parts` contributes to a call.
size_t contributed_bytes(size_t part, size_t parts, const NcclCall& call) {
  switch (call.kind) {
    case NcclKind::kReduceScatter:
    case NcclKind::kAlltoAll:
      return call.bytes() * parts;
    case NcclKind::kBroadcast:
      return static_cast<int>(part) == call.peer ? call.bytes() : 0;
    case NcclKind::kRecv:
      return 0;
    case NcclKind::kAllReduce:
    case NcclKind::kAllGather:
    case NcclKind::kSend:
      break;
  }
  return call.bytes();
}

// Writes bytes to offset `at` of the call's receive buffer.
void write_received(const NcclCall& call, size_t at, const std::byte* from, size_t bytes) {
  if (bytes == 0) return;
  std::byte* const to = static_cast<std::byte*>(call.receive) + at;
  open_range(to, bytes);
  std::memcpy(to, from, bytes);
}

}  // namespace

size_t NcclCall::bytes() const { return count * type_bytes(type); }

std::string NcclCall::text() const {
  return fmt::format("{} of {} values of type {}{}{}{}", name_of(kind), count,
                     static_cast<int>(type),
                     is_reduction(kind) ? fmt::format(", operation {}", static_cast<int>(op)) : "",
                     kind == NcclKind::kBroadcast ? fmt::format(", root {}", peer) : "",
                     captured ? ", captured" : "");
}

int NcclRendezvous::rank_of(const NcclPlace& place, size_t part) {
  return place.from < 0 ? static_cast<int>(part) : part == 0 ? place.from : place.to;
}

size_t NcclRendezvous::part_of(int rank, const NcclCall& call) {
  return call.one_to_one() ? (call.kind == NcclKind::kSend ? 0 : 1) : size(rank);
}

NcclRendezvous::Round& NcclRendezvous::round_at(const NcclPlace& place) {
  const auto [entry, inserted] = rounds_.try_emplace(place);
  Round& round = entry->second;
  if (!inserted) return round;
  round.parts.resize(place.from < 0 ? where_.size() : 2);
  for (size_t p = 0; p < round.parts.size(); ++p)
    if (where(rank_of(place, p)) == Where::kHere) ++round.open;
  return round;
}

void NcclRendezvous::drop_if_over(const NcclPlace& place) {
  const auto entry = rounds_.find(place);
  if (entry == rounds_.end() || entry->second.open > 0) return;
  const auto& parts = entry->second.parts;
  if (std::all_of(parts.begin(), parts.end(), [](const Part& part) { return part.here; }))
    rounds_.erase(entry);
}

void NcclRendezvous::begin(int rank, NcclRun& run) {
  run.ended.assign(run.calls.size(), false);
  for (const NcclCall& call : run.calls) {
    NcclPlace place;
    if (call.kind == NcclKind::kSend) place = {rank, call.peer, sent_[{rank, call.peer}]++};
    if (call.kind == NcclKind::kRecv) place = {call.peer, rank, got_[{call.peer, rank}]++};
    if (!call.one_to_one()) place.number = collectives_[size(rank)]++;
    run.places.push_back(place);
  }
}

void NcclRendezvous::come(int rank, const std::vector<NcclCall>& calls,
                          const std::vector<NcclPlace>& places) {
  for (size_t i = 0; i < calls.size(); ++i) {
    const NcclCall& call = calls[i];
    Round& round = round_at(places[i]);
    for (size_t q = 0; q < round.parts.size(); ++q) {
      const Part& other = round.parts[q];
      if (!other.here || other.call.text() == call.text()) continue;
      throw EmulationError(fmt::format(
          "communicator {}, call {}: rank {} calls {}, but rank {} calls {}", number_,
          places[i].number, rank, call.text(), rank_of(places[i], q), other.call.text()));
    }
    Part& part = round.parts[part_of(rank, call)];
    part.here = true;
    part.call = call;
    drop_if_over(places[i]);
  }
}

void NcclRendezvous::receive(NcclData data) {
  Part& part = round_at(data.place).parts[data.part];
  part.data = std::move(data.bytes);
  part.given = true;
}

bool NcclRendezvous::done(int rank, NcclRun& run, NotYet& why) {
  bool all_done = true;
  for (size_t i = 0; i < run.calls.size(); ++i) {
    if (run.ended[i]) continue;
    const NcclPlace& place = run.places[i];
    Round& round = round_at(place);
    const auto ranks_without = [&](bool Part::*flag) {
      std::string ranks;
      for (size_t p = 0; p < round.parts.size(); ++p) {
        if (round.parts[p].*flag) continue;
        ranks += fmt::format(" {}", rank_of(place, p));
        if (may_come(rank_of(place, p))) why.elsewhere = true;
      }
      return ranks;
    };
    std::string missing = ranks_without(&Part::here);
    std::string what;
    if (missing.empty()) {
      give(place, round);
      missing = ranks_without(&Part::given);
      what = "the data of ";
    }
    if (missing.empty()) {
      take(part_of(rank, run.calls[i]), round);
      run.ended[i] = true;
      --round.open;
      drop_if_over(place);
      continue;
    }
    if (all_done)  // the first call that is not done
      why.waits_for = fmt::format("rank {} of communicator {} in call {}, {}: lacks {}rank{}", rank,
                                  number_, place.number, run.calls[i].text(), what, missing);
    all_done = false;
  }
  return all_done;
}

// Called once all ranks have arrived. Copies the send buffers of this process's ranks before any
// rank receives, so that calls may work in place. A part that sends nothing is given at once.
void NcclRendezvous::give(const NcclPlace& place, Round& round) {
  bool elsewhere = false;
  for (size_t p = 0; p < round.parts.size(); ++p)
    if (where(rank_of(place, p)) != Where::kHere) elsewhere = true;
  for (size_t p = 0; p < round.parts.size(); ++p) {
    Part& part = round.parts[p];
    if (part.given) continue;
    const size_t bytes = contributed_bytes(p, round.parts.size(), part.call);
    if (bytes > 0) {
      if (where(rank_of(place, p)) != Where::kHere) continue;
      const auto* const from = static_cast<const std::byte*>(part.call.send);
      open_range(from, bytes);
      part.data.assign(from, from + bytes);
      if (elsewhere) send_({place, p, part.data});
    }
    part.given = true;
  }
}

// Writes the receive buffer of the rank of `part`.
void NcclRendezvous::take(size_t part, const Round& round) {
  const NcclCall& call = round.parts[part].call;
  const size_t bytes = call.bytes();
  if (bytes == 0) return;
  if (is_reduction(call.kind)) {
    const size_t at = call.kind == NcclKind::kReduceScatter ? part * bytes : 0;
    std::vector<const std::byte*> ranks;
    for (const Part& other : round.parts) ranks.push_back(other.data.data() + at);
    write_received(call, 0, combine(call.type, call.op, call.count, ranks).data(), bytes);
  } else if (call.kind == NcclKind::kBroadcast) {
    write_received(call, 0, round.parts[size(call.peer)].data.data(), bytes);
  } else if (call.kind == NcclKind::kRecv) {
    write_received(call, 0, round.parts[0].data.data(), bytes);
  } else if (call.kind != NcclKind::kSend) {
    const size_t at = call.kind == NcclKind::kAlltoAll ? part * bytes : 0;
    for (size_t q = 0; q < round.parts.size(); ++q)
      write_received(call, q * bytes, round.parts[q].data.data() + at, bytes);
  }
}

// Returns true if a part has arrived, but not given its data. If its rank leaves now, the data
// never come.
bool NcclRendezvous::lacks_data(size_t part, const Round& round) {
  const Part& p = round.parts[part];
  return p.here && !p.given && contributed_bytes(part, round.parts.size(), p.call) > 0;
}

void NcclRendezvous::withdraw(int rank, NcclRun& run) {
  for (size_t i = 0; i < run.places.size(); ++i) {
    if (run.ended[i]) continue;
    Round& round = round_at(run.places[i]);
    Part& part = round.parts[part_of(rank, run.calls[i])];
    if (lacks_data(part_of(rank, run.calls[i]), round)) part.here = false;
    run.ended[i] = true;
    --round.open;
    drop_if_over(run.places[i]);
  }
}

void NcclRendezvous::leave(int rank) {
  for (auto& [place, round] : rounds_)
    for (size_t p = 0; p < round.parts.size(); ++p)
      if (rank_of(place, p) == rank && lacks_data(p, round)) round.parts[p].here = false;
}

}  // namespace hlite::emulation
