// gpu_probe: measures what a GPU does with pieces of an iteration: P1 products, P2 products beside
// kernels that wait for memory, P3 edges of graphs, P4 gathers from the L2 cache, P5 copy nodes, P6
// signals under load, P7 which driver calls wait for a running kernel.
//
// A probe runs in a process of its own, so none can spoil another: it begins nothing after
// --seconds, and is ended some seconds later if a driver keeps it. What it has found by then counts.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/cuda_plugin.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/run_program.h"
#include "tests/bench/probe/probe.h"

namespace hlite::probe {
namespace {

struct Probe {
  const char* title;
  void (*run)(const Context&);
};
constexpr Probe kAll[kProbes] = {
    {"products: us at best, and at cuBLASLt's first choice; repeats under load with other bits; "
     "share of elements that differ from the plain product in float, rounded once",
     probe_products},
    {"gradients of weights beside kernels that wait for memory", probe_overlap},
    {"us of a piece of a chain of empty kernels", probe_chains},
    {"rows of 128 elements out of a few, and out of many", probe_gather},
    {"us of a piece of a chain of 4-byte copies", probe_copy_nodes},
    {"us of a signal between two streams", probe_signals},
    {"driver calls while a kernel spins: waits, if it came back only with the kernel",
     probe_driver_calls}};

// Beyond its seconds, for the start of CUDA and the piece of work at hand.
constexpr double kGrace = 15;

class Results {
 public:
  explicit Results(const std::string& path) {
    if (path.empty()) return;
    file_ = std::fopen(path.c_str(), "we");
    if (!file_) raise<FileError>("{}: cannot be written: {}", path, std::strerror(errno));
  }
  ~Results() {
    if (file_) std::fclose(file_);
  }
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;
  // At once: what follows may not end well.
  void put(const std::string& lines) const {
    if (!file_) return;
    if (std::fwrite(lines.data(), 1, lines.size(), file_) != lines.size() ||
        std::fflush(file_) != 0)
      raise<FileError>("--json: cannot be written: {}", std::strerror(errno));
  }

 private:
  FILE* file_ = nullptr;
};

Ended run_one(const Options& o, const std::function<void(const Context&)>& probe) {
  return run_in_process(o.seconds + kGrace, [&](const auto& write) {
    Context context{.seconds = o.seconds, .small = o.small, .put = [&](const Record& record) {
                      write(record.line());
                    }};
    context.start = Clock::now();
    try {
      probe(context);
    } catch (const Error&) {
      throw;
    } catch (const std::runtime_error& error) {  // CudaError, whose header needs CUDA
      raise<DeviceError>("{}", error.what());
    }
  });
}

void print(const std::string& lines) {
  std::vector<std::string> each;
  for (size_t begin = 0, end = 0; (end = lines.find('\n', begin)) != std::string::npos;
       begin = end + 1)
    each.push_back(lines.substr(begin, end - begin));
  fmt::print("{}", table_of(each));
  std::fflush(stdout);
}

int run(const Options& o) {
  const Ended device = run_one(o, [](const Context& context) {
    if (const std::string why = why_no_device(); !why.empty())
      raise<DeviceError>("no GPU that CUDA can use: {}", why);
    describe_device(context);
  });
  if (!device.failure.empty()) raise<DeviceError>("{}", device.failure);
  const Results results(o.json);
  results.put(device.lines);
  print(device.lines);

  int failed = 0;
  for (const std::string& name : o.only) {
    const Probe& probe = kAll[name[1] - '1'];
    const Ended ended = run_one(o, [&](const Context& given) {
      Context context = given;
      // Its kernels lie in the plug-in.
      const bool plugin_needed = probe.run == probe_overlap;
      const auto plugin = plugin_needed ? cuda::CudaPlugin::load() : cuda::CudaPlugin();
      if (plugin_needed) {
        context.backend = &plugin.require_device();
        context.backend->use_device(0);
      }
      probe.run(context);
    });
    failed += !ended.failure.empty();
    fmt::print("{}: {}: {:.1f} s{}\n\n", name, probe.title, ended.seconds,
               ended.failure.empty() ? "" : "; NOT COMPLETE: " + ended.failure);
    print(ended.lines);
    results.put(ended.lines);
    results.put(Record("end")
                    .add("of", name)
                    .add("seconds", ended.seconds)
                    .add("complete", ended.failure.empty())
                    .add("failure", ended.failure)
                    .line());
  }
  return failed == 0 ? kExitDone : kExitInternal;
}

}  // namespace
}  // namespace hlite::probe

int main(int argc, char** argv) {
  using namespace hlite;
  probe::Options o;
  std::string only = "P1,P2,P3,P4,P5,P6,P7";
  CLI::App app(
      "Measures pieces of an iteration on a GPU: P1 products, P2 products beside kernels that wait "
      "for memory, P3 edges of graphs, P4 gathers from the L2 cache, P5 copy nodes, P6 signals "
      "under load, P7 which driver calls wait for a running kernel",
      "gpu_probe");
  app.set_version_flag("--version", fmt::format("gpu_probe {}", kVersion));
  app.add_option("--only", only, "some of the probes")->capture_default_str();
  app.add_option("--seconds", o.seconds, "each probe begins nothing after that many")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
  app.add_option("--json", o.json, "file of all numbers, a line of JSON each");
  app.add_flag("--small", o.small, "sizes for an emulated GPU, to try this program out");
  return run_program(app, argc, argv, [&] {
    o.only = probe::parse_only(only);
    return probe::run(o);
  });
}
