// Removes the older snapshots of a run (solver.keep_checkpoints).
//
// A run that does so draws a number, which its snapshots hold and a resumed run takes over: so a
// snapshot of another run is never taken for one of its own, and what a killed process had left to
// remove is removed by the next one.
#pragma once

#include <cstdint>
#include <string>

namespace hlite::checkpoint {

struct Retention {
  std::string prefix;        // snapshots are <prefix><iteration>
  uint64_t run = 0;          // CheckpointMeta::run
  int64_t keep = 0;          // the newest ones
  std::string resumed = {};  // the checkpoint that the run went on from, which stays
};

// Removes what is older than the newest snapshots, each as a whole. Throws FileError.
void remove_older_snapshots(const Retention& retention);

}  // namespace hlite::checkpoint
