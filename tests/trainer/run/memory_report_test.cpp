// The memory that --check reports, compared with what a run takes.
#include "hugectr_lite/trainer/run/memory_report.h"

#include <cuda_runtime.h>  // the emulated one

#include "hugectr_lite/trainer/evaluation/gpu_evaluation.h"
#include "hugectr_lite/trainer/model/model_sizes.h"
#include "hugectr_lite/trainer/model/resources.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/cuda_backends.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

using trainer::Model;

std::unique_ptr<config::TrainConfig> small(std::vector<std::string> changes = {}) {
  changes.push_back("solver.algorithm_search=false");
  return config::parse_train_config(small_config(), "small.json", changes);
}

struct Report {
  std::string text;
  std::vector<std::string> reasons;
};

Report report(const cuda::Backend* gpu, int64_t eval_samples,
              const std::vector<std::string>& changes = {}) {
  const auto config = small(changes);
  const Model model(*config, 1, 2, {}, gpu);
  Report r;
  r.text = trainer::memory_report(
      {.config = *config, .model = model, .threads = 2, .eval_samples = eval_samples}, r.reasons);
  return r;
}

}  // namespace

TEST_CASE("a model on a GPU takes the memory that it says, before plans are compiled") {
  for (
      const char* optimizer :
      {R"({"type":"Adam","update_type":"Global","adam_hparam":{"learning_rate":0.01,"beta1":0.9,"beta2":0.999,"epsilon":1e-8}})",
       R"({"type":"SGD","sgd_hparam":{"learning_rate":0.01}})",
       R"({"type":"SGD","sgd_hparam":{"learning_rate":0.01,"atomic_update":true}})"}) {
    INFO(optimizer);
    const auto config = small({std::string("layers.emb.optimizer=") + optimizer});
    const size_t before = emulation::machine().used_bytes;
    Model model(*config, 1, 2, {}, &emulated_cuda());
    const trainer::MemoryEstimate m = trainer::memory_of(model);
    CHECK(m.batch == 2 * 64 * (1 + 8 + 3) * 4);
    ThreadPool pool(1);
    model.compile({.device = Device::kCpu, .pool = &pool});
    model.allocate();
    CHECK(trainer::memory_of(model).total() == m.total());
    const auto taken = static_cast<int64_t>(emulation::machine().used_bytes - before);
    CHECK(taken >= m.total());
    CHECK(taken <= m.total() + 64 * 256);  // buffers begin at multiples of 256 bytes
  }
}

TEST_CASE("the workspaces of a GPU that is not here are estimated well") {
  const auto config = small({"solver.batchsize=4096"});
  const Model here(*config, 1, 2, {}, &emulated_cuda());
  const Model absent(*config, 1, 2, {}, &trainer::absent_gpu());
  const auto want = static_cast<double>(trainer::memory_of(here).workspace);
  CHECK(std::abs(static_cast<double>(trainer::memory_of(absent).workspace) - want) <= 0.15 * want);
  CHECK(trainer::memory_of(absent).batch == trainer::memory_of(here).batch);
  const auto evaluation =
      static_cast<double>(trainer::GpuEvaluation::device_bytes(emulated_cuda(), 1'000'000));
  CHECK(std::abs(static_cast<double>(
                     trainer::GpuEvaluation::device_bytes(trainer::absent_gpu(), 1'000'000)) -
                 evaluation) <= 0.15 * evaluation);
}

TEST_CASE("memory is listed table by table, on the CPU and on a GPU") {
  for (const cuda::Backend* gpu : {static_cast<const cuda::Backend*>(nullptr), &emulated_cuda()}) {
    const Report r = report(gpu, 333);
    CHECK(r.reasons.empty());
    check_contains(r.text,
                   {"embedding tables                    5.5 kB",
                    "  emb.table_0                       0.6 kB   40 rows",
                    "  emb.table_2                       4.8 kB   300 rows", "activations"});
  }
  check_contains(report(&emulated_cuda(), 333).text,
                 {"device memory, batch 32: emulated", "input buffers, two sets",
                  "sparse-update workspace", "matmul workspace                   83.9 MB",
                  "evaluation scores and metrics", "(1.1 GB of 1.1 GB free)", "host: batches"});
  check_contains(report(nullptr, 333).text, {"memory, batch 32, 2 threads", "available here"});
  check_contains(report(&trainer::absent_gpu(), 333).text,
                 {"no GPU here", "sparse-update workspace", "about", "83.9 MB"});
}

TEST_CASE("what does not fit a GPU is a reason; memory for an evaluation is none") {
  const Report full = report(&emulated_cuda(), 333, {"solver.batchsize=20000000"});
  REQUIRE(full.reasons.size() >= 1);
  check_contains(full.reasons[0], {"device memory: ", "1.1 GB free", "missing",
                                   "emb.table_2 (300 rows, 4.8 kB), emb.table_0"});
  for (const int64_t samples : {int64_t{100'000'000}, int64_t{1} << 40}) {
    const Report evaluation = report(&emulated_cuda(), samples);
    check_contains(evaluation.text, {"too little memory: the CPU computes the metrics"});
    for (const std::string& reason : evaluation.reasons)
      CHECK(reason.find("device memory") == std::string::npos);
  }
}

}  // namespace hlite::test
