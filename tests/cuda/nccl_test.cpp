// The calls of NCCL that the plug-in makes, and the library that it makes them of.
#include "hugectr_lite/comm/nccl_calls.h"

#include <string>
#include <thread>

#include "tests/comm/collective_checks.h"
#include "tests/cuda/nccl_scope.h"
#include "tests/support/errors.h"
#include "tests/support/stream_order.h"

namespace hlite::test {
namespace {

using comm::Topology;
using kernels::Message;
using kernels::NcclId;

std::string message_on_nodes(const std::function<void(GpuRank&)>& body) {
  const EmulatedDevices machine(4);
  return message_of<DeviceError>([&] { on_nodes(Topology({2, 2}), body); });
}

TEST_CASE(
    "processes without a suitable NCCL get an error with the found and the required version") {
  const auto join = [](GpuRank&) {};
  {
    const NcclScope nccl;
    emulation::nccl_machine().installed = false;
    check_contains(message_on_nodes(join),
                   {"cannot load NCCL", "libnccl.so.2", "HLITE_NCCL_LIBRARY",
                    "pip install 'hugectr_lite[cuda]'"});
    emulation::nccl_machine().installed = true;
    emulation::nccl_machine().version = 22707;
    check_contains(message_on_nodes(join), {"libnccl.so.2 is NCCL 2.27.7", "expected 2.28.9"});
    emulation::nccl_machine().version = 23007;
    emulation::nccl_machine().missing_function = "ncclSend";
    check_contains(message_on_nodes(join), {"NCCL 2.30.7, has no ncclSend"});
  }
  const Setting named("HLITE_NCCL_LIBRARY", "libnothing.so");
  check_contains(message_on_nodes(join), {"looked for libnothing.so (HLITE_NCCL_LIBRARY)"});
}

// A rank that calls the plug-in itself.
struct Joined {
  GpuRank& rank;
  void* comm = nullptr;

  Joined(GpuRank& r, const NcclId& id)
      : rank(r), comm(kernels::nccl_join(r.exec(), id, r.comm().size(), r.rank())) {
    finish();
  }
  // No call to NCCL blocks.
  void finish() const {
    while (!kernels::nccl_ready(rank.exec(), comm)) std::this_thread::yield();
  }
};

void on_joined(int ranks, const std::function<void(Joined&)>& body) {
  const EmulatedDevices machine(ranks);
  const NcclId id = kernels::nccl_unique_id({.device = Device::kCuda, .cuda = &emulated_cuda()});
  CHECK_NOTHROW(on_gpus(ranks, ranks, [&](GpuRank& r) {
    Joined joined(r, id);
    body(joined);
  }));
}

TEST_CASE(
    "messages of a group reach the ranks they name, and sums all of them, pairs of 16 bits first") {
  on_joined(3, [](Joined& j) {
    const GpuRank& r = j.rank;
    const int n = 3, to = (r.rank() + 1) % n, from = (r.rank() + 2) % n;
    const auto sent = j.rank.produce(values_of(r.rank(), 5, 1)),
               got = j.rank.put(std::vector<float>(5, -1));
    const Message messages[] = {
        {.peer = to, .send = sent.data(), .receive = nullptr, .bytes = 20},
        {.peer = from, .send = nullptr, .receive = got.data(), .bytes = 20}};
    kernels::nccl_exchange(r.exec(), j.comm, messages, 2);
    j.finish();
    r.require(r.get(got) == values_of(from, 5, 1), "message", 5);
    // Whole numbers: exact in any order.
    const auto own = static_cast<float>(r.rank() + 1);
    const auto words = j.rank.produce(words_of({own, 2 * own}, {3 * own, 4 * own, 5 * own}));
    kernels::nccl_sum(r.exec(), j.comm, words.data(), 4, 1);
    j.finish();
    r.require(same_bits(r.get(words), words_of({6, 12}, {18, 24, 30})), "sum", 4);
    kernels::nccl_finalize(r.exec(), j.comm);
    j.finish();
    kernels::nccl_destroy(r.exec(), j.comm);
  });
}

// A rank waits for a message that never comes. What it had is freed by nccl_abort() in any case.
TEST_CASE("a rank's work ends when it is revoked, by a library that knows no ncclCommRevoke too") {
  for (const char* missing : {"", "ncclCommRevoke"}) {
    INFO("without '" << missing << "'");
    const NcclScope nccl;
    emulation::nccl_machine().missing_function = missing;
    on_joined(2, [](Joined& j) {
      const GpuRank& r = j.rank;
      const auto got = j.rank.put(std::vector<float>(4, -1));
      if (r.rank() == 0) {
        const Message message{.peer = 1, .send = nullptr, .receive = got.data(), .bytes = 16};
        kernels::nccl_exchange(r.exec(), j.comm, &message, 1);
        r.require(!kernels::stream_is_idle(r.exec()), "a message that no rank sends", 4);
      }
      j.rank.host().barrier();
      kernels::nccl_revoke(r.exec(), j.comm);
      r.exec().cuda->stream_synchronize(r.exec().stream);
      kernels::nccl_abort(r.exec(), j.comm);
    });
  }
}

TEST_CASE("what NCCL refuses is an error in its words") {
  on_joined(2, [](Joined& j) {
    const GpuRank& r = j.rank;
    const auto values = j.rank.put(std::vector<float>(2, 1));
    const Message nowhere{.peer = 7, .send = values.data(), .receive = nullptr, .bytes = 8};
    const std::string said =
        message_of<DeviceError>([&] { kernels::nccl_exchange(r.exec(), j.comm, &nowhere, 1); });
    r.require(said.find("NCCL: a group of messages: invalid argument") != std::string::npos,
              said.c_str(), 2);
    j.rank.host().barrier();
    kernels::nccl_revoke(r.exec(), j.comm);
    kernels::nccl_abort(r.exec(), j.comm);
  });
}

}  // namespace
}  // namespace hlite::test
