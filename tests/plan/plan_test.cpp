#include "hugectr_lite/plan/executor.h"

#include <thread>

#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;
using namespace hlite::plan;
using test::check_contains;
using test::message_of;

namespace {
using Ids = std::vector<BufferId>;
using Steps = std::vector<int>;

Step step(std::string name, Lane lane, Ids reads, Ids writes) {
  Step s;
  s.name = std::move(name);
  s.lane = lane;
  s.reads = std::move(reads);
  s.writes = std::move(writes);
  return s;
}

// One iteration of a model with a bottom MLP, embeddings and a top MLP, in the large.
struct Model {
  Buffers buffers;
  BufferId dense = buffers.add("dense", BufferKind::kInput, 64);
  BufferId keys = buffers.add("keys", BufferKind::kInput, 64);
  BufferId table = buffers.add("table", BufferKind::kTable, 1024);
  BufferId weights = buffers.add("weights", BufferKind::kParameter, 64);
  BufferId bottom = buffers.add("bottom", BufferKind::kActivation, 64);
  BufferId rows = buffers.add("rows", BufferKind::kActivation, 64);
  BufferId rows_grad = buffers.add("rows.grad", BufferKind::kGradient, 64);
  BufferId weights_grad = buffers.add("weights.grad", BufferKind::kGradient, 64);
  Plan plan{buffers};

  Model() {
    plan.add(step("bottom fwd", Lane::kCompute, {dense, weights}, {bottom}));
    plan.add(step("lookup", Lane::kEmbedding, {keys, table}, {rows}));
    plan.add(step("top", Lane::kCompute, {bottom, rows, weights}, {rows_grad, weights_grad}));
    Step all_reduce = step("all-reduce", Lane::kComm, {weights_grad}, {weights_grad});
    all_reduce.sends = {.in_node = 64, .between = 7, .between_per_sample = 2.5};
    plan.add(std::move(all_reduce));
    plan.add(step("sparse update", Lane::kEmbedding, {keys, rows_grad, table}, {table}));
    plan.add(step("dense update", Lane::kCompute, {weights_grad, weights}, {weights}));
    plan.finalize();
  }
  [[nodiscard]] bool overlap(const char* a, const char* b) const {
    const bool there = plan.may_overlap(plan.index_of(a), plan.index_of(b));
    CHECK(there == plan.may_overlap(plan.index_of(b), plan.index_of(a)));
    return there;
  }
};
}  // namespace

TEST_CASE("dependencies follow from reads and writes") {
  const Model m;
  const auto steps = m.plan.steps();
  CHECK(steps[0].after == Steps{});
  CHECK(steps[1].after == Steps{});
  CHECK(steps[2].after == Steps{0, 1});
  CHECK(steps[3].after == Steps{2});
  CHECK(steps[4].after == Steps{2});  // 1 is implied by 2
  CHECK(steps[5].after == Steps{3});  // 0 and 2 are implied by 3
}

TEST_CASE("steps overlap when lanes differ and nothing is shared") {
  const Model m;
  CHECK(m.overlap("bottom fwd", "lookup"));
  CHECK(m.overlap("all-reduce", "sparse update"));
  CHECK(m.overlap("dense update", "sparse update"));
  CHECK_FALSE(m.overlap("lookup", "top"));
  CHECK_FALSE(m.overlap("all-reduce", "dense update"));
  CHECK_FALSE(m.overlap("bottom fwd", "dense update"));
  CHECK_FALSE(m.overlap("lookup", "sparse update"));
  CHECK_FALSE(m.overlap("lookup", "lookup"));
}

TEST_CASE("steps of one lane never overlap") {
  Buffers buffers;
  const BufferId a = buffers.add("a", BufferKind::kActivation, 4);
  const BufferId b = buffers.add("b", BufferKind::kActivation, 4);
  Plan plan(buffers);
  plan.add(step("a", Lane::kCompute, {}, {a}));
  plan.add(step("b", Lane::kCompute, {}, {b}));
  plan.finalize();
  CHECK(plan.steps()[1].after == Steps{});
  CHECK_FALSE(plan.may_overlap(0, 1));
}

TEST_CASE("readers of one buffer may overlap, a writer waits for both") {
  Buffers buffers;
  const BufferId w = buffers.add("w", BufferKind::kParameter, 4);
  Plan plan(buffers);
  plan.add(step("read 1", Lane::kCompute, {w}, {}));
  plan.add(step("read 2", Lane::kEmbedding, {w}, {}));
  plan.add(step("write", Lane::kComm, {}, {w}));      // write after read
  plan.add(step("write 2", Lane::kCopy, {}, {w}));    // write after write
  plan.add(step("read 3", Lane::kCompute, {w}, {}));  // read after write
  plan.finalize();
  CHECK(plan.may_overlap(0, 1));
  CHECK(plan.steps()[2].after == Steps{0, 1});
  CHECK(plan.steps()[3].after == Steps{2});
  CHECK(plan.steps()[4].after == Steps{3});
  CHECK_FALSE(plan.may_overlap(0, 4));  // though ordered only through others
}

TEST_CASE("slices that are disjoint do not order, their root does") {
  Buffers buffers;
  const BufferId g = buffers.add("g", BufferKind::kGradient, 100);
  const BufferId head = buffers.slice("head", g, 0, 50), tail = buffers.slice("tail", g, 50, 50);
  Plan plan(buffers);
  plan.add(step("head", Lane::kCompute, {}, {head}));
  plan.add(step("tail", Lane::kEmbedding, {}, {tail}));
  plan.add(step("all", Lane::kComm, {g}, {g}));
  plan.add(step("use", Lane::kCompute, {tail}, {}));
  plan.finalize();
  CHECK(plan.may_overlap(0, 1));
  CHECK(plan.steps()[2].after == Steps{0, 1});
  CHECK(plan.steps()[3].after == Steps{2});
}

TEST_CASE("a read that nothing wrote is an error, but not of what lives longer or is empty") {
  Buffers buffers;
  const BufferId a = buffers.add("act", BufferKind::kActivation, 4);
  const BufferId g = buffers.add("grad", BufferKind::kGradient, 4);
  const BufferId in = buffers.add("in", BufferKind::kInput, 4);
  const BufferId w = buffers.add("w", BufferKind::kParameter, 4);
  const BufferId t = buffers.add("t", BufferKind::kTable, 4);
  const BufferId s = buffers.add("s", BufferKind::kState, 4);
  const BufferId empty = buffers.add("empty", BufferKind::kGradient, 0);
  for (const BufferId id : {a, g}) {
    Plan plan(buffers);
    plan.add(step("early", Lane::kCompute, {id}, {}));
    plan.add(step("late", Lane::kCompute, {}, {id}));
    check_contains(message_of<Error>([&] { plan.finalize(); }), {"early", buffers.name(id)});
  }
  Plan plan(buffers);
  plan.add(step("fine", Lane::kCompute, {in, w, t, s, empty}, {a}));
  CHECK_NOTHROW(plan.finalize());
}

TEST_CASE("steps are found by name") {
  const Model m;
  CHECK(m.plan.index_of("lookup") == 1);
  check_contains(message_of<Error>([&] { (void)m.plan.index_of("nothing"); }), {"nothing"});
}

TEST_CASE("the description has every step with its lane, buffers and dependencies") {
  const Model m;
  const std::string text = m.plan.describe();
  check_contains(text, {"  0  compute    bottom fwd", "reads  dense, weights", "writes bottom",
                        "  4  embedding  sparse update", "after  0, 1", "comm",
                        "sends  64 bytes in the node, 7 bytes + 2.5 a sample between nodes"});
  Buffers buffers;
  const BufferId x = buffers.add("x", BufferKind::kInput, 8),
                 y = buffers.add("y", BufferKind::kInput, 8);
  Plan twice(buffers);
  twice.add(step("square", Lane::kCompute, {x, y, x}, {}));
  check_contains(twice.describe(), {"reads  x, y\n"});
  // Of the one step that sends anything.
  CHECK(text.find("sends") == text.rfind("sends"));
}

TEST_CASE("steps run in the order in which they were added, with the context given") {
  Buffers buffers;
  Plan plan(buffers);
  std::string order;
  for (const char* name : {"a", "b", "c"}) {
    Step s = step(name, Lane::kCompute, {}, {});
    s.run = [&order, name](const StepContext& c) { order += name + std::to_string(c.batch); };
    plan.add(std::move(s));
  }
  plan.finalize();
  StepContext context;
  context.batch = 7;
  run_in_order(plan, context);
  CHECK(order == "a7b7c7");
  std::vector<double> seconds(3, 1.0);
  run_in_order(plan, context, seconds);
  CHECK(order == "a7b7c7a7b7c7");
  for (const double s : seconds) CHECK(s >= 1.0);
  std::vector<double> two(2);
  check_contains(message_of<Error>([&] { run_in_order(plan, context, two); }), {"2 times for 3"});
}

TEST_CASE("a serial executor runs steps in order, where it was made for") {
  Buffers buffers;
  Plan plan(buffers);
  ThreadPool pool(1), other(1);
  std::string order;
  for (const char* name : {"a", "b"}) {
    Step s = step(name, name[0] == 'a' ? Lane::kComm : Lane::kCompute, {}, {});
    s.run = [&, name](const StepContext& c) {
      order += name + std::to_string(c.batch) + (c.exec.pool == &pool ? "" : "?");
    };
    plan.add(std::move(s));
  }
  plan.finalize();
  SerialExecutor executor({.pool = &pool});
  CHECK(executor.exec().pool == &pool);
  executor.run(plan, {.exec = {.pool = &other}, .batch = 3});
  executor.wait_for_input();  // nothing to wait for
  executor.extend_run();
  executor.synchronize();
  CHECK(order == "a3b3");
}

// Random plans against the definition: b must wait for an earlier a exactly when they conflict or
// something between them says so; `after` must give that relation and nothing that others imply.
TEST_CASE("derived dependencies are the transitive reduction of the conflicts") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    uint64_t n = 0;
    const auto draw = [&](uint32_t below) { return random::word(seed, 0, n++) % below; };
    Buffers buffers;
    Ids ids;
    for (int i = 0; i < 4; ++i) {
      const BufferId root = buffers.add(fmt::format("r{}", i), BufferKind::kParameter, 16);
      ids.push_back(root);
      for (int k = 0; k < 2; ++k)
        ids.push_back(buffers.slice(fmt::format("r{}.{}", i, k), root, draw(9), 1 + draw(7)));
    }
    Plan plan(buffers);
    const int count = 2 + static_cast<int>(draw(14));
    for (int i = 0; i < count; ++i) {
      Ids reads, writes;
      for (uint32_t k = draw(3); k > 0; --k) reads.push_back(ids[draw(12)]);
      for (uint32_t k = draw(3); k > 0; --k) writes.push_back(ids[draw(12)]);
      plan.add(step(std::to_string(i), static_cast<Lane>(draw(4)), reads, writes));
    }
    plan.finalize();
    const auto steps = plan.steps();

    const auto touch = [&](const Ids& x, const Ids& y) {
      for (const BufferId a : x)
        for (const BufferId b : y)
          if (buffers.overlap(a, b)) return true;
      return false;
    };
    // must[b][a] by Warshall's closure; `derived` from the plan's `after` in the same way.
    const auto size = static_cast<size_t>(count);
    std::vector<std::vector<bool>> must(size, std::vector<bool>(size)), derived = must;
    for (size_t b = 0; b < size; ++b) {
      for (size_t a = 0; a < b; ++a)
        must[b][a] = touch(steps[a].writes, steps[b].reads) ||
                     touch(steps[a].reads, steps[b].writes) ||
                     touch(steps[a].writes, steps[b].writes);
      for (const int a : steps[b].after) derived[b][static_cast<size_t>(a)] = true;
    }
    for (auto* relation : {&must, &derived})
      for (size_t k = 0; k < size; ++k)
        for (size_t b = 0; b < size; ++b)
          for (size_t a = 0; a < size; ++a)
            if ((*relation)[b][k] && (*relation)[k][a]) (*relation)[b][a] = true;
    INFO("seed " << seed);
    REQUIRE(derived == must);

    bool overlap_agrees = true, reduced = true;
    for (size_t b = 0; b < size; ++b) {
      for (size_t a = 0; a < b; ++a)
        overlap_agrees &= plan.may_overlap(static_cast<int>(a), static_cast<int>(b)) ==
                          (!must[b][a] && steps[a].lane != steps[b].lane);
      for (const int x : steps[b].after)
        for (const int y : steps[b].after)
          reduced &= !must[static_cast<size_t>(x)][static_cast<size_t>(y)];
    }
    CHECK(overlap_agrees);
    CHECK(reduced);
  }
}
