// Stands in for NVIDIA's management library: a library of its functions that programs use, for
// GPUs whose PCI bus is their number + 1 (as the emulated CUDA runtime has them), with values from
// the environment. A list has a value for each GPU:
//
//   HLITE_FAKE_NVML="power=310000,295000 clock=1755 memory_clock=2619 temperature=61 reasons=0x4"
//   HLITE_FAKE_NVML_FAILS=nvmlDeviceGetPowerUsage   this function returns an error
//
// With FAKE_WITHOUT_TEMPERATURE it lacks that function. Each call of the energy function finds a
// joule more.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr int kSuccess = 0, kNotFound = 6, kUnknown = 999;

std::string setting(const std::string& name) {
  const char* const all = std::getenv("HLITE_FAKE_NVML");
  const std::string text = std::string(" ") + (all ? all : "") + " ";
  const size_t at = text.find(" " + name + "=");
  if (at == std::string::npos) return {};
  const size_t begin = at + name.size() + 2;
  return text.substr(begin, text.find(' ', begin) - begin);
}

// The GPU's of a list, or the last one.
template <typename T>
int read(const char* function, const char* name, void* device, T* value) {
  const char* const fails = std::getenv("HLITE_FAKE_NVML_FAILS");
  if (fails && std::strcmp(fails, function) == 0) return kUnknown;
  std::string list = setting(name);
  for (auto gpu = reinterpret_cast<intptr_t>(device) - 1; gpu > 0; --gpu)
    if (const size_t comma = list.find(','); comma != std::string::npos) list.erase(0, comma + 1);
  *value = static_cast<T>(std::strtoull(list.c_str(), nullptr, 0));
  return kSuccess;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int nvmlInit_v2() {
  const char* const fails = std::getenv("HLITE_FAKE_NVML_FAILS");
  return fails && std::strcmp(fails, "nvmlInit_v2") == 0 ? kUnknown : kSuccess;
}
EXPORT int nvmlShutdown() { return kSuccess; }
// "EEEE:02:00.0" is GPU 1.
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  const char* const colon = std::strchr(bus_id, ':');
  if (!colon) return kNotFound;
  const long bus = std::strtol(colon + 1, nullptr, 16);
  const std::string known = setting("gpus");
  if (bus < 1 || (!known.empty() && bus > std::atol(known.c_str()))) return kNotFound;
  *device = reinterpret_cast<void*>(bus);
  return kSuccess;
}
EXPORT int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  return read("nvmlDeviceGetPowerUsage", "power", device, milliwatts);
}
EXPORT int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  static std::atomic<unsigned long long> calls = 0;
  const int result = read("nvmlDeviceGetTotalEnergyConsumption", "energy", device, millijoules);
  *millijoules += 1000 * ++calls;
  return result;
}
EXPORT int nvmlDeviceGetClockInfo(void* device, unsigned type, unsigned* megahertz) {
  return read("nvmlDeviceGetClockInfo", type == 1 ? "clock" : "memory_clock", device, megahertz);
}
#if !defined(FAKE_WITHOUT_TEMPERATURE)
EXPORT int nvmlDeviceGetTemperature(void* device, unsigned, unsigned* celsius) {
  return read("nvmlDeviceGetTemperature", "temperature", device, celsius);
}
#endif
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  return read("nvmlDeviceGetCurrentClocksThrottleReasons", "reasons", device, reasons);
}
