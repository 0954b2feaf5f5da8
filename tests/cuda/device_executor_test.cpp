// Plans on an emulated GPU: streams, events, graphs, and two sets of inputs.
#include "hugectr_lite/plan/device_executor.h"

#include <cuda_runtime_api.h>

#include <numeric>

#include "tests/support/cuda_backends.h"
#include "tests/support/errors.h"
#include "tests/support/stream_order.h"

namespace hlite::test {
namespace {

using plan::BufferId;
using plan::BufferKind;
using plan::Lane;
using plan::StepContext;

// A batch goes through three lanes and a state: a = batch, b = a (embedding lane), c = a (comm
// lane), out = b, then c after it; state = out of this run. Copies alone, so results are exact.
struct Pipeline {
  static constexpr int64_t kMax = 8;
  plan::Buffers buffers;
  BufferId in, a, b, c, out, state;
  plan::Plan plan{buffers};
  int issued = 0;  // steps other than copy_in, each time they run on the host

  // `more`: adds buffers of its own.
  explicit Pipeline(const cuda::Backend& table, const std::function<void()>& more = {}) {
    if (more) more();
    const auto add = [&](const char* name, BufferKind kind, int64_t floats) {
      return buffers.add(name, kind, floats * 4);
    };
    in = add("in", BufferKind::kInput, kMax);
    a = add("a", BufferKind::kActivation, kMax);
    b = add("b", BufferKind::kActivation, kMax);
    c = add("c", BufferKind::kActivation, kMax);
    out = add("out", BufferKind::kActivation, 2 * kMax);
    state = add("state", BufferKind::kState, 2 * kMax);
    plan.add({.name = "copy_in",
              .lane = Lane::kCopy,
              .reads = {},
              .writes = {in},
              .run = [this](const StepContext& x) {
                x.exec.cuda->copy(buffers.data<float>(in), x.input.labels,
                                  static_cast<size_t>(x.batch) * 4, x.exec.stream);
              }});
    step("a", Lane::kCompute, in, a, 0);
    step("b", Lane::kEmbedding, a, b, 0);
    step("c", Lane::kComm, a, c, 0);
    step("first", Lane::kCompute, b, out, 0);
    step("second", Lane::kEmbedding, c, out, kMax);
    step("keep", Lane::kComm, out, state, -1);
    plan.finalize();
    buffers.allocate(table);
  }
  // Copies the batch, or with `at` < 0 the whole buffer.
  void step(const char* name, Lane lane, BufferId from, BufferId to, int64_t at) {
    step(plan, name, lane, from, to, at);
  }
  void step(plan::Plan& in_plan, const char* name, Lane lane, BufferId from, BufferId to,
            int64_t at) {
    in_plan.add({.name = name,
                 .lane = lane,
                 .reads = at > 0 ? std::vector{from, to} : std::vector{from},
                 .writes = {to},
                 .run = [=, this](const StepContext& x) {
                   ++issued;
                   const int64_t n = at < 0 ? 2 * kMax : x.batch;
                   x.exec.cuda->copy(buffers.data<float>(to) + std::max<int64_t>(at, 0),
                                     buffers.data<float>(from), static_cast<size_t>(n) * 4,
                                     x.exec.stream);
                 }});
  }
};

// The first n of `values`; null: a batch that no step looks at.
StepContext batch_of(int64_t n, const float* values = nullptr) {
  StepContext context;
  context.batch = n;
  context.input.labels = values;
  return context;
}

std::vector<float> numbers(float first) {
  std::vector<float> v(Pipeline::kMax);
  std::iota(v.begin(), v.end(), first);
  return v;
}

std::vector<float> read(const cuda::Backend& table, const Pipeline& p, BufferId id) {
  std::vector<float> values(static_cast<size_t>(p.buffers.bytes(id)) / 4);
  read_device(table, values.data(), p.buffers.data<float>(id), values.size() * 4);
  return values;
}

TEST_CASE("on a GPU inputs and what is made ahead have two sides, others one") {
  const cuda::Backend& gpu = emulated_cuda();
  plan::Buffers buffers;
  const BufferId input = buffers.add("input", BufferKind::kInput, 4),
                 ahead = buffers.add("ahead", BufferKind::kAhead, 4),
                 state = buffers.add("state", BufferKind::kState, 4);
  CHECK(buffers.device_bytes() == 5 * 256);
  buffers.allocate(gpu);
  for (const BufferId id : {input, ahead, state}) buffers.set_value(id, 1);
  CHECK(buffers.flip() == 1);
  CHECK(buffers.side() == 1);
  for (const BufferId id : {input, ahead}) CHECK(buffers.value<int>(id) == 0);
  CHECK(buffers.value<int>(state) == 1);
  CHECK(buffers.flip() == 0);
  for (const BufferId id : {input, ahead}) CHECK(buffers.value<int>(id) == 1);
}

TEST_CASE("a plan on streams or in a graph does what it says, batch after batch", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends())
    for (const bool graphs : {false, true}) {
      INFO(backend.name << ", graphs " << graphs);
      const cuda::Backend& table = *backend.table;
      Pipeline p(table);
      {
        plan::DeviceExecutor executor(table, p.buffers, {.graphs = graphs});
        std::vector<float> want(2 * Pipeline::kMax, 0.0f);
        // Full batches with partial ones between, as at the end of an epoch; none is one too.
        for (int i = 0; i < 40; ++i) {
          const int64_t batch = i % 7 == 6 ? i % 4 : Pipeline::kMax;
          const auto values = numbers(static_cast<float>(100 * i));
          executor.run(p.plan, batch_of(batch, values.data()));
          executor.wait_for_input();
          for (int64_t s = 0; s < batch; ++s)
            want[static_cast<size_t>(s)] = want[static_cast<size_t>(s + Pipeline::kMax)] =
                values[static_cast<size_t>(s)];
          if (i % 3 == 0) CHECK((read(table, p, p.state) == want));
        }
        executor.synchronize();
        CHECK((read(table, p, p.state) == want));
        CHECK((executor.graphs() > 0) == graphs);
      }
    }
}

// A batch in two parts: twice = batch, of two sides; then out = batch and what twice has.
struct InParts {
  BufferId made = plan::kNoBuffer;
  Pipeline p;
  plan::Plan first{p.buffers}, rest{p.buffers};

  explicit InParts(const cuda::Backend& table) : p(table, [this] { declare(); }) {
    first.add(p.plan.steps()[0]);
    p.step(first, "make", Lane::kEmbedding, p.in, made, 0);
    p.step(rest, "first", Lane::kCompute, p.in, p.out, 0);
    p.step(rest, "second", Lane::kComm, made, p.out, Pipeline::kMax);
    p.step(rest, "keep", Lane::kEmbedding, p.out, p.state, -1);
    first.finalize();
    rest.finalize();
  }
  void declare() { made = p.buffers.add("made", BufferKind::kAhead, Pipeline::kMax * 4); }
};

TEST_CASE("a plan in two parts does what it says, between plans in one", "[gpu]") {
  for (const CudaBackend& backend : cuda_backends())
    for (const bool graphs : {false, true})
      for (const uint64_t seed : {1, 2, 3}) {
        INFO(backend.name << ", graphs " << graphs << ", seed " << seed);
        const RandomStreams order(seed);
        const cuda::Backend& table = *backend.table;
        InParts parts(table);
        Pipeline& p = parts.p;
        {
          plan::DeviceExecutor executor(table, p.buffers, {.graphs = graphs});
          std::vector<float> want(2 * Pipeline::kMax, 0.0f);
          for (int i = 0; i < 60; ++i) {
            const int64_t batch = i % 7 == 6 ? i % 4 : Pipeline::kMax;
            const auto values = numbers(static_cast<float>(100 * i)), others = numbers(-100);
            if (i % 5 == 4) {
              executor.run(p.plan, batch_of(batch, values.data()));
            } else {
              if (i % 9 == 8) {  // the first part is made again
                executor.run_first(parts.first, batch_of(batch, others.data()));
                executor.wait_for_input();
              }
              executor.run_first(parts.first, batch_of(batch, values.data()));
              executor.run_rest(parts.rest, batch_of(batch));
            }
            executor.wait_for_input();
            for (int64_t s = 0; s < batch; ++s)
              want[static_cast<size_t>(s)] = want[static_cast<size_t>(s + Pipeline::kMax)] =
                  values[static_cast<size_t>(s)];
            if (i % 4 == 0) CHECK((read(table, p, p.state) == want));
          }
          executor.synchronize();
          CHECK((read(table, p, p.state) == want));
        }
      }
}

TEST_CASE("the first part of a captured run does not wait for the run before") {
  const cuda::Backend& table = emulated_cuda();
  InParts parts(table);
  plan::DeviceExecutor executor(table, parts.p.buffers, {});
  std::vector<std::vector<float>> batches;
  for (int i = 0; i < 7; ++i) batches.push_back(numbers(static_cast<float>(100 * i)));
  const auto first = [&](size_t i) {
    executor.run_first(parts.first, batch_of(Pipeline::kMax, batches[i].data()));
  };
  const auto rest = [&] { executor.run_rest(parts.rest, batch_of(Pipeline::kMax)); };
  for (size_t i = 0; i < 5; ++i) {
    first(i);
    rest();
  }
  executor.synchronize();
  std::vector<float> state(2 * Pipeline::kMax);
  const LateStreams order;  // nothing runs that is not waited for
  first(5);
  rest();
  first(6);
  table.stream_synchronize(executor.exec_of_first().stream);
  // The run of batch 5 has not begun.
  std::copy_n(parts.p.buffers.data<float>(parts.p.state), state.size(), state.begin());
  CHECK(state[0] == 400);
  CHECK(*parts.p.buffers.data<float>(parts.made) == 600);
  rest();
  executor.synchronize();
  CHECK(*parts.p.buffers.data<float>(parts.p.state) == 600);
}

TEST_CASE("a captured plan costs the host its copies and one launch") {
  const cuda::Backend& table = emulated_cuda();
  Pipeline p(table);
  plan::DeviceExecutor executor(table, p.buffers, {});
  const auto values = numbers(1);
  const auto run = [&](int64_t batch) { executor.run(p.plan, batch_of(batch, values.data())); };
  const int steps = static_cast<int>(p.plan.steps().size()) - 1;
  run(8);
  run(8);
  CHECK(p.issued == 2 * steps);  // each side once as it is
  run(8);
  run(8);
  CHECK(p.issued == 4 * steps);  // each side once captured
  for (int i = 0; i < 10; ++i) run(8);
  CHECK(p.issued == 4 * steps);
  CHECK(executor.graphs() == 2);
  run(5);  // another shape begins anew
  CHECK(p.issued == 5 * steps);
}

TEST_CASE("work that others wait for comes first, in a graph too") {
  const cuda::Backend& table = emulated_cuda();
  Pipeline p(table);
  plan::Plan plan(p.buffers);
  std::vector<int> priorities;  // numbers fall as priority rises
  for (const Lane lane :
       {Lane::kCopy, Lane::kComm, Lane::kEmbedding, Lane::kCompute, Lane::kWeights})
    plan.add({.name = plan::lane_name(lane),
              .lane = lane,
              .reads = {},
              .writes = {p.a},
              .run = [&](const StepContext& x) {
                (void)cudaStreamGetPriority(static_cast<cudaStream_t>(x.exec.stream),
                                            &priorities.emplace_back());
              }});
  plan.finalize();
  plan::DeviceExecutor executor(table, p.buffers, {});
  executor.run(plan, batch_of(1));
  CHECK((priorities == std::vector<int>{-2, -2, -1, -1, 0}));
  for (int i = 0; i < 2; ++i) executor.run(plan, batch_of(1));
  REQUIRE(executor.graphs() == 1);
  CHECK(emulation::graph_flags() == cudaGraphInstantiateFlagUseNodePriority);
}

TEST_CASE("graphs of shapes that ran longest ago make way for others") {
  const cuda::Backend& table = emulated_cuda();
  Pipeline p(table);
  plan::DeviceExecutor executor(table, p.buffers, {.most_graphs = 4});
  std::vector<float> want(2 * Pipeline::kMax);
  for (int round = 0; round < 6; ++round)
    for (const int64_t batch : {8, 3, 8, 5, 8, 1, 8, 7}) {
      const auto values = numbers(static_cast<float>(100 * round + batch));
      executor.run(p.plan, batch_of(batch, values.data()));
      executor.wait_for_input();
      for (int64_t s = 0; s < batch; ++s)
        want[static_cast<size_t>(s)] = want[static_cast<size_t>(s + Pipeline::kMax)] =
            values[static_cast<size_t>(s)];
      CHECK((read(table, p, p.state) == want));
      CHECK(executor.graphs() <= 4);
    }
  CHECK(executor.graphs() == 4);
  CHECK(emulation::machine().graphs == 4);
}

TEST_CASE("a step that fails in a capture leaves the executor usable") {
  const cuda::Backend& table = emulated_cuda();
  Pipeline p(table);
  plan::Plan failing(p.buffers);
  int calls = 0;
  failing.add({.name = "fails later",
               .lane = Lane::kCompute,
               .reads = {},
               .writes = {p.a},
               .run = [&](const StepContext&) {
                 if (++calls > 2) raise<DeviceError>("step broke");
               }});
  failing.finalize();
  plan::DeviceExecutor executor(table, p.buffers, {});
  executor.run(failing, batch_of(1));
  executor.run(failing, batch_of(1));
  CHECK(message_of<DeviceError>([&] { executor.run(failing, batch_of(1)); }) == "step broke");
  const auto values = numbers(7);
  executor.run(p.plan, batch_of(8, values.data()));
  std::vector<float> want = values;
  want.insert(want.end(), values.begin(), values.end());
  CHECK((read(table, p, p.state) == want));
}

TEST_CASE("captured work waits for its launch, and every stream must come back") {
  const cuda::Backend& table = emulated_cuda();
  const TestStream main(table), side(table);
  const DeviceArray<float> x(table, std::vector<float>{1, 2}), y(table, std::vector<float>{0, 0});
  void *event = nullptr, *graph = nullptr;
  table.event_create(&event);
  table.capture_begin(main.get());
  table.copy(y.data(), x.data(), 8, main.get());
  CHECK(message_of<DeviceError>([&] { table.stream_synchronize(main.get()); }).find("Capture") !=
        std::string::npos);
  table.capture_end(main.get(), &graph);
  CHECK((y.to_host(main.get()) == std::vector<float>{0, 0}));
  table.graph_launch(graph, main.get());
  CHECK((y.to_host(main.get()) == std::vector<float>{1, 2}));
  table.graph_destroy(graph);

  table.capture_begin(main.get());
  table.event_record(event, main.get());
  table.stream_wait_event(side.get(), event);
  table.copy(y.data(), x.data(), 8, side.get());
  check_contains(message_of<DeviceError>([&] { table.capture_end(main.get(), &graph); }),
                 {"Unjoined"});
  table.event_destroy(event);
}

}  // namespace
}  // namespace hlite::test
