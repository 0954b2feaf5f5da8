// What NCCL brings to a communicator of GPUs: its own sums, its version's limits, and the end of
// ranks that lose each other.
#include <string>

#include "tests/comm/collective_checks.h"
#include "tests/cuda/nccl_scope.h"
#include "tests/support/errors.h"
#include "tests/support/stream_order.h"

namespace hlite::test {
namespace {

using comm::CommError;
using comm::SharedMemory;
using comm::Topology;

TEST_CASE("an NCCL before 2.30.7 runs without graphs") {
  const EmulatedDevices machine(4);
  const NcclScope nccl;
  const auto check = [](bool captures, const char* words) {
    CHECK_NOTHROW(on_nodes(Topology({2, 2}), [&](GpuRank& r) {
      r.require(r.devices().may_capture() == captures, "may_capture()", 0);
      const std::string text = r.devices().describe();
      if (text.find(words) == std::string::npos) raise("{} is not in {}", words, text);
    }));
  };
  check(true, "2 processes, here 2 ranks on GPUs");
  emulation::nccl_machine().version = 22809;
  check(false, "NCCL 2.28.9, without graphs, which want 2.30.7");
}

// Whole numbers, whose sums are exact in any order, in bf16 too.
TEST_CASE("ranks that are joined for unordered sums leave them to NCCL") {
  const EmulatedDevices machine(4);
  const auto numbers = [](int rank, size_t n) {
    std::vector<float> list;
    for (size_t i = 0; i < n; ++i)
      list.push_back(static_cast<float>(static_cast<size_t>(rank) + i));
    return list;
  };
  const auto sums = [](size_t n) {
    std::vector<float> list;
    for (size_t i = 0; i < n; ++i) list.push_back(static_cast<float>(6 + 4 * i));
    return list;
  };
  for (const auto shared : {SharedMemory::kAll, SharedMemory::kOfANode})
    CHECK_NOTHROW(on_gpus(
        Topology({2, 2}), {.shared = shared, .unordered_sums = true}, [](int rank) { return rank; },
        [&](GpuRank& r) {
          const auto values = r.produce(words_of(numbers(r.rank(), 12), numbers(r.rank(), 9)));
          r.comm().all_reduce(r.exec(), values, comm::AllReduce::kUnordered, 6);
          r.require(same_bits(r.get(values), words_of(sums(12), sums(9))), "NCCL's sum", 15);
          // Of some ranks only: in order.
          auto& pair = *r.keep<std::unique_ptr<comm::Communicator>>(r.comm().split(r.rank() % 2));
          const auto ones = r.produce(std::vector<float>(3, 1));
          pair.all_reduce(r.exec(), ones, comm::AllReduce::kUnordered);
          r.require(r.get(ones) == std::vector<float>(3, 2), "sum of a part", 3);
        }));
  const NcclScope nccl;
  emulation::nccl_machine().installed = false;
  check_contains(message_of<DeviceError>([] {
                   on_gpus(
                       Topology({4}), {.unordered_sums = true}, [](int rank) { return rank; },
                       [](GpuRank&) {});
                 }),
                 {"cannot load NCCL"});
}

// Destroyed whatever ends its scope: waiting for a stream may throw what another rank's work met.
struct Graph {
  const cuda::Backend& table;
  void* handle = nullptr;
  ~Graph() {
    cuda::Failure ignored;
    if (handle) (void)table.graph_destroy.entry(&ignored, handle);
  }
};

// Each rank sums twice and waits; with a graph that holds the sums, too.
void sum_twice(GpuRank& r, bool captured) {
  auto& rails =
      *r.keep<std::unique_ptr<comm::Communicator>>(r.comm().copy(comm::Route::kHierarchical));
  const auto values = r.put(std::vector<float>(8, 1));
  const auto sums = [&] { rails.all_reduce(r.exec(), values); };
  sums();
  r.devices().wait_for(r.exec());
  const Exec exec = r.exec();
  Graph graph{*exec.cuda};
  if (captured) {
    exec.cuda->capture_begin(exec.stream);
    sums();
    exec.cuda->capture_end(exec.stream, &graph.handle);
    r.host().barrier();
  }
  std::string failure;
  try {  // a broken connection may show when work is issued, or when it is waited for
    if (captured)
      exec.cuda->graph_launch(graph.handle, exec.stream);
    else
      sums();
    r.devices().wait_for(exec);
    raise("the waiting ended without an error");
  } catch (const DeviceError& error) {
    failure = error.what();
  }
  r.comm().abort(failure);
  try {
    r.devices().check();  // opens this rank's waits, too
    raise("no rank hears of an abort");
  } catch (const CommError&) {
  }
  exec.cuda->stream_synchronize(exec.stream);
  raise<DeviceError>("{}", failure);
}

// A sum by rails is two groups of messages.
TEST_CASE("a broken connection, and a rank that never comes, end all ranks with one reason") {
  const EmulatedDevices machine(4);
  const NcclScope nccl;
  for (const bool captured : {false, true}) {
    emulation::nccl_machine().fault = "error:1:3";
    check_contains(message_of<DeviceError>([&] {
                     on_nodes(Topology({2, 2}), [&](GpuRank& r) { sum_twice(r, captured); });
                   }),
                   {"NCCL", "system error"});
    emulation::nccl_machine().fault = "silent:2:3";
    // Enough for what comes before the fault, on a busy machine too.
    const Setting limit("HLITE_COMM_TIMEOUT", "10");
    check_contains(message_of<DeviceError>([&] {
                     on_nodes(Topology({2, 2}), [&](GpuRank& r) { sum_twice(r, captured); });
                   }),
                   {"has waited 10 s for work that other ranks take part in"});
  }
}

}  // namespace
}  // namespace hlite::test
