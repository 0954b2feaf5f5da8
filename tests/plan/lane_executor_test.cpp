#include "hugectr_lite/plan/lane_executor.h"

#include <barrier>
#include <condition_variable>
#include <numeric>
#include <set>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;
using namespace hlite::plan;

TEST_CASE("random plans give what running them in order gives", "[threads]") {
  ThreadPool pool(1);
  LaneExecutor executor({.pool = &pool});
  SerialExecutor serial({.pool = &pool});
  for (uint64_t round = 0; round < 40; ++round) {
    uint64_t drawn = 0;
    const auto draw = [&](uint32_t below) { return random::word(5, round, drawn++) % below; };
    Buffers buffers;
    std::vector<BufferId> ids;
    for (int b = 0; b < 6; ++b)
      ids.push_back(buffers.add("b" + std::to_string(b), BufferKind::kInput, 8));
    // A step folds what it reads into what it writes; plain variables, so that ThreadSanitizer sees
    // any pair of steps that was not ordered.
    std::vector<uint64_t> values(ids.size()), wanted;
    Plan plan(buffers);
    for (uint64_t s = 0; s < 25; ++s) {
      Step step;
      step.name = "s" + std::to_string(s);
      step.lane = static_cast<Lane>(draw(kLanes));
      const size_t in = draw(6), other = draw(6), out = draw(6);
      step.reads = {ids[in], ids[other], ids[out]};
      step.writes = {ids[out]};
      step.run = [&values, s, in, other, out](const StepContext& c) {
        values[out] =
            (values[out] * 31 + values[in]) ^ (values[other] + s + static_cast<uint64_t>(c.batch));
      };
      plan.add(step);
    }
    plan.finalize();
    StepContext context;
    context.batch = static_cast<int64_t>(round);
    const auto run = [&](auto&& execute) {
      std::iota(values.begin(), values.end(), uint64_t{1});
      for (int iteration = 0; iteration < 5; ++iteration) execute();
      return values;
    };
    wanted = run([&] { serial.run(plan, context); });
    CHECK(run([&] { executor.run(plan, context); }) == wanted);
  }
}

TEST_CASE("unordered steps run at the same time, each lane in its own pool", "[threads]") {
  ThreadPool pool(3);
  LaneExecutor executor({.pool = &pool});
  CHECK(executor.exec().pool == &pool);
  Buffers buffers;
  Plan plan(buffers);
  std::barrier rendezvous(kLanes);  // reached only when all are running
  std::array<ThreadPool*, kLanes> pools{};
  for (int lane = 0; lane < kLanes; ++lane) {
    Step step;
    step.name = "s" + std::to_string(lane);
    step.lane = static_cast<Lane>(lane);
    step.run = [&, lane](const StepContext& c) {
      pools[static_cast<size_t>(lane)] = c.exec.pool;
      rendezvous.arrive_and_wait();
    };
    plan.add(step);
  }
  plan.finalize();
  executor.run(plan, {});
  CHECK(pools[0] == &pool);
  CHECK(std::set<ThreadPool*>(pools.begin(), pools.end()).size() == kLanes);
  CHECK(pools[static_cast<size_t>(Lane::kEmbedding)]->threads() == 3);
  CHECK(pools[static_cast<size_t>(Lane::kComm)]->threads() == 1);
}

TEST_CASE("the first failure is rethrown, later steps are left out, and the next run works",
          "[threads]") {
  ThreadPool pool(1);
  std::mutex mutex;
  std::condition_variable changed;
  std::string reason;
  LaneExecutor executor({.pool = &pool}, [&] {
    const std::lock_guard lock(mutex);
    try {
      throw;
    } catch (const DataError& e) {
      reason = e.what();
    }
    changed.notify_all();
  });
  Buffers buffers;
  const auto a = buffers.add("a", BufferKind::kInput, 8),
             b = buffers.add("b", BufferKind::kInput, 8);
  bool fails = true;
  int ran = 0;
  Plan plan(buffers);
  const auto add = [&](const char* name, Lane lane, BufferId reads, BufferId writes, auto run) {
    Step step;
    step.name = name;
    step.lane = lane;
    step.reads = {reads};
    step.writes = {writes};
    step.run = run;
    plan.add(step);
  };
  add("bad", Lane::kEmbedding, a, a, [&](const StepContext&) {
    if (fails) raise<DataError>("no good");
  });
  // Waits like a collective, until another lane ends it.
  add("blocked", Lane::kComm, b, b, [&](const StepContext&) {
    std::unique_lock lock(mutex);
    if (fails) changed.wait(lock, [&] { return !reason.empty(); });
  });
  add("after", Lane::kCompute, a, b, [&](const StepContext&) { ++ran; });
  plan.finalize();
  CHECK(test::message_of<DataError>([&] { executor.run(plan, {}); }) == "no good");
  CHECK(reason == "no good");
  CHECK(ran == 0);
  fails = false;
  executor.run(plan, {});
  CHECK(ran == 1);
}
