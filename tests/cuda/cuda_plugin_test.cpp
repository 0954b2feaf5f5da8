// Finding and refusing the plug-in, and its border.
#include "hugectr_lite/core/cuda_plugin.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/fill.h"
#include "hugectr_lite/cuda/device_report.h"
#include "hugectr_lite/ops/metrics.h"
#include "tests/support/cuda_backends.h"
#include "tests/support/errors.h"
#include "tests/support/stream_order.h"

namespace hlite::test {
namespace {

using cuda::CudaPlugin;

// The libraries of fake_plugin.cpp lie in the test program's folder.
std::string fake(const std::string& name) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / ("lib" + name + ".so"))
      .string();
}

// $HLITE_CUDA_LIBRARY is out of the way while one of these lives.
class WithoutAnotherPlugin {
 public:
  WithoutAnotherPlugin() {
    if (const char* path = std::getenv(kName)) path_ = path;
    unsetenv(kName);
  }
  ~WithoutAnotherPlugin() {
    if (path_) setenv(kName, path_->c_str(), 1);
  }
  WithoutAnotherPlugin(const WithoutAnotherPlugin&) = delete;
  WithoutAnotherPlugin& operator=(const WithoutAnotherPlugin&) = delete;

 private:
  static constexpr const char* kName = "HLITE_CUDA_LIBRARY";
  std::optional<std::string> path_;
};

TEST_CASE("the plug-in of this build loads, or says why not", "[gpu]") {
  const WithoutAnotherPlugin its_own;
  const CudaPlugin plugin = CudaPlugin::load();
  INFO(plugin.reason());
  if constexpr (kWithCuda) {
    REQUIRE(plugin.loaded());
    CHECK(plugin.backend().runtime_version() >= 12000);
    CHECK(std::filesystem::path(plugin.path()).filename() == cuda::kLibraryName);
    CHECK(plugin.reason().empty() == (plugin.devices() > 0));
    if (plugin.devices() == 0 && plugin.backend().driver_version() == 0) {
      check_contains(plugin.reason(), {"no NVIDIA driver on this machine", "cudaGetDeviceCount"});
      // Errors of real CUDA calls come over the border as ours.
      void* data = nullptr;
      const std::string text =
          message_of<DeviceError>([&] { plugin.backend().allocate(&data, 16); });
      check_contains(text, {"plugin.cu:", "cudaMalloc"});
      CHECK(data == nullptr);
    }
  } else {
    CHECK_FALSE(plugin.loaded());
    check_contains(plugin.reason(), {"this build contains no CUDA"});
  }
}

TEST_CASE("the GPU of this machine computes", "[gpu][gpu-probe]") {
  const cuda::Backend* gpu = gpu_or_skip();
  if (!gpu) {
    CHECK_FALSE(gpu_is_required());
    return;
  }
  char text[256];
  gpu->device_description(0, text, sizeof(text));
  WARN("GPU: " << text);
  const TestStream stream(*gpu);
  const DeviceArray<float> values(*gpu, std::vector<float>{1, 2, 3});
  CHECK(values.to_host(stream.get()) == std::vector<float>{1, 2, 3});
}

TEST_CASE("a test without the tag gpu gets no GPU", "[!shouldfail]") { gpu_or_skip(); }

TEST_CASE("programs link no CUDA library", "[gpu]") {
  // What this program has mapped before any plug-in is opened would hold them; none may be there
  // but inside the plug-in, which brings its own runtime.
  const CudaPlugin plugin = CudaPlugin::load();
  std::string maps;
  if (FILE* file = std::fopen("/proc/self/maps", "r")) {
    char line[4096];
    while (std::fgets(line, sizeof(line), file)) maps += line;
    std::fclose(file);
  }
  REQUIRE(maps.find("libstdc++") != std::string::npos);
  CHECK(maps.find("libcudart") == std::string::npos);
  CHECK(maps.find("libcublas") == std::string::npos);
  if (plugin.devices() == 0) CHECK(maps.find("libcuda.so") == std::string::npos);
}

TEST_CASE("an absent library is a reason, not an exception") {
  const CudaPlugin plugin = CudaPlugin::load_from("/nowhere/libhlite_cuda.so");
  CHECK_FALSE(plugin.loaded());
  CHECK(plugin.devices() == 0);
  check_contains(plugin.reason(), {"cannot load", "/nowhere/libhlite_cuda.so"});
  check_contains(message_of<DeviceError>([&] { (void)plugin.backend(); }), {"cannot load"});
  CHECK_THROWS_AS(plugin.require_device(), DeviceError);
}

TEST_CASE("a library of another build is refused, and both builds are named") {
  const CudaPlugin plugin = CudaPlugin::load_from(fake("fake_plugin_of_other_build"));
  CHECK_FALSE(plugin.loaded());
  CHECK(plugin.devices() == 0);
  check_contains(plugin.reason(), {"libfake_plugin_of_other_build.so does not fit this program",
                                   "it is of build 0.0.9-of-another-day", cuda::build_identity()});
  CHECK_THROWS_AS(plugin.backend(), DeviceError);
}

TEST_CASE("a build is named by its version and a hash") {
  const std::string build = cuda::build_identity();
  const std::string version = std::string(kVersion) + "-";
  REQUIRE(build.starts_with(version));
  CHECK(build.size() == version.size() + 16);
  CHECK(build.find_first_not_of("0123456789abcdef", version.size()) == std::string::npos);
  CHECK(cuda::this_plugin().build == build);
}

TEST_CASE("a library without one of the program's kernels is refused") {
  const CudaPlugin plugin = CudaPlugin::load_from(fake("fake_plugin_without_kernel"));
  CHECK_FALSE(plugin.loaded());
  check_contains(plugin.reason(),
                 {"does not fit this program", "it has no kernel relu_forward, expected void (",
                  "hlite::View<"});
}

TEST_CASE("a library whose kernel has another signature is refused") {
  const CudaPlugin plugin = CudaPlugin::load_from(fake("fake_plugin_of_other_signature"));
  CHECK_FALSE(plugin.loaded());
  check_contains(plugin.reason(), {"its kernel update_loss_scale has another signature",
                                   "expected void (int, hlite::optimizer::LossScale*, ",
                                   "found void (long, double)"});
}

TEST_CASE("every kernel of the plug-in has a handle in this program, and a name of its own") {
  std::set<std::pair<std::string, std::string>> handles, entries;
  size_t count = 0;
  for (const KernelHandle* h = KernelHandle::last(); h; h = h->next(), ++count) {
    CHECK(h->is_in(emulated_cuda()));
    handles.emplace(h->name(), h->signature());
  }
  CHECK(handles.size() == count);
  const cuda::Plugin& plugin = cuda::this_plugin();
  for (int64_t i = 0; i < plugin.kernel_count; ++i)
    entries.emplace(plugin.kernels[i].name, plugin.kernels[i].signature);
  CHECK(entries.size() == static_cast<size_t>(plugin.kernel_count));
  CHECK(entries == handles);
}

TEST_CASE("a kernel of a GPU that is not here is an error") {
  const cuda::Backend none{};
  CHECK_FALSE(kernels::fill.is_in(none));
  const Exec exec{.device = Device::kCuda, .cuda = &none};
  CHECK(message_of<DeviceError>([&] { kernels::fill(exec, {}, 0); }) ==
        "fill: the GPU is not here");
}

TEST_CASE("what a kernel's host function throws arrives as the program's error") {
  const Exec exec{.device = Device::kCuda, .cuda = &emulated_cuda()};
  const int64_t too_many = int64_t{1} << 31;
  check_contains(
      message_of<DeviceError>([&] { (void)ops::kernels::evaluation_workspace(exec, too_many); }),
      {"expected fewer than 2^31 samples"});
  CHECK(ops::kernels::evaluation_workspace(exec, 1000) >= 10 * 1000);
}

TEST_CASE("a library that is no plug-in is refused") {
  const CudaPlugin plugin = CudaPlugin::load_from(fake("fake_plugin_without_entry"));
  CHECK_FALSE(plugin.loaded());
  check_contains(plugin.reason(), {"is not a CUDA plug-in", cuda::kEntryName});
}

TEST_CASE("a plug-in without device gives the reason of its own") {
  const CudaPlugin plugin = CudaPlugin::load_from(fake("fake_plugin_without_device"));
  REQUIRE(plugin.loaded());
  CHECK(plugin.devices() == 0);
  CHECK(plugin.reason() == "no device, says the fake");
  CHECK(message_of<DeviceError>([&] { (void)plugin.require_device(); }) ==
        "no device, says the fake");
  // A failure thrown beyond the border arrives as the program's own error type.
  CHECK(message_of<Error>([&] { plugin.backend().use_device(3); }) == "no device 3, says the fake");
}

TEST_CASE("the reason for no device distinguishes drivers from devices") {
  cuda::DeviceQuery query;
  query.devices = 2;
  query.driver_version = query.runtime_version = 13000;
  CHECK(cuda::why_no_device(query).empty());
  query.failed = true;
  query.devices = 0;
  query.error = "no CUDA-capable device is detected";
  check_contains(cuda::why_no_device(query), {"offers no device", "no CUDA-capable device"});
  query.driver_version = 12020;
  check_contains(cuda::why_no_device(query), {"speaks CUDA 12.2", "older than the CUDA 13.0"});
  query.driver_version = 0;
  check_contains(cuda::why_no_device(query), {"no NVIDIA driver on this machine"});
  CHECK(cuda::version_text(12080) == "12.8");
}

TEST_CASE("the emulated table counts, describes and refuses like a machine") {
  const cuda::Backend& table = emulated_cuda();
  char text[256] = "unchanged";
  CHECK(table.device_count(text, sizeof(text)) == 1);
  CHECK(std::string(text).empty());
  CHECK_FALSE(table.loads_lazily());
  emulation::machine().loads_lazily = true;
  CHECK(table.loads_lazily());
  emulation::machine().loads_lazily = false;
  table.device_description(0, text, sizeof(text));
  check_contains(text, {"emulated device", "compute capability 9.0", "1.0 GiB"});
  check_contains(message_of<DeviceError>([&] { table.use_device(1); }),
                 {"cudaSetDevice", "cudaErrorInvalidDevice"});
  check_contains(message_of<DeviceError>([&] { table.stream_synchronize(text); }),
                 {"cudaStreamSynchronize", "cudaErrorInvalidResourceHandle"});

  void* data = text;
  table.allocate(&data, 0);
  CHECK(data == nullptr);
  table.free(data);
  table.allocate_pinned(&data, 3);
  table.zero(data, 3, nullptr);
  CHECK(static_cast<const char*>(data)[2] == 0);
  table.free_pinned(data);
  CHECK_THROWS_AS(table.free(data), DeviceError);
}

}  // namespace
}  // namespace hlite::test
