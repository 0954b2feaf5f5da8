// Times training iterations of a DLRM on data in memory, step by step, compared with the ceilings
// of the machine measured in the same run.
//
//   train_bench [--shape kaggle|mlperf|dcnv2|tiny|tables] [--cap ROWS]
//               [--optimizer SGD|AdaGrad|RowWiseAdaGrad] [--threads N] [--batch N] [--seconds S]
//               [--alpha A] [--precision fp32|bf16] [--table-precision fp32|bf16|fp16]
//               [--machine FILE] [--quiet]
//   train_bench --device cuda [--precision fp32|tf32|bf16|fp16] [--no-eager] [--batches N] [...]
//
// Shapes: dlrm_workload.h; tables have at most --cap rows (CPU: 1,000,000 for kaggle, 200,000 for
// the others; GPU: 10,000,000; 40,000,000 is all of them, 96 GB). Keys: Zipf (alpha; 0: uniform),
// ranks scattered over each table. Prints a table on standard error and one JSON object on standard
// output. On the CPU the floor of a step is the larger of its FLOPs at the rate of large matrix
// products in fp32 and its bytes at the rate of a plain copy, both measured here.
// --machine writes the rates that the steps reached, for train --estimate "2x4 FILE" (comm_bench
// --machine adds its links); of ranks that share the machine, measure them while as many of these
// run. cpu_ms is the CPU time of an iteration, of all threads: on one thread a figure that others
// who use the machine change little. A GPU: see train_bench_gpu.cpp.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <ctime>

#include "embedding/device_slots.h"
#include "embedding/lookup.h"
#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/number_option.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/core/stopwatch.h"
#include "hugectr_lite/trainer/model/model_results.h"
#include "hugectr_lite/trainer/model/model_tensors.h"
#include "hugectr_lite/trainer/report/line_file.h"
#include "hugectr_lite/trainer/report/machine_rates.h"
#include "tests/bench/measured_machine.h"
#include "tests/bench/train_bench.h"
#include "tests/support/memory_source.h"

namespace hlite::bench {
namespace {

// Bytes a second of random rows of `width` floats that a lookup reads.
double row_rate(const Exec& exec, int64_t width) {
  const int64_t batch = 2048, slots = 26;
  const int64_t rows = (int64_t{1} << 30) / 4 / width / slots * slots;  // 1 GiB
  const Tensor<float, 2> table(rows, width);
  std::fill_n(table.data(), table.size(), 1.0f);
  const Tensor<uint32_t, 2> keys(batch, slots);
  const embedding::SlotLayout layout(std::vector<int64_t>(slots, rows / slots), width);
  const embedding::DeviceSlots on_cpu(exec, layout);
  const Tensor<float, 3> out(batch, slots, width);
  uint64_t round = 0;
  double total = 0;
  constexpr int kRounds = 20;
  for (int r = 0; r < kRounds; ++r) {
    for (int64_t i = 0; i < keys.size(); ++i)
      keys.data()[i] = random::word(5, 0, ++round) % static_cast<uint32_t>(rows / slots);
    const auto start = Clock::now();
    embedding::lookup_forward<float>(exec, on_cpu.ref(), table.view(), keys.view(), out.view());
    total += seconds_since(start);
  }
  return kRounds * static_cast<double>(batch * slots * width) * 4 / total;
}

void run_on_cpu(const TrainBenchOptions& o) {
  const int64_t batch = o.solver.batch;
  ThreadPool pool(o.threads);
  const Exec exec{.device = Device::kCpu, .pool = &pool};
  const trainer::MachineRates ceilings = trainer::measure_rates(exec, 8, int64_t{64} << 20);
  const double rows_per_s = row_rate(exec, o.shape.width);
  const auto config = config::parse_train_config(config_text(o.shape, o.solver), "bench", {});
  trainer::Model model(*config, 1, o.threads);
  model.compile(exec);
  model.allocate();
  trainer::initialize(model);
  test::MemorySource source(zipf_batches(pool, o.shape, 64, batch, o.alpha));

  const auto steps = model.train_plan().steps();
  std::vector<double> step_seconds(steps.size()), iterations;
  const auto iterate = [&](std::span<double> times) {
    const data::HostBatch& b = source.next();
    plan::run_in_order(model.train_plan(),
                       {.exec = exec, .batch = b.size, .input = trainer::input_of(b)}, times);
  };
  for (int i = 0; i < 8; ++i) iterate({});
  const auto start = Clock::now();
  const std::clock_t cpu = std::clock();
  do {
    const auto one = Clock::now();
    iterate(step_seconds);
    iterations.push_back(seconds_since(one));
  } while (seconds_since(start) < o.seconds);
  const double total = seconds_since(start);
  const double cpu_ms = 1e3 * static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
  const auto n = static_cast<double>(iterations.size());
  std::sort(iterations.begin(), iterations.end());

  double floor_total = 0;
  std::string json_steps;
  if (!o.quiet)
    fmt::print(stderr, "{:16}{:>9}{:>10}{:>9}{:>8}\n", "step", "ms", "floor ms", "% floor",
               "share");
  for (size_t i = 0; i < steps.size(); ++i) {
    const double ms = step_seconds[i] / n * 1e3;
    const double floor_ms = 1e3 * static_cast<double>(batch) *
                            std::max(steps[i].flops_per_sample / ceilings.flops,
                                     steps[i].bytes_per_sample / ceilings.bytes);
    floor_total += floor_ms;
    if (!o.quiet)
      fmt::print(stderr, "{:16}{:9.3f}{:10.3f}{:>9}{:7.1f}%\n", steps[i].name, ms, floor_ms,
                 floor_ms > 0 ? fmt::format("{:.0f}%", 100 * floor_ms / ms) : "",
                 100 * ms / (total / n * 1e3));
    json_steps +=
        fmt::format(R"({}"{}":[{:.4f},{:.4f}])", i ? "," : "", steps[i].name, ms, floor_ms);
  }
  if (!o.machine.empty()) {
    for (double& seconds : step_seconds) seconds /= n;
    write_machine(o, model, step_seconds, 0);
  }
  const double mean_ms = total / n * 1e3;
  if (!o.quiet)
    fmt::print(stderr,
               "{:16}{:9.3f}{:10.3f}{:8.0f}%\nceilings: {:.0f} GFLOP/s, copy {:.1f} GB/s, random "
               "rows of {} bytes {:.2f} GB/s\n",
               "iteration", mean_ms, floor_total, 100 * floor_total / mean_ms, ceilings.flops / 1e9,
               ceilings.bytes / 1e9, o.shape.width * 4, rows_per_s / 1e9);
  fmt::print(
      R"({{"shape":"{}","optimizer":"{}","precision":"{}","threads":{},"batch":{},"ms_mean":{:.3f},"ms_median":{:.3f},"ms_min":{:.3f},"cpu_ms":{:.3f},"samples_per_s":{:.0f},"floor_ms":{:.3f},"gflops":{:.1f},"copy_gbs":{:.2f},"rows_gbs":{:.2f},"loss":{:.5f},"steps_ms_floor":{{{}}}}})"
      "\n",
      o.shape_name, o.solver.optimizer, o.solver.precision, o.threads, batch, mean_ms,
      iterations[iterations.size() / 2] * 1e3, iterations[0] * 1e3, cpu_ms / n,
      static_cast<double>(batch) / (total / n), floor_total, ceilings.flops / 1e9,
      ceilings.bytes / 1e9, rows_per_s / 1e9, static_cast<double>(trainer::loss_of(model)),
      json_steps);
}

int run(int argc, char** argv) {
  TrainBenchOptions o;
  std::string device = "cpu";
  o.shape_name = "kaggle";
  o.threads = available_threads();
  CLI::App app("Times training iterations of a DLRM on data in memory.", "train_bench");
  app.set_version_flag("--version", fmt::format("train_bench {}", kVersion));
  app.add_option("--device", device)->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--shape", o.shape_name, "kaggle; on a GPU mlperf first")
      ->check(CLI::IsMember({"kaggle", "mlperf", "dcnv2", "tiny", "tables"}));
  app.add_option("--cap", o.cap, "Most rows of a table")->check(whole_number(1));
  app.add_option("--optimizer", o.solver.optimizer)
      ->check(CLI::IsMember({"SGD", "AdaGrad", "RowWiseAdaGrad"}));
  app.add_option("--threads", o.threads)->check(CLI::Range(1, 1024));
  app.add_option("--batch", o.solver.batch, "Samples; 2048, on a GPU 65536")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--seconds", o.seconds, "How long iterations of one kind are repeated");
  app.add_option("--alpha", o.alpha, "Of the keys' Zipf distribution");
  app.add_flag("--quiet", o.quiet, "No table, only the JSON line");
  app.add_option("--machine", o.machine, "Write what train --estimate reads of this machine")
      ->type_name("FILE");
  app.add_option("--precision", o.solver.precision, "fp32 or bf16; on a GPU tf32 or fp16 as well")
      ->check(CLI::IsMember({"fp32", "tf32", "bf16", "fp16"}));
  app.add_option("--table-precision", o.solver.table_precision, "Of the tables")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  auto* gpu = app.add_option_group("GPU");
  gpu->add_flag("--hashed", o.solver.hashed, "Hash tables, with as many rows");
  gpu->add_flag("!--no-eager", o.eager, "Leave out the iterations without a graph");
  gpu->add_option("--batches", o.batches, "In host memory")->check(CLI::Range(1, 1024));
  gpu->add_option("--step-seconds", o.step_seconds, "How long one step is repeated");
  gpu->add_option("--gemm-edge", o.gemm_edge, "Of the ceiling's matrices")
      ->check(CLI::Range(8, 1 << 16));
  gpu->add_option("--copy-bytes", o.copy_bytes, "Of the ceiling's copy")->check(whole_number(1));
  CLI11_PARSE(app, argc, argv);

  const bool on_gpu = device == "cuda";
  if (on_gpu && app.count("--shape") == 0) o.shape_name = "mlperf";
  if (on_gpu && app.count("--batch") == 0) o.solver.batch = 65536;
  if (o.cap == 0) o.cap = on_gpu ? 10'000'000 : o.shape_name == "kaggle" ? 1'000'000 : 200'000;
  o.shape = shape_named(o.shape_name, o.cap);
  if (on_gpu)
    run_on_gpu(o);
  else
    run_on_cpu(o);
  return 0;
}

}  // namespace
void write_machine(const TrainBenchOptions& o, const trainer::Model& model,
                   std::span<const double> step_seconds, double host_bytes_per_s) {
  const plan::Plan& plan = model.train_plan();
  const plan::WorkSize size = model.train_size();
  std::vector<MeasuredStep> steps;
  for (size_t i = 0; i < step_seconds.size(); ++i)
    if (const plan::Step& step = plan.steps()[i];
        host_bytes_per_s == 0 || step.lane != plan::Lane::kCopy)
      steps.push_back({.work = work_of(plan, step, size), .seconds = step_seconds[i]});
  auto machine =
      measured_machine(fmt::format("measured by train_bench --shape {}", o.shape_name), steps);
  machine.gpu = host_bytes_per_s > 0;
  if (machine.gpu) machine.host_bytes_per_s = host_bytes_per_s;
  trainer::LineFile(o.machine, /*append=*/false, "the machine").write(json_of(machine));
}

}  // namespace hlite::bench

int main(int argc, char** argv) {
  try {
    return hlite::bench::run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "train_bench: {}\n", e.what());
    return 1;
  }
}
