// P3 to P7: edges of graphs, the L2 cache, copy nodes, signals under load, and driver calls.
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/pack.cuh"
#include "tests/bench/probe/probe_device.cuh"

namespace hlite::probe {
namespace {

std::string text_of(cudaError_t error) {
  return std::string(cudaGetErrorString(error)) + " (" + cudaGetErrorName(error) + ")";
}

// ---- P3 ----

__global__ void empty_kernel() {}
// Waits for the kernel before it on the stream, as each own kernel would; lets the next one begin.
__global__ void dependent_kernel(bool triggers) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (triggers) cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
#else
  (void)triggers;
#endif
}

void launch_dependent(bool triggers, int blocks, cudaStream_t stream) {
#if defined(__CUDACC__)
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(256);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  HLITE_CUDA(cudaLaunchKernelEx(&config, dependent_kernel, triggers));
#else
  launch({.grid = dim3(static_cast<unsigned>(blocks)), .block = dim3(32), .stream = stream},
         dependent_kernel, triggers);
#endif
}

void launch_empty(int blocks, cudaStream_t stream) {
  launch({.name = "empty",
          .grid = dim3(static_cast<unsigned>(blocks)),
          .block = dim3(256),
          .stream = stream},
         empty_kernel);
}

// Microseconds that a chain grows by with each piece, from chains of kShort and kLong: what a
// launch costs as a whole is left out.
constexpr int kShort = 40, kLong = 200;
struct Edge {
  double us_short = 0, us_long = 0;
  [[nodiscard]] double us() const { return (us_long - us_short) / (kLong - kShort); }
};
void put_edge(const Context& context, Record record, const Edge& edge) {
  context.put(
      record.add("us_40", edge.us_short).add("us_200", edge.us_long).add("us_an_edge", edge.us()));
}
// issue(n) puts a chain of n on the stream.
template <typename Issue>
Edge edge_of(cudaStream_t stream, const Issue& issue) {
  const Timer timer;
  const auto best = [&](int n) {
    issue(n);  // the first may load code
    HLITE_CUDA(cudaStreamSynchronize(stream));
    return timer.best(stream, 10, 10, [&] { issue(n); });
  };
  Edge edge;
  edge.us_short = best(kShort);
  edge.us_long = best(kLong);
  return edge;
}
// body(n) puts the chain into a graph.
template <typename Body>
Edge graph_edge_of(cudaStream_t stream, const Body& body) {
  const Graph small(stream, [&] { body(kShort); }), large(stream, [&] { body(kLong); });
  return edge_of(stream, [&](int n) { (n == kShort ? small : large).launch(stream); });
}

// ---- P4 ----

constexpr int kRowElements = 128;

// Rows of `table` that a hash of their place names; a lane reads 16 bytes of each, with kFlight of
// them on their way. Written: as bf16.
template <typename T, int kFlight, bool kWrites>
__global__ void __launch_bounds__(kPackThreads)
    gather_kernel(const T* table, uint32_t rows, int64_t n, bf16* out) {
  constexpr int kCount = static_cast<int>(16 / sizeof(T)), kLanes = kRowElements / kCount;
  constexpr int kRows = kWarp / kLanes;  // of a warp's load
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t warps = int64_t{gridDim.x} * (kPackThreads / kWarp);
  float sum = 0;
  for (int64_t first = global_thread() / kWarp * (kFlight * kRows); first < n;
       first += warps * (kFlight * kRows)) {
    Pack<T, kCount> packs[kFlight];
#pragma unroll
    for (int f = 0; f < kFlight; ++f) {
      const int64_t i = first + f * kRows + lane / kLanes;
      uint32_t hash = static_cast<uint32_t>(i) * 0x9e3779b1u;
      hash = (hash ^ hash >> 15) * 0x85ebca77u;
      const auto row = static_cast<int64_t>(uint64_t{hash ^ hash >> 13} * rows >> 32);
      packs[f] = load_pack<kCount>(table + row * kRowElements + lane % kLanes * kCount);
    }
    __syncwarp();  // or the compiler would add the first ones before it loads the last
#pragma unroll
    for (int f = 0; f < kFlight; ++f) {
      const int64_t i = first + f * kRows + lane / kLanes;
      if constexpr (kWrites) {
        Pack<bf16, kCount> to;
#pragma unroll
        for (int e = 0; e < kCount; ++e)
          to.value[e] = from_float<bf16>(to_float(packs[f].value[e]));
        if (i < n) store_pack(out + i * kRowElements + lane % kLanes * kCount, to);
      } else {
#pragma unroll
        for (int e = 0; e < kCount; ++e) sum += to_float(packs[f].value[e]);
      }
    }
  }
  if constexpr (!kWrites)
    if (sum == 12345.678f) out[0] = from_float<bf16>(sum);  // or nothing would be read
}

template <typename T, int kFlight, bool kWrites>
void gather(const Context& context, const Array<char>& table, int64_t footprint, int64_t n,
            const Array<bf16>& out, cudaStream_t stream) {
  constexpr int64_t kRowBytes = kRowElements * int64_t{sizeof(T)};
  const auto rows = static_cast<uint32_t>(footprint / kRowBytes);
  LaunchShape shape{.name = "gather", .block = dim3(kPackThreads), .stream = stream};
  const auto kernel = gather_kernel<T, kFlight, kWrites>;
  shape.grid = dim3(static_cast<unsigned>(resident_blocks(shape, kernel)));
  const auto run = [&] {
    launch(shape, kernel, reinterpret_cast<const T*>(table.data()), rows, n, out.data());
  };
  run();
  const Timer timer;
  const double us = timer.best(stream, 10, 3, run);
  const double read = static_cast<double>(n * kRowBytes),
               written = kWrites ? static_cast<double>(n) * kRowElements * 2 : 0;
  context.put(Record("P4")
                  .add("bits", static_cast<int>(8 * sizeof(T)))
                  .add("rows_mb", static_cast<double>(footprint) * 1e-6)
                  .add("in_flight", kFlight)
                  .add("writes", kWrites)
                  .add("us", us)
                  .add("read_mb", read * 1e-6)
                  .add("read_tb_s", read / us * 1e-6)
                  .add("all_tb_s", (read + written) / us * 1e-6));
}

template <typename T>
void gather_all(const Context& context, const Array<char>& table, int64_t footprint, int64_t n,
                const Array<bf16>& out, cudaStream_t stream) {
  gather<T, 4, false>(context, table, footprint, n, out, stream);
  gather<T, 4, true>(context, table, footprint, n, out, stream);
  gather<T, 8, true>(context, table, footprint, n, out, stream);
}

// ---- P5 ----

__global__ void copy_word_kernel(const uint32_t* from, uint32_t* to) { *to = *from; }

struct HostWord {
  HostWord() { HLITE_CUDA(cudaMallocHost(reinterpret_cast<void**>(&data), 64)); }
  ~HostWord() { report_cuda(cudaFreeHost(data), "cudaFreeHost"); }
  HostWord(const HostWord&) = delete;
  HostWord& operator=(const HostWord&) = delete;
  uint32_t* data = nullptr;
};

#if defined(__CUDACC__)

// ---- P6, P7 ----

__device__ inline uint64_t nanoseconds() {
  uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}
constexpr uint64_t kStuckNs = 2'000'000'000;

__global__ void delay_kernel(uint64_t ns) {
  const uint64_t start = nanoseconds();
  while (nanoseconds() - start < ns) {
  }
}

__global__ void signal_kernel(volatile uint32_t* word, uint32_t value, uint64_t* at) {
  *at = nanoseconds();
  __threadfence_system();
  *word = value;
}
__global__ void wait_kernel(const volatile uint32_t* word, uint32_t value, uint64_t* at) {
  const uint64_t start = nanoseconds();
  while (*word != value && nanoseconds() - start < kStuckNs) {
  }
  *at = nanoseconds();
}

// words[1] says that it runs; words[0] ends it, or the time.
__global__ void spin_kernel(volatile uint32_t* words, uint64_t limit_ns) {
  const uint64_t start = nanoseconds();
  words[1] = 1;
  __threadfence_system();
  while (words[0] == 0 && nanoseconds() - start < limit_ns) __nanosleep(1000);
}

// Code that is not loaded before its first use.
template <int kNumber>
__global__ void new_kernel(int* to) {
  *to = kNumber;
}

template <int kNumber>
void launch_new(int* to, cudaStream_t stream) {
  launch({.name = "new", .stream = stream}, new_kernel<kNumber>, to);
}

// A kernel that spins until the host opens it, and a thread that does so when a call takes too
// long.
class SpinningDevice {
 public:
  struct Ended {
    double us = 0;
    bool waited = false;  // it came back only when the kernel was let go
  };
  Ended time(double limit, const std::function<void()>& call) {
    words()[0] = 0;
    words()[1] = 0;
    spin_kernel<<<1, 1, 0, stream_.get()>>>(words(), static_cast<uint64_t>((limit + 1) * 1e9));
    HLITE_CUDA(cudaGetLastError());
    const auto launched = Clock::now();
    while (words()[1] == 0)
      if (seconds_since(launched) > 2) throw CudaError("the spinning kernel does not start");
    std::atomic<bool> back = false, opened = false;
    const auto start = Clock::now();
    std::thread watchdog([&] {
      while (!back && seconds_since(start) < limit)
        std::this_thread::sleep_for(std::chrono::microseconds(500));
      opened = !back;
      words()[0] = 1;
    });
    Ended ended;
    std::string failure;
    try {
      call();
    } catch (const std::exception& error) {
      failure = error.what();
    }
    ended.us = 1e6 * seconds_since(start);
    back = true;
    watchdog.join();
    ended.waited = opened;
    stream_.synchronize();
    if (!failure.empty()) throw CudaError(failure);
    return ended;
  }

 private:
  [[nodiscard]] volatile uint32_t* words() const { return host_.data; }
  HostWord host_;
  ProbeStream stream_;
};

#endif

}  // namespace

// ---- Streams and times for others ----

void delay(double us, cudaStream_t stream) {
#if defined(__CUDACC__)
  delay_kernel<<<1, 1, 0, stream>>>(static_cast<uint64_t>(us * 1e3));
  HLITE_CUDA(cudaGetLastError());
#else
  (void)us, (void)stream;  // emulated work has no time
#endif
}

StreamHandle make_stream(bool urgent) {
  return {ProbeStream(urgent).release(), [](void* of) {
            report_cuda(cudaStreamDestroy(static_cast<cudaStream_t>(of)), "cudaStreamDestroy");
          }};
}

double time_together(const std::vector<void*>& streams, int times,
                     const std::function<void()>& issue) {
  const Timer timer;
  const auto main = static_cast<cudaStream_t>(streams.front());
  double least = std::numeric_limits<double>::infinity();
  constexpr double kIssueUs = 300;  // more than the host needs
  for (int i = 0; i <= times; ++i) {
    delay(kIssueUs, main);
    timer.start(main);
    for (void* const other : streams)
      if (other != streams.front()) timer.hold_back(static_cast<cudaStream_t>(other));
    issue();
    for (void* const other : streams) {
      if (other == streams.front()) continue;
      Event end;
      end.record(static_cast<cudaStream_t>(other));
      end.hold_back(main);
    }
    const double us = timer.stop(main);
    if (i > 0) least = std::min(least, us);  // the first warms up
  }
  return least;
}

// ---- The probes ----

std::string why_no_device() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  (void)cudaGetLastError();
  if (error != cudaSuccess) return text_of(error);
  return count > 0 ? "" : "the driver lists none";
}

void describe_device(const Context& context) {
  cudaDeviceProp properties{};
  int driver = 0, runtime = 0;
  HLITE_CUDA(cudaGetDeviceProperties(&properties, 0));
  HLITE_CUDA(cudaDriverGetVersion(&driver));
  HLITE_CUDA(cudaRuntimeGetVersion(&runtime));
  Record record("device");
  record.add("gpu", properties.name)
      .add("compute", std::to_string(properties.major) + "." + std::to_string(properties.minor))
      .add("multiprocessors", properties.multiProcessorCount)
      .add("memory_gb", static_cast<double>(properties.totalGlobalMem) * 1e-9);
#if defined(__CUDACC__)
  record.add("l2_mb", static_cast<double>(properties.l2CacheSize) * 1e-6);
#endif
  record.add("driver", driver).add("runtime", runtime);
  context.put(record.add("cublaslt", static_cast<int64_t>(ops::gpu::cublaslt().version())));
}

void probe_chains(const Context& context) {
  const ProbeStream stream, other;
  const cudaStream_t on = stream.get();
  for (const int blocks : {1, multiprocessors()}) {
    const auto put = [&](const char* chain, const Edge& edge) {
      put_edge(context, Record("P3").add("chain", chain).add("blocks", blocks), edge);
    };
    const auto empty = [&](int n) {
      for (int i = 0; i < n; ++i) launch_empty(blocks, on);
    };
    put("stream", edge_of(on, empty));
    put("graph", graph_edge_of(on, empty));
    for (const bool triggers : {false, true})
      put(triggers ? "graph, programmatic, triggered at once" : "graph, programmatic",
          graph_edge_of(on, [&](int n) {
            launch_empty(blocks, on);
            for (int i = 1; i < n; ++i) launch_dependent(triggers, blocks, on);
          }));
    std::vector<Event> events(2 * kLong);
    put("graph, from stream to stream", graph_edge_of(on, [&](int n) {
          for (int i = 0; i < n; ++i) {
            const cudaStream_t at = i % 2 ? other.get() : on;
            if (i > 0) events[static_cast<size_t>(i - 1)].hold_back(at);
            launch_empty(blocks, at);
            events[static_cast<size_t>(i)].record(at);
          }
          events[static_cast<size_t>(n - 1)].hold_back(on);
        }));
    // Each edge joins two streams and forks again, as lanes do.
    put("graph, fork and join of two", graph_edge_of(on, [&](int n) {
          for (int i = 0; i < n; ++i) {
            Event &fork = events[static_cast<size_t>(2 * i)],
                  &join = events[static_cast<size_t>(2 * i + 1)];
            fork.record(on);
            fork.hold_back(other.get());
            launch_empty(blocks, other.get());
            launch_empty(blocks, on);
            join.record(other.get());
            join.hold_back(on);
          }
        }));
    const Graph one(on, [&] { launch_empty(blocks, on); });
    put("graph to graph", edge_of(on, [&](int n) {
          for (int i = 0; i < n; ++i) one.launch(on);
        }));
  }
}

void probe_gather(const Context& context) {
  constexpr int64_t kInL2 = 31'000'000, kBeyond = 872'000'000;
  const int64_t n = context.small ? 100 : 26 * int64_t{65536};
  const ProbeStream stream;
  const std::vector<int64_t> footprints =
      context.small ? std::vector<int64_t>{4096} : std::vector<int64_t>{kInL2, kBeyond};
  const Array<char> table(footprints.back());
  const Array<bf16> out(n * kRowElements);
  table.zero(stream.get());
  for (const int64_t footprint : footprints) {
    gather_all<float>(context, table, footprint, n, out, stream.get());
    gather_all<bf16>(context, table, footprint, n, out, stream.get());
  }
}

void probe_copy_nodes(const Context& context) {
  const ProbeStream stream;
  const cudaStream_t on = stream.get();
  const Array<uint32_t> words(64);
  const HostWord host;
  words.zero(on);
  uint32_t *const from = words.data(), *const to = words.data() + 32;
  const auto put = [&](const char* what, const char* node, const std::function<void()>& piece) {
    put_edge(context, Record("P5").add("bytes", what).add("node", node),
             graph_edge_of(on, [&](int n) {
               for (int i = 0; i < n; ++i) piece();
             }));
  };
  const auto both = [&](const char* what, uint32_t* a, uint32_t* b) {
    put(what, "copy", [=] { HLITE_CUDA(cudaMemcpyAsync(b, a, 4, cudaMemcpyDefault, on)); });
    put(what, "kernel", [=] {
      launch({.name = "copy_word", .block = dim3(1), .stream = on}, copy_word_kernel, a, b);
    });
  };
  *host.data = 0;
  both("device to device", from, to);
  both("device to host", from, host.data);
  both("host to device", host.data, to);
  put("device", "fill", [=] { HLITE_CUDA(cudaMemsetAsync(to, 0, 4, on)); });
  put("device, between kernels", "copy", [=] {  // two edges of two kinds
    launch_empty(1, on);
    HLITE_CUDA(cudaMemcpyAsync(to, from, 4, cudaMemcpyDefault, on));
  });
  put("device, between kernels", "kernel", [=] {
    launch_empty(1, on);
    launch({.name = "copy_word", .block = dim3(1), .stream = on}, copy_word_kernel, from, to);
  });
}

#if defined(__CUDACC__)

void probe_signals(const Context& context) {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);  // a stream that waits holds up no other
  constexpr int kMeetings = 100, kProducts = 4;
  const int64_t edge = context.small ? 256 : 8192;
  const Array<char> a(2 * edge * edge), b(2 * edge * edge), d(2 * edge * edge),
      workspace(static_cast<int64_t>(PreparedProduct::kWorkspaceBytes));
  const Array<uint32_t> word(1);
  const Array<uint64_t> signaled(kMeetings), seen(kMeetings);
  const ProbeStream load;
  fill_bf16(a.data(), edge * edge, 1, load.get());
  fill_bf16(b.data(), edge * edge, 2, load.get());
  const ProductLibrary library;
  const Product product{.name = "8192^3", .m = edge, .n = edge, .k = edge};
  const auto prepared =
      library.prepare(product, kPlain, false, {.a = a.data(), .b = b.data(), .d = d.data()}, 0, 8);
  const auto best = ProductLibrary::fastest(*prepared, load.get(), workspace.data(),
                                            [&] { return context.left() > 0; });
  if (best.candidate < 0) throw CudaError("cuBLASLt has no algorithm for the load");
  const auto multiply = [&] {
    if (!prepared->run(static_cast<size_t>(best.candidate), load.get(), workspace.data()))
      throw CudaError("the load runs no more");
  };
  for (const bool loaded : {false, true})
    for (const bool urgent : {false, true}) {
      const ProbeStream sender(urgent), receiver(urgent);
      word.zero(sender.get());
      sender.synchronize();
      Event start;
      if (loaded) multiply();
      start.record(load.get());
      start.hold_back(sender.get());  // the products run when the first meeting begins
      start.hold_back(receiver.get());
      // Each meeting takes a product's time at most, or the load would end before them.
      for (uint32_t i = 0; i < kMeetings; ++i) {
        for (int p = 0; loaded && p < kProducts && i % kProducts == 0; ++p) multiply();
        wait_kernel<<<1, 32, 0, receiver.get()>>>(word.data(), i + 1, seen.data() + i);
        signal_kernel<<<1, 1, 0, sender.get()>>>(word.data(), i + 1, signaled.data() + i);
        HLITE_CUDA(cudaGetLastError());
        Event met;  // the next signal comes after this wait
        met.record(receiver.get());
        met.hold_back(sender.get());
      }
      const Timer timer;
      timer.start(receiver.get());
      const double load_left = timer.stop(load.get());  // negative: it was too short
      const auto sent = signaled.to_host(sender.get()), got = seen.to_host(receiver.get());
      std::vector<double> flight, begin;
      for (size_t i = 1; i < kMeetings; ++i) {
        // Zero where the clocks of two multiprocessors say that it came before it went.
        flight.push_back(got[i] > sent[i] ? static_cast<double>(got[i] - sent[i]) * 1e-3 : 0);
        begin.push_back(sent[i] > got[i - 1] ? static_cast<double>(sent[i] - got[i - 1]) * 1e-3
                                             : 0);
      }
      const auto put = [&](const char* what, const Statistics& s) {
        context.put(Record("P6")
                        .add("load", loaded ? product.name : "none")
                        .add("load_us", loaded ? best.us : 0)
                        .add("priority", urgent ? "highest" : "lowest")
                        .add("what", what)
                        .add("us_least", s.least)
                        .add("us_median", s.median)
                        .add("us_p90", s.p90)
                        .add("us_most", s.most)
                        .add("load_left_us", load_left));
      };
      put("from the signal to the end of the wait", statistics_of(flight));
      put("from a wait to the next signal's start", statistics_of(begin));
    }
}

void probe_driver_calls(const Context& context) {
  // Before the first call of this process: code is loaded when it is first launched.
  setenv("CUDA_MODULE_LOADING", "LAZY", 1);
  constexpr double kLimit = 2;
  constexpr size_t kBytes = size_t{64} << 20;
  const ProbeStream stream;
  const cudaStream_t on = stream.get();
  const Array<int> number(1);
  const std::unique_ptr<char, decltype(&std::free)> pages(
      static_cast<char*>(std::aligned_alloc(4096, kBytes)), &std::free);
  if (!pages) throw CudaError("there is no memory for 64 MiB");
  std::fill_n(pages.get(), kBytes, char{1});
  void *device = nullptr, *host = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaStream_t other = nullptr;
  cudaEvent_t event = nullptr;
  size_t free = 0, total = 0;
  launch_empty(1, on);
  HLITE_CUDA(cudaStreamBeginCapture(on, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < kLong; ++i) launch_empty(1, on);
  HLITE_CUDA(cudaStreamEndCapture(on, &graph));
  SpinningDevice spinning;
  const struct {
    const char* name;
    std::function<void()> call;
  } calls[] = {
      {"launch of a loaded kernel", [&] { launch_empty(1, on); }},
      {"cudaStreamSynchronize of another stream", [&] { HLITE_CUDA(cudaStreamSynchronize(on)); }},
      {"cudaHostRegister", [&] { HLITE_CUDA(cudaHostRegister(pages.get(), kBytes, 0)); }},
      {"cudaHostUnregister", [&] { HLITE_CUDA(cudaHostUnregister(pages.get())); }},
      {"cudaMalloc", [&] { HLITE_CUDA(cudaMalloc(&device, kBytes)); }},
      {"cudaFree", [&] { HLITE_CUDA(cudaFree(device)); }},
      {"cudaMallocHost", [&] { HLITE_CUDA(cudaMallocHost(&host, kBytes)); }},
      {"cudaFreeHost", [&] { HLITE_CUDA(cudaFreeHost(host)); }},
      {"cudaGraphInstantiate", [&] { HLITE_CUDA(cudaGraphInstantiate(&exec, graph, 0)); }},
      {"cudaGraphUpload", [&] { HLITE_CUDA(cudaGraphUpload(exec, on)); }},
      {"cudaGraphLaunch, the first", [&] { HLITE_CUDA(cudaGraphLaunch(exec, on)); }},
      {"cudaGraphExecDestroy", [&] { HLITE_CUDA(cudaGraphExecDestroy(exec)); }},
      {"launch of a kernel that is not loaded", [&] { launch_new<1>(number.data(), on); }},
      {"cudaFuncGetAttributes of one that is not loaded",
       [&] {
         cudaFuncAttributes attributes{};
         HLITE_CUDA(cudaFuncGetAttributes(&attributes, new_kernel<2>));
       }},
      {"launch of that one", [&] { launch_new<2>(number.data(), on); }},
      {"cudaMallocAsync", [&] { HLITE_CUDA(cudaMallocAsync(&device, kBytes, on)); }},
      {"cudaFreeAsync", [&] { HLITE_CUDA(cudaFreeAsync(device, on)); }},
      {"cudaStreamCreate",
       [&] { HLITE_CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking)); }},
      {"cudaStreamDestroy", [&] { HLITE_CUDA(cudaStreamDestroy(other)); }},
      {"cudaEventCreate", [&] { HLITE_CUDA(cudaEventCreate(&event)); }},
      {"cudaEventDestroy", [&] { HLITE_CUDA(cudaEventDestroy(event)); }},
      {"cudaMemGetInfo", [&] { HLITE_CUDA(cudaMemGetInfo(&free, &total)); }},
      {"cudaMemcpyAsync of 4 bytes from memory that is not page-locked",
       [&] { HLITE_CUDA(cudaMemcpyAsync(number.data(), pages.get(), 4, cudaMemcpyDefault, on)); }}};
  const auto count = static_cast<double>(std::size(calls));
  const double limit = std::min(kLimit, 0.9 * context.left() / count);
  for (const auto& each : calls) {
    std::string failure;
    SpinningDevice::Ended ended;
    try {
      ended = spinning.time(limit, each.call);
    } catch (const CudaError& error) {
      failure = error.what();
    }
    stream.synchronize();
    context.put(Record("P7")
                    .add("call", each.name)
                    .add("waits", ended.waited)
                    .add("us", ended.us)
                    .add("limit_s", limit)
                    .add("failure", failure));
  }
  HLITE_CUDA(cudaGraphDestroy(graph));
}

#else

void probe_signals(const Context&) { throw CudaError("an emulated GPU has no time"); }
void probe_driver_calls(const Context&) { throw CudaError("an emulated GPU has no driver"); }

#endif

}  // namespace hlite::probe
