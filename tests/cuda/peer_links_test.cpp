#include "hugectr_lite/comm/peer_links.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/cuda_backends.h"
#include "tests/support/errors.h"
#include "tests/support/stream_order.h"

namespace hlite::comm {
namespace {

using kernels::PeerLink;
using test::check_contains;

}  // namespace

TEST_CASE("links of GPUs are listed rank by rank, with those that share one") {
  const test::EmulatedDevices machine(4);
  const test::EmulatedBus bus("1-3");
  const PeerLinks links(test::emulated_cuda(), {3, 0, 1, 0});
  CHECK(links.link(0, 1) == PeerLink::kDirect);
  CHECK(links.link(0, 2) == PeerLink::kBus);
  CHECK(links.link(2, 0) == PeerLink::kBus);
  CHECK(links.matrix() ==
        "  to rank          0       1       2       3\n"
        "  rank 0           -  NVLink     bus  NVLink\n"
        "  rank 1      NVLink       -  NVLink    same\n"
        "  rank 2         bus  NVLink       -  NVLink\n"
        "  rank 3      NVLink    same  NVLink       -");
  CHECK(links.describe() ==
        "4 ranks on GPUs 3 0 1 0: each reaches all others, some over the bus only, which is slow; "
        "some share one");
  check_contains(links.warning(),
                 {"1 of 3 pairs of GPUs", "PCIe", ": 3-1;", "expected NVLink", "48 times slower"});
}

TEST_CASE("with NVLink everywhere, or one GPU, there is no warning") {
  const test::EmulatedDevices machine(4);
  const PeerLinks all(test::emulated_cuda(), {0, 1, 2, 3});
  CHECK(all.warning().empty());
  CHECK(all.describe() == "4 ranks on GPUs 0 1 2 3: each reaches all others, over NVLink");
  const PeerLinks one(test::emulated_cuda(), {2, 2});
  CHECK(one.describe() == "2 ranks on GPU 2: which they share");
  CHECK(one.matrix().empty());
  CHECK(one.warning().empty());
  const test::EmulatedBus bus("all");
  const PeerLinks slow(test::emulated_cuda(), {0, 1, 2, 3});
  check_contains(slow.warning(), {"6 of 6 pairs", "0-1, 0-2, 0-3, 1-2, ...;"});
}

TEST_CASE("rates between GPUs are measured each way, and none is left of what that took") {
  const test::EmulatedDevices machine(3);
  const cuda::Backend& gpu = test::emulated_cuda();
  const auto& emulated = emulation::machine();
  const int blocks = emulated.device_blocks, streams = emulated.streams;
  PeerLinks links(gpu, {0, 2, 0});
  CHECK(links.rate(0, 1) == 0);
  links.measure(1 << 16);
  CHECK(emulated.device_blocks == blocks);
  CHECK(emulated.streams == streams);
  CHECK(links.rate(0, 1) > 0);
  CHECK(links.rate(1, 0) > 0);
  CHECK(links.rate(2, 1) == links.rate(0, 1));  // the same GPUs
  CHECK(links.rate(0, 2) == 0);
  check_contains(links.matrix(), {"GB/s to"});
  emulation::machine().peers_connected = false;
  PeerLinks apart(gpu, {0, 2});
  apart.measure(1 << 10);
  CHECK(apart.link(0, 1) == PeerLink::kNone);
  CHECK(apart.rate(0, 1) == 0);
  check_contains(apart.matrix(), {"none"});
  emulation::machine().peers_connected = true;
}

}  // namespace hlite::comm
