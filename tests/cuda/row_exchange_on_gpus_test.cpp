#include "embedding/row_exchange.h"

#include <memory>

#include "tests/embedding/hashed_steps_case.h"
#include "tests/support/catch.h"
#include "tests/support/cuda_backends.h"
#include "tests/support/stream_order.h"

namespace hlite::embedding {
namespace {

using test::EmulatedDevices;

// body(world, its steps) on a GPU for each rank, whose memory stays until no peer uses it.
constexpr auto kOnGpus = [](int ranks, const StepsOptions& of, const auto& body) {
  comm::run_ranks(ranks, [&](comm::Communicator& world) {
    const cuda::Backend& table = test::emulated_cuda();
    table.use_device(world.rank());
    const test::TestStream stream(table);
    comm::DeviceCommunicator devices(world.copy(comm::Route::kFlat), table, world.rank());
    StepsOptions options = of;
    options.devices = &devices;
    options.exec = {.device = Device::kCuda, .cuda = &table, .stream = stream.get()};
    std::unique_ptr<StepsOfRank> steps;
    try {
      steps = std::make_unique<StepsOfRank>(world, options);
      body(world, *steps);
    } catch (const std::exception& error) {
      devices.abort(error.what());
      devices.leave(nullptr);
      throw;
    }
    devices.leave(nullptr);
  });
};

}  // namespace

TEST_CASE("rows of several GPUs are looked up and updated as the definition says") {
  const EmulatedDevices machine(7);
  check_definition(kOnGpus);
}

TEST_CASE("lists made on GPUs from the keys of all are those that an exchange brings") {
  const EmulatedDevices machine(7);
  check_gathered(kOnGpus);
}

TEST_CASE(
    "lists that exceed the capacity between GPUs leave the tables alone, and fit once it is grown") {
  const EmulatedDevices machine(3);
  for (const bool gathers : {false, true}) check_growth(kOnGpus, gathers);
}

TEST_CASE("hashed tables on several GPUs have the rows of full tables") {
  const EmulatedDevices machine(7);
  check_hashed_definition(kOnGpus);
}

TEST_CASE(
    "keys whose lists exceed the capacity between GPUs take no rows, and theirs once it is grown") {
  const EmulatedDevices machine(7);
  check_hashed_growth(kOnGpus);
}

TEST_CASE("a table of one of several GPUs that is full is known to its owner alone") {
  const EmulatedDevices machine(7);
  check_full_table(kOnGpus);
}

}  // namespace hlite::embedding
