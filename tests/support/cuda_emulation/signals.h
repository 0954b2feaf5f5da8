// What kernels that meet other ranks do here: they signal by words in each other's memory, and wait
// for words (device_ranges.h).
//
// A kernel that waits is begun again (__nanosleep), and so signals again: at any later time that
// must do no harm. A barrier has to follow its signals, since a thread that waits keeps the others
// from theirs.
#pragma once

namespace hlite::emulation {

// Records that the running kernel has changed a word that others may wait for.
void note_signal();
// Returns whether it has, since this was asked last.
bool take_signal();

// Returns true if the running kernel is to wait for no word: the waits of "KERNEL/waits" are left
// out (planted.h), not the kernel.
bool lacks_waits();
// The work that the thread runs until this ends lacks them.
class LackingWaits {
 public:
  LackingWaits();
  ~LackingWaits();
  LackingWaits(const LackingWaits&) = delete;
  LackingWaits& operator=(const LackingWaits&) = delete;
};

}  // namespace hlite::emulation
