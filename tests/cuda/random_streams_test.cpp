// Work in random orders finds what nothing orders: every bug planted here shows for some seed.
#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "hugectr_lite/core/cuda_raii.cuh"
#include "tests/cuda/cuda_owners.cuh"
#include "tests/cuda/emulation_kernels.cuh"
#include "tests/support/errors.h"
#include "tests/support/stream_order.h"

namespace hlite::test {
namespace {

using emulation::EmulationError;

constexpr uint64_t kSeeds = 20;

// In how many of the seeds' orders `right` holds.
int right_orders(const std::function<bool()>& right) {
  int count = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const RandomStreams order(seed);
    count += right() ? 1 : 0;
  }
  return count;
}

// What a rank has on its device: a value, a place for the peer's, words that peers raise.
class DeviceRank {
 public:
  explicit DeviceRank(int device) : device_(device) {
    use();
    HLITE_CUDA(cudaMalloc(reinterpret_cast<void**>(&value), 2 * sizeof(float)));
    HLITE_CUDA(cudaMalloc(reinterpret_cast<void**>(&word), sizeof(unsigned)));
    stream.emplace();
    side.emplace();
    HLITE_CUDA(cudaMemsetAsync(value, 0, 2 * sizeof(float), stream->get()));
    HLITE_CUDA(cudaMemsetAsync(word, 0, sizeof(unsigned), stream->get()));
    stream->synchronize();
  }
  ~DeviceRank() {
    (void)cudaFree(value);
    (void)cudaFree(word);
  }
  void use() const { HLITE_CUDA(cudaSetDevice(device_)); }
  void write(float to) const {
    use();
    emulation::submit(
        stream->get(), [at = value, to] { *at = to; }, "write");
  }
  // values[1] of this rank <- the peer's value.
  void fetch(const DeviceRank& peer) const { move_values(stream->get(), peer.value, value + 1, 1); }
  [[nodiscard]] float fetched() const {
    float got = 0;
    HLITE_CUDA(cudaMemcpyAsync(&got, value + 1, sizeof(got), cudaMemcpyDefault, stream->get()));
    stream->synchronize();
    return got;
  }

  float* value = nullptr;
  unsigned* word = nullptr;
  std::optional<Stream> stream, side;

 private:
  int device_;
};

// Runs body(0) and body(1), each on a thread of its own. Returns what the first to fail threw.
std::string on_two_threads(const std::function<void(int)>& body) {
  std::string failure;
  std::mutex mutex;
  const auto run = [&](int r) {
    try {
      body(r);
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex);
      if (failure.empty()) failure = error.what();
    }
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  return failure;
}

TEST_CASE("a seed decides the order of work that nothing orders") {
  const auto order_of = [](uint64_t seed) {
    const RandomStreams random(seed);
    const Stream a, b, c;
    std::string order;
    for (const char letter : {'x', 'y'})
      for (const Stream* stream : {&a, &b, &c}) {
        const char name =
            static_cast<char>(letter == 'x' ? 'a' + (stream == &b) + 2 * (stream == &c)
                                            : 'A' + (stream == &b) + 2 * (stream == &c));
        emulation::submit(stream->get(), [&order, name] { order += name; });
      }
    HLITE_CUDA(cudaDeviceSynchronize());
    return order;
  };
  std::set<std::string> orders;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const std::string order = order_of(seed);
    CHECK(order == order_of(seed));
    for (const char name : {'a', 'b', 'c'})  // a stream's own work stays in order
      CHECK(order.find(name) < order.find(static_cast<char>(name - 'a' + 'A')));
    orders.insert(order);
  }
  CHECK(orders.size() > 5);
}

TEST_CASE("an event orders devices in every random order; without it some order is wrong") {
  const EmulatedDevices machine(2, /*peers=*/true);
  const DeviceRank a(0), b(1);
  float next = 0;
  const auto run = [&](bool waits) {
    a.write(++next);
    Event written;
    a.use();
    Event of_a;
    of_a.record(a.stream->get());
    b.use();
    if (waits) of_a.hold_back(b.stream->get());
    b.fetch(a);
    const bool right = b.fetched() == next;
    HLITE_CUDA(cudaSetDevice(0));
    HLITE_CUDA(cudaDeviceSynchronize());
    return right;
  };
  CHECK(right_orders([&] { return run(true); }) == kSeeds);
  CHECK(right_orders([&] { return run(false); }) < static_cast<int>(kSeeds));
}

TEST_CASE("the host that does not wait for a copy finds what was there before, in some order") {
  const EmulatedDevices machine(1);
  const DeviceRank a(0);
  const PinnedBuffer<float> host(1);
  float next = 0;
  const auto run = [&](bool waits) {
    a.write(++next);
    HLITE_CUDA(cudaMemcpyAsync(host.span().data(), a.value, sizeof(float), cudaMemcpyDefault,
                               a.stream->get()));
    if (waits) a.stream->synchronize();
    const bool right = host.span()[0] == next;
    a.stream->synchronize();
    return right;
  };
  CHECK(right_orders([&] { return run(true); }) == kSeeds);
  CHECK(right_orders([&] { return run(false); }) < static_cast<int>(kSeeds));
}

TEST_CASE("a query whether work is done brings it to its end") {
  for (const auto order : {emulation::StreamOrder::kAtOnce, emulation::StreamOrder::kLate,
                           emulation::StreamOrder::kRandom}) {
    const StreamOrderScope scope(order, 3);
    const DeviceRank a(0);
    Event done;
    int runs = 0;
    for (int i = 0; i < 5; ++i) emulation::submit(a.stream->get(), [&] { ++runs; });
    done.record(a.stream->get());
    while (cudaEventQuery(done.get()) == cudaErrorNotReady) CHECK(runs < 5);
    CHECK(runs == 5);
    CHECK(cudaStreamQuery(a.stream->get()) == cudaSuccess);
  }
}

// ---- Ranks with graphs that signal each other ----

// A rank's iteration as a graph: it writes its value, signals the peer, waits for the peer's signal
// and fetches the peer's value; a planted fault leaves one of these out.
struct LeftOut {
  bool signal = true, wait = true, join = true;
};

class SignalExchange {
 public:
  explicit SignalExchange(LeftOut planted, int devices = 2)
      : together_(!planted.signal || !planted.wait || !planted.join) {
    ranks_.emplace_back(0);
    ranks_.emplace_back(devices - 1);
    for (size_t r = 0; r < 2; ++r) capture(r, r == 1 ? planted : LeftOut{});
  }
  ~SignalExchange() {
    for (cudaGraphExec_t graph : graphs_) (void)cudaGraphExecDestroy(graph);
  }
  // Three iterations on a thread a rank; whether both have always got the other's value.
  bool run(std::string* failure = nullptr) {
    std::atomic<bool> right{true};
    const std::string why = on_two_threads([&](int r) {
      try {
        const auto mine = static_cast<size_t>(r);
        ranks_[mine].use();
        for (int i = 1; i <= 3 && !failed_; ++i) {
          HLITE_CUDA(cudaGraphLaunch(graphs_[mine], ranks_[mine].stream->get()));
          // Orders show what is left out, not the machine, which may hold one thread up.
          ++launched_;
          while (together_ && launched_ < 2 * i && !failed_) std::this_thread::yield();
          if (ranks_[mine].fetched() != value_of(1 - mine, i)) right = false;
          // No iteration begins before both have fetched.
          ++arrived_;
          while (arrived_ < 2 * i && !failed_) std::this_thread::yield();
        }
      } catch (...) {
        failed_ = true;
        throw;
      }
    });
    if (failure) *failure = why;
    return why.empty() && right;
  }

 private:
  void capture(size_t r, LeftOut planted) {
    const DeviceRank& mine = ranks_[r];
    const DeviceRank& peer = ranks_[1 - r];
    mine.use();
    cudaStream_t stream = mine.stream->get(), side = mine.side->get();
    Event forked, joined;
    HLITE_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    forked.record(stream);
    forked.hold_back(side);
    emulation::submit(
        side, [at = mine.value, r] { *at = *at == 0 ? value_of(r, 1) : *at + 1; }, "produce");
    joined.record(side);
    if (planted.join) joined.hold_back(stream);
    if (planted.signal) signal_word(stream, peer.word, 1);
    if (planted.wait) await_word(stream, mine.word, 1);
    mine.fetch(peer);
    emulation::submit(
        stream, [word = mine.word] { *word = 0; }, "reset");
    if (!planted.join) joined.hold_back(stream);
    cudaGraph_t graph = nullptr;
    HLITE_CUDA(cudaStreamEndCapture(stream, &graph));
    HLITE_CUDA(cudaGraphInstantiate(&graphs_[r], graph, 0));
    HLITE_CUDA(cudaGraphDestroy(graph));
    HLITE_CUDA(cudaGraphUpload(graphs_[r], stream));
  }

  // Of a rank's iteration 1, 2, 3.
  static float value_of(size_t r, int iteration) {
    return static_cast<float>(100 * (r + 1)) + static_cast<float>(iteration);
  }

  std::deque<DeviceRank> ranks_;
  cudaGraphExec_t graphs_[2] = {};
  const bool together_;
  std::atomic<int> launched_{0}, arrived_{0};
  std::atomic<bool> failed_{false};
};

// In how many orders an exchange goes right; `failure` is one that was thrown.
int right_exchanges(LeftOut planted, int devices = 2, std::string* failure = nullptr) {
  return right_orders([&] {
    SignalExchange exchange(planted, devices);
    std::string why;
    const bool right = exchange.run(&why);
    if (failure && !why.empty()) *failure = why;
    return right;
  });
}

TEST_CASE("graphs of two ranks that signal each other are right in every order") {
  for (const int devices : {2, 1}) {
    const EmulatedDevices machine(devices, /*peers=*/true);
    std::string failure;
    CHECK(right_exchanges({}, devices, &failure) == kSeeds);
    CHECK(failure.empty());
    for (const auto order : {emulation::StreamOrder::kAtOnce, emulation::StreamOrder::kLate}) {
      const StreamOrderScope scope(order);
      CHECK(SignalExchange({}, devices).run());
    }
  }
}

TEST_CASE("a wait that a rank's graph leaves out shows for some seed") {
  const EmulatedDevices machine(2, /*peers=*/true);
  CHECK(right_exchanges({.wait = false}) < static_cast<int>(kSeeds));
}

TEST_CASE("a dependency inside a rank's graph that is left out shows for some seed") {
  const EmulatedDevices machine(2, /*peers=*/true);
  CHECK(right_exchanges({.join = false}) < static_cast<int>(kSeeds));
}

TEST_CASE("a signal that is left out is a deadlock that names who waits for what") {
  const EmulatedDevices machine(2, /*peers=*/true);
  const int limit = std::exchange(emulation::machine().stuck_ms, 300);
  for (const auto order : {emulation::StreamOrder::kAtOnce, emulation::StreamOrder::kLate,
                           emulation::StreamOrder::kRandom}) {
    const StreamOrderScope scope(order);
    std::string failure;
    SignalExchange exchange({.signal = false});
    CHECK_FALSE(exchange.run(&failure));
    check_contains(failure, {"no work on any stream can go on", "device 0, stream ",
                             "graph node await_word of device 0 waits for a word that is 0",
                             "byte 0 of a block of 4 bytes of device 0"});
  }
  emulation::machine().stuck_ms = limit;
}

TEST_CASE("events that wait for each other's streams show whose work is missing") {
  const EmulatedDevices machine(2, /*peers=*/true);
  const int limit = std::exchange(emulation::machine().stuck_ms, 100);
  const DeviceRank a(0), b(1);
  await_word(b.stream->get(), b.word, 1);
  Event later;
  later.record(b.stream->get());
  a.use();
  later.hold_back(a.stream->get());
  signal_word(a.stream->get(), b.word, 1);  // never: it is queued after the wait for it
  check_contains(message_of<EmulationError>([&] { a.stream->synchronize(); }),
                 {"signal_word waits for device 1", "which lacks 1 of its work",
                  "await_word of device 1 waits for a word that is 0"});
  a.write(1);  // all was dropped, and work goes on
  a.stream->synchronize();
  emulation::machine().stuck_ms = limit;
}

}  // namespace
}  // namespace hlite::test
