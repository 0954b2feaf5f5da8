// DeviceCommunicator's calls, put on a stream.
#include <utility>

#include "hugectr_lite/comm/device_communicator.h"
#include "hugectr_lite/core/float_type.h"

namespace hlite::comm {
namespace {

void check_gpu(const Exec& exec) {
  HLITE_CHECK(exec.on_gpu(), "ranks of GPUs exchange device memory");
}

kernels::SummedWords words_of(const Slice& slice, size_t pairs) {
  return {.count = static_cast<int64_t>(slice.size()),
          .pairs = static_cast<int64_t>(pairs_in(slice, pairs))};
}

std::byte* bytes_at(const void* base, size_t offset) {
  return static_cast<std::byte*>(const_cast<void*>(base)) + offset;
}

// Offsets every address by `bytes`.
kernels::Peers moved(kernels::Peers peers, size_t bytes) {
  for (int q = 0; q < peers.count; ++q)
    if (peers.at[q]) peers.at[q] += bytes;
  return peers;
}

kernels::Peers only(const void* place) {
  kernels::Peers one;
  one.at[0] = bytes_at(place, 0);
  return one;
}

size_t float_bytes(const Slice& slice) { return slice.size() * sizeof(float); }

}  // namespace

void DeviceCommunicator::broadcast(const Exec& exec, Bytes bytes, int root) {
  check_gpu(exec);
  HLITE_CHECK(root >= 0 && root < size(), "root {} of {}", root, size());
  const auto to = agree("broadcast", {bytes.data()}, std::ssize(bytes), root)[0];
  peers_.rendezvous(exec);
  if (rank() == root) {
    kernels::peer_copy(exec, to, bytes.data(), std::ssize(bytes));
    for (int q = 0; q < size(); ++q)
      if (!peers_.here(q)) send(q, bytes.data(), bytes.size());
  } else if (!peers_.here(root)) {
    receive(root, bytes.data(), bytes.size());
  }
  exchange(exec);
  peers_.rendezvous(exec);
  for (int q = 0; q < size(); ++q)
    count(q, rank() == root ? bytes.size() : 0, q == root ? bytes.size() : 0);
}

void DeviceCommunicator::gather(const Exec& exec, ConstBytes mine, Bytes all, int root) {
  check_gpu(exec);
  const auto n = index_of(size());
  HLITE_CHECK(root >= 0 && root < size() && all.size() == (rank() == root ? n * mine.size() : 0),
              "rank {}, root {} of {}: {} bytes for blocks of {}", rank(), root, n, all.size(),
              mine.size());
  const auto peers = agree("gather", {all.data()}, std::ssize(mine), root)[0];
  peers_.rendezvous(exec);
  if (peers_.here(root)) {
    const int at = peers_.place(root).local;
    kernels::Peers to{.rank = peers.rank, .count = peers.count};
    to.at[at] = peers.at[at] + index_of(rank()) * mine.size();
    kernels::peer_copy(exec, to, mine.data(), std::ssize(mine));
  } else {
    send(root, mine.data(), mine.size());
  }
  for (int q = 0; q < size() && rank() == root; ++q)
    if (!peers_.here(q)) receive(q, all.data() + index_of(q) * mine.size(), mine.size());
  exchange(exec);
  peers_.rendezvous(exec);
  for (int q = 0; q < size(); ++q)
    count(q, q == root ? mine.size() : 0, rank() == root ? mine.size() : 0);
}

void DeviceCommunicator::all_gather(const Exec& exec, ConstBytes mine, Bytes all, size_t unit) {
  check_gpu(exec);
  const auto slice = [&](int q) { return slice_of(all.size() / unit, q, size()); };
  const size_t own = slice(rank()).size() * unit;
  HLITE_CHECK(all.size() % unit == 0 && mine.size() == own, "{} bytes of {} in units of {}",
              mine.size(), all.size(), unit);
  const auto to = agree("all-gather", {all.data()}, std::ssize(all))[0];
  peers_.rendezvous(exec);
  kernels::peer_copy(exec, moved(to, slice(rank()).begin * unit), mine.data(), std::ssize(mine));
  for (int q = 0; q < size(); ++q) {
    if (peers_.here(q)) continue;
    send(q, mine.data(), mine.size());
    receive(q, all.data() + slice(q).begin * unit, slice(q).size() * unit);
  }
  exchange(exec);
  peers_.rendezvous(exec);
  for (int q = 0; q < size(); ++q) count(q, own, slice(q).size() * unit);
}

kernels::BlockMoves DeviceCommunicator::block_moves(int64_t capacity) const {
  const int64_t whole = kernels::kSlotHeader;
  return {.places = reinterpret_cast<const kernels::RankPlace*>(places_.data()),
          .rank = rank(),
          .ranks = size(),
          .own = peers_.own(),
          .locals = peers_.size(),
          .rails = route_ == Route::kHierarchical,
          .capacity = capacity,
          .slot_bytes = kernels::kSlotHeader + (capacity + whole - 1) / whole * whole};
}

// Flat, a message of one slot to each rank of other processes; by rails, one of all that the
// process's ranks have for the rail's rank of each other process.
void DeviceCommunicator::exchange_slots(const Exec& exec, const kernels::BlockMoves& moves,
                                        const std::byte* staged, std::byte* came) {
  const auto slot = static_cast<size_t>(moves.slot_bytes);
  for (int q = 0; q < size(); ++q) {
    const kernels::RankPlace place = peers_.place(q);
    if (peers_.here(q) || (moves.rails && place.local != peers_.own().local)) continue;
    const size_t bytes = moves.rails ? index_of(moves.locals) * slot : slot;
    const size_t at = moves.rails ? index_of(place.process) * bytes : index_of(q) * slot;
    send(q, staged + at, bytes);
    receive(q, came + at, bytes);
  }
  exchange(exec);
}

void DeviceCommunicator::all_to_all_v(const Exec& exec, const Blocks& blocks) {
  check_gpu(exec);
  const kernels::BlockMoves moves = block_moves(blocks.capacity);
  std::byte *staged = nullptr, *came = nullptr;
  if (several_processes()) {
    const int slots = moves.rails ? peers_.processes() * moves.locals : size();
    const size_t bytes = index_of(slots) * static_cast<size_t>(moves.slot_bytes);
    staged = stage(2 * bytes);
    came = staged + bytes;
  }
  const auto [receive, received, stages] =
      agree("all-to-all-v", {blocks.receive, blocks.received_bytes, staged}, blocks.capacity);
  if (!blocks.free || several_processes()) peers_.rendezvous(exec);  // there are stages, too
  kernels::peer_blocks(exec, moves, receive, received, stages, blocks.send, blocks.send_bytes);
  if (moves.rails) peers_.rendezvous(exec);  // what goes along the rail is there
  if (several_processes()) {
    exchange_slots(exec, moves, staged, came);
    kernels::unstage_blocks(exec, moves, came, blocks.receive, blocks.received_bytes);
  }
  peers_.rendezvous(exec);
  const auto most = static_cast<size_t>(blocks.capacity);
  for (int q = 0; q < size(); ++q) count(q, most, most);
}

// Returns this rank's slice of `all`, in the order of ranks: in place where this process has them,
// else brought here.
kernels::Addends DeviceCommunicator::addends(const Exec& exec, const kernels::Peers& values,
                                             std::span<const float> all) {
  const Slice own = slice_of(all.size(), rank(), size());
  std::byte* next = several_processes() ? stage(float_bytes(own) * index_of(size())) : nullptr;
  kernels::Addends addends{.count = size()};
  for (int q = 0; q < size(); ++q) {
    if (peers_.here(q)) {
      addends.at[q] = bytes_at(values.at[peers_.place(q).local], own.begin * sizeof(float));
      continue;
    }
    const Slice theirs = slice_of(all.size(), q, size());
    send(q, all.data() + theirs.begin, float_bytes(theirs));
    receive(q, next, float_bytes(own));
    addends.at[q] = next;
    next += float_bytes(own);
  }
  exchange(exec);
  return addends;
}

void DeviceCommunicator::reduce_scatter(const Exec& exec, std::span<const float> all,
                                        std::span<float> mine, size_t pairs) {
  check_gpu(exec);
  const Slice own = slice_of(all.size(), rank(), size());
  HLITE_CHECK(mine.size() == own.size(), "{} values of {} on {} ranks", mine.size(), all.size(),
              size());
  const auto values = agree("reduce-scatter", {all.data()}, std::ssize(all) * kFloatBytes,
                            static_cast<int64_t>(pairs))[0];
  peers_.rendezvous(exec);
  kernels::peer_sum(exec, addends(exec, values, all), words_of(own, pairs), only(mine.data()));
  peers_.rendezvous(exec);
  for (int q = 0; q < size(); ++q)
    count(q, float_bytes(slice_of(all.size(), q, size())), mine.size_bytes());
}

void DeviceCommunicator::all_reduce(const Exec& exec, std::span<float> values, AllReduce algo,
                                    size_t pairs) {
  check_gpu(exec);
  const auto peers = agree("all-reduce", {values.data()}, std::ssize(values) * kFloatBytes,
                           static_cast<int64_t>(pairs))[0];
  if (size() == 1) return;
  if (algo == AllReduce::kUnordered && how_.unordered_sums && size() == transport_->size() &&
      transport_->sums())
    return all_reduce_unordered(exec, values, pairs);
  peers_.rendezvous(exec);
  if (route_ == Route::kHierarchical)
    all_reduce_by_rails(exec, peers, values, pairs);
  else
    all_reduce_flat(exec, peers, values, pairs);
  peers_.rendezvous(exec);
}

// Counted as if each rank had summed its slice: a transport does not say what it sends.
void DeviceCommunicator::all_reduce_unordered(const Exec& exec, std::span<float> values,
                                              size_t pairs) {
  transport_->all_reduce(exec, values, pairs);
  for (int q = 0; q < size(); ++q)
    for (int half = 0; half < 2; ++half) {
      const size_t own = float_bytes(slice_of(values.size(), rank(), size())),
                   theirs = float_bytes(slice_of(values.size(), q, size()));
      count(q, half == 0 ? theirs : own, half == 0 ? own : theirs);
    }
}

// Slice r of all ranks is read and written by rank r alone.
void DeviceCommunicator::all_reduce_flat(const Exec& exec, const kernels::Peers& peers,
                                         std::span<float> values, size_t pairs) {
  const auto slice = [&](int q) { return slice_of(values.size(), q, size()); };
  const Slice own = slice(rank());
  kernels::peer_sum(exec, addends(exec, peers, values), words_of(own, pairs),
                    moved(peers, own.begin * sizeof(float)));
  for (int q = 0; q < size(); ++q) {
    if (peers_.here(q)) continue;
    send(q, values.data() + own.begin, float_bytes(own));
    receive(q, values.data() + slice(q).begin, float_bytes(slice(q)));
  }
  exchange(exec);
  for (int q = 0; q < size(); ++q) {
    count(q, float_bytes(slice(q)), float_bytes(own));
    count(q, float_bytes(own), float_bytes(slice(q)));
  }
}

// A rank alone reads its slice of the process's values before it writes them, so no meeting is
// needed in between.
void DeviceCommunicator::all_reduce_by_rails(const Exec& exec, const kernels::Peers& peers,
                                             std::span<float> values, size_t pairs) {
  const auto slice = [&](int local) { return slice_of(values.size(), local, peers_.size()); };
  const Slice own = slice(peers_.own().local);
  const kernels::Peers there = moved(peers, own.begin * sizeof(float));
  const auto mine = values.subspan(own.begin, own.size());
  kernels::Addends in_node{.count = there.count};
  for (int l = 0; l < there.count; ++l) in_node.at[l] = there.at[l];
  kernels::peer_sum(exec, in_node, words_of(own, pairs), only(mine.data()));
  sum_along_rail(exec, mine, pairs_in(own, pairs));
  kernels::peer_copy(exec, there, std::as_bytes(mine).data(), std::ssize(std::as_bytes(mine)));
  const int node = topology().node_of(rank());
  for (int l = 0; l < peers_.size(); ++l) {
    const int q = topology().rank_at(node, l);
    count(q, float_bytes(slice(l)), float_bytes(own));
    count(q, float_bytes(own), float_bytes(slice(l)));
  }
}

// slice[i] <- its sum over the rail's ranks, in the order of nodes: each sums a part, and hands it
// to the others.
void DeviceCommunicator::sum_along_rail(const Exec& exec, std::span<float> slice, size_t pairs) {
  const int nodes = peers_.processes(), own = peers_.own().process;
  const auto part = [&](int node) { return slice_of(slice.size(), node, nodes); };
  const auto rail = [&](int node) { return topology().rank_at(node, peers_.own().local); };
  const Slice mine = part(own);
  std::byte* const staged = stage(float_bytes(mine) * index_of(nodes));
  kernels::Addends addends{.count = nodes};
  for (int d = 0; d < nodes; ++d) {
    if (d == own) {
      addends.at[d] = bytes_at(slice.data() + mine.begin, 0);
      continue;
    }
    std::byte* const theirs = staged + index_of(d) * float_bytes(mine);
    send(rail(d), slice.data() + part(d).begin, float_bytes(part(d)));
    receive(rail(d), theirs, float_bytes(mine));
    addends.at[d] = theirs;
    count(rail(d), float_bytes(part(d)), float_bytes(mine));
  }
  exchange(exec);
  kernels::peer_sum(exec, addends, words_of(mine, pairs), only(slice.data() + mine.begin));
  for (int d = 0; d < nodes; ++d) {
    if (d == own) continue;
    send(rail(d), slice.data() + mine.begin, float_bytes(mine));
    receive(rail(d), slice.data() + part(d).begin, float_bytes(part(d)));
    count(rail(d), float_bytes(mine), float_bytes(part(d)));
  }
  exchange(exec);
}

}  // namespace hlite::comm
