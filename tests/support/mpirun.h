// The command line that starts a program under mpirun on this machine.
#pragma once

#include <string>
#include <vector>

namespace hlite::test {

// Nothing for processes == 0. REQUIRES HLITE_MPIRUN otherwise (a compile definition).
inline std::vector<std::string> mpirun_prefix(int processes) {
  if (processes == 0) return {};
#ifdef HLITE_MPIRUN
  // "isolated": this machine only, so mpirun needs no ssh. Open MPI leaks memory of its own.
  return {HLITE_MPIRUN,
          "--allow-run-as-root",
          "--oversubscribe",
          "--bind-to",
          "none",
          "--mca",
          "plm",
          "isolated",
          "-x",
          "ASAN_OPTIONS=detect_leaks=0",
          "-np",
          std::to_string(processes)};
#else
  return {"/no/mpirun"};
#endif
}

}  // namespace hlite::test
