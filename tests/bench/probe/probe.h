// gpu_probe: what a GPU does with pieces of an iteration that no benchmark shows alone. This header
// is what the program and its parts that nvcc compiles share, so nothing of fmt.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hlite::cuda {
struct Backend;
}

namespace hlite::probe {

// One line of JSON.
class Record {
 public:
  explicit Record(std::string_view probe) { add("probe", probe); }
  Record& add(std::string_view key, std::string_view text);
  Record& add(std::string_view key, const char* text) { return add(key, std::string_view(text)); }
  Record& add(std::string_view key, double number);  // null if it is not finite
  Record& add(std::string_view key, int64_t number);
  Record& add(std::string_view key, int number) { return add(key, int64_t{number}); }
  Record& add(std::string_view key, bool yes);
  [[nodiscard]] std::string line() const { return json_ + "}\n"; }

 private:
  Record& put(std::string_view key, const std::string& json);
  std::string json_ = "{";
};

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What a probe is given.
struct Context {
  double seconds = 20;  // it begins nothing after that many
  bool small = false;   // sizes for an emulated GPU
  std::function<void(const Record&)> put;
  const cuda::Backend* backend = nullptr;  // P2 alone needs it
  Clock::time_point start = Clock::now();

  [[nodiscard]] double left() const { return seconds - seconds_since(start); }
};

struct Statistics {
  double least = 0, median = 0, p90 = 0, most = 0;
};
// Of at least one number.
Statistics statistics_of(std::vector<double> numbers);

// How many of the digests are not the first.
int64_t count_different(const std::vector<uint64_t>& digests);

// ---- P1: the products of DLRM and DCNv2 ----

// Which of cuBLASLt's epilogues, as numbers of cublasLtEpilogue_t.
struct Epilogue {
  const char* name;
  int number;
};
inline constexpr int kDefault = 1, kRelu = 2, kBias = 4, kDrelu = 8, kBgrad = 16, kAux = 128,
                     kBgrada = 256;
inline constexpr Epilogue kPlain{"plain", kDefault}, kReluBias{"RELU_BIAS", kRelu | kBias},
    kReluAuxBias{"RELU_AUX_BIAS", kRelu | kAux | kBias}, kDreluOnly{"DRELU", kDrelu | kAux},
    kDreluBgrad{"DRELU_BGRAD", kDrelu | kAux | kBgrad}, kSumsOfA{"BGRADA", kBgrada};

// d [m,n] = op(a) [m,k] op(b) [k,n], column-major as in ops/matmul.cuh; factors are bf16.
struct Product {
  std::string name;  // "dlrm.z2.fprop"
  bool turn_a = false, turn_b = false;
  int64_t m = 0, n = 0, k = 0;
  bool float_result = false;  // of bf16 else
  std::vector<Epilogue> epilogues = {};

  [[nodiscard]] double flops() const {
    return 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};
// Those of a batch, large ones of DLRM first; of DCNv2 only what DLRM has not. Layers of one output
// have kernels of their own.
std::vector<Product> products_of(int64_t batch);
inline constexpr std::array<int64_t, 4> kBatches{65536, 8192, 4096, 1120};
// Multiprocessors that a product may fill, 0: all; those of the device and more are left out.
std::vector<int> sm_targets(int multiprocessors);

// Adds to *digest a number that depends on every word of device memory and its place.
void add_digest(const void* data, int64_t words, unsigned long long* digest, void* stream);

// ---- P2: what is given to a part that nvcc does not compile. Streams are cudaStream_t ----

// Urgent: of the highest priority, else of the lowest.
using StreamHandle = std::unique_ptr<void, void (*)(void*)>;
StreamHandle make_stream(bool urgent);
// Microseconds of what issue() puts on these streams, from the first's start to the last's end; the
// least of some times.
double time_together(const std::vector<void*>& streams, int times,
                     const std::function<void()>& issue);
// Puts the gradients of weights of DLRM's three largest layers on a stream, each by its fastest
// algorithm that fills so many multiprocessors; 0: all.
std::function<void(void* stream)> weight_gradients(const Context& context, int64_t batch, int sms);
int multiprocessors();
// n values of bf16 between -1 and 1, of random bits.
void fill_bf16(void* data, int64_t n, uint64_t seed, void* stream);

// ---- The program ----

struct Options {
  std::vector<std::string> only;  // as they are run
  double seconds = 20;
  std::string json;
  bool small = false;
};
inline constexpr int kProbes = 7;
// "P1,P3" as probes, in their order, each once. Throws ConfigError for anything else.
std::vector<std::string> parse_only(const std::string& text);

// A process of its own that runs body(), whose lines come back as they are written; ended when its
// limit is over, so that what hangs in a driver hangs nothing else.
struct Ended {
  std::string lines;  // whole ones
  double seconds = 0;
  bool overran = false;
  std::string failure;  // empty if it ended well
};
Ended run_in_process(
    double limit,
    const std::function<void(const std::function<void(const std::string&)>& write)>& body);

// The records of a probe as a table for people.
std::string table_of(const std::vector<std::string>& lines);

// ---- The probes; errors are exceptions ----

// Why no GPU can be used; empty if one can.
std::string why_no_device();
void describe_device(const Context&);     // "device"
void probe_products(const Context&);      // P1
void probe_overlap(const Context&);       // P2
void probe_chains(const Context&);        // P3
void probe_gather(const Context&);        // P4
void probe_copy_nodes(const Context&);    // P5
void probe_signals(const Context&);       // P6
void probe_driver_calls(const Context&);  // P7

}  // namespace hlite::probe
