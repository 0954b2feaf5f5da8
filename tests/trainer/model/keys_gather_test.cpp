#include "hugectr_lite/trainer/model/keys_gather.h"

#include "hugectr_lite/comm/thread_communicator.h"
#include "tests/support/catch.h"
#include "tests/support/small_config.h"

namespace hlite::trainer {

TEST_CASE("every rank gets the keys of the whole batch, in the order of ranks, and counts them",
          "[threads]") {
  constexpr int kRanks = 3;
  constexpr int64_t kTrain = 2, kMax = 4, kColumns = 3;
  const auto config = config::parse_train_config(test::small_config(), "small.json", {});
  const auto key_of = [](int64_t sample, int64_t column) {
    return static_cast<uint32_t>(10 * sample + column);
  };
  std::array<std::vector<uint32_t>, kRanks> trained, evaluated;
  std::array<comm::StepTraffic, kRanks> traffic;
  comm::run_ranks(kRanks, [&](comm::Communicator& world) {
    const auto q = static_cast<size_t>(world.rank());
    ThreadPool pool(1);
    CopyIn batch(config->data, kMax);
    KeysGather gather({.rank = world.rank(),
                       .topology = std::make_shared<comm::Topology>(world.topology()),
                       .world = &world},
                      batch, kColumns, {.train = kTrain, .most = kMax});
    plan::Buffers buffers;
    batch.declare(buffers);
    gather.declare(buffers);
    plan::Plan train(buffers), eval(buffers);
    gather.emit(train, network::Phase::kTrain);
    gather.emit(eval, network::Phase::kEval);
    REQUIRE(train.steps().size() == 1);
    buffers.allocate();
    const auto run = [&](const plan::Plan& plan, int64_t samples) {
      std::vector<uint32_t> mine;
      for (int64_t i = 0; i < samples * kColumns; ++i)
        mine.push_back(key_of(world.rank() * samples + i / kColumns, i % kColumns));
      buffers.write<uint32_t>(batch.keys(), 0, mine);
      plan::run_in_order(plan, {.exec = {.pool = &pool}, .batch = samples});
      std::vector<uint32_t> all(static_cast<size_t>(kRanks * samples * kColumns));
      buffers.read(gather.all_keys(), 0, std::span(all));
      return all;
    };
    trained[q] = run(train, kTrain);
    evaluated[q] = run(eval, kMax);
    traffic[q] = gather.traffic();
  });
  const auto expected = [&](int64_t samples) {
    std::vector<uint32_t> keys;
    for (int64_t i = 0; i < kRanks * samples * kColumns; ++i)
      keys.push_back(key_of(i / kColumns, i % kColumns));
    return keys;
  };
  for (size_t q = 0; q < kRanks; ++q) {
    CHECK(trained[q] == expected(kTrain));
    CHECK(evaluated[q] == expected(kMax));
    CHECK(traffic[q].step == "keys_gather");
    // To two others, once each way of running.
    CHECK(traffic[q].totals.intra_bytes == 2 * (kTrain + kMax) * kColumns * 4);
    CHECK(traffic[q].totals.intra_received == traffic[q].totals.intra_bytes);
    CHECK(traffic[q].totals.intra_messages == 4);
  }
}

}  // namespace hlite::trainer
