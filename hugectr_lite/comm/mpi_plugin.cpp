#include "hugectr_lite/comm/mpi_plugin.h"

#include "hugectr_lite/comm/mpi_shared_memory.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string_view>

#include "hugectr_lite/core/parse_number.h"
#include "hugectr_lite/core/plugin_file.h"

namespace hlite::comm {
namespace {
constexpr const char* kLibrary = "libhlite_mpi.so";
constexpr const char* kEntry = "hlite_mpi_ranks";
using Entry = bool (*)(int version, const Topology* topology, const char* identity,
                       std::vector<std::unique_ptr<Communicator>>* ranks, char* failure,
                       size_t capacity);
}  // namespace

bool under_mpirun() { return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr; }

int processes_here() {
  const char* const here = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  return here ? parse_number<int>(std::string_view(here)).value_or(1) : 1;
}

std::vector<std::unique_ptr<Communicator>> mpi_ranks(const Topology& topology,
                                                     const RunIdentity& identity) {
  ensure_mpi_shared_memory();
  const std::string path = plugin_file(kLibrary);
  // Open MPI opens its own components at run time; they look for its symbols globally.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library)
    raise<CommError>(
        "several processes need MPI, and the MPI plug-in cannot be loaded: {}; it is built where "
        "Open MPI is installed (packages openmpi-bin, libopenmpi-dev)",
        loader_error());
  const auto entry = reinterpret_cast<Entry>(dlsym(library, kEntry));
  if (!entry) raise<CommError>("{} is not an MPI plug-in of this program", path);
  char failure[512] = "";
  std::vector<std::unique_ptr<Communicator>> ranks;
  if (!entry(kMpiPluginVersion, &topology, text_of(identity).c_str(), &ranks, failure,
             sizeof failure))
    raise<CommError>("MPI: {}", failure);
  return ranks;
}

}  // namespace hlite::comm
