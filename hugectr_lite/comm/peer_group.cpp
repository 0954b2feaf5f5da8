#include "hugectr_lite/comm/peer_group.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace hlite::comm {
namespace {

// The data that ranks exchange when a communicator is made. Addresses are for those of its process.
struct Introduction {
  int device = 0;
  const std::shared_ptr<PeerGroup::World>* world = nullptr;
  void* words = nullptr;
  std::array<void*, 2> events{};
};

}  // namespace

PeerGroup::PeerGroup(Communicator& host, std::vector<kernels::RankPlace> places,
                     const cuda::Backend& table, int device, std::shared_ptr<World> world)
    : places_(std::move(places)),
      rank_(host.rank()),
      table_(table),
      device_(device),
      processes_(1 + std::max_element(places_.begin(), places_.end(),
                                      [](auto a, auto b) { return a.process < b.process; })
                         ->process),
      apart_(processes_ > 1 ? host.split(own().process) : nullptr),
      hosts_(apart_ ? *apart_ : host),
      world_(std::move(world)) {
  for (const kernels::RankPlace& place : places_) size_ += place.process == own().process ? 1 : 0;
  if (size_ > kernels::kMaxPeers)
    raise<CommError>("{} ranks in one process, at most {}", size_, kernels::kMaxPeers);
  const bool first = !world_;  // else the rank leaves by the one that this is made from
  try {
    introduce(host);
  } catch (...) {
    destroy_events();
    if (first && world_) {
      const std::lock_guard lock(world_->links);
      world_->failed = true;
      ++world_->left;  // no rank waits for this one in leave()
    }
    throw;
  }
}

PeerGroup::~PeerGroup() { destroy_events(); }

// A destructor cannot report errors.
void PeerGroup::destroy_events() noexcept {
  cuda::Failure ignored;
  for (void* const event : own_events_)
    if (event) (void)table_.event_destroy.entry(&ignored, event);
}

void PeerGroup::introduce(Communicator& host) {
  const bool first = !world_;
  words_memory_ =
      DeviceMemory(table_, (kernels::kPeerWords + kernels::kMaxPeers + 1) * sizeof(uint32_t));
  table_.zero(words_memory_.data(), words_memory_.size(), nullptr);
  table_.stream_synchronize(nullptr);
  for (void*& event : own_events_) table_.event_create(&event);
  // The first rank's, which it keeps alive until all have theirs.
  auto made = !world_ && own().local == 0 ? std::make_shared<World>(table_) : nullptr;
  const Introduction mine{device_, &made, words_memory_.data(), own_events_};
  std::vector<Introduction> all(places_.size());
  ThreadPool pool(1);
  host.all_gather({.pool = &pool}, std::as_bytes(std::span(&mine, 1)),
                  std::as_writable_bytes(std::span(all)), 1);
  std::set<std::pair<int, int>> used;  // process, device
  std::vector<const void*> words;
  for (size_t q = 0; q < all.size(); ++q) {
    shares_devices_ |= !used.emplace(places_[q].process, all[q].device).second;
    words.push_back(all[q].words);
    if (!here(static_cast<int>(q))) continue;
    if (!world_ && places_[q].local == 0) world_ = *all[q].world;
    devices_.push_back(all[q].device);
    events_.push_back(all[q].events);
  }
  words_ = peers(words);
  host.barrier();
  const Exec exec{.device = Device::kCuda, .cuda = &table_};
  for (const int device : devices_) kernels::reach_peer(exec, device);
  if (first) try_links();
}

// Checks that what a GPU writes into another one's memory arrives. On some machines it does not,
// though the driver grants access and nothing fails: where an IOMMU translates addresses between
// devices, for one.
void PeerGroup::try_links() {
  if (size_ == 1) return;
  const Exec exec{.device = Device::kCuda, .cuda = &table_};
  const auto mark_of = [](int local) { return 0x6c696e6bu + static_cast<uint32_t>(local); };
  constexpr size_t kWord = sizeof(uint32_t), kTried = kernels::kPeerWords * kWord;
  std::byte* const own_mark = words_memory_.data() + kTried + kernels::kMaxPeers * kWord;
  const uint32_t mark = mark_of(own().local);
  table_.copy(own_mark, &mark, kWord, nullptr);
  kernels::Peers to = words_;
  for (int q = 0; q < size_; ++q) to.at[q] += kTried + index_of(own().local) * kWord;
  {
    const std::shared_lock lock(world_->links);
    if (!world_->failed) {
      kernels::peer_copy(exec, to, own_mark, kWord);
      table_.stream_synchronize(nullptr);
    }
  }
  hosts_.barrier();  // throws the error of a rank that has failed
  std::array<uint32_t, kernels::kMaxPeers> came{};
  table_.copy(came.data(), words_memory_.data() + kTried, came.size() * kWord, nullptr);
  table_.stream_synchronize(nullptr);
  for (int q = 0; q < size_; ++q)
    if (came[index_of(q)] != mark_of(q))
      raise<DeviceError>(
          "what GPU {} writes does not arrive in the memory of GPU {}, though the driver grants "
          "access: expected {:#x}, found {:#x}; an IOMMU that translates addresses (intel_iommu, "
          "amd_iommu) does that to GPUs on a bus",
          devices_[index_of(q)], device_, mark_of(q), came[index_of(q)]);
}

kernels::Peers PeerGroup::peers(const std::vector<const void*>& at) const {
  kernels::Peers peers{.rank = own().local, .count = size_};
  for (size_t q = 0; q < places_.size(); ++q)
    if (here(static_cast<int>(q)))
      peers.at[places_[q].local] = static_cast<std::byte*>(const_cast<void*>(at[q]));
  return peers;
}

void PeerGroup::rendezvous(const Exec& exec) {
  if (size_ == 1) return;
  if (!kernels::stream_captures(exec)) return rendezvous_by_events(exec);
  kernels::peer_meet(exec, words_, world_->stop.get());
}

void PeerGroup::rendezvous_by_events(const Exec& exec) {
  turn_ = 1 - turn_;
  table_.event_record(own_events_[turn_], exec.stream);
  hosts_.barrier();  // everybody has recorded
  for (int q = 0; q < size_; ++q)
    if (q != own().local) table_.stream_wait_event(exec.stream, events_[index_of(q)][turn_]);
}

void PeerGroup::leave() noexcept {
  using namespace std::chrono_literals;
  ++world_->left;
  const auto give_up = std::chrono::steady_clock::now() + 1min;
  while (world_->left < size_ && std::chrono::steady_clock::now() < give_up)
    std::this_thread::sleep_for(1ms);
}

}  // namespace hlite::comm
