// Graphs of ranks that share a GPU, which nobody but a test captures (HLITE_CAPTURE_SHARED_GPU), and of
// a rank alone in NCCL: what one GPU can show of signals, waits and graphs between several. In emulation
// with few replays; on a GPU, where ranks could hang in each other's queue, when the environment asks for
// it: tools/gpu_check.sh --visit B.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "hugectr_lite/comm/nccl_calls.h"
#include "tests/cuda/nccl_scope.h"
#include "tests/support/errors.h"
#include "tests/support/stream_order.h"

namespace hlite::test {
namespace {

const bool asked_for = std::getenv("HLITE_REPLAYS") != nullptr;

// Of a meeting; whoever asked for the test may have less time.
std::string seconds_to_wait() {
  const char* const set = std::getenv("HLITE_COMM_TIMEOUT");
  return set ? set : "60";
}

int64_t replays() {
  const char* const text = std::getenv("HLITE_REPLAYS");
  return text ? std::max(1L, std::atol(text)) : 6;
}

// The emulated GPU; the machine's where it is asked for.
std::vector<CudaBackend> backends_asked_for() {
  if (asked_for) return cuda_backends();
  return {{"emulated", &emulated_cuda()}};
}

struct Variant {
  const char* name;
  int late = -1;        // a rank that comes late to each exchange, on its device and its host
  bool pauses = false;  // the ranks stop now and then to exchange without a graph
  int aborts_at = -1, exceeds_at = -1;
};
constexpr Variant kVariants[] = {{.name = "plain"},
                                 {.name = "rank 0 comes late", .late = 0},
                                 {.name = "rank 1 comes late", .late = 1},
                                 {.name = "exchanges without a graph between", .pauses = true},
                                 {.name = "a block exceeds the capacity", .exceeds_at = 3},
                                 {.name = "a rank ends", .aborts_at = 4}};

uint32_t word_of(int rank, size_t i) {
  return static_cast<uint32_t>(rank + 1) * 0x9e3779b9u ^ static_cast<uint32_t>(i * 0x85ebca6bu);
}
float slot_value(int rank, size_t i) { return static_cast<float>(rank * 1000 + i % 997 + 1); }

// Blocks that go around by all_to_all_v() and numbers that go around by all_reduce(), each from rank to
// rank with every run: one that is read too early or overwritten too soon is missing ever after.
class AroundRanks {
 public:
  AroundRanks(GpuRank& rank, bool large)
      : r_(rank),
        ranks_(static_cast<size_t>(rank.comm().size())),
        words_(large ? size_t{1} << 14 : 65) {
    block_ = r_.put(std::vector<uint32_t>(words_));
    send_ = r_.put(std::vector<uint32_t>(ranks_ * words_));
    receive_ = r_.put(std::vector<uint32_t>(ranks_ * words_));
    received_ = r_.put(std::vector<int64_t>(ranks_, -7));
    numbers_ = r_.put(std::vector<float>(ranks_ * words_));
    sums_ = r_.put(std::vector<float>(ranks_ * words_));
    sizes_ = r_.put(std::vector<int64_t>(ranks_));
    begin();
  }
  // All at rest; before the first run.
  void begin() {
    runs_ = 0;
    std::vector<uint32_t> block(words_);
    std::vector<float> numbers(ranks_ * words_);
    for (size_t i = 0; i < words_; ++i) {
      block[i] = word_of(r_.rank(), i);
      numbers[own() * words_ + i] = slot_value(r_.rank(), i);
    }
    set(block_, block);
    set(numbers_, numbers);
    set_size(bytes());
  }
  void set_size(int64_t bytes) {
    std::vector<int64_t> sizes(ranks_);
    sizes[next()] = bytes;
    set(sizes_, sizes);
  }
  void issue() {
    r_.produce(block_, part(send_, next()));
    r_.comm().all_to_all_v(r_.exec(), {.send = std::as_bytes(send_).data(),
                                       .send_bytes = sizes_.data(),
                                       .receive = std::as_writable_bytes(receive_).data(),
                                       .received_bytes = received_.data(),
                                       .capacity = bytes(),
                                       .free = true});  // the sum is an exchange since
    r_.produce(part(receive_, previous()), block_);
    r_.produce(numbers_, sums_);
    r_.comm().all_reduce(r_.exec(), sums_);
    r_.produce(part(sums_, next()), part(numbers_, own()));
  }
  void count_run() { ++runs_; }
  void check() {
    const auto n = static_cast<int64_t>(ranks_), mine = static_cast<int64_t>(own());
    const auto from = static_cast<int>(((mine - runs_) % n + n) % n);
    const auto number_from = static_cast<int>((mine + runs_) % n);
    const auto block = r_.get(block_);
    const auto numbers = r_.get(part(numbers_, own()));
    for (size_t i = 0; i < words_; ++i) {
      r_.require(block[i] == word_of(from, i), "a word of a block", i);
      r_.require(numbers[i] == slot_value(number_from, i), "a word of a sum", i);
    }
  }
  [[nodiscard]] int64_t bytes() const { return static_cast<int64_t>(words_ * sizeof(uint32_t)); }
  [[nodiscard]] int64_t came() const { return r_.get(received_)[previous()]; }

 private:
  template <typename T>
  void set(std::span<T> to, const std::vector<T>& values) {
    r_.exec().cuda->copy(to.data(), values.data(), to.size_bytes(), r_.exec().stream);
    r_.exec().cuda->stream_synchronize(r_.exec().stream);
  }
  template <typename T>
  [[nodiscard]] std::span<T> part(std::span<T> all, size_t of) const {
    return all.subspan(of * words_, words_);
  }
  [[nodiscard]] size_t own() const { return static_cast<size_t>(r_.rank()); }
  [[nodiscard]] size_t next() const { return (own() + 1) % ranks_; }
  [[nodiscard]] size_t previous() const { return (own() + ranks_ - 1) % ranks_; }

  GpuRank& r_;
  const size_t ranks_, words_;
  int64_t runs_ = 0;
  std::span<uint32_t> block_, send_, receive_;
  std::span<int64_t> received_, sizes_;
  std::span<float> numbers_, sums_;
};

// A graph that lives no longer than its rank.
struct Graph {
  const cuda::Backend& table;
  void* graph = nullptr;
  ~Graph() {
    cuda::Failure ignored;
    if (graph) (void)table.graph_destroy.entry(&ignored, graph);
  }
};

void replay(GpuRank& r, const Variant& v, bool large, int64_t times) {
  const Exec exec = r.exec();
  r.require(r.devices().may_capture(), "may_capture()", 0);
  auto& around = r.keep<AroundRanks>(r, large);
  const auto delay = r.put(std::vector<uint32_t>(large ? size_t{1} << 22 : 1));
  const auto delayed = r.put(std::vector<uint32_t>(delay.size()));
  auto& graph = r.keep<Graph>(*exec.cuda);
  exec.cuda->capture_begin(exec.stream);
  if (v.late == r.rank())
    for (int i = 0; i < 4; ++i) r.produce(delay, delayed);
  around.issue();
  if (v.late == r.rank()) r.produce(delay, delayed);
  exec.cuda->capture_end(exec.stream, &graph.graph);
  r.host().barrier();  // a graph is made while no other one waits
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::microseconds(200)); };
  // A host issues few runs ahead of those of other ranks, as a trainer does.
  constexpr int64_t kAhead = 8;
  for (int64_t run = 0; run < times; ++run) {
    if (run == v.aborts_at && r.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      raise("rank 0 ends in run {}", run);
    }
    if (run == v.exceeds_at) {
      r.devices().wait_for(exec);
      r.host().barrier();
      around.check();
      around.set_size(around.bytes() + 4);
      r.host().barrier();
      exec.cuda->graph_launch(graph.graph, exec.stream);
      r.devices().wait_for(exec);
      r.require(around.came() == -1, "the size of a block that does not fit", 0);
      r.host().barrier();
      around.begin();
      r.host().barrier();
    }
    if (v.late == r.rank() && run % 7 == 3) pause();
    exec.cuda->graph_launch(graph.graph, exec.stream);
    around.count_run();
    if (run % kAhead == kAhead - 1 || run == v.aborts_at) r.devices().wait_for(exec);
    if (v.pauses && run % 3 == 2) {
      around.issue();
      around.count_run();
    }
  }
  r.devices().wait_for(exec);
  around.check();
}

TEST_CASE("graphs of ranks that share a GPU bring each rank what the others have in that run",
          "[gpu][captured-ranks]") {
  const Setting forced("HLITE_CAPTURE_SHARED_GPU", "1"),
      limit("HLITE_COMM_TIMEOUT", seconds_to_wait().c_str());
  const EmulatedDevices machine(1);
  const RandomStreams order(3);  // in emulation
  for (const CudaBackend& backend : backends_asked_for()) {
    const bool emulated = backend.table == &emulated_cuda();
    const int64_t times = emulated ? std::min<int64_t>(replays(), 12) : replays();
    for (const int ranks : {2, 4})
      for (const Variant& v : kVariants) {
        INFO(backend.name << ", " << ranks << " ranks, " << v.name);
        // Variants but the first say what they have to say in fewer runs.
        const int64_t runs = &v == &kVariants[0] ? times : std::max<int64_t>(times / 10, 6);
        const auto all = [&] {
          on_gpus(
              ranks, 1, [&](GpuRank& r) { replay(r, v, !emulated, runs); }, *backend.table);
        };
        if (v.aborts_at >= 0)
          CHECK(message_of<Error>(all).find("rank 0 ends in run 4") != std::string::npos);
        else
          CHECK_NOTHROW(all());
      }
  }
}

// Messages to itself go around word by word; sums of one rank change nothing.
void check_nccl_alone(GpuRank& r, int64_t times) {
  const Exec exec = r.exec();
  const kernels::NcclId id = kernels::nccl_unique_id(exec);
  void* const comm = kernels::nccl_join(exec, id, 1, 0);
  const auto finish = [&] {
    while (!kernels::nccl_ready(exec, comm)) std::this_thread::yield();
  };
  finish();
  constexpr size_t kWords = 1024;
  std::vector<float> first(kWords);
  for (size_t i = 0; i < kWords; ++i) first[i] = static_cast<float>(i + 1);
  const auto sent = r.put(first), got = r.put(std::vector<float>(kWords, -1));
  const kernels::Message messages[] = {
      {.peer = 0, .send = sent.data(), .receive = nullptr, .bytes = kWords * sizeof(float)},
      {.peer = 0, .send = nullptr, .receive = got.data(), .bytes = kWords * sizeof(float)}};
  const auto issue = [&] {
    kernels::nccl_exchange(exec, comm, messages, 2);
    finish();
    kernels::nccl_sum(exec, comm, got.data(), static_cast<int64_t>(kWords), 0);
    finish();
    r.produce(got.first(kWords - 1), sent.subspan(1));
    r.produce(got.last(1), sent.first(1));
  };
  int64_t runs = 0;
  const auto check = [&] {
    const auto words = r.get(sent);
    for (size_t i = 0; i < kWords; ++i)
      r.require(words[(i + static_cast<size_t>(runs)) % kWords] == first[i], "a word", i);
  };
  issue();
  ++runs;
  check();
  auto& graph = r.keep<Graph>(*exec.cuda);
  exec.cuda->capture_begin(exec.stream);
  issue();
  exec.cuda->capture_end(exec.stream, &graph.graph);
  for (int64_t i = 0; i < times; ++i, ++runs) exec.cuda->graph_launch(graph.graph, exec.stream);
  check();
  kernels::nccl_revoke(exec, comm);  // while the graph is alive
  exec.cuda->stream_synchronize(exec.stream);
  exec.cuda->graph_destroy(std::exchange(graph.graph, nullptr));
  kernels::nccl_abort(exec, comm);
}

TEST_CASE("a rank alone in NCCL exchanges and sums in a graph, and is revoked with the graph alive",
          "[gpu][nccl-one-rank]") {
  const EmulatedDevices machine(1);
  for (const CudaBackend& backend : backends_asked_for()) {
    INFO(backend.name);
    const int64_t times = backend.table == &emulated_cuda() ? 3 : replays();
    CHECK_NOTHROW(on_gpus(
        1, 1, [&](GpuRank& r) { check_nccl_alone(r, times); }, *backend.table));
  }
}

}  // namespace
}  // namespace hlite::test
