#include "hugectr_lite/trainer/report/gpu_monitor.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "hugectr_lite/comm/mpi_plugin.h"
#include "hugectr_lite/core/device_identity.h"
#include "hugectr_lite/core/log.h"

namespace hlite::trainer {
namespace {

// Declarations of nvml.h.
using Result = int;
constexpr Result kSuccess = 0;
constexpr unsigned kSmClock = 1, kMemoryClock = 2;  // nvmlClockType_t
constexpr unsigned kGpuSensor = 0;                  // nvmlTemperatureSensors_t

struct Slowdown {
  uint64_t bit;  // nvmlClocksThrottleReason...
  const char* words;
};
constexpr Slowdown kSlowdowns[] = {{0x04, "power limit"},
                                   {0x08, "hardware slowdown"},
                                   {0x20, "temperature, by the driver"},
                                   {0x40, "temperature, by the hardware"},
                                   {0x80, "power brake from outside"}};

std::vector<std::string> words_of(uint64_t reasons) {
  std::vector<std::string> words;
  for (const Slowdown& s : kSlowdowns)
    if (reasons & s.bit) words.emplace_back(s.words);
  return words;
}

// Returns the values of all, or nothing where one has none.
template <typename Values>
std::optional<double> sum_of(const Values& values) {
  std::optional<double> sum;
  for (const std::optional<double>& value : values) {
    if (!value) return std::nullopt;
    sum = sum.value_or(0) + *value;
  }
  return sum;
}

}  // namespace

struct GpuMonitor::Library {
  void* file = nullptr;
  Result (*init)() = nullptr;
  Result (*shutdown)() = nullptr;
  Result (*find)(const char*, void**) = nullptr;
  Result (*power)(void*, unsigned*) = nullptr;             // mW
  Result (*energy)(void*, unsigned long long*) = nullptr;  // mJ
  Result (*clock)(void*, unsigned, unsigned*) = nullptr;   // MHz
  Result (*temperature)(void*, unsigned, unsigned*) = nullptr;
  Result (*slowdowns)(void*, unsigned long long*) = nullptr;

  // Null where there is none that can be used.
  static std::unique_ptr<Library> open();
  Library() = default;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    if (init && shutdown) (void)shutdown();
    dlclose(file);
  }

 private:
  template <typename F>
  void take(F& function, const char* name) const {
    function = reinterpret_cast<F>(dlsym(file, name));
  }
};

std::unique_ptr<GpuMonitor::Library> GpuMonitor::Library::open() {
  const char* const named = std::getenv("HLITE_NVML_LIBRARY");
  const std::string path = named ? named : "libnvidia-ml.so.1";
  if (path.empty()) return nullptr;
  void* const file = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!file) {
    if (named) log::warning("HLITE_NVML_LIBRARY: GPUs are not watched: {}", dlerror());
    return nullptr;
  }
  auto library = std::make_unique<Library>();
  library->file = file;
  library->take(library->init, "nvmlInit_v2");
  library->take(library->shutdown, "nvmlShutdown");
  library->take(library->find, "nvmlDeviceGetHandleByPciBusId_v2");
  library->take(library->power, "nvmlDeviceGetPowerUsage");
  library->take(library->energy, "nvmlDeviceGetTotalEnergyConsumption");
  library->take(library->clock, "nvmlDeviceGetClockInfo");
  library->take(library->temperature, "nvmlDeviceGetTemperature");
  library->take(library->slowdowns, "nvmlDeviceGetCurrentClocksEventReasons");
  // Drivers before 535 have another name for it.
  if (!library->slowdowns)
    library->take(library->slowdowns, "nvmlDeviceGetCurrentClocksThrottleReasons");
  if (!library->init || !library->find || library->init() != kSuccess) {
    library->init = nullptr;
    return nullptr;
  }
  return library;
}

GpuMonitor::GpuMonitor(const std::vector<Gpu>& gpus) : library_(Library::open()) {
  if (!library_) return;
  for (const Gpu& gpu : gpus) {
    Watched watched{.gpu = gpu};
    if (library_->find(gpu.bus_id.c_str(), &watched.handle) != kSuccess) continue;
    watched.first_joules = joules_of(watched);
    watched_.push_back(std::move(watched));
  }
}

GpuMonitor::~GpuMonitor() = default;

std::optional<double> GpuMonitor::joules_of(const Watched& watched) const {
  unsigned long long millijoules = 0;
  if (!library_->energy || library_->energy(watched.handle, &millijoules) != kSuccess)
    return std::nullopt;
  return static_cast<double>(millijoules) * 1e-3;
}

GpuState GpuMonitor::state_of(Watched& watched) const {
  const auto read = [&](auto* function, auto... which) -> std::optional<double> {
    unsigned value = 0;
    if (!function || function(watched.handle, which..., &value) != kSuccess) return std::nullopt;
    return static_cast<double>(value);
  };
  GpuState state{.device = watched.gpu.device,
                 .watts = read(library_->power),
                 .sm_mhz = read(library_->clock, kSmClock),
                 .memory_mhz = read(library_->clock, kMemoryClock),
                 .celsius = read(library_->temperature, kGpuSensor)};
  if (state.watts) *state.watts *= 1e-3;
  unsigned long long reasons = 0;
  if (!library_->slowdowns || library_->slowdowns(watched.handle, &reasons) != kSuccess)
    return state;
  state.slowed_by = words_of(reasons);
  const auto fresh = words_of(reasons & ~watched.warned);
  watched.warned |= reasons;
  if (!fresh.empty())
    log::warning("GPU {} is slower than it could be: {}{}", state.device, fmt::join(fresh, ", "),
                 state.sm_mhz ? fmt::format("; its clock is {:.0f} MHz", *state.sm_mhz) : "");
  return state;
}

GpuEvent GpuMonitor::sample(int64_t iter) {
  GpuEvent event{.iter = iter};
  std::vector<std::optional<double>> watts, joules;
  for (Watched& watched : watched_) {
    event.gpus.push_back(state_of(watched));
    watts.push_back(event.gpus.back().watts);
    const auto now = joules_of(watched);
    joules.push_back(now && watched.first_joules ? std::optional(*now - *watched.first_joules)
                                                 : std::nullopt);
  }
  event.watts = sum_of(watts);
  event.joules = sum_of(joules);
  return event;
}

std::vector<GpuMonitor::Gpu> gpus_of(const config::SolverConfig& solver, const cuda::Backend& gpu) {
  std::vector<GpuMonitor::Gpu> gpus;
  const Exec exec{.device = Device::kCuda, .cuda = &gpu};
  const auto known = [&](int id) {
    return std::any_of(gpus.begin(), gpus.end(), [id](const auto& g) { return g.device == id; });
  };
  for (const auto& row : solver.gpu) {
    for (const int id : row) {
      if (known(id)) continue;
      char text[64] = {};
      kernels::device_bus_id(exec, id, text, sizeof(text));
      gpus.push_back({id, text});
    }
    if (comm::under_mpirun()) break;  // rank 0's process has the first row
  }
  return gpus;
}

}  // namespace hlite::trainer
