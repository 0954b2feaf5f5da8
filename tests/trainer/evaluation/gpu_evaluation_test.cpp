// Evaluation on an emulated GPU: its numbers are the CPU's, its memory comes back, and nothing is
// written over before it has been read.
#include "hugectr_lite/trainer/evaluation/gpu_evaluation.h"

#include <cuda_runtime.h>  // the emulated one

#include <cmath>
#include <limits>

#include "hugectr_lite/ops/metrics.h"
#include "hugectr_lite/trainer/evaluation/evaluator.h"
#include "hugectr_lite/trainer/model/model_tensors.h"
#include "tests/data_reader/log_capture.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/all_metrics.h"
#include "tests/support/cuda_backends.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

using trainer::EvalResult;
using trainer::GpuEvaluation;

struct Values {
  std::vector<float> scores, labels;
};

Values some_values(size_t n, uint64_t seed) {
  Values v;
  for (size_t i = 0; i < n; ++i) {
    v.scores.push_back(static_cast<float>(random::word(seed, 0, i) % 50) * 0.1f - 2);
    v.labels.push_back(random::word(seed, 1, i) % 3 == 0 ? 1.0f : 0.0f);
  }
  return v;
}

// Chunk by chunk, as from a model's runs on `stream`.
void collect(GpuEvaluation& evaluation, const cuda::Backend& gpu, void* stream, const Values& v) {
  evaluation.begin();
  constexpr size_t kChunk = 64;
  for (size_t at = 0; at < v.scores.size(); at += kChunk) {
    const size_t n = std::min(kChunk, v.scores.size() - at);
    const auto to = evaluation.next(static_cast<int64_t>(n));
    gpu.copy(to.logits, v.scores.data() + at, n * sizeof(float), stream);
    gpu.copy(to.labels, v.labels.data() + at, n * sizeof(float), stream);
  }
  evaluation.start(stream);
}

// A model on the CPU or a GPU, with initial values, ready to be evaluated.
struct Evaluated {
  SmallRun files;
  std::unique_ptr<config::TrainConfig> config;
  ThreadPool pool{1};
  const Exec exec{.device = Device::kCpu, .pool = &pool};
  std::unique_ptr<trainer::Model> model;
  std::unique_ptr<trainer::Evaluator> evaluator;

  explicit Evaluated(const cuda::Backend* gpu, std::vector<std::string> changes = {}) {
    changes.insert(changes.end(), {"layers.data.eval_source=" + (files / "eval.bin"),
                                   "solver.algorithm_search=false"});
    config = config::parse_train_config(small_config(), "small.json", changes);
    model = std::make_unique<trainer::Model>(*config, 1, 1, trainer::ModelRanks(), gpu);
    evaluator = std::make_unique<trainer::Evaluator>(*config, trainer::evaluation_set(*config),
                                                     *model, exec, comm::RankContext());
    model->compile(exec);
    model->allocate();
    trainer::initialize(*model);
  }
  EvalResult run() {
    REQUIRE(evaluator->start());
    return evaluator->finish();
  }
  // Makes every score NaN.
  void spoil() {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (const auto& t : trainer::weights_of(*model)) {
      if (t.name != "t2.bias") continue;
      if (t.put)
        t.put(0, {&nan, 1});
      else
        *t.data = nan;
    }
  }
};

// The device's memory is used up while it lives.
struct FullDevice {
  emulation::Machine& machine = emulation::machine();
  const size_t before = machine.memory_bytes;
  explicit FullDevice(size_t free = 0) { machine.memory_bytes = machine.used_bytes + free; }
  ~FullDevice() { machine.memory_bytes = before; }
};

}  // namespace

TEST_CASE("metrics of scores that a GPU collected chunk by chunk are those of the CPU", "[gpu]") {
  ThreadPool pool(1);
  for (const CudaBackend& backend : cuda_backends()) {
    INFO(backend.name);
    const cuda::Backend& gpu = *backend.table;
    const TestStream stream(gpu);
    GpuEvaluation evaluation(gpu, 1000);
    for (const size_t n : {1000, 1, 333, 0, 640}) {
      const Values v = some_values(n, n);
      collect(evaluation, gpu, stream.get(), v);
      evaluation.wait();
      CHECK(evaluation.samples() == static_cast<int64_t>(n));
      CHECK((evaluation.metrics().auc() == ops::auc(v.scores, v.labels)));  // every bit
      const double loss = ops::log_loss({.pool = &pool}, v.scores, v.labels);
      CHECK(std::abs(evaluation.metrics().log_loss() - loss) <= 1e-13 * loss);
    }
  }
}

TEST_CASE("an evaluation on a GPU takes what it says and gives it back") {
  const cuda::Backend& gpu = emulated_cuda();
  const emulation::Machine before = emulation::machine();
  {
    const auto evaluation = GpuEvaluation::make(gpu, 5000);
    REQUIRE(evaluation);
    CHECK(emulation::machine().used_bytes - before.used_bytes ==
          static_cast<size_t>(GpuEvaluation::device_bytes(gpu, 5000)));
    const TestStream stream(gpu);
    collect(*evaluation, gpu, stream.get(), some_values(100, 1));
    CHECK_THROWS_AS(evaluation->begin(), Error);  // its metrics have not been waited for
    CHECK_THROWS_AS(static_cast<void>(evaluation->next(1)), Error);
    evaluation->wait();
    evaluation->begin();
    CHECK_THROWS_AS(static_cast<void>(evaluation->next(5001)), Error);
  }
  const emulation::Machine& after = emulation::machine();
  CHECK(after.used_bytes == before.used_bytes);
  CHECK(after.device_blocks == before.device_blocks);
  CHECK(after.pinned_blocks == before.pinned_blocks);
  CHECK(after.streams == before.streams);
  CHECK(after.events == before.events);
}

TEST_CASE("a set that a GPU has no memory for is left to the CPU, with one warning") {
  const cuda::Backend& gpu = emulated_cuda();
  const LogCapture log;
  {
    const FullDevice full(50'000);
    CHECK(!GpuEvaluation::make(gpu, 5000));
  }
  CHECK(log.count("warning") == 1);
  check_contains(log.text(), {"5000 samples", "kB of device memory needed", "50.0 kB free"});
  CHECK(!GpuEvaluation::make(gpu, int64_t{1} << 31));
  check_contains(log.text(), {"fewer than 2^31 samples"});
}

TEST_CASE("an evaluator's AUC on a GPU is the same computed there and on the host") {
  const EvalResult cpu = [] {
    Evaluated run(nullptr);
    run.evaluator->allocate();
    CHECK(!run.evaluator->overlaps_training());
    return run.run();
  }();
  CHECK(cpu.samples == 333);
  std::vector<double> areas;
  for (const char* graph : {"true", "false"})
    for (const bool full : {false, true}) {
      INFO("cuda_graph " << graph << ", device full " << full);
      Evaluated run(&emulated_cuda(), {std::string("solver.cuda_graph=") + graph});
      {
        const LogCapture log;
        const FullDevice device(full ? 1000 : size_t{1} << 28);
        run.evaluator->allocate();
        CHECK(log.count("warning") == (full ? 1 : 0));
      }
      CHECK(run.evaluator->overlaps_training() == !full);
      for (int i = 0; i < 3; ++i) {  // from the second on in a graph
        const EvalResult got = run.run();
        CHECK(got.samples == cpu.samples);
        CHECK(std::abs(got.loss - cpu.loss) <= 1e-5);
        areas.push_back(got.auc.value());
      }
      // One that gives up leaves no trace in the next.
      int chunks = 0;
      CHECK(!run.evaluator->start([&] { return ++chunks > 3; }));
      areas.push_back(run.run().auc.value());
    }
  for (const double area : areas) CHECK(area == areas[0]);
  CHECK(std::abs(areas[0] - cpu.auc.value()) <= 1e-3);
}

TEST_CASE("further metrics of an evaluation on a GPU are the host's, and change no other") {
  const auto evaluated = [](const cuda::Backend* gpu, std::vector<std::string> changes,
                            bool full = false) {
    Evaluated run(gpu, std::move(changes));
    {
      const FullDevice device(full ? 1000 : size_t{1} << 28);
      run.evaluator->allocate();
    }
    CHECK(run.evaluator->overlaps_training() == (gpu && !full));
    (void)run.run();
    return run.run();
  };
  const auto further = with_all_metrics();
  const EvalResult cpu = evaluated(nullptr, further), plain = evaluated(&emulated_cuda(), {}),
                   gpu = evaluated(&emulated_cuda(), further),
                   on_host = evaluated(&emulated_cuda(), further, true);
  CHECK(plain.more.empty());
  CHECK(gpu.auc == plain.auc);
  CHECK(gpu.loss == plain.loss);
  REQUIRE(gpu.more.size() == cpu.more.size());
  for (size_t m = 0; m < gpu.more.size(); ++m) {
    const auto& [name, value] = gpu.more[m];
    INFO(name);
    CHECK(name == cpu.more[m].first);
    CHECK(value.value() == Approx(cpu.more[m].second.value()).margin(2e-3));
    CHECK(value.value() == Approx(on_host.more[m].second.value()).epsilon(1e-12));
  }
}

TEST_CASE("a share of negatives is undone in an evaluation on a GPU as on the CPU") {
  const auto evaluated = [](const cuda::Backend* gpu, const char* share) {
    Evaluated run(gpu, {std::string("layers.data.negative_share=") + share});
    run.evaluator->allocate();
    return run.run();
  };
  const EvalResult plain = evaluated(nullptr, "1"), cpu = evaluated(nullptr, "0.1"),
                   gpu = evaluated(&emulated_cuda(), "0.1");
  CHECK(std::abs(gpu.loss - cpu.loss) <= 1e-5);
  CHECK(std::abs(gpu.loss - plain.loss) > 0.1);
  CHECK(std::abs(gpu.auc.value() - cpu.auc.value()) <= 1e-3);
}

TEST_CASE("a score that is NaN is the same error on the CPU and on a GPU") {
  std::vector<std::string> errors;
  for (const cuda::Backend* gpu : {static_cast<const cuda::Backend*>(nullptr), &emulated_cuda()}) {
    Evaluated run(gpu);
    run.evaluator->allocate();
    run.spoil();
    REQUIRE(run.evaluator->start());
    errors.push_back(message_of<DataError>([&] { run.evaluator->finish(); }));
  }
  check_contains(errors[0], {"evaluation sample 0 is NaN"});
  CHECK(errors[0] == errors[1]);
}

namespace {
// What was put on streams, in order.
struct Call {
  char kind;          // copy, record, hold back
  const void* event;  // of the latter two
};
std::vector<Call>* calls = nullptr;
}  // namespace

// The next batch but one arrives where this one's labels lie.
TEST_CASE("labels stay on the device until they have been collected") {
  const cuda::Backend& emulated = emulated_cuda();
  cuda::Backend spy = emulated;
  spy.copy.entry = [](cuda::Failure* why, void* to, const void* from, size_t n, void* s) noexcept {
    if (calls) calls->push_back({'c', nullptr});
    return emulated_cuda().copy.entry(why, to, from, n, s);
  };
  spy.event_record.entry = [](cuda::Failure* why, void* event, void* s) noexcept {
    if (calls) calls->push_back({'r', event});
    return emulated_cuda().event_record.entry(why, event, s);
  };
  spy.stream_wait_event.entry = [](cuda::Failure* why, void* s, void* event) noexcept {
    if (calls) calls->push_back({'h', event});
    return emulated_cuda().stream_wait_event.entry(why, s, event);
  };
  Evaluated run(&spy);
  GpuEvaluation evaluation(emulated, 3 * 64);
  const std::vector<float> zeros(64 * 8, 0.0f);
  const std::vector<uint32_t> keys(64 * 3, 0);
  plan::StepContext chunk;
  chunk.batch = 64;
  chunk.input = {.labels = zeros.data(), .dense = zeros.data(), .keys = keys.data()};
  std::vector<Call> list;
  std::vector<const void*> ends;  // what each chunk's copies are recorded by
  for (int i = 0; i < 3; ++i) {
    list.clear();
    calls = &list;
    run.model->evaluate(chunk);
    const size_t issued = list.size();
    trainer::copy_outputs(*run.model, 64, evaluation.next(64));
    calls = nullptr;
    REQUIRE(list.size() == issued + 3);
    CHECK(list[issued].kind == 'c');
    CHECK(list[issued + 1].kind == 'c');
    CHECK(list[issued + 2].kind == 'r');
    ends.push_back(list[issued + 2].event);
    CHECK(list[0].kind == 'h');  // before the batch's copies
    if (i == 2) CHECK(list[0].event == ends[0]);
  }
  CHECK(ends[0] != ends[1]);
}

}  // namespace hlite::test
