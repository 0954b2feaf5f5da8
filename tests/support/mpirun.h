// The command line that starts a program under mpirun on this machine.
#pragma once

#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace hlite::test {

// Nothing for processes == 0. REQUIRES HLITE_MPIRUN otherwise (a compile definition). What it sets
// in the environment is for the processes that mpirun starts.
inline std::vector<std::string> mpirun_prefix(int processes) {
  if (processes == 0) return {};
#ifdef HLITE_MPIRUN
  // Two that start at once would both make Open MPI's folder in /tmp, and one of them would fail.
  static const TemporaryDirectory session;
  // Files in /dev/shm are named after the host and mpirun's process. In containers that share it, two
  // may have one name; and it may be small.
  // The transport is called vader in Open MPI 4, sm in 5.
  setenv("OMPI_MCA_btl_vader_backing_directory", session.path().c_str(), 1);
  setenv("OMPI_MCA_btl_sm_backing_directory", session.path().c_str(), 1);
  // A container may forbid a process to read another one's memory.
  setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1);
  setenv("OMPI_MCA_smsc", "^cma", 1);
  setenv("OMPI_MCA_btl_tcp_if_include", "lo", 1);
  // Of mpirun itself in Open MPI 4; that of 5, which refuses it as an option, does not read this.
  setenv("OMPI_MCA_oob_tcp_if_include", "lo", 1);
  // Nor do these transports need Open MPI to replace functions that a sanitizer replaces, too.
  setenv("OMPI_MCA_memory", "^patcher", 1);
  std::vector<std::string> command = {HLITE_MPIRUN, "--allow-run-as-root", "--oversubscribe",
                                      "--bind-to", "none"};
  const auto set = [&](const char* parameter, const std::string& value) {
    command.insert(command.end(), {"--mca", parameter, value});
  };
  // Without "rsh" Open MPI 4 stays on this machine, and needs no ssh; 5 asks for that only where it
  // leaves the machine. The folder and the next limit have a name for each of them.
  set("plm", "^rsh");
  set("orte_tmpdir_base", session.path());
  set("prte_tmpdir_base", session.path());
  // At its end a process waits two seconds for an answer of mpirun. Where that does not have its
  // turn in time, it would take the end for that of a process that has failed, and exit with 1. Ends
  // by a signal or with another code than 0 still are failures.
  set("orte_allowed_exit_without_sync", "1");
  set("prte_allowed_exit_without_sync", "1");
  // An address that mpirun has chosen for its processes may be in the way of a sanitizer.
  set("rtc_hwloc_vmhole", "none");
  // Open MPI leaks memory of its own.
  command.insert(command.end(),
                 {"-x", "ASAN_OPTIONS=detect_leaks=0", "-np", std::to_string(processes)});
  return command;
#else
  return {"/no/mpirun"};
#endif
}

}  // namespace hlite::test
