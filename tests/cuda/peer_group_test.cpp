// Ranks of one process that share their GPUs' memory, and meet.
#include "hugectr_lite/comm/peer_group.h"

#include <atomic>
#include <string>

#include "hugectr_lite/comm/thread_communicator.h"
#include "tests/support/cuda_backends.h"
#include "tests/support/cuda_emulation/planted.h"
#include "tests/support/errors.h"
#include "tests/support/stream_order.h"

namespace hlite::test {
namespace {

using comm::Communicator;
using comm::PeerGroup;
using comm::Topology;
using kernels::RankPlace;

void require(bool right, const char* what, int rank) {
  if (!right) raise("{} is wrong on rank {}", what, rank);
}

// A rank's group, stream, and one number in its memory.
struct Rank {
  Rank(Communicator& host, std::vector<RankPlace> places, int device)
      : number(host.rank()),
        table((emulated_cuda().use_device(device), emulated_cuda())),
        stream(table),
        group(host, std::move(places), table, device, nullptr),
        value(table, sizeof(float)),
        seen(table, sizeof(float)) {}
  [[nodiscard]] Exec exec() const {
    return {.device = Device::kCuda, .cuda = &table, .stream = stream.get()};
  }
  [[nodiscard]] float read(const DeviceMemory& memory) const {
    float got = 0;
    table.copy(&got, memory.data(), sizeof(got), stream.get());
    table.stream_synchronize(stream.get());
    return got;
  }
  const int number;
  const cuda::Backend& table;
  TestStream stream;
  PeerGroup group;
  DeviceMemory value, seen;
};

// body(rank, host) for each rank of the topology, which shares memory inside its nodes.
void on_groups(const Topology& topology, const std::function<int(int)>& device_of,
               const std::function<void(Rank&, Communicator&)>& body) {
  std::vector<RankPlace> places;
  for (int q = 0; q < topology.ranks(); ++q)
    places.push_back({topology.node_of(q), topology.local_of(q)});
  comm::run_ranks(topology, [&](Communicator& host) {
    Rank rank(host, places, device_of(host.rank()));
    try {
      body(rank, host);
    } catch (const std::exception& error) {
      host.abort(error.what());
      rank.group.world()->open_waits();
      rank.group.leave();
      throw;
    }
    host.barrier();
    rank.group.leave();
  });
}

TEST_CASE("a group knows its process's ranks, their devices, and which two share one") {
  const EmulatedDevices machine(2);
  CHECK_NOTHROW(on_groups(
      Topology({3}), [](int rank) { return rank % 2; },
      [](Rank& r, Communicator&) {
        const PeerGroup& g = r.group;
        require(g.size() == 3 && g.processes() == 1, "size", r.number);
        require(g.own().local == r.number && g.here(2), "place", r.number);
        require(g.devices() == std::vector<int>{0, 1, 0} && g.shares_devices(), "devices",
                r.number);
      }));
}

TEST_CASE("ranks of another process are not reached, and have a world of their own") {
  const EmulatedDevices machine(3);
  std::array<const void*, 3> worlds{};
  CHECK_NOTHROW(on_groups(
      Topology({2, 1}), [](int rank) { return rank; },
      [&](Rank& r, Communicator& host) {
        const PeerGroup& g = r.group;
        require(g.processes() == 2 && g.size() == (r.number < 2 ? 2 : 1), "size", r.number);
        require(g.here(0) == (r.number < 2) && g.here(2) == (r.number == 2), "neighbours",
                r.number);
        require(!g.shares_devices(), "devices", r.number);
        char marks[3];
        const kernels::Peers peers = g.peers({&marks[0], &marks[1], &marks[2]});
        const auto* const first = reinterpret_cast<std::byte*>(&marks[r.number < 2 ? 0 : 2]);
        require(peers.count == g.size() && peers.rank == g.own().local && peers.at[0] == first,
                "addresses", r.number);
        require((peers.at[1] != nullptr) == (r.number < 2), "another process's address", r.number);
        worlds[static_cast<size_t>(r.number)] = g.world().get();
        host.barrier();
      }));
  CHECK(worlds[0] == worlds[1]);
  CHECK(worlds[0] != worlds[2]);
}

// Each rank's number comes by its stream; after the rendezvous its neighbour reads it.
void check_rendezvous(Rank& r, Communicator& host) {
  std::vector<std::byte*> all(static_cast<size_t>(host.size()));
  std::byte* const mine = r.value.data();
  ThreadPool pool(1);
  host.all_gather({.pool = &pool}, std::as_bytes(std::span(&mine, 1)),
                  std::as_writable_bytes(std::span(all)), 1);
  const auto number = static_cast<float>(r.number + 1);
  const DeviceMemory source(r.table, sizeof(float));
  r.table.copy(source.data(), &number, sizeof(float), r.stream.get());
  const size_t next = static_cast<size_t>(r.number + 1) % all.size();
  const auto exchange = [&] {
    r.table.zero(r.value.data(), sizeof(float), r.stream.get());
    r.table.copy(r.value.data(), source.data(), sizeof(float), r.stream.get());
    r.group.rendezvous(r.exec());
    r.table.copy(r.seen.data(), all[next], sizeof(float), r.stream.get());
    r.group.rendezvous(r.exec());  // no rank begins again before it has been read
  };
  for (int i = 0; i < 3; ++i) exchange();
  require(r.read(r.seen) == static_cast<float>(next + 1), "the value after a rendezvous", r.number);
  if (r.group.shares_devices()) return;
  host.barrier();
  void* graph = nullptr;
  r.table.capture_begin(r.stream.get());
  exchange();
  r.table.capture_end(r.stream.get(), &graph);
  r.table.zero(r.seen.data(), sizeof(float), r.stream.get());
  host.barrier();
  for (int i = 0; i < 3; ++i) r.table.graph_launch(graph, r.stream.get());
  require(r.read(r.seen) == static_cast<float>(next + 1), "the value after a graph's rendezvous",
          r.number);
  host.barrier();
  r.table.graph_destroy(graph);
}

TEST_CASE("after a rendezvous all ranks' earlier work is done, in every order, in a graph too") {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const int ranks = seed % 3 == 0 ? 4 : 2, devices = seed % 4 == 0 ? 1 : ranks;
    INFO(ranks << " ranks on " << devices << " devices, seed " << seed);
    const EmulatedDevices machine(devices);
    const RandomStreams order(seed);
    CHECK_NOTHROW(on_groups(
        Topology({ranks}), [&](int rank) { return rank % devices; }, check_rendezvous));
  }
}

// Two ranks of one device, by hand: groups that share one do not capture, and so do without.
TEST_CASE("a meeting ends when the peer has come, or when the host says so", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const cuda::Backend& table = *backend.table;
    table.use_device(0);
    const TestStream streams[2] = {TestStream(table), TestStream(table)};
    const DeviceArray<uint32_t> words[2] = {{table, std::vector<uint32_t>(kernels::kPeerWords)},
                                            {table, std::vector<uint32_t>(kernels::kPeerWords)}};
    const PinnedValue<uint32_t> stop(table);
    const auto on = [&](int rank) {
      return Exec{.device = Device::kCuda, .cuda = &table, .stream = streams[rank].get()};
    };
    const auto peers = [&](int rank) {
      kernels::Peers p{.rank = rank, .count = 2};
      for (int q = 0; q < 2; ++q) p.at[q] = reinterpret_cast<std::byte*>(words[q].data());
      return p;
    };
    kernels::peer_meet(on(0), peers(0), stop.get());
    CHECK_FALSE(kernels::stream_is_idle(on(0)));
    kernels::peer_meet(on(1), peers(1), stop.get());
    for (const TestStream& stream : streams) table.stream_synchronize(stream.get());
    for (int rank = 0; rank < 2; ++rank) {
      const auto got = words[rank].to_host(streams[rank].get());
      CHECK((got[0] == 1 && got[1] == 1 && got[kernels::kMaxPeers] == 1));
    }
    kernels::peer_meet(on(0), peers(0), stop.get());  // one that never comes
    CHECK_FALSE(kernels::stream_is_idle(on(0)));
    std::atomic_ref(*stop.get()).store(1);
    table.stream_synchronize(streams[0].get());
  }
}

// After an abort nothing has come, and a slot may hold anything.
TEST_CASE("a block that comes from another process with a size beyond its slot is none", "[gpu]") {
  constexpr int64_t kCapacity = 32, kSlot = kernels::kSlotHeader + kCapacity;
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const cuda::Backend& table = *backend.table;
    table.use_device(0);
    const TestStream stream(table);
    const Exec exec{.device = Device::kCuda, .cuda = &table, .stream = stream.get()};
    const std::vector<int64_t> sizes = {0, 24, kCapacity + 8, int64_t{1} << 40, -5};
    const auto ranks = static_cast<int>(sizes.size());
    std::vector<kernels::RankPlace> places;
    std::vector<uint8_t> slots(static_cast<size_t>(ranks * kSlot), 7);
    for (int q = 0; q < ranks; ++q) {
      places.push_back({q, 0});
      std::memcpy(slots.data() + q * kSlot, &sizes[static_cast<size_t>(q)], sizeof(int64_t));
    }
    const DeviceArray<kernels::RankPlace> at(table, places);
    const DeviceArray<uint8_t> came(table, slots),
        receive(table, std::vector<uint8_t>(static_cast<size_t>(ranks * kCapacity)));
    const DeviceArray<int64_t> received(table, std::vector<int64_t>(sizes.size(), 99));
    kernels::unstage_blocks(exec,
                            {.places = at.data(),
                             .rank = 0,
                             .ranks = ranks,
                             .own = {0, 0},
                             .locals = 1,
                             .rails = false,
                             .capacity = kCapacity,
                             .slot_bytes = kSlot},
                            reinterpret_cast<const std::byte*>(came.data()),
                            reinterpret_cast<std::byte*>(receive.data()), received.data());
    CHECK((received.to_host(stream.get()) == std::vector<int64_t>{99, 24, -1, -1, -1}));
    std::vector<uint8_t> want(static_cast<size_t>(ranks * kCapacity));
    std::fill_n(want.begin() + kCapacity, 24, uint8_t{7});
    CHECK((receive.to_host(stream.get()) == want));
  }
}

TEST_CASE("a GPU whose writes do not arrive in another's memory is found when ranks are joined") {
  const EmulatedDevices machine(2);
  emulation::plant({.what = emulation::Planted::What::kLeftOut, .device = 1, .name = "peer_copy"});
  const std::string said = message_of<DeviceError>([] {
    on_groups(
        Topology({2}), [](int rank) { return rank; }, [](Rank&, Communicator&) {});
  });
  emulation::plant({});
  check_contains(said, {"what GPU 1 writes does not arrive in the memory of GPU", "IOMMU"});
}

// Under AddressSanitizer a write into freed memory ends the test.
TEST_CASE("a GPU that fails while ranks are joined frees its memory after its peers' writes") {
  const EmulatedDevices machine(8);
  for (int i = 0; i < 10; ++i) {
    emulation::plant({.what = emulation::Planted::What::kFails, .device = 0, .name = "peer_copy"});
    const std::string said = message_of<DeviceError>([] {
      on_groups(
          Topology({8}), [](int rank) { return rank; }, [](Rank&, Communicator&) {});
    });
    emulation::plant({});
    check_contains(said, {"peer_copy", "cudaErrorLaunchFailure"});
  }
}

TEST_CASE("more ranks than a process may have are refused") {
  const EmulatedDevices machine(1);
  check_contains(message_of<comm::CommError>([] {
                   on_groups(
                       Topology({kernels::kMaxPeers + 1}), [](int) { return 0; },
                       [](Rank&, Communicator&) {});
                 }),
                 {"33 ranks in one process, at most 32"});
}

}  // namespace
}  // namespace hlite::test
