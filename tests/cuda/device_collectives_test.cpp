// Collectives among emulated GPUs: exact, in every order of work, eager and captured.
#include <vector>

#include "hugectr_lite/comm/device_communicator.h"
#include "tests/comm/collective_checks.h"
#include "tests/cuda/gpu_rank.h"
#include "tests/support/stream_order.h"

namespace hlite::test {
namespace {

std::vector<float> sums_of(int ranks, size_t n, uint64_t stream) {
  std::vector<float> sums(n);
  for (size_t i = 0; i < n; ++i) sums[i] = sum_of(ranks, i, stream);
  return sums;
}

void check_sums(GpuRank& r, size_t n) {
  const int ranks = r.comm().size();
  const auto want = sums_of(ranks, n, 4);
  const auto values = r.produce(values_of(r.rank(), n, 4));
  r.comm().all_reduce(r.exec(), values);
  r.require(r.get(values) == want, "all-reduce", n);
  const comm::Slice own = comm::slice_of(n, r.rank(), ranks);
  const auto mine = r.put(std::vector<float>(own.size(), -1));
  const auto fill = r.put(std::vector<float>(n, -1));
  const auto all = r.produce(values_of(r.rank(), n, 4));
  r.comm().reduce_scatter(r.exec(), all, mine);
  const auto got = r.get(mine);
  r.require(std::equal(got.begin(), got.end(), want.begin() + static_cast<int64_t>(own.begin)),
            "reduce-scatter", n);
  r.produce(fill, all);
  r.comm().all_gather(r.exec(), std::as_bytes(mine), std::as_writable_bytes(all), sizeof(float));
  r.require(r.get(all) == want, "all-gather", n);
}

void check_moves(GpuRank& r, size_t n) {
  const int ranks = r.comm().size(), root = ranks / 2;
  const auto own = r.put(values_of(r.rank(), n, 1)), bytes = r.put(std::vector<float>(n));
  r.produce(own, bytes);
  const bool takes = r.rank() == root;
  const auto all = r.put(std::vector<float>(takes ? n * static_cast<size_t>(ranks) : 0, -1));
  const auto fill = r.put(std::vector<float>(all.size(), -1));
  r.produce(fill, all);
  r.comm().gather(r.exec(), std::as_bytes(bytes), std::as_writable_bytes(all), root);
  const auto got = r.get(all);
  for (size_t i = 0; i < got.size(); ++i)
    r.require(got[i] == value_of(static_cast<int>(i / n), i % n, 1), "gather", n);
  r.produce(own, bytes);  // which must not come after the root's
  r.comm().broadcast(r.exec(), std::as_writable_bytes(bytes), root);
  r.require(r.get(bytes) == values_of(root, n, 1), "broadcast", n);
}

void check_blocks(GpuRank& r, size_t scale) {
  const auto ranks = static_cast<size_t>(r.comm().size());
  const size_t capacity = 4 * scale + 1;
  std::vector<float> send(ranks * capacity, -2);
  std::vector<int64_t> sizes;
  for (size_t q = 0; q < ranks; ++q) {
    const auto to = static_cast<int>(q);
    const auto block = values_of(r.rank() * 100 + to, length_of(r.rank(), to, scale), 3);
    std::copy(block.begin(), block.end(), send.begin() + static_cast<int64_t>(q * capacity));
    sizes.push_back(std::ssize(block) * 4);
  }
  const auto to = r.put(send);
  const auto received = r.put(std::vector<int64_t>(ranks));
  const auto fill = r.put(std::vector<float>(send.size(), -1));
  const auto unset = r.put(std::vector<int64_t>(ranks, -7));
  const auto from = r.produce(send);
  const auto sent = r.produce(sizes);
  r.produce(fill, to);
  r.produce(unset, received);
  r.comm().all_to_all_v(r.exec(), {.send = std::as_bytes(from).data(),
                                   .send_bytes = sent.data(),
                                   .receive = std::as_writable_bytes(to).data(),
                                   .received_bytes = received.data(),
                                   .capacity = static_cast<int64_t>(capacity * 4)});
  const auto got = r.get(to);
  const auto bytes = r.get(received);
  for (size_t q = 0; q < ranks; ++q) {
    const auto peer = static_cast<int>(q);
    auto want = values_of(peer * 100 + r.rank(), length_of(peer, r.rank(), scale), 3);
    r.require(bytes[q] == std::ssize(want) * 4, "size of a block", scale);
    want.resize(capacity, -1);  // nothing is written after the bytes that were sent
    r.require(
        std::equal(want.begin(), want.end(), got.begin() + static_cast<int64_t>(q * capacity)),
        "all-to-all-v", scale);
  }
}

void check_all(GpuRank& r) {
  for (const size_t n : {0, 1, 7, 261}) check_sums(r, n);
  for (const size_t n : {0, 13}) check_moves(r, n);
  for (const size_t scale : {0, 9}) check_blocks(r, scale);
}

TEST_CASE("collectives of emulated GPUs move and add exactly") {
  for (const int ranks : {1, 2, 4, 7, 8})
    for (const int devices : {1, ranks}) {
      INFO(ranks << " ranks on " << devices << " devices");
      const EmulatedDevices machine(devices);
      CHECK_NOTHROW(on_gpus(ranks, devices, check_all));
    }
}

TEST_CASE("collectives of ranks that share the GPU move and add exactly", "[gpu]") {
  const cuda::Backend* const gpu = gpu_or_skip();
  if (!gpu) return;
  for (const int ranks : {1, 2, 4, 7}) {
    INFO(ranks << " ranks");
    CHECK_NOTHROW(on_gpus(ranks, 1, check_all, *gpu));
  }
}

// A rank's iteration: it brings its values anew, and sums them twice.
void check_captured(GpuRank& r) {
  const int ranks = r.comm().size();
  const auto first = r.put(std::vector<float>(5, static_cast<float>(r.rank() + 1)));
  const auto values = r.put(std::vector<float>(5));
  r.captured(3, [&] {
    r.produce(first, values);
    r.comm().all_reduce(r.exec(), values);
    r.comm().all_reduce(r.exec(), values);
  });
  const int sum = ranks * (ranks + 1) / 2 * ranks;
  r.require(r.get(values) == std::vector<float>(5, static_cast<float>(sum)), "graph", 5);
}

TEST_CASE("collectives of emulated GPUs are right in 20 random orders, captured too") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const int ranks = seed % 4 == 0 ? 8 : seed % 4 == 1 ? 2 : seed % 4 == 2 ? 4 : 7;
    const int devices = seed % 5 == 0 ? 1 : ranks;
    INFO(ranks << " ranks on " << devices << " devices, seed " << seed);
    const EmulatedDevices machine(devices);
    const RandomStreams order(seed);
    CHECK_NOTHROW(on_gpus(ranks, devices, [](GpuRank& r) {
      check_sums(r, 33);
      check_moves(r, 3);
      check_blocks(r, 2);
      check_captured(r);
    }));
  }
}

TEST_CASE("a size beyond a block's capacity arrives as -1, and nothing else of it") {
  const EmulatedDevices machine(2);
  CHECK_NOTHROW(on_gpus(2, 2, [](GpuRank& r) {
    const auto from = r.put(std::vector<float>(4, 5)), to = r.put(std::vector<float>(4, -1));
    const auto sent = r.put(std::vector<int64_t>{8, r.rank() == 0 ? 12 : 4});
    const auto got = r.put(std::vector<int64_t>(2, 0));
    r.comm().all_to_all_v(r.exec(), {.send = std::as_bytes(from).data(),
                                     .send_bytes = sent.data(),
                                     .receive = std::as_writable_bytes(to).data(),
                                     .received_bytes = got.data(),
                                     .capacity = 8});
    r.require(
        r.get(got) == (r.rank() == 0 ? std::vector<int64_t>{8, 8} : std::vector<int64_t>{-1, 4}),
        "sizes", 2);
    r.require(r.get(to) == (r.rank() == 0 ? std::vector<float>{5, 5, 5, 5}
                                          : std::vector<float>{-1, -1, 5, -1}),
              "blocks", 2);
  }));
}

}  // namespace
}  // namespace hlite::test
