#include "tests/support/cuda_emulation/planted.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "tests/support/cuda_emulation/block_fibers.h"
#include "tests/support/cuda_emulation/device_ranges.h"
#include "tests/support/cuda_emulation/stream_queues.h"

namespace hlite::emulation {
namespace {

Planted from_environment() {
  for (const auto& [variable, what] : {std::pair("HLITE_EMULATED_FAULT", Planted::What::kFails),
                                       {"HLITE_EMULATED_OMIT", Planted::What::kLeftOut}}) {
    const char* const text = std::getenv(variable);
    char name[64] = {};
    Planted planted{.what = what};
    if (text && std::sscanf(text, "%d:%63[^:]:%d:%d", &planted.device, name, &planted.nth,
                            &planted.every) >= 3) {
      planted.name = name;
      return planted;
    }
  }
  return {};
}

std::mutex mutex;
Planted now = from_environment();
std::atomic<bool> any = now.what != Planted::What::kNothing;
int count = 0;
std::string text_of_left_out;
std::array<std::atomic<bool>, kMaxDevices> broken_devices{};

// For runs of a whole program.
struct ReportAtExit {
  ~ReportAtExit() {
    if (!text_of_left_out.empty()) std::fputs(text_of_left_out.c_str(), stderr);
  }
};
const ReportAtExit report_at_exit;

bool is_a_work(std::string_view name) {
  return name != "wait" && name != "host wait" && name.find('/') == std::string_view::npos;
}

}  // namespace

// Work left on a broken device's streams must not run once it works again.
static void drop_work_of_broken() {
  if (std::none_of(broken_devices.begin(), broken_devices.end(),
                   [](const auto& b) { return b.load(); }))
    return;
  try {
    StreamQueues::finish_all();
  } catch (const EmulationError&) {  // a thread waits for that device: all has been dropped
  }
}

void plant(Planted planted) {
  drop_work_of_broken();
  const std::lock_guard lock(mutex);
  now = std::move(planted);
  any = now.what != Planted::What::kNothing;
  count = 0;
  text_of_left_out.clear();
  for (auto& device : broken_devices) device = false;
}

int counted() {
  const std::lock_guard lock(mutex);
  return count;
}

bool strikes(Planted::What what, int device, const char* name) {
  if (!any) return false;
  const std::lock_guard lock(mutex);
  if (now.what != what || now.device != device ||
      (now.name.empty() ? !is_a_work(name) : now.name != name))
    return false;
  ++count;
  return count == now.nth ||
         (now.every > 0 && count > now.nth && (count - now.nth) % now.every == 0);
}

bool leaves_waits_out() {
  if (!any) return false;
  const std::lock_guard lock(mutex);
  return now.what == Planted::What::kLeftOut && now.name == "wait";
}

void note_left_out(const std::string& text) {
  const std::lock_guard lock(mutex);
  text_of_left_out += text + "\n";
}
std::string left_out() {
  const std::lock_guard lock(mutex);
  return text_of_left_out;
}

bool broken(int device) { return broken_devices[static_cast<size_t>(device)]; }
void break_device(int device) { broken_devices[static_cast<size_t>(device)] = true; }

}  // namespace hlite::emulation
