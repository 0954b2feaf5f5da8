#include "hugectr_lite/trainer/report/gpu_monitor.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "hugectr_lite/trainer/report/metrics_file.h"
#include "tests/data_reader/log_capture.h"
#include "tests/support/cuda_backends.h"
#include "tests/support/errors.h"
#include "tests/support/metrics_events.h"
#include "tests/support/stream_order.h"
#include "tests/support/temporary_directory.h"

namespace hlite::trainer {
namespace {

using test::check_contains;

// The environment of one test.
class Variables {
 public:
  explicit Variables(const std::string& library, const std::string& values = "",
                     const std::string& fails = "") {
    setenv("HLITE_NVML_LIBRARY", library.c_str(), 1);
    setenv("HLITE_FAKE_NVML", values.c_str(), 1);
    setenv("HLITE_FAKE_NVML_FAILS", fails.c_str(), 1);
  }
  ~Variables() {
    for (const char* name : {"HLITE_NVML_LIBRARY", "HLITE_FAKE_NVML", "HLITE_FAKE_NVML_FAILS"})
      unsetenv(name);
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;
};

const std::string kValues =
    "power=310100,295000 clock=1755,1410 memory_clock=2619 temperature=61,58 reasons=0x3,0x24 "
    "energy=5000000";
const std::vector<GpuMonitor::Gpu> kTwo = {{0, "EEEE:01:00.0"}, {1, "EEEE:02:00.0"}};

}  // namespace

TEST_CASE("GPUs report power, clocks, temperature, energy and slowdowns, each and together") {
  const Variables of(HLITE_FAKE_NVML_LIBRARY, kValues);
  test::LogCapture log;
  GpuMonitor monitor(kTwo);
  REQUIRE(monitor.watches());
  const GpuEvent event = monitor.sample(50);
  CHECK(event.iter == 50);
  REQUIRE(event.gpus.size() == 2);
  CHECK(event.gpus[0].device == 0);
  CHECK(*event.gpus[0].watts == Approx(310.1));
  CHECK(*event.gpus[0].sm_mhz == 1755);
  CHECK(*event.gpus[1].sm_mhz == 1410);
  CHECK(*event.gpus[1].memory_mhz == 2619);
  CHECK(*event.gpus[1].celsius == 58);
  CHECK(*event.watts == Approx(605.1));
  // A joule more at each of four calls: two at the start, two now.
  CHECK(*event.joules == Approx(2 + 2));
  CHECK(event.gpus[0].slowed_by.empty());  // idle, and set by the user
  CHECK(event.gpus[1].slowed_by ==
        std::vector<std::string>{"power limit", "temperature, by the driver"});
  check_contains(log.text(), {"GPU 1 is slower than it could be: power limit, temperature, by the "
                              "driver; its clock is 1410 MHz"});
  // Once, until there is another reason.
  const size_t said = log.text().size();
  (void)monitor.sample(100);
  CHECK(log.text().size() == said);
  setenv("HLITE_FAKE_NVML", "reasons=0x80,0x20", 1);
  (void)monitor.sample(150);
  check_contains(log.text().substr(said), {"GPU 0", "power brake from outside"});
  CHECK(log.text().substr(said).find("GPU 1") == std::string::npos);
}

TEST_CASE("what the driver's library does not report is left out") {
  const test::LogCapture quiet;
  const auto sample = [](const std::string& library, const std::string& fails) {
    const Variables of(library, kValues, fails);
    GpuMonitor monitor(kTwo);
    return monitor.watches() ? monitor.sample(1) : GpuEvent{};
  };
  const GpuEvent cold = sample(HLITE_FAKE_NVML_WITHOUT_TEMPERATURE, "");
  CHECK(!cold.gpus.at(0).celsius);
  CHECK(cold.watts);
  const GpuEvent dark = sample(HLITE_FAKE_NVML_LIBRARY, "nvmlDeviceGetPowerUsage");
  CHECK(!dark.gpus.at(0).watts);
  CHECK(!dark.watts);
  CHECK(dark.joules);
  const GpuEvent tireless = sample(HLITE_FAKE_NVML_LIBRARY, "nvmlDeviceGetTotalEnergyConsumption");
  CHECK(!tireless.joules);
  CHECK(sample(HLITE_FAKE_NVML_LIBRARY, "nvmlDeviceGetCurrentClocksThrottleReasons")
            .gpus.at(1)
            .slowed_by.empty());
  CHECK(sample(HLITE_FAKE_NVML_LIBRARY, "nvmlInit_v2").gpus.empty());
}

TEST_CASE("a library that is named and missing is warned of, the driver's is not") {
  test::LogCapture log;
  {
    const Variables none("");  // none at all
    CHECK(!GpuMonitor(kTwo).watches());
  }
  CHECK(log.text().empty());
  {
    const Variables missing("/no/such/libnvidia-ml.so.1");
    CHECK(!GpuMonitor(kTwo).watches());
  }
  check_contains(log.text(), {"HLITE_NVML_LIBRARY", "/no/such/libnvidia-ml.so.1"});
  const size_t said = log.text().size();
  {
    const Variables foreign("libm.so.6");  // has none of the functions
    CHECK(!GpuMonitor(kTwo).watches());
  }
  CHECK(log.text().size() == said);
  const Variables one(HLITE_FAKE_NVML_LIBRARY, "gpus=1 " + kValues);  // knows GPU 0 only
  GpuMonitor monitor(kTwo);
  CHECK(monitor.sample(1).gpus.size() == 1);
}

TEST_CASE("the metrics file and the page have what GPUs report") {
  const test::TemporaryDirectory dir;
  const std::string path = dir / "m.jsonl";
  const GpuEvent whole{.iter = 50,
                       .gpus = {{.device = 3,
                                 .watts = 310.14,
                                 .sm_mhz = 1755,
                                 .memory_mhz = 2619,
                                 .celsius = 61,
                                 .slowed_by = {"power limit"}},
                                {.device = 5, .watts = 200}},
                       .watts = 510.14,
                       .joules = 1810.5},
      half{.iter = 100, .gpus = {{.device = 3}, {.device = 5, .watts = 100}}};
  {
    MetricsFile file(path, false);
    file.gpus(whole);
    file.gpus(half);
    file.ended({.iter = 100, .reason = EndReason::kMaxIter, .gpu_joules = 2000});
  }
  const auto events = test::events_in(path);
  CHECK(events.at(0) ==
        nlohmann::json::parse(
            R"({"event":"gpu","iter":50,"watts":510.1,"joules":1810.5,"gpus":[{"device":3,)"
            R"("watts":310.1,"sm_mhz":1755.0,"memory_mhz":2619.0,"celsius":61.0,)"
            R"("slowed_by":["power limit"]},{"device":5,"watts":200.0,"slowed_by":[]}]})"));
  CHECK(events.at(1) ==
        nlohmann::json::parse(R"({"event":"gpu","iter":100,"gpus":[{"device":3,"slowed_by":[]},)"
                              R"({"device":5,"watts":100.0,"slowed_by":[]}]})"));
  CHECK(events.at(2)["gpu_joules"] == 2000);
}

TEST_CASE("GPUs of a process are identified by their address on the bus, each once") {
  config::SolverConfig solver;
  solver.gpu = {{1, 0}, {0, 2}};
  const test::EmulatedDevices machine(3);
  const auto gpus = gpus_of(solver, test::emulated_cuda());
  REQUIRE(gpus.size() == 3);
  CHECK(gpus[0].device == 1);
  CHECK(gpus[0].bus_id == "EEEE:02:00.0");
  CHECK(gpus[1].bus_id == "EEEE:01:00.0");
  CHECK(gpus[2].device == 2);
}

}  // namespace hlite::trainer
