#include "embedding/gpu_sharded_steps.h"

#include <memory>

#include "tests/embedding/steps_case.h"
#include "tests/support/catch.h"
#include "tests/support/cuda_backends.h"
#include "tests/support/stream_order.h"

namespace hlite::embedding {
namespace {

using test::EmulatedDevices;

// The running rank's.
thread_local std::unique_ptr<StepsOfRank> steps;

StepsOfRank& rank_of(comm::Communicator& world, const StepsOptions& options) {
  steps = std::make_unique<StepsOfRank>(world, options);
  return *steps;
}

// body(world, options of its steps) on a GPU for each rank, whose memory stays until no peer uses
// it.
template <typename Body>
void on_gpus(int ranks, Body&& body) {
  comm::run_ranks(ranks, [&](comm::Communicator& world) {
    const cuda::Backend& table = test::emulated_cuda();
    table.use_device(world.rank());
    const test::TestStream stream(table);
    comm::DeviceCommunicator devices(world.copy(comm::Route::kFlat), table, world.rank());
    const StepsOptions options{
        .devices = &devices,
        .exec = {.device = Device::kCuda, .cuda = &table, .stream = stream.get()}};
    try {
      body(world, options);
    } catch (const std::exception& error) {
      devices.abort(error.what());
      devices.leave(nullptr);
      steps = nullptr;
      throw;
    }
    devices.leave(nullptr);
    steps = nullptr;
  });
}

}  // namespace

TEST_CASE("rows of several GPUs are looked up and updated as the definition says") {
  const EmulatedDevices machine(7);
  const auto first = first_values();
  for (const int ranks : {2, 3, 7})
    for (const FloatType wire : {FloatType::kFloat, FloatType::kBf16}) {
      INFO(ranks << " ranks, " << float_type_name(wire));
      const auto samples = samples_of(ranks);
      std::vector<std::vector<float>> got(static_cast<size_t>(ranks));
      std::vector<float> after;
      on_gpus(ranks, [&](comm::Communicator& world, const StepsOptions& on) {
        const auto q = static_cast<size_t>(world.rank());
        StepsOptions options = on;
        options.wire = wire;
        StepsOfRank& rank = rank_of(world, options);
        got[q] = rank.iterate(samples[q]);
        auto rows = rows_of(rank.tables());
        if (q == 0) after = std::move(rows);
      });
      for (int q = 0; q < ranks; ++q)
        CHECK((got[static_cast<size_t>(q)] ==
               looked_up(first, q, samples[static_cast<size_t>(q)], wire)));
      CHECK((after == updated(first, samples)));  // gradients are small whole numbers
    }
}

TEST_CASE("lists that do not fit between GPUs leave the tables alone, and fit once room is made") {
  const EmulatedDevices machine(3);
  constexpr int kRanks = 3;
  std::array<std::vector<float>, 3> rows;  // of rank 0: at first, after that run, after the next
  std::array<std::string, kRanks> grown;
  std::array<std::array<bool, 2>, kRanks> overflow{};
  on_gpus(kRanks, [&](comm::Communicator& world, const StepsOptions& on) {
    const auto q = static_cast<size_t>(world.rank());
    StepsOptions options = on;
    options.capacity = 1;
    StepsOfRank& rank = rank_of(world, options);
    const auto keep = [&](size_t i) {
      auto now = rows_of(rank.tables());
      if (q == 0) rows[i] = std::move(now);
    };
    keep(0);
    (void)rank.iterate(kStepBatch);
    overflow[q][0] = rank.take_overflow();
    keep(1);
    grown[q] = rank.tables().sharded()->grow();
    (void)rank.iterate(kStepBatch);
    overflow[q][1] = rank.take_overflow();
    keep(2);
  });
  CHECK((rows[0] == first_values()));
  CHECK((rows[1] == rows[0]));
  CHECK((rows[2] == updated(rows[0], {kStepBatch, kStepBatch, kStepBatch})));
  for (size_t q = 0; q < kRanks; ++q) {
    CHECK(overflow[q] == std::array{true, false});
    CHECK(grown[q] == grown[0]);
    CHECK(grown[q].find("room for 1;") != std::string::npos);
  }
}

}  // namespace hlite::embedding
