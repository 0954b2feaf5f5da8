#include "hugectr_lite/comm/mpi_communicator.h"

#include <cstdio>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "hugectr_lite/comm/mpi_plugin.h"

namespace hlite::comm {
namespace {

constexpr int kTag = 1;

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(code, text, &length);
  raise<CommError>("MPI: {}: {}", what, text);
}

int count_of(size_t bytes) {
  if (bytes > static_cast<size_t>(std::numeric_limits<int>::max()))
    raise<CommError>("MPI: a message of {} bytes: expected at most {}", bytes,
                     std::numeric_limits<int>::max());
  return static_cast<int>(bytes);
}

}  // namespace

MpiCommunicator::MpiCommunicator(MPI_Comm communicator, bool world)
    : communicator_(communicator), world_(world) {
  check(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "error handler");
  check(MPI_Comm_rank(communicator_, &rank_), "rank");
  check(MPI_Comm_size(communicator_, &size_), "size");
  requests_.resize(2 * static_cast<size_t>(size_), MPI_REQUEST_NULL);
  statuses_.resize(requests_.size());
}

MpiCommunicator::~MpiCommunicator() {
  MPI_Comm_free(&communicator_);
  if (world_) MPI_Finalize();
}

void MpiCommunicator::barrier() { check(MPI_Barrier(communicator_), "barrier"); }

void MpiCommunicator::visit(std::span<const ConstBytes> send, std::span<const size_t> most,
                            Consume consume) {
  account(send, most);
  const auto n = static_cast<size_t>(size_), own = static_cast<size_t>(rank_);
  const size_t room = std::accumulate(most.begin(), most.end(), size_t{0}) - most[own];
  if (scratch_.size() < room) scratch_.resize(room);
  std::byte* to = scratch_.data();
  for (size_t q = 0; q < n; ++q) {
    MPI_Request& request = requests_[q] = MPI_REQUEST_NULL;
    if (q == own) continue;
    check(MPI_Irecv(to, count_of(most[q]), MPI_BYTE, static_cast<int>(q), kTag, communicator_,
                    &request),
          "receive");
    to += most[q];
  }
  // Everyone starts with the rank behind itself, so that no rank is sent to by all at once.
  for (size_t step = 1; step < n; ++step) {
    const size_t q = (own + step) % n;
    check(MPI_Isend(send[q].data(), count_of(send[q].size()), MPI_BYTE, static_cast<int>(q), kTag,
                    communicator_, &requests_[n + q]),
          "send");
  }
  const int code =
      MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), statuses_.data());
  if (code == MPI_ERR_IN_STATUS)
    for (size_t i = 0; i < requests_.size(); ++i)
      if (statuses_[i].MPI_ERROR == MPI_ERR_TRUNCATE)
        raise<CommError>("rank {} sent more than the {} bytes that rank {} expects at most", i,
                         most[i], rank_);
  if (code == MPI_ERR_IN_STATUS)
    for (const MPI_Status& status : statuses_) check(status.MPI_ERROR, "exchange");
  check(code, "exchange");

  const std::byte* from = scratch_.data();
  for (size_t q = 0; q < n; ++q) {
    if (q == own) {
      if (send[q].size() > most[q])
        raise<CommError>("rank {} sent itself {} bytes and expects at most {}", rank_,
                         send[q].size(), most[q]);
      consume(rank_, send[q]);
      continue;
    }
    int bytes = 0;
    check(MPI_Get_count(&statuses_[q], MPI_BYTE, &bytes), "size of a message");
    consume(static_cast<int>(q), {from, static_cast<size_t>(bytes)});
    from += most[q];
  }
  std::fill(requests_.begin(), requests_.end(), MPI_REQUEST_NULL);
}

std::unique_ptr<Communicator> MpiCommunicator::split(int colour) {
  MPI_Comm part = MPI_COMM_NULL;
  check(MPI_Comm_split(communicator_, colour, rank_, &part), "split");
  return std::make_unique<MpiCommunicator>(part, false);
}

void MpiCommunicator::abort(const std::string& reason) noexcept {
  std::fprintf(stderr, "%s\n", reason.c_str());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, kExitDevice);
  std::_Exit(kExitDevice);
}

}  // namespace hlite::comm

// The plug-in's one entry: starts MPI.
extern "C" __attribute__((visibility("default"))) hlite::comm::Communicator* hlite_mpi_world(
    int version, char* failure, size_t capacity) {
  using namespace hlite::comm;
  try {
    if (version != kMpiPluginVersion) hlite::raise<CommError>("it is of another version");
    // Ranks that wait give their core to others: there may be more ranks than cores.
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    int level = MPI_THREAD_SINGLE;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "start");
    if (level < MPI_THREAD_MULTIPLE)
      hlite::raise<CommError>("this MPI allows no calls from several threads");
    MPI_Comm world = MPI_COMM_NULL;
    check(MPI_Comm_dup(MPI_COMM_WORLD, &world), "world");
    return std::make_unique<MpiCommunicator>(world, true).release();
  } catch (const std::exception& error) {
    std::snprintf(failure, capacity, "%s", error.what());
    return nullptr;
  }
}
