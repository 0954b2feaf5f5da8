// Emulated GPUs of several processes: those of a node share memory, between nodes there is the
// stand-in NCCL, or host memory. What CPU ranks get on the same route is expected, bit by bit.
#include <utility>

#include "hugectr_lite/comm/sharded_sum.h"
#include "tests/comm/collective_checks.h"
#include "tests/cuda/nccl_scope.h"
#include "tests/support/errors.h"
#include "tests/support/host_transport.h"
#include "tests/support/stream_order.h"

namespace hlite::test {
namespace {

using comm::CommError;
using comm::Communicator;
using comm::Route;
using comm::Topology;

// The same communicator of GPUs and of CPU ranks.
struct Both {
  Both(GpuRank& r, Route route) : gpu(r.comm().copy(route)), cpu(r.host().copy(route)) {}
  std::unique_ptr<Communicator> gpu, cpu;
};

void check_sum(GpuRank& r, const Both& both, size_t pairs, size_t floats) {
  RankExec host(*both.cpu);
  const auto mine = packed_values(r.rank(), pairs, floats);
  auto want = mine;
  both.cpu->all_reduce(host, want, comm::AllReduce::kTwoPhase, pairs);
  const auto values = r.produce(mine);
  both.gpu->all_reduce(r.exec(), values, comm::AllReduce::kTwoPhase, pairs);
  r.require(same_bits(r.get(values), want), "all-reduce", mine.size());

  const comm::Slice own = comm::slice_of(mine.size(), r.rank(), both.cpu->size());
  std::vector<float> part(own.size());
  both.cpu->reduce_scatter(host, mine, part, pairs);
  const auto all = r.produce(mine), got = r.put(std::vector<float>(own.size(), -1));
  both.gpu->reduce_scatter(r.exec(), all, got, pairs);
  r.require(same_bits(r.get(got), part), "reduce-scatter", mine.size());
  r.require(same_bits(r.get(all), mine), "what a reduce-scatter reads", mine.size());
  auto whole = mine;
  both.cpu->all_gather(host, std::as_bytes(std::span(part)),
                       std::as_writable_bytes(std::span(whole)), sizeof(float));
  both.gpu->all_gather(r.exec(), std::as_bytes(got), std::as_writable_bytes(all), sizeof(float));
  r.require(same_bits(r.get(all), whole), "all-gather", mine.size());
}

void check_moves(GpuRank& r, const Both& both, size_t n) {
  for (const int root : {0, both.cpu->size() - 1}) {
    const bool takes = r.rank() == root;
    const auto bytes = r.produce(values_of(r.rank(), n, 1));
    const auto all =
        r.put(std::vector<float>(takes ? n * static_cast<size_t>(both.cpu->size()) : 0, -1));
    both.gpu->gather(r.exec(), std::as_bytes(bytes), std::as_writable_bytes(all), root);
    const auto got = r.get(all);
    for (size_t i = 0; i < got.size(); ++i)
      r.require(got[i] == value_of(static_cast<int>(i / n), i % n, 1), "gather", n);
    both.gpu->broadcast(r.exec(), std::as_writable_bytes(bytes), root);
    r.require(r.get(bytes) == values_of(root, n, 1), "broadcast", n);
  }
}

void check_blocks(GpuRank& r, const Both& both, size_t scale) {
  const auto ranks = static_cast<size_t>(both.cpu->size());
  RankBlocks<float> want(both.cpu->size(), 4 * scale + 1, -1.0f);
  std::vector<float> send(ranks * (4 * scale + 1), -2);
  std::vector<int64_t> sizes;
  for (int q = 0; q < both.cpu->size(); ++q) {
    const auto block = values_of(r.rank() * 100 + q, length_of(r.rank(), q, scale), 3);
    want.set(q, block);
    std::copy(block.begin(), block.end(), send.begin() + q * static_cast<int64_t>(4 * scale + 1));
    sizes.push_back(std::ssize(block) * 4);
  }
  both.cpu->all_to_all_v(RankExec(*both.cpu), want.blocks());
  const auto to = r.put(std::vector<float>(send.size(), -1)), from = r.produce(send);
  const auto received = r.put(std::vector<int64_t>(ranks, -7)), sent = r.produce(sizes);
  both.gpu->all_to_all_v(r.exec(), {.send = std::as_bytes(from).data(),
                                    .send_bytes = sent.data(),
                                    .receive = std::as_writable_bytes(to).data(),
                                    .received_bytes = received.data(),
                                    .capacity = static_cast<int64_t>(4 * scale + 1) * 4});
  const auto got = r.get(to);
  const auto bytes = r.get(received);
  for (int q = 0; q < both.cpu->size(); ++q) {
    const auto at = static_cast<size_t>(q);
    r.require(bytes[at] == std::ssize(want.got(q)) * 4, "size of a block", scale);
    const auto block = std::span(got).subspan(at * (4 * scale + 1), 4 * scale + 1);
    r.require(same_bits(block, want.block(q)), "all-to-all-v", scale);  // nothing after it either
  }
}

std::vector<Route> routes(const Topology& topology) {
  return topology.uniform() ? std::vector{Route::kFlat, Route::kHierarchical}
                            : std::vector{Route::kFlat};
}

// Topologies by name: LocalFirst, NodeFirst, of several ranks a node and of one, and uneven.
std::vector<Topology> topologies() {
  return {Topology({2, 2}),    Topology({2, 2}, true), Topology({4, 4}, true),
          Topology({1, 1, 1}), Topology({2, 1}),       Topology({2, 2, 2})};
}

TEST_CASE("GPUs of several processes move and add what CPU ranks do, on both routes") {
  const auto check = [](const Topology& topology, comm::Transport::Join* join) {
    INFO(topology.nodes() << " nodes, " << topology.ranks() << " ranks");
    const EmulatedDevices machine(topology.ranks());
    const auto body = [&](GpuRank& r) {
      for (const Route route : routes(topology)) {
        const Both& both = r.keep<Both>(r, route);
        for (const auto& [pairs, floats] :
             {std::pair<size_t, size_t>{0, 0}, {0, 1}, {1, 0}, {0, 7}, {5, 2}, {64, 197}})
          check_sum(r, both, pairs, floats);
        const auto sums = both.gpu->traffic(), want = both.cpu->traffic();
        r.require(sums.intra_bytes == want.intra_bytes && sums.inter_bytes == want.inter_bytes &&
                      sums.intra_received == want.intra_received &&
                      sums.inter_received == want.inter_received &&
                      sums.intra_messages == want.intra_messages &&
                      sums.inter_messages == want.inter_messages,
                  "traffic of sums", 0);
        for (const size_t n : {0, 13}) check_moves(r, both, n);
        for (const size_t scale : {0, 1, 9}) check_blocks(r, both, scale);
      }
    };
    CHECK_NOTHROW(on_nodes(topology, body, join));
  };
  for (const Topology& topology : topologies())
    for (auto* const join : {comm::join_by_nccl, join_by_host_memory}) check(topology, join);
}

// Runs of a graph: what is inside has run before, so that it has its memory.
void check_captured(GpuRank& r, const Both& both) {
  const auto ranks = static_cast<size_t>(both.cpu->size());
  const auto first = r.put(values_of(r.rank(), 29, 4)), values = r.put(std::vector<float>(29));
  const auto sizes = r.put(std::vector<int64_t>(ranks, 4)),
             received = r.put(std::vector<int64_t>(ranks));
  const auto send = r.put(std::vector<float>(ranks, static_cast<float>(r.rank()))),
             receive = r.put(std::vector<float>(ranks, -1));
  const auto iteration = [&] {
    r.produce(first, values);
    both.gpu->all_reduce(r.exec(), values);
    both.gpu->all_to_all_v(r.exec(), {.send = std::as_bytes(send).data(),
                                      .send_bytes = sizes.data(),
                                      .receive = std::as_writable_bytes(receive).data(),
                                      .received_bytes = received.data(),
                                      .capacity = 4});
    both.gpu->all_reduce(r.exec(), receive);
  };
  iteration();
  r.devices().wait_for(r.exec());
  r.captured(3, iteration);
  auto want = values_of(r.rank(), 29, 4), gathered = std::vector<float>(ranks);
  RankExec host(*both.cpu);
  both.cpu->all_reduce(host, want);
  r.require(r.get(values) == want, "a graph's sum", 29);
  for (size_t q = 0; q < ranks; ++q) gathered[q] = static_cast<float>(q * ranks);
  r.require(r.get(receive) == gathered, "a graph's exchange", ranks);
}

TEST_CASE("GPUs of several processes are right in 20 random orders, captured too") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Topology topology = topologies()[seed % 6];
    INFO(topology.nodes() << " nodes, " << topology.ranks() << " ranks, seed " << seed);
    const EmulatedDevices machine(topology.ranks());
    const RandomStreams order(seed);
    CHECK_NOTHROW(on_nodes(topology, [&](GpuRank& r) {
      const Both& both = r.keep<Both>(r, routes(topology).back());
      check_sum(r, both, 3, 30);
      check_moves(r, both, 3);
      check_blocks(r, both, 2);
      check_captured(r, both);
    }));
  }
}

TEST_CASE("GPUs of several processes sum for a sharded optimizer as CPU ranks do") {
  const Topology topology({2, 2});
  const EmulatedDevices machine(4);
  CHECK_NOTHROW(on_nodes(topology, [&](GpuRank& r) {
    comm::RankContext ranks{
        .rank = r.rank(), .topology = std::make_shared<Topology>(topology), .world = &r.host()};
    comm::ShardedSum cpu(ranks, Route::kHierarchical);
    ranks.devices = &r.devices();
    auto& gpu = r.keep<comm::ShardedSum>(ranks, Route::kHierarchical);
    const size_t n = 41;
    const comm::Slice own = cpu.part_of(n, r.rank());
    auto all = packed_values(r.rank(), 20, 21);
    std::vector<float> part(own.size());
    const auto values = r.produce(all), mine = r.put(part);
    RankExec host(r.host());
    cpu.reduce_scatter(host, all, part, 20);
    gpu.reduce_scatter(r.exec(), values, mine, 20);
    r.require(same_bits(r.get(mine), part), "part of a sum", n);
    std::copy(part.begin(), part.end(), all.begin() + static_cast<int64_t>(own.begin));
    r.produce(mine, values.subspan(own.begin, own.size()));
    cpu.all_gather(host, std::as_writable_bytes(std::span(all)), sizeof(float));
    gpu.all_gather(r.exec(), std::as_writable_bytes(values), sizeof(float));
    r.require(same_bits(r.get(values), all), "all parts", n);
    r.require(gpu.gather_traffic().inter_bytes == cpu.gather_traffic().inter_bytes, "traffic", n);
  }));
}

TEST_CASE("nodes of unequal sizes have no rails") {
  const EmulatedDevices machine(3);
  check_contains(
      message_of<CommError>([] {
        on_nodes(Topology({2, 1}), [](GpuRank& r) { (void)r.comm().copy(Route::kHierarchical); });
      }),
      {"as many ranks on every node"});
}

}  // namespace
}  // namespace hlite::test
