#include "tests/support/cuda_emulation/nccl_meeting.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "tests/support/cuda_emulation/device_ranges.h"

namespace hlite::emulation {
namespace {

bool one_to_one(const NcclCall& call) {
  return call.kind == NcclKind::kSend || call.kind == NcclKind::kRecv;
}

size_t type_bytes(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
      return 8;
  }
  return 0;
}

template <typename T>
void combine(std::byte* sum, const void* values, size_t count, ncclRedOp_t op) {
  for (size_t i = 0; i < count; ++i) {
    T a, b;
    std::memcpy(&a, sum + i * sizeof(T), sizeof(T));
    std::memcpy(&b, static_cast<const std::byte*>(values) + i * sizeof(T), sizeof(T));
    a = op == ncclSum ? static_cast<T>(a + b) : op == ncclMax ? std::max(a, b) : std::min(a, b);
    std::memcpy(sum + i * sizeof(T), &a, sizeof(T));
  }
}

// In the order of ranks; the real library takes others.
void combine(ncclDataType_t type, std::byte* sum, const void* values, size_t n, ncclRedOp_t op) {
  switch (type) {
    case ncclInt8:
      return combine<int8_t>(sum, values, n, op);
    case ncclUint8:
      return combine<uint8_t>(sum, values, n, op);
    case ncclInt32:
      return combine<int32_t>(sum, values, n, op);
    case ncclUint32:
      return combine<uint32_t>(sum, values, n, op);
    case ncclInt64:
      return combine<int64_t>(sum, values, n, op);
    case ncclUint64:
      return combine<uint64_t>(sum, values, n, op);
    case ncclFloat32:
      return combine<float>(sum, values, n, op);
  }
}

const char* name_of(NcclKind kind) {
  constexpr const char* kNames[] = {"all-reduce", "reduce-scatter", "all-gather", "broadcast",
                                    "all-to-all", "message",        "message"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace

size_t NcclCall::bytes() const { return count * type_bytes(type); }

std::string NcclCall::text() const {
  const bool sums = kind == NcclKind::kAllReduce || kind == NcclKind::kReduceScatter;
  return fmt::format("{} of {} values of type {}{}{}{}", name_of(kind), count,
                     static_cast<int>(type),
                     sums ? fmt::format(", operation {}", static_cast<int>(op)) : "",
                     kind == NcclKind::kBroadcast ? fmt::format(", root {}", peer) : "",
                     captured ? ", captured" : "");
}

NcclMeeting::Round& NcclMeeting::round_of(int rank, const NcclCall& call, size_t number,
                                          size_t& part) {
  const bool sends = call.kind == NcclKind::kSend;
  part = one_to_one(call) ? (sends ? 0 : 1) : size(rank);
  std::deque<Round>& rounds =
      one_to_one(call) ? messages_[sends ? Pair(rank, call.peer) : Pair(call.peer, rank)] : rounds_;
  while (rounds.size() <= number)
    rounds.push_back({std::vector<Part>(one_to_one(call) ? 2 : size(ranks_)), false});
  return rounds[number];
}

void NcclMeeting::come(int rank, NcclRun& run) {
  run.came = true;
  for (const NcclCall& call : run.calls) {
    size_t& count = call.kind == NcclKind::kSend   ? sent_[{rank, call.peer}]
                    : call.kind == NcclKind::kRecv ? received_[{call.peer, rank}]
                                                   : collectives_[size(rank)];
    run.numbers.push_back(count++);
    size_t part = 0;
    Round& round = round_of(rank, call, run.numbers.back(), part);
    for (size_t q = 0; q < round.parts.size(); ++q) {
      const Part& other = round.parts[q];
      if (!other.here || other.call.text() == call.text()) continue;
      throw EmulationError(
          fmt::format("communicator {}, call {}: rank {} calls {}, but rank {} calls {}", number_,
                      run.numbers.back(), rank, call.text(),
                      one_to_one(call) ? call.peer : static_cast<int>(q), other.call.text()));
    }
    round.parts[part] = {true, call};
  }
}

bool NcclMeeting::done(int rank, NcclRun& run, std::string& missing) {
  for (size_t i = 0; i < run.calls.size(); ++i) {
    const NcclCall& call = run.calls[i];
    size_t mine = 0;
    Round& round = round_of(rank, call, run.numbers[i], mine);
    std::string absent;
    for (size_t q = 0; q < round.parts.size(); ++q)
      if (!round.parts[q].here)
        absent += fmt::format(" {}", one_to_one(call) ? call.peer : static_cast<int>(q));
    if (absent.empty()) {
      if (!std::exchange(round.moved, true)) move_data(round);
    } else if (missing.empty()) {
      missing = fmt::format("rank {} of communicator {} in call {}, {}: lacks rank{}", rank,
                            number_, run.numbers[i], call.text(), absent);
    }
  }
  return missing.empty();
}

// All parts are there: the data of all ranks move at once, so that they may work in place.
void NcclMeeting::move_data(Round& round) const {
  const NcclCall& first = round.parts[0].call;
  const size_t bytes = first.bytes(), n = round.parts.size();
  std::vector<std::vector<std::byte>> sent;
  const bool shares = first.kind == NcclKind::kReduceScatter || first.kind == NcclKind::kAlltoAll;
  for (const Part& part : round.parts) {
    const size_t of_rank = !part.call.send ? 0 : shares ? bytes * n : bytes;
    open_range(part.call.send, of_rank);
    const auto* from = static_cast<const std::byte*>(part.call.send);
    sent.emplace_back(from, from + of_rank);
  }
  const auto put = [](const Part& to, size_t at, const std::byte* from, size_t count) {
    if (count == 0) return;
    auto* const place = static_cast<std::byte*>(to.call.receive) + at;
    open_range(place, count);
    std::memcpy(place, from, count);
  };
  for (size_t r = 0; r < n; ++r) {
    const Part& to = round.parts[r];
    const bool sums = first.kind == NcclKind::kAllReduce || first.kind == NcclKind::kReduceScatter;
    if (sums) {
      const size_t at = first.kind == NcclKind::kReduceScatter ? r * bytes : 0;
      std::vector<std::byte> sum(sent[0].begin() + static_cast<std::ptrdiff_t>(at),
                                 sent[0].begin() + static_cast<std::ptrdiff_t>(at + bytes));
      for (size_t q = 1; q < n; ++q)
        combine(first.type, sum.data(), sent[q].data() + at, first.count, first.op);
      put(to, 0, sum.data(), bytes);
    } else if (first.kind == NcclKind::kBroadcast) {
      put(to, 0, sent[size(first.peer)].data(), bytes);
    } else if (one_to_one(first)) {
      if (r == 1) put(to, 0, sent[0].data(), bytes);
    } else {
      const size_t at = first.kind == NcclKind::kAlltoAll ? r * bytes : 0;
      for (size_t q = 0; q < n; ++q) put(to, q * bytes, sent[q].data() + at, bytes);
    }
  }
}

}  // namespace hlite::emulation
