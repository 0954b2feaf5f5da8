#include "hugectr_lite/comm/mpi_shared_memory.h"

#include <cstdlib>
#include <map>

#include "hugectr_lite/comm/communicator.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;
using comm::CommError;
using comm::MpiPlaces;

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// Of a machine with these folders, in MiB free.
std::string other_folder(const MpiPlaces& places, const std::map<std::string, int64_t>& free) {
  return comm::other_shared_folder(places,
                                   [&](const std::string& folder) -> std::optional<int64_t> {
                                     const auto entry = free.find(folder);
                                     if (entry == free.end()) return std::nullopt;
                                     return entry->second * kMiB;
                                   });
}

}  // namespace

TEST_CASE("processes of a machine share memory if there is enough space") {
  const MpiPlaces places{.session = "/tmp/s", .shared = "/dev/shm", .shared_bytes = 8 * kMiB};
  CHECK(other_folder(places, {{"/tmp/s", 9}, {"/dev/shm", 9}}).empty());
  CHECK(other_folder(places, {{"/tmp/s", 1}, {"/dev/shm", 8}}).empty());
  CHECK(other_folder(places, {{"/tmp/s", 9}, {"/dev/shm", 7}}) == "/tmp/s");
  CHECK(other_folder(places, {}).empty());  // what is not known is left to Open MPI
  CHECK(other_folder({.shared = "/dev/shm", .shared_bytes = 0}, {{"/dev/shm", 0}}).empty());
}

TEST_CASE("too little space for Open MPI is an error that says where, how much and what to do") {
  MpiPlaces places{.session = "/tmp/s", .shared = "/dev/shm", .shared_bytes = 8 * kMiB};
  const auto refused = [&](const std::map<std::string, int64_t>& free,
                           std::initializer_list<std::string_view> words) {
    test::check_contains(test::message_of<CommError>([&] { (void)other_folder(places, free); }),
                         words);
  };
  refused({{"/tmp/s", 0}, {"/dev/shm", 9}}, {"/tmp/s", "expected 1.0 MB", "TMPDIR=/folder"});
  const std::initializer_list<std::string_view> words = {
      "/dev/shm: expected 8.4 MB", "found 7.3 MB", "--shm-size", "btl_vader_backing_directory"};
  refused({{"/tmp/s", 7}, {"/dev/shm", 7}}, words);
  places.default_shared = false;  // the user's choice stays
  refused({{"/tmp/s", 9}, {"/dev/shm", 7}}, words);
}

TEST_CASE("Open MPI's folders are those of its environment") {
  const char* const names[] = {"PMIX_SERVER_TMPDIR", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_MCA_btl",
                               "OMPI_MCA_btl_vader_backing_directory"};
  for (const char* name : names) unsetenv(name);
  CHECK(comm::mpi_places().session.empty());
  CHECK(comm::mpi_places().shared_bytes == 0);
  setenv("PMIX_SERVER_TMPDIR", "/tmp/s", 1);
  setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "3", 1);
  CHECK(comm::mpi_places().session == "/tmp/s");
  CHECK(comm::mpi_places().shared == "/dev/shm");
  CHECK(comm::mpi_places().default_shared);
  CHECK(comm::mpi_places().shared_bytes == 12 * kMiB);
  setenv("OMPI_MCA_btl_vader_backing_directory", "/mine", 1);
  CHECK(comm::mpi_places().shared == "/mine");
  CHECK_FALSE(comm::mpi_places().default_shared);
  setenv("OMPI_MCA_btl", "tcp,self", 1);
  CHECK(comm::mpi_places().shared_bytes == 0);
  for (const char* name : names) unsetenv(name);
}
