#include "hugectr_lite/comm/device_ranks.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace hlite::comm {
namespace {

std::string value_of(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

// Restores environment variables after a test.
class Variables {
 public:
  explicit Variables(std::vector<const char*> names) : names_(std::move(names)) {
    for (const char* name : names_) {
      values_.push_back(value_of(name));
      unsetenv(name);
    }
  }
  ~Variables() {
    for (size_t i = 0; i < names_.size(); ++i)
      if (values_[i].empty())
        unsetenv(names_[i]);
      else
        setenv(names_[i], values_[i].c_str(), 1);
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  std::vector<const char*> names_;
  std::vector<std::string> values_;
};

TEST_CASE("the driver is set to load kernels early, unless the environment says otherwise") {
  const Variables all(
      {"CUDA_MODULE_LOADING", "CUDA_DEVICE_MAX_CONNECTIONS", "NCCL_GRAPH_REGISTER"});
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 1);
  set_driver_for_ranks();
  CHECK(value_of("CUDA_MODULE_LOADING") == "EAGER");
  CHECK(value_of("CUDA_DEVICE_MAX_CONNECTIONS") == "8");
  CHECK(value_of("NCCL_GRAPH_REGISTER") == "0");
}

TEST_CASE("a process of mpirun shares memory among the ranks of its node, another among all") {
  const Variables all({"OMPI_COMM_WORLD_SIZE"});
  CHECK(launched_memory() == SharedMemory::kAll);
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  CHECK(launched_memory() == SharedMemory::kOfANode);
}

}  // namespace
}  // namespace hlite::comm
