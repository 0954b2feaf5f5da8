#include "hugectr_lite/comm/device_communicator.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "hugectr_lite/core/float_type.h"

namespace hlite::comm {
namespace {

size_t index_of(int rank) { return static_cast<size_t>(rank); }

kernels::SummedWords words_of(const Slice& slice, size_t pairs) {
  return {.begin = static_cast<int64_t>(slice.begin),
          .count = static_cast<int64_t>(slice.size()),
          .pairs = static_cast<int64_t>(pairs_in(slice, pairs))};
}

void check_gpu(const Exec& exec) {
  HLITE_CHECK(exec.on_gpu(), "ranks of GPUs exchange device memory");
}

}  // namespace

// What all communicators of a run share: the word that ends their waits.
struct DeviceCommunicator::World {
  explicit World(const cuda::Backend& table) : stop(table) {}
  PinnedValue<uint32_t> stop;
  std::atomic<int> left = 0;  // ranks in leave()
};

struct DeviceCommunicator::Call {
  char kind[16] = {};
  int64_t bytes = 0, detail = 0;
  const void* at[2] = {};
};

DeviceCommunicator::DeviceCommunicator(std::unique_ptr<Communicator> host,
                                       const cuda::Backend& table, int device)
    : DeviceCommunicator(std::move(host), table, device, nullptr) {}

DeviceCommunicator::DeviceCommunicator(std::unique_ptr<Communicator> host,
                                       const cuda::Backend& table, int device,
                                       std::shared_ptr<World> world)
    : host_(std::move(host)), table_(table), device_(device), world_([&] {
        if (world) return world;
        // Rank 0's, which it keeps alive until all have theirs.
        auto made = host_->rank() == 0 ? std::make_shared<World>(table) : nullptr;
        std::vector<const std::shared_ptr<World>*> all(index_of(host_->size()));
        const std::shared_ptr<World>* const mine = &made;
        ThreadPool pool(1);
        host_->all_gather({.pool = &pool}, std::as_bytes(std::span(&mine, 1)),
                          std::as_writable_bytes(std::span(all)));
        std::shared_ptr<World> shared = *all[0];
        host_->barrier();
        return shared;
      }()) {
  try {
    meet();
  } catch (...) {
    destroy_events();
    ++world_->left;  // nobody waits for this rank in leave()
    throw;
  }
}

DeviceCommunicator::~DeviceCommunicator() { destroy_events(); }

// A destructor has nobody to tell.
void DeviceCommunicator::destroy_events() noexcept {
  cuda::Failure ignored;
  for (void* const event : own_events_)
    if (event) (void)table_.event_destroy.entry(&ignored, event);
}

// Everybody's device, words and events.
void DeviceCommunicator::meet() {
  if (size() > kernels::kMostPeers)
    raise<CommError>("{} ranks in one process, at most {}", size(), kernels::kMostPeers);
  words_memory_ = DeviceMemory(table_, kernels::kPeerWords * sizeof(uint32_t));
  table_.zero(words_memory_.data(), words_memory_.size(), nullptr);
  table_.stream_synchronize(nullptr);
  for (void*& event : own_events_) table_.event_create(&event);
  devices_.resize(index_of(size()));
  events_.resize(index_of(size()));
  ThreadPool pool(1);
  host_->all_gather({.pool = &pool}, std::as_bytes(std::span(&device_, 1)),
                    std::as_writable_bytes(std::span(devices_)), 1);
  host_->all_gather({.pool = &pool}, std::as_bytes(std::span(&own_events_, 1)),
                    std::as_writable_bytes(std::span(events_)), 1);
  const Exec exec{.device = Device::kCuda, .cuda = &table_};
  for (const int device : devices_) kernels::reach_peer(exec, device);
  words_ = agree("communicator", words_memory_.data(), nullptr, 0)[0];
}

std::unique_ptr<Communicator> DeviceCommunicator::split(int colour) {
  return std::unique_ptr<Communicator>(
      new DeviceCommunicator(host_->split(colour), table_, device_, world_));
}

std::unique_ptr<Communicator> DeviceCommunicator::copy(Route route) {
  if (route == Route::kHierarchical)
    raise<CommError>("GPUs of one process have no hierarchical route");
  return std::unique_ptr<Communicator>(
      new DeviceCommunicator(host_->copy(route), table_, device_, world_));
}

void DeviceCommunicator::abort(const std::string& reason) noexcept {
  host_->abort(reason);
  std::atomic_ref(*world_->stop.get()).store(1);
}

void DeviceCommunicator::leave(void* stream) noexcept {
  using namespace std::chrono_literals;
  try {
    if (stream)
      table_.stream_synchronize(stream);
    else
      table_.device_synchronize();
  } catch (const std::exception&) {
    // Its error has been told, or is that of the peer that failed.
  }
  ++world_->left;
  const auto give_up = std::chrono::steady_clock::now() + 1min;
  while (world_->left < size() && std::chrono::steady_clock::now() < give_up)
    std::this_thread::sleep_for(1ms);
}

bool DeviceCommunicator::shares_devices() const {
  return std::set<int>(devices_.begin(), devices_.end()).size() < devices_.size();
}

std::array<kernels::Peers, 2> DeviceCommunicator::agree(const char* kind, const void* first,
                                                        const void* second, int64_t bytes,
                                                        int64_t detail) {
  Call mine{{}, bytes, detail, {first, second}};
  std::strncpy(mine.kind, kind, sizeof(mine.kind) - 1);
  std::vector<Call> calls(index_of(size()));
  ThreadPool pool(1);
  host_->all_gather({.pool = &pool}, std::as_bytes(std::span(&mine, 1)),
                    std::as_writable_bytes(std::span(calls)), 1);
  std::array<kernels::Peers, 2> peers;
  for (int q = 0; q < size(); ++q) {
    const Call& call = calls[index_of(q)];
    if (std::strcmp(call.kind, mine.kind) != 0 || call.bytes != bytes || call.detail != detail)
      raise<CommError>("rank {} calls {} of {} bytes ({}), rank {} calls {} of {} bytes ({})",
                       rank(), mine.kind, bytes, detail, q, call.kind, call.bytes, call.detail);
    for (size_t i = 0; i < peers.size(); ++i) {
      peers[i].rank = rank();
      peers[i].count = size();
      peers[i].at[q] = static_cast<std::byte*>(const_cast<void*>(call.at[i]));
    }
  }
  return peers;
}

// Behind all that was put on the ranks' streams before.
void DeviceCommunicator::wait_for_all(const Exec& exec) {
  if (size() == 1) return;
  if (!kernels::stream_captures(exec)) return wait_by_events(exec);
  kernels::peer_signal(exec, words_);
  kernels::peer_wait(exec, words_, world_->stop.get());
}

void DeviceCommunicator::wait_by_events(const Exec& exec) {
  turn_ = 1 - turn_;
  table_.event_record(own_events_[turn_], exec.stream);
  host_->barrier();  // everybody has recorded
  for (int q = 0; q < size(); ++q)
    if (q != rank()) table_.stream_wait_event(exec.stream, events_[index_of(q)][turn_]);
}

void DeviceCommunicator::count(int peer, size_t sent, size_t received) {
  if (peer == rank()) return;
  const bool intra = topology().node_of(peer) == topology().node_of(rank());
  (intra ? traffic_.intra_bytes : traffic_.inter_bytes) += static_cast<int64_t>(sent);
  (intra ? traffic_.intra_messages : traffic_.inter_messages) += sent > 0 ? 1 : 0;
  (intra ? traffic_.intra_received : traffic_.inter_received) += static_cast<int64_t>(received);
}

void DeviceCommunicator::broadcast(const Exec& exec, Bytes bytes, int root) {
  check_gpu(exec);
  HLITE_CHECK(root >= 0 && root < size(), "root {} of {}", root, size());
  const auto to = agree("broadcast", bytes.data(), nullptr, std::ssize(bytes), root)[0];
  wait_for_all(exec);
  if (rank() == root) kernels::peer_copy(exec, to, bytes.data(), std::ssize(bytes));
  wait_for_all(exec);
  for (int q = 0; q < size(); ++q)
    count(q, rank() == root ? bytes.size() : 0, q == root ? bytes.size() : 0);
}

void DeviceCommunicator::gather(const Exec& exec, ConstBytes mine, Bytes all, int root) {
  check_gpu(exec);
  const auto n = index_of(size());
  HLITE_CHECK(root >= 0 && root < size() && all.size() == (rank() == root ? n * mine.size() : 0),
              "rank {}, root {} of {}: {} bytes for blocks of {}", rank(), root, n, all.size(),
              mine.size());
  const auto peers = agree("gather", all.data(), nullptr, std::ssize(mine), root)[0];
  kernels::Peers to{.rank = rank(), .count = size()};
  to.at[root] = peers.at[root] + index_of(rank()) * mine.size();
  wait_for_all(exec);
  kernels::peer_copy(exec, to, mine.data(), std::ssize(mine));
  wait_for_all(exec);
  for (int q = 0; q < size(); ++q)
    count(q, q == root ? mine.size() : 0, rank() == root ? mine.size() : 0);
}

void DeviceCommunicator::all_gather(const Exec& exec, ConstBytes mine, Bytes all, size_t unit) {
  check_gpu(exec);
  const auto slice = [&](int q) { return slice_of(all.size() / unit, q, size()); };
  const size_t own = slice(rank()).size() * unit;
  HLITE_CHECK(all.size() % unit == 0 && mine.size() == own, "{} bytes of {} in units of {}",
              mine.size(), all.size(), unit);
  auto to = agree("all-gather", all.data(), nullptr, std::ssize(all))[0];
  for (int q = 0; q < size(); ++q) to.at[q] += slice(rank()).begin * unit;
  wait_for_all(exec);
  kernels::peer_copy(exec, to, mine.data(), std::ssize(mine));
  wait_for_all(exec);
  for (int q = 0; q < size(); ++q) count(q, own, slice(q).size() * unit);
}

void DeviceCommunicator::all_to_all_v(const Exec& exec, const Blocks& blocks) {
  check_gpu(exec);
  const auto [receive, received] =
      agree("all-to-all-v", blocks.receive, blocks.received_bytes, blocks.capacity);
  wait_for_all(exec);
  kernels::peer_blocks(exec, receive, received, blocks.send, blocks.send_bytes, blocks.capacity);
  wait_for_all(exec);
  const auto most = static_cast<size_t>(blocks.capacity);
  for (int q = 0; q < size(); ++q) count(q, most, most);
}

void DeviceCommunicator::reduce_scatter(const Exec& exec, std::span<const float> all,
                                        std::span<float> mine, size_t pairs) {
  check_gpu(exec);
  const Slice own = slice_of(all.size(), rank(), size());
  HLITE_CHECK(mine.size() == own.size(), "{} values of {} on {} ranks", mine.size(), all.size(),
              size());
  const auto values = agree("reduce-scatter", all.data(), nullptr, std::ssize(all) * kFloatBytes,
                            static_cast<int64_t>(pairs))[0];
  wait_for_all(exec);
  kernels::peer_sum(exec, values, words_of(own, pairs), mine.data());
  wait_for_all(exec);
  for (int q = 0; q < size(); ++q)
    count(q, slice_of(all.size(), q, size()).size() * sizeof(float), mine.size_bytes());
}

// Slice r of all ranks is read and written by rank r alone.
void DeviceCommunicator::all_reduce(const Exec& exec, std::span<float> values, AllReduce,
                                    size_t pairs) {
  check_gpu(exec);
  const auto peers = agree("all-reduce", values.data(), nullptr, std::ssize(values) * kFloatBytes,
                           static_cast<int64_t>(pairs))[0];
  if (size() == 1) return;
  const Slice own = slice_of(values.size(), rank(), size());
  wait_for_all(exec);
  kernels::peer_sum(exec, peers, words_of(own, pairs), nullptr);
  wait_for_all(exec);
  const size_t mine = own.size() * sizeof(float);
  for (int q = 0; q < size(); ++q) {
    const size_t theirs = slice_of(values.size(), q, size()).size() * sizeof(float);
    count(q, theirs, mine);
    count(q, mine, theirs);
  }
}

}  // namespace hlite::comm
