// GpuMonitor: power, clocks, temperature and slowdowns of the GPUs that a process trains on, as the
// driver's management library has them (NVML, libnvidia-ml.so.1; names and numbers are those of its
// header nvml.h). The library is opened at run time, so that a program needs neither it nor its
// header; what it does not have, or does not report, is left out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/core/backend.h"

namespace hlite::trainer {

struct GpuState {
  int device = 0;  // as solver.gpu counts
  std::optional<double> watts = {}, sm_mhz = {}, memory_mhz = {}, celsius = {};
  // Reasons for a lower clock, in words, other than being idle or a user's setting.
  std::vector<std::string> slowed_by = {};
};

struct GpuEvent {
  int64_t iter = 0;
  std::vector<GpuState> gpus = {};
  // Totals of all GPUs; nullopt if one does not report. Energy: since the monitor was made.
  std::optional<double> watts = {}, joules = {};
};

class GpuMonitor {
 public:
  struct Gpu {
    int device = 0;
    std::string bus_id = {};  // kernels::device_bus_id
  };
  // $HLITE_NVML_LIBRARY, where that is set, else the driver's. One that was named and cannot be
  // opened is warned of; the driver's may be missing. GPUs that it does not know are not watched.
  explicit GpuMonitor(const std::vector<Gpu>& gpus);
  ~GpuMonitor();
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;

  [[nodiscard]] bool watches() const { return !watched_.empty(); }
  // Returns the state now, after iteration `iter`. Warns of each slowdown of a GPU once.
  [[nodiscard]] GpuEvent sample(int64_t iter);

 private:
  struct Library;
  struct Watched {
    Gpu gpu;
    void* handle = nullptr;
    std::optional<double> first_joules = {};
    uint64_t warned = 0;  // slowdowns that were warned of
  };
  [[nodiscard]] std::optional<double> joules_of(const Watched& watched) const;
  [[nodiscard]] GpuState state_of(Watched& watched) const;

  std::unique_ptr<Library> library_;
  std::vector<Watched> watched_;
};

// Those of solver.gpu that this process trains on.
std::vector<GpuMonitor::Gpu> gpus_of(const config::SolverConfig& solver, const cuda::Backend& gpu);

}  // namespace hlite::trainer
