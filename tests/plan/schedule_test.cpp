#include "hugectr_lite/plan/schedule.h"

#include "hugectr_lite/plan/step_work.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;
using namespace hlite::plan;

namespace {

// a on compute; b overlaps it on comm; c on compute after both; d on embedding after a.
struct Diamond {
  Buffers buffers;
  BufferId in = buffers.add("in", BufferKind::kInput, 80);
  BufferId x = buffers.add("x", BufferKind::kActivation, 160);
  BufferId y = buffers.add("y", BufferKind::kActivation, 240);
  BufferId w = buffers.add("w", BufferKind::kParameter, 1000);
  BufferId dw = buffers.add("dw", BufferKind::kGradient, 1000);
  BufferId dx = buffers.add("dx", BufferKind::kGradient, 160);
  BufferId table = buffers.add("table", BufferKind::kTable, 1 << 20);
  Plan plan{buffers};

  Diamond() {
    plan.add({.name = "a", .lane = Lane::kCompute, .reads = {in, w}, .writes = {x}});
    plan.add({.name = "b",
              .lane = Lane::kComm,
              .reads = {in},
              .writes = {y},
              .sends = {.in_node = 7, .between = 5, .in_node_per_sample = 3}});
    plan.add({.name = "c", .lane = Lane::kCompute, .reads = {x, y}, .writes = {dx, dw}});
    plan.add({.name = "d",
              .lane = Lane::kEmbedding,
              .reads = {x, table},
              .writes = {table},
              .flops_per_sample = 11,
              .bytes_per_sample = 13});
    plan.finalize();
  }
  [[nodiscard]] Schedule at(const std::vector<StepCost>& costs, bool lanes = true) const {
    return schedule(plan, costs, lanes);
  }
};

using Path = std::vector<int>;

}  // namespace

TEST_CASE("lanes hide waits of each other, and share the device") {
  const Diamond m;
  SECTION("waits go by side by side") {
    const Schedule s = m.at({{2, 0}, {5, 0}, {1, 0}, {1, 0}});
    CHECK(s.seconds == 6);
    CHECK(s.steps[2].begin == 5);
    CHECK(s.steps[3].end == 3);
    CHECK(s.critical_path() == Path{1, 2});
  }
  SECTION("work on the device does not") {
    const Schedule s = m.at({{0, 2}, {0, 0}, {0, 4}, {1, 3}});
    CHECK(s.steps[2].end == 6);  // comes to the device first
    CHECK(s.steps[3].end == 9);  // has waited there for 3 of its own 1
    CHECK(s.seconds == 9);
    CHECK(s.critical_path() == Path{0, 2, 3});
  }
  SECTION("an exchange that overlaps work") {
    const Schedule s = m.at({{0, 4}, {3, 0}, {0, 2}, {0, 0}});
    CHECK(s.seconds == 6);
    CHECK(s.critical_path() == Path{0, 2});
  }
  SECTION("without lanes all is a sum") {
    const Schedule s = m.at({{2, 1}, {5, 0}, {1, 1}, {1, 2}}, false);
    CHECK(s.seconds == 13);
    CHECK(s.critical_path() == Path{0, 1, 2, 3});
  }
  SECTION("free steps take no time") { CHECK(m.at({{}, {}, {}, {}}).seconds == 0); }
  SECTION("a cost for each step") {
    test::check_contains(test::message_of<Error>([&] {
                           (void)m.at({{1, 1}});
                         }),
                         {"1 costs for 4 steps"});
  }
}

TEST_CASE("no schedule is shorter than its longest chain, its device's work or a lane") {
  const Diamond m;
  for (int seed = 0; seed < 200; ++seed) {
    std::vector<StepCost> costs;
    double device = 0;
    for (int i = 0; i < 4; ++i) {
      costs.push_back({static_cast<double>(seed * (i + 3) % 7), static_cast<double>(seed * i % 5)});
      device += costs.back().device;
    }
    const auto whole = [&](size_t i) { return costs[i].wait + costs[i].device; };
    const Schedule s = m.at(costs);
    double chain = std::max({whole(0) + whole(2), whole(1) + whole(2), whole(0) + whole(3)});
    CHECK(s.seconds >= std::max(chain, device));
    CHECK(s.seconds <= whole(0) + whole(1) + whole(2) + whole(3));
    const auto path = s.critical_path();
    CHECK(s.steps[static_cast<size_t>(path.back())].end == s.seconds);
  }
}

TEST_CASE("a step's work is what it says, or its buffers once each") {
  const Diamond m;
  const auto work = [&](const char* name, const WorkSize& size) {
    return work_of(m.plan, m.plan.steps()[static_cast<size_t>(m.plan.index_of(name))], size);
  };
  const WorkSize half{.batch = 4, .max_batch = 8, .dense_gradients = m.dw};
  CHECK(work("a", half).bytes == 80 / 2 + 1000 + 160 / 2);  // parameters are read whole
  CHECK(work("c", half).bytes == 160 / 2 + 240 / 2 + 160 / 2 + 1000);
  CHECK(work("c", {.batch = 8, .max_batch = 8, .dense_gradients = m.dw}).bytes ==
        160 + 240 + 160 + 1000);
  CHECK(work("d", half).bytes == 4 * 13);
  CHECK(work("d", half).flops == 4 * 11);
  CHECK(work("b", half).in_node == 7 + 4 * 3);
  CHECK(work("b", half).between == 5);
}
