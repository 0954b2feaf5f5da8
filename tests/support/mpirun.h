// The command line that starts a program under mpirun on this machine.
#pragma once

#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace hlite::test {

// Nothing for processes == 0. REQUIRES HLITE_MPIRUN otherwise (a compile definition).
inline std::vector<std::string> mpirun_prefix(int processes) {
  if (processes == 0) return {};
#ifdef HLITE_MPIRUN
  // Two that start at once would both make Open MPI's folder in /tmp, and one of them would fail.
  static const TemporaryDirectory session;
  // Without "rsh" Open MPI 4 stays on this machine, and needs no ssh; 5 asks for that only where it
  // leaves the machine. The folder has a name for each of them. Open MPI leaks memory of its own.
  return {HLITE_MPIRUN,
          "--allow-run-as-root",
          "--oversubscribe",
          "--bind-to",
          "none",
          "--mca",
          "plm",
          "^rsh",
          "--mca",
          "orte_tmpdir_base",
          session.path(),
          "--mca",
          "prte_tmpdir_base",
          session.path(),
          "-x",
          "ASAN_OPTIONS=detect_leaks=0",
          "-np",
          std::to_string(processes)};
#else
  return {"/no/mpirun"};
#endif
}

}  // namespace hlite::test
