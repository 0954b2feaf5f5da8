// Planted failures: a test makes work fail, or leaves it out, and checks that this is noticed.
//
// Works are kernels (by the name of their launch), "copy", "set memory", "product", "sort", "scan";
// "wait" is a call of cudaStreamWaitEvent, "host wait" one of cudaEventSynchronize: they can be
// left out, and do not fail. If a captured work or wait is left out, every launch of its graph
// lacks it.
#pragma once

#include <string>

namespace hlite::emulation {

struct Planted {
  enum class What {
    kNothing,
    kFails,         // the call does; nothing has happened on the device
    kFailsRunning,  // when it runs: all later calls on that device fail, and none of its work runs
    kLeftOut,       // the call does nothing, and says that all is well
  };
  What what = What::kNothing;
  int device = 0;
  std::string name = {};  // of what strikes; empty: any work, but neither kind of wait
  int nth = 1;            // of those on that device, counted from plant() on
  int every = 0;          // and each `every`-th after it; 0: that one alone
};

// In place of what was planted before; also ends what that had broken. While nothing runs.
// For a whole program: $HLITE_EMULATED_FAULT or $HLITE_EMULATED_OMIT=DEVICE:NAME:N[:EVERY].
void plant(Planted planted);
// The number of works of that name on that device since plant().
int counted();

// Returns true if `what` was planted for this work or wait. Counts it.
bool strikes(Planted::What what, int device, const char* name);

// Returns true if waits are left out. Streams then record the work that they are ordered after, so
// that left_out() can say whether another order implies the one that is missing.
bool leaves_waits_out();
void note_left_out(const std::string& text);
// A line for each wait that was left out.
std::string left_out();

// A device whose work has failed. All later calls say so.
bool broken(int device);
void break_device(int device);

}  // namespace hlite::emulation
