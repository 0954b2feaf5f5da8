#include "hugectr_lite/comm/mpi_shared_memory.h"

#include <sys/statvfs.h>

#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "hugectr_lite/comm/communicator.h"
#include "hugectr_lite/core/live_line.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/core/parse_number.h"

namespace hlite::comm {
namespace {

constexpr const char* kSharedVariable = "OMPI_MCA_btl_vader_backing_directory";
constexpr const char* kDefaultShared = "/dev/shm";
// Bytes of each process, unless a parameter of Open MPI says otherwise.
constexpr int64_t kSharedBytes = int64_t{4} << 20;
constexpr int64_t kSessionBytes = int64_t{1} << 20;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

int64_t number(const char* name, int64_t otherwise) {
  return parse_number<int64_t>(std::string_view(variable(name))).value_or(otherwise);
}

std::optional<int64_t> free_bytes(const std::string& folder) {
  struct statvfs system;
  if (statvfs(folder.c_str(), &system) != 0) return std::nullopt;
  return static_cast<int64_t>(system.f_bavail) * static_cast<int64_t>(system.f_frsize);
}

}  // namespace

MpiPlaces mpi_places() {
  const std::string shared = variable(kSharedVariable);
  const int64_t processes = number("OMPI_COMM_WORLD_LOCAL_SIZE", 1);
  // The user may have selected transports without shared memory.
  const bool uses = processes > 1 && variable("OMPI_MCA_btl").empty();
  return {.session = variable("PMIX_SERVER_TMPDIR"),
          .shared = shared.empty() ? kDefaultShared : shared,
          .default_shared = shared.empty(),
          .shared_bytes =
              uses ? processes * number("OMPI_MCA_btl_vader_segment_size", kSharedBytes) : 0};
}

std::string other_shared_folder(const MpiPlaces& places, FreeBytes free_bytes) {
  const auto session = places.session.empty() ? std::nullopt : free_bytes(places.session);
  if (session && *session < kSessionBytes)
    raise<CommError>(
        "{}: expected {} free for Open MPI's session files, found {}: free some space there, or name a "
        "folder on another disk: TMPDIR=/folder mpirun ...",
        places.session, bytes_text(kSessionBytes), bytes_text(*session));
  const auto shared = free_bytes(places.shared);
  if (!shared || *shared >= places.shared_bytes) return {};
  if (places.default_shared && session && *session >= places.shared_bytes) return places.session;
  raise<CommError>(
      "{}: expected {} free for the memory that the processes of this machine share, found {}: "
      "free some space there (a container gets more by --shm-size), or name another folder: "
      "mpirun --mca btl_vader_backing_directory /folder ...",
      places.shared, bytes_text(places.shared_bytes), bytes_text(*shared));
}

void ensure_mpi_shared_memory() {
  const MpiPlaces places = mpi_places();
  const bool speaks = number("OMPI_COMM_WORLD_LOCAL_RANK", 0) == 0;
  std::string folder;
  try {
    folder = other_shared_folder(places, [](const std::string& f) { return free_bytes(f); });
  } catch (const CommError&) {
    // mpirun ends all processes when the first one of a machine has said it.
    if (!speaks) std::this_thread::sleep_for(std::chrono::seconds(1));
    throw;
  }
  if (folder.empty()) return;
  setenv(kSharedVariable, folder.c_str(), 1);
  if (speaks)
    log::warning(
        "{} has less than the {} free that the processes of this machine share: they share files "
        "in {} instead; a container gets more by --shm-size",
        places.shared, bytes_text(places.shared_bytes), folder);
}

}  // namespace hlite::comm
