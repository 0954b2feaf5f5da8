// Communicators of emulated GPUs: their parts and copies, what they refuse, and how they end.
#include "hugectr_lite/comm/device_communicator.h"

#include <vector>

#include "tests/cuda/gpu_rank.h"
#include "tests/support/errors.h"
#include "tests/support/stream_order.h"

namespace hlite::test {
namespace {

using comm::CommError;

TEST_CASE("copies and parts of a GPU communicator are communicators of their ranks") {
  const EmulatedDevices machine(3);
  CHECK_NOTHROW(on_gpus(5, 3, [](GpuRank& r) {
    const auto half = r.comm().split(r.rank() % 2);
    r.require(half->size() == 3 - r.rank() % 2 && half->rank() == r.rank() / 2, "part", 0);
    const auto ones = r.put(std::vector<float>(5, 1));  // a slice for each rank
    half->all_reduce(r.exec(), ones);
    r.require(r.get(ones)[3] == static_cast<float>(half->size()), "sum of a part", 4);
    const auto copy = r.comm().copy(comm::Route::kFlat);
    copy->all_reduce(r.exec(), ones);
    r.require(r.get(ones)[0] == 13, "sum of a copy", 4);  // 3 * 3 + 2 * 2
    const auto t = copy->traffic();
    r.require(t.intra_messages == 8 && t.inter_bytes == 0, "traffic", 4);
    r.comm().barrier();
  }));
}

TEST_CASE("GPU ranks that disagree, or request what they do not have, get an error") {
  const EmulatedDevices machine(2);
  check_contains(message_of<CommError>([] {
                   on_gpus(2, 2, [](GpuRank& r) {
                     const auto values = r.put(std::vector<float>(r.rank() == 0 ? 3 : 4));
                     r.comm().all_reduce(r.exec(), values);
                   });
                 }),
                 {"calls all-reduce of 12 bytes", "calls all-reduce of 16 bytes"});
  check_contains(message_of<CommError>([] {
                   on_gpus(2, 2,
                           [](GpuRank& r) { (void)r.comm().copy(comm::Route::kHierarchical); });
                 }),
                 {"no hierarchical route"});
  emulation::machine().peers_connected = false;
  check_contains(message_of<DeviceError>([] { on_gpus(2, 2, [](GpuRank&) {}); }),
                 {"cannot reach the memory of GPU"});
  emulation::machine().peers_connected = true;
}

TEST_CASE("a GPU rank that fails lets the others' streams run empty") {
  const EmulatedDevices machine(3);
  const std::string thrown = message_of<Error>([] {
    on_gpus(3, 3, [](GpuRank& r) {
      const auto values = r.put(std::vector<float>(8, 1));
      r.captured(1, [&] { r.comm().all_reduce(r.exec(), values); });
      void* graph = nullptr;
      const Exec exec = r.exec();
      exec.cuda->capture_begin(exec.stream);
      r.comm().all_reduce(exec, values);
      exec.cuda->capture_end(exec.stream, &graph);
      if (r.rank() == 1) exec.cuda->graph_destroy(graph);
      try {
        r.comm().barrier();  // no capture is left by an exception
      } catch (const CommError&) {
        r.require(r.rank() != 1, "an early end", 0);
      }
      if (r.rank() == 1) raise<DataError>("the disk is on fire");
      exec.cuda->graph_launch(graph, exec.stream);
      exec.cuda->stream_synchronize(exec.stream);  // its peer never signals
      exec.cuda->graph_destroy(graph);
      r.comm().barrier();
    });
  });
  CHECK(thrown == "the disk is on fire");
}

}  // namespace
}  // namespace hlite::test
