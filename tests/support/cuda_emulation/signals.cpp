#include "tests/support/cuda_emulation/signals.h"

#include <utility>

namespace hlite::emulation {
namespace {
thread_local bool signalled = false, without_waits = false;
}  // namespace

void note_signal() { signalled = true; }
bool take_signal() { return std::exchange(signalled, false); }

bool lacks_waits() { return without_waits; }
LackingWaits::LackingWaits() { without_waits = true; }
LackingWaits::~LackingWaits() { without_waits = false; }

}  // namespace hlite::emulation
