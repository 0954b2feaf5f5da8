#include "hugectr_lite/comm/mpi_plugin.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace hlite::comm {
namespace {
constexpr const char* kLibrary = "libhlite_mpi.so";
constexpr const char* kEntry = "hlite_mpi_ranks";
using Entry = bool (*)(int version, const Topology* topology,
                       std::vector<std::unique_ptr<Communicator>>* ranks, char* failure,
                       size_t capacity);
}  // namespace

bool under_mpirun() { return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr; }

std::vector<std::unique_ptr<Communicator>> mpi_ranks(const Topology& topology) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string path = (program.parent_path() / kLibrary).string();
  // Open MPI opens its own components at run time; they look for its symbols globally.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    const char* why = dlerror();
    raise<CommError>(
        "several processes need MPI, and the MPI plug-in cannot be loaded: {}; it is built where "
        "Open MPI is installed (packages openmpi-bin, libopenmpi-dev)",
        why ? why : path);
  }
  const auto entry = reinterpret_cast<Entry>(dlsym(library, kEntry));
  if (!entry) raise<CommError>("{} is not an MPI plug-in of this program", path);
  char failure[512] = "";
  std::vector<std::unique_ptr<Communicator>> ranks;
  if (!entry(kMpiPluginVersion, &topology, &ranks, failure, sizeof failure))
    raise<CommError>("MPI: {}", failure);
  return ranks;
}

}  // namespace hlite::comm
