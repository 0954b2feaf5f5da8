// Reports of how the GPUs of a run reach each other.
#include "hugectr_lite/trainer/run/links_report.h"

#include <cstdlib>
#include <string>

#include "hugectr_lite/comm/thread_communicator.h"
#include "tests/data_reader/log_capture.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/cuda_backends.h"
#include "tests/support/errors.h"
#include "tests/support/stream_order.h"

namespace hlite::trainer {
namespace {

using test::check_contains;
using test::message_of;

// What is printed where so many ranks are joined, rank q on device q mod `devices`.
std::string reported(int ranks, int devices) {
  const test::EmulatedDevices machine(devices);
  const test::LogCapture log;
  comm::run_ranks(comm::Topology({ranks}), [&](comm::Communicator& host) {
    const cuda::Backend& gpu = test::emulated_cuda();
    const int device = host.rank() % devices;
    gpu.use_device(device);
    comm::DeviceCommunicator among(host.copy(comm::Route::kFlat), gpu, device);
    if (host.rank() == 0) {
      Progress progress(/*quiet=*/false);
      report_links(gpu, among, progress);
    }
    host.barrier();
    among.leave(nullptr);
  });
  return log.text();
}

TEST_CASE("a run on several GPUs reports their links, and warns of slow ones", "[release-only]") {
  const std::string good = reported(4, 4);
  check_contains(
      good, {"4 ranks on GPUs 0 1 2 3: each reaches all others, over NVLink",
             "how ranks reach each other's GPUs", "rank 3      NVLink  NVLink  NVLink       -"});
  CHECK(good.find("slow") == std::string::npos);
  const test::EmulatedBus bus("all");
  check_contains(reported(4, 4),
                 {"warning", "6 of 6 pairs of GPUs reach each other over the bus (PCIe) only"});
}

TEST_CASE("for ranks that share one GPU only that is reported") {
  const std::string text = reported(3, 1);
  check_contains(text, {"3 ranks on GPU 0: which they share"});
  CHECK(text.find("how ranks reach") == std::string::npos);
}

// The plug-in that `train` opens, on a machine of so many devices.
class OpenedPlugin {
 public:
  explicit OpenedPlugin(const char* path) { setenv("HLITE_CUDA_LIBRARY", path, 1); }
  ~OpenedPlugin() { unsetenv("HLITE_CUDA_LIBRARY"); }
  OpenedPlugin(const OpenedPlugin&) = delete;
  OpenedPlugin& operator=(const OpenedPlugin&) = delete;
};

TEST_CASE("links are reported of GPUs that are here only") {
  const test::SmallRun files;
  const auto config = config::load_train_config(files / "config.json", {test::gpu("[[0,1]]")});
  check_contains(message_of<ConfigError>(
                     [&] { (void)links_report(*config, {.device = config::DeviceChoice::kCpu}); }),
                 {"--links: expected GPUs, found device cpu"});
  const OpenedPlugin missing("/no/such.so");
  check_contains(message_of<DeviceError>([&] { (void)links_report(*config, {}); }),
                 {"/no/such.so"});
}

}  // namespace
}  // namespace hlite::trainer
