#include "hugectr_lite/comm/device_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "hugectr_lite/comm/peer_links.h"
#include "hugectr_lite/comm/wait_limit.h"

namespace hlite::comm {
namespace {

std::vector<kernels::RankPlace> places_of(const Topology& topology, SharedMemory shared) {
  std::vector<kernels::RankPlace> places;
  for (int q = 0; q < topology.ranks(); ++q)
    if (shared == SharedMemory::kAll)
      places.push_back({0, q});
    else
      places.push_back({topology.node_of(q), topology.local_of(q)});
  return places;
}

}  // namespace

struct DeviceCommunicator::Call {
  char kind[16] = {};
  int64_t bytes = 0, detail = 0;
  Addresses at = {};
};

DeviceCommunicator::DeviceCommunicator(std::unique_ptr<Communicator> host,
                                       const cuda::Backend& table, int device,
                                       const DeviceRanks& how)
    : host_(std::move(host)),
      table_(table),
      device_(device),
      how_(how),
      route_(Route::kFlat),
      peers_(*host_, places_of(host_->topology(), how.shared), table, device, nullptr) {
  try {
    if (several_processes() || (how.unordered_sums && size() > 1))
      transport_ = how.join(*host_, table, [host = host_, world = peers_.world()] {
        if (!host->aborted()) return;
        world->open_waits();
        host->barrier();  // throws the reason
      });
    place_ranks();
  } catch (...) {
    ++peers_.world()->left;  // no rank waits for this one in leave()
    throw;
  }
}

DeviceCommunicator::DeviceCommunicator(std::unique_ptr<Communicator> host,
                                       const DeviceCommunicator& of, Route route)
    : host_(std::move(host)),
      table_(of.table_),
      device_(of.device_),
      how_(of.how_),
      route_(route),
      peers_(*host_, places_of(host_->topology(), how_.shared), table_, device_, of.peers_.world()),
      transport_(of.transport_) {
  place_ranks();
}

DeviceCommunicator::~DeviceCommunicator() = default;

// Gives kernels the places of ranks, and their numbers in the transport.
void DeviceCommunicator::place_ranks() {
  if (size() > kernels::kMaxGpus)
    raise<CommError>("{} ranks on GPUs, at most {}", size(), kernels::kMaxGpus);
  const std::vector<kernels::RankPlace>& places = peers_.places();
  const size_t bytes = places.size() * sizeof(places[0]);
  places_ = DeviceMemory(table_, bytes);
  table_.copy(places_.data(), places.data(), bytes, nullptr);
  table_.stream_synchronize(nullptr);
  if (!transport_) return;
  const int mine = transport_->rank();
  transport_ranks_.resize(places.size());
  ThreadPool pool(1);
  host_->all_gather({.pool = &pool}, std::as_bytes(std::span(&mine, 1)),
                    std::as_writable_bytes(std::span(transport_ranks_)), 1);
}

std::unique_ptr<Communicator> DeviceCommunicator::split(int colour) {
  return std::unique_ptr<Communicator>(
      new DeviceCommunicator(host_->split(colour), *this, Route::kFlat));
}

std::unique_ptr<Communicator> DeviceCommunicator::copy(Route route) {
  if (route == Route::kHierarchical && !several_processes())
    raise<CommError>("GPUs of one process have no hierarchical route");
  if (route == Route::kHierarchical && !topology().uniform())
    raise<CommError>("hierarchical exchange: expected as many ranks on every node");
  return std::unique_ptr<Communicator>(
      new DeviceCommunicator(host_->copy(Route::kFlat), *this, route));
}

void DeviceCommunicator::abort(const std::string& reason) noexcept {
  host_->abort(reason);
  peers_.world()->open_waits();
}

// Opens the waits of this process: every other one does so itself when it learns of an abort.
void DeviceCommunicator::open_waits() noexcept {
  peers_.world()->open_waits();
  if (transport_) transport_->revoke();
}

void DeviceCommunicator::check() {
  if (host_->aborted()) {
    open_waits();
    host_->barrier();  // throws the reason
  }
  if (transport_) transport_->check();
}

void DeviceCommunicator::wait_for(const Exec& exec) {
  using namespace std::chrono_literals;
  Wait wait;
  while (!kernels::stream_is_idle(exec)) {
    check();
    wait.check(rank(), "for work that other ranks take part in");
    if (wait.so_far() < 100us)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(20us);
  }
  check();  // an abort lets streams run empty
}

void DeviceCommunicator::leave(void* stream) noexcept {
  const Exec exec{.device = Device::kCuda, .cuda = &table_, .stream = stream};
  const auto finish = [&] {
    if (stream)
      table_.stream_synchronize(stream);
    else
      table_.device_synchronize();
  };
  try {
    if (stream)
      wait_for(exec);
    else if (transport_)
      host_->barrier();  // now all work that this rank's waits for has been issued
    finish();
  } catch (const std::exception&) {
    // Its error has been reported, or is that of the rank that failed.
    open_waits();
    cuda::Failure ignored;
    if (stream)
      (void)table_.stream_synchronize.entry(&ignored, stream);
    else
      (void)table_.device_synchronize.entry(&ignored);
  }
  peers_.leave();
}

#ifdef HLITE_TEST_HOOKS
// For tests that watch over ranks which could hang.
static bool captures_shared_gpu() {
  const char* const value = std::getenv("HLITE_CAPTURE_SHARED_GPU");
  return value && *value == '1';
}
#else
static constexpr bool captures_shared_gpu() { return false; }
#endif

bool DeviceCommunicator::may_capture() const {
  return (!peers_.shares_devices() || captures_shared_gpu()) &&
         (!several_processes() || transport_->graphs_want().empty());
}

std::string DeviceCommunicator::describe() const {
  std::string text = PeerLinks(table_, peers_.devices()).describe();
  if (!transport_) return text;
  if (!several_processes())
    return transport_->sums() ? text + "; " + transport_->name() + " sums gradients" : text;
  if (peers_.size() == 1) text = fmt::format("1 rank on GPU {}", peers_.devices()[0]);
  text = fmt::format("{} processes, here {}; between them {}", peers_.processes(), text,
                     transport_->name());
  if (const std::string want = transport_->graphs_want(); !want.empty())
    text += ", without graphs, which want " + want;
  return text;
}

std::array<kernels::Peers, 3> DeviceCommunicator::agree(const char* kind, const Addresses& at,
                                                        int64_t bytes, int64_t detail) {
  Call mine{{}, bytes, detail, at};
  std::strncpy(mine.kind, kind, sizeof(mine.kind) - 1);
  std::vector<Call> calls(index_of(size()));
  ThreadPool pool(1);
  host_->all_gather({.pool = &pool}, std::as_bytes(std::span(&mine, 1)),
                    std::as_writable_bytes(std::span(calls)), 1);
  std::vector<const void*> addresses;
  std::array<kernels::Peers, 3> peers;
  for (int q = 0; q < size(); ++q) {
    const Call& call = calls[index_of(q)];
    if (std::strcmp(call.kind, mine.kind) != 0 || call.bytes != bytes || call.detail != detail)
      raise<CommError>("rank {} calls {} of {} bytes ({}), rank {} calls {} of {} bytes ({})",
                       rank(), mine.kind, bytes, detail, q, call.kind, call.bytes, call.detail);
  }
  for (size_t i = 0; i < peers.size(); ++i) {
    addresses.clear();
    for (const Call& call : calls) addresses.push_back(call.at[i]);
    peers[i] = peers_.peers(addresses);
  }
  return peers;
}

// Zeroed: in the first run after an abort nothing may have come.
std::byte* DeviceCommunicator::stage(size_t bytes) {
  if (stages_.empty() || stages_.back().size() < bytes) {
    stages_.emplace_back(table_,
                         stages_.empty() ? bytes : std::max(bytes, 2 * stages_.back().size()));
    table_.zero(stages_.back().data(), stages_.back().size(), nullptr);
    table_.stream_synchronize(nullptr);
  }
  return stages_.back().data();
}

void DeviceCommunicator::send(int to, const void* data, size_t bytes) {
  if (bytes > 0)
    messages_.push_back({.peer = transport_ranks_[index_of(to)],
                         .send = data,
                         .receive = nullptr,
                         .bytes = static_cast<int64_t>(bytes)});
}

void DeviceCommunicator::receive(int from, void* data, size_t bytes) {
  if (bytes > 0)
    messages_.push_back({.peer = transport_ranks_[index_of(from)],
                         .send = nullptr,
                         .receive = data,
                         .bytes = static_cast<int64_t>(bytes)});
}

void DeviceCommunicator::exchange(const Exec& exec) {
  if (!messages_.empty()) transport_->exchange(exec, messages_);
  messages_.clear();
}

void DeviceCommunicator::count(int peer, size_t sent, size_t received) {
  if (peer == rank()) return;
  const bool intra = topology().node_of(peer) == topology().node_of(rank());
  (intra ? traffic_.intra_bytes : traffic_.inter_bytes) += static_cast<int64_t>(sent);
  (intra ? traffic_.intra_messages : traffic_.inter_messages) += sent > 0 ? 1 : 0;
  (intra ? traffic_.intra_received : traffic_.inter_received) += static_cast<int64_t>(received);
}

}  // namespace hlite::comm
