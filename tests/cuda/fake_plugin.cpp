// Libraries that answer like a plug-in that does not fit, one for each value of FAKE_*.
#include <cstdio>

#include "hugectr_lite/core/plugin_table.h"

namespace {

using namespace hlite::cuda;

int no_device(char* why, size_t size) noexcept {
  std::snprintf(why, size, "no device, says the fake");
  return 0;
}

bool refuse_device(Failure* failure, int device) noexcept {
  std::snprintf(failure->text, sizeof(failure->text), "no device %d, says the fake", device);
  return false;
}

OpTable make_table() {
  OpTable table{};
  table.abi_version = kAbiVersion;
  table.bytes = FAKE_BYTES;
  table.device_count = no_device;
  table.use_device = {refuse_device};
  return table;
}

}  // namespace

extern "C" const OpTable* FAKE_ENTRY(int abi_version) {
  static const OpTable table = make_table();
  return abi_version == FAKE_VERSION ? &table : nullptr;
}
