// What the driver's tools call a device.
#include "hugectr_lite/core/device_identity.h"

#include <cctype>
#include <string>

#include "tests/support/cuda_backends.h"
#include "tests/support/errors.h"
#include "tests/support/stream_order.h"

namespace hlite::test {
namespace {

std::string bus_id(const cuda::Backend& table, int device) {
  char text[64] = {};
  kernels::device_bus_id({.device = Device::kCuda, .cuda = &table}, device, text, sizeof(text));
  return text;
}

TEST_CASE("a device has an address on the bus: domain, bus, device and function", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const std::string id = bus_id(*backend.table, 0);
    INFO(id);
    REQUIRE(id.size() == std::string("0000:3B:00.0").size());
    for (size_t i = 0; i < id.size(); ++i) {
      const char mark = i == 4 || i == 7 ? ':' : i == 10 ? '.' : 'x';
      CHECK((mark == 'x' ? std::isxdigit(static_cast<unsigned char>(id[i])) != 0 : id[i] == mark));
    }
    CHECK_THROWS_AS(bus_id(*backend.table, 4096), DeviceError);
  }
}

TEST_CASE("emulated devices differ in their address") {
  const EmulatedDevices machine(3);
  CHECK(bus_id(emulated_cuda(), 0) == "EEEE:01:00.0");
  CHECK(bus_id(emulated_cuda(), 2) == "EEEE:03:00.0");
  check_contains(message_of<DeviceError>([] { (void)bus_id(emulated_cuda(), 3); }),
                 {"cudaErrorInvalidDevice"});
}

}  // namespace
}  // namespace hlite::test
