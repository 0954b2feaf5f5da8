// train_bench --device cuda: whole iterations with batches in page-locked host memory, with and
// without a graph; the host's time for one; evaluation; then every step of both plans alone,
// repeated on one stream.
//
// Bytes of a step are those of the buffers that it reads and writes, each once; of a table and its
// states only the rows that the batch has, each once (repeated ones come from the L2 cache). The
// sort writes its list of rows and sources once, the sparse update reads it once: what both pass on
// in between stays in the L2 cache. A step's floor is the larger of these bytes at the rate of a
// large copy on the device and its FLOPs at the best rate seen here of a matrix product in the same
// precision, a large one or a step's own; copy_in's is that of a copy from page-locked memory. A
// step whose buffers fit into the L2 cache can beat it.
//
// Two bounds of an iteration: all floors in turn, and what is left if steps overlapped perfectly:
// the larger of all bytes and all FLOPs at these rates.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "hugectr_lite/core/device_memory.h"
#include "hugectr_lite/core/fill.h"
#include "hugectr_lite/core/pinned_blocks.h"
#include "hugectr_lite/ops/cast.h"
#include "hugectr_lite/ops/fully_connected.h"
#include "hugectr_lite/trainer/model/model_results.h"
#include "hugectr_lite/trainer/model/model_tensors.h"
#include "tests/bench/bench_gpu.h"
#include "tests/bench/train_bench.h"
#include "tests/support/memory_source.h"

namespace hlite::bench {
namespace {

struct Ceilings {
  double flops = 0;       // of a large matrix product, per second
  double copy_bytes = 0;  // read + written on the device, per second
  double host_bytes = 0;  // copied from page-locked memory, per second
};

template <typename T>
double product_rate(const Gpu& gpu, const TrainBenchOptions& o) {
  const int64_t n = o.gemm_edge, size = n * n;
  const Exec exec = gpu.exec();
  const auto bytes = static_cast<size_t>(size) * sizeof(T);
  const DeviceMemory x(gpu.table(), bytes), w(gpu.table(), bytes), y(gpu.table(), bytes);
  {
    // Of random numbers: zeros take less power, and the clock goes up.
    const DeviceMemory numbers(gpu.table(), static_cast<size_t>(size) * sizeof(float));
    auto* const values = reinterpret_cast<float*>(numbers.data());
    uint64_t stream = 0;
    for (const DeviceMemory* m : {&x, &w}) {
      kernels::fill_uniform(exec, {values, size}, 1, ++stream, 0, -1, 1);
      ops::cast_from_float<T>(exec, {values, size}, {reinterpret_cast<T*>(m->data()), size});
    }
    gpu.synchronize();
  }
  const auto matrix = [n](const DeviceMemory& m) {
    return Matrix<T>(reinterpret_cast<T*>(m.data()), n, n);
  };
  const double seconds = gpu.mean_seconds(10 * o.step_seconds, true, [&] {
    ops::fully_connected_forward<T>(exec, matrix(x), matrix(w), {}, false, matrix(y));
  });
  return 2.0 * static_cast<double>(n) * static_cast<double>(size) / seconds;
}

Ceilings measure_ceilings(const Gpu& gpu, const TrainBenchOptions& o) {
  Ceilings c;
  const std::string& precision = o.solver.precision;
  c.flops = precision == "bf16"   ? product_rate<bf16>(gpu, o)
            : precision == "fp16" ? product_rate<fp16>(gpu, o)
                                  : product_rate<float>(gpu, o);
  const auto bytes = static_cast<size_t>(o.copy_bytes);
  const DeviceMemory from(gpu.table(), bytes), to(gpu.table(), bytes);
  gpu.table().zero(from.data(), bytes, gpu.exec().stream);
  const auto rate = [&](const void* source) {
    return static_cast<double>(bytes) / gpu.mean_seconds(3 * o.step_seconds, false, [&] {
      gpu.table().copy(to.data(), source, bytes, gpu.exec().stream);
    });
  };
  c.copy_bytes = 2 * rate(from.data());
  void* pinned = nullptr;
  gpu.table().allocate_pinned(&pinned, bytes);
  c.host_bytes = rate(pinned);
  gpu.table().free_pinned(pinned);
  return c;
}

plan::StepContext context_of(const data::HostBatch& batch) {
  return {.batch = batch.size, .input = trainer::input_of(batch), .global_batch = batch.size};
}

// A model that is ready to train.
class Workload {
 public:
  Workload(const Gpu& gpu, const TrainBenchOptions& o, ThreadPool& pool, test::MemorySource& source,
           bool graph)
      : gpu_(gpu), source_(source), pinned_(&gpu.table(), source.memory()) {
    Solver solver = o.solver;
    solver.graph = graph;
    config_ = config::parse_train_config(config_text(o.shape, solver), "bench", {});
    model_ = std::make_unique<trainer::Model>(*config_, 1, o.threads, trainer::ModelRanks{},
                                              &gpu.table());
    model_->compile({.device = Device::kCpu, .pool = &pool});
    model_->allocate();
    trainer::initialize(*model_);
    trainer::weights_changed(*model_);
  }
  [[nodiscard]] trainer::Model& model() { return *model_; }

  struct Times {
    double iteration = 0;                   // seconds
    double host_median = 0, host_mean = 0;  // of the call that issues it
  };
  // Runs of the training or evaluation plan as the trainer issues them.
  Times measure(bool train, double seconds) {
    std::vector<double> host;
    const auto one = [&] {
      model_->executor().wait_for_input();
      const plan::StepContext context = context_of(source_.next());
      const auto start = Clock::now();
      if (train)
        model_->train(context);
      else
        model_->evaluate(context);
      host.push_back(since(start));
    };
    for (int i = 0; i < 6; ++i) one();  // on both sides the plan is run, then captured
    gpu_.table().device_synchronize();
    host.clear();
    const auto start = Clock::now();
    do one();
    while (since(start) < seconds);
    gpu_.table().device_synchronize();
    Times times;
    times.iteration = since(start) / static_cast<double>(host.size());
    for (const double s : host) times.host_mean += s / static_cast<double>(host.size());
    std::nth_element(host.begin(), host.begin() + std::ssize(host) / 2, host.end());
    times.host_median = host[host.size() / 2];
    return times;
  }

 private:
  const Gpu& gpu_;
  test::MemorySource& source_;
  PinnedBlocks pinned_;
  std::unique_ptr<config::TrainConfig> config_;
  std::unique_ptr<trainer::Model> model_;
};

// A product of cuBLASLt's in a step, as the file of algorithms has it.
struct Product {
  std::string name, verdict, algorithm;
  // One of the 15 numbers at the end of the name: matmul.cuh's Key.
  [[nodiscard]] int64_t number(size_t i) const {
    std::vector<std::string> parts;
    std::istringstream text(name);
    for (std::string part; std::getline(text, part, '/');) parts.push_back(part);
    return std::stoll(parts.at(parts.size() - 15 + i));
  }
  [[nodiscard]] int64_t epilogue() const { return number(8); }
  [[nodiscard]] std::string text() const {
    return epilogue() == 1 ? "plain" : fmt::format("{} {}", epilogue(), verdict);
  }
};

struct StepTime {
  std::string name;
  double seconds = 0, bytes = 0, flops = 0, floor = 0;
  bool overlaps = false;  // a copy, which overlaps the previous batch
  std::vector<Product> products = {};
};

// What a step's bytes depend on besides its buffers.
struct Traffic {
  double lookups = 0, distinct = 0;  // of a batch
  int64_t rows = 0;                  // of all tables
};

// Of the tables or of what an optimizer keeps of each row.
bool has_rows(const plan::Buffers& buffers, plan::BufferId id) {
  const plan::BufferKind kind = buffers.kind(id);
  return kind == plan::BufferKind::kTable ||
         (kind == plan::BufferKind::kState && buffers.name(id).starts_with("emb."));
}

double bytes_of(const plan::Step& step, const plan::Buffers& buffers, const Traffic& traffic) {
  double bytes = 0;
  for (const auto* list : {&step.reads, &step.writes})
    for (const plan::BufferId id : std::set<plan::BufferId>(list->begin(), list->end()))
      bytes += static_cast<double>(buffers.bytes(id)) *
               (has_rows(buffers, id) ? traffic.distinct / static_cast<double>(traffic.rows) : 1);
  if (step.name == "emb.sort" || step.name == "emb.update") bytes += traffic.lookups * 8;  // list
  return bytes;
}

std::vector<std::string> planned_products;

// Those that the step makes now.
std::vector<Product> products_of(const Gpu& gpu, const TrainBenchOptions& o, const plan::Step& step,
                                 plan::StepContext context) {
  const std::string file = default_algorithm_file();
  planned_products.clear();
  {
    // What makes products for the first time, and follows the file.
    const MatmulContext fresh(
        gpu.table(), {.tf32 = o.solver.precision == "tf32",
                      .algorithm_file = file.c_str(),
                      .planned = [](const char* name) { planned_products.emplace_back(name); }});
    context.exec.matmul = fresh.get();
    step.run(context);
    gpu.synchronize();
  }
  std::map<std::string, Product> known;
  std::ifstream lines(file);
  for (std::string line; !planned_products.empty() && std::getline(lines, line);) {
    std::istringstream words(line);
    Product product;
    if (words >> product.name >> product.verdict >> product.algorithm)
      known[product.name] = product;
  }
  std::vector<Product> products;
  for (const std::string& name : planned_products)
    products.push_back(known.contains(name) ? known[name] : Product{name, "not remembered", ""});
  return products;
}

std::vector<StepTime> measure_steps(const Gpu& gpu, const TrainBenchOptions& o,
                                    const plan::Plan& plan, const plan::StepContext& context,
                                    const Traffic& traffic) {
  std::vector<StepTime> times;
  for (const plan::Step& step : plan.steps()) {
    StepTime t{.name = step.name, .overlaps = step.lane == plan::Lane::kCopy};
    t.bytes = bytes_of(step, plan.buffers(), traffic);
    t.flops = step.flops_per_sample * static_cast<double>(context.batch);
    t.seconds = gpu.mean_seconds(o.step_seconds, !t.overlaps, [&] { step.run(context); });
    t.products = products_of(gpu, o, step, context);
    times.push_back(t);
  }
  return times;
}

void set_floors(std::vector<StepTime>& steps, const Ceilings& ceilings) {
  for (StepTime& t : steps)
    t.floor = std::max(t.bytes / (t.overlaps ? ceilings.host_bytes : ceilings.copy_bytes),
                       t.flops / ceilings.flops);
}

// The sum of all steps that do not overlap the rest.
StepTime sum_of(const std::vector<StepTime>& steps) {
  StepTime sum{.name = "all in turn"};
  for (const StepTime& t : steps) {
    if (t.overlaps) continue;
    sum.seconds += t.seconds;
    sum.bytes += t.bytes;
    sum.flops += t.flops;
    sum.floor += t.floor;
  }
  return sum;
}

// The time of all steps if they overlapped perfectly.
double overlap_floor(const StepTime& sum, const Ceilings& ceilings) {
  return std::max(sum.bytes / ceilings.copy_bytes, sum.flops / ceilings.flops);
}

double seconds_of(const std::vector<StepTime>& steps, const std::string& name) {
  for (const StepTime& t : steps)
    if (t.name == name) return t.seconds;
  return 0;
}

void print_row(const StepTime& t) {
  const auto share = t.floor > 0 ? fmt::format("{:.0f}%", 100 * t.floor / t.seconds) : "";
  std::string products;
  for (const Product& p : t.products) products += (products.empty() ? "  " : ", ") + p.text();
  fmt::print(stderr, "{:18}{:10.4f}{:10.2f}{:10.2f}{:9.0f}{:9.1f}{:10.4f}{:>9}{}\n", t.name,
             t.seconds * 1e3, t.bytes * 1e-6, t.flops * 1e-9, t.bytes / t.seconds * 1e-9,
             t.flops / t.seconds * 1e-12, t.floor * 1e3, share, products);
}

void print_steps(const std::string& what, const std::vector<StepTime>& steps) {
  fmt::print(stderr, "{:18}{:>10}{:>10}{:>10}{:>9}{:>9}{:>10}{:>9}  products\n", what, "ms", "MB",
             "GFLOP", "GB/s", "TFLOP/s", "floor ms", "% floor");
  for (const StepTime& t : steps) print_row(t);
  print_row(sum_of(steps));
}

std::string json_of(const std::vector<StepTime>& steps) {
  std::string text;
  for (const StepTime& t : steps) {
    text += fmt::format(
        R"({}{{"name":"{}","ms":{:.5f},"bytes":{:.0f},"flops":{:.0f},"floor_ms":{:.5f},"products":[)",
        text.empty() ? "" : ",", t.name, t.seconds * 1e3, t.bytes, t.flops, t.floor * 1e3);
    for (const Product& p : t.products)
      text +=
          fmt::format(R"({}{{"epilogue":{},"m":{},"n":{},"k":{},"verdict":"{}","algorithm":"{}"}})",
                      text.ends_with('[') ? "" : ",", p.epilogue(), p.number(12), p.number(13),
                      p.number(14), p.verdict, p.algorithm);
    text += "]}";
  }
  return text;
}

// Per second; 0 of what was not measured.
double rate(double n, double seconds) { return seconds > 0 ? n / seconds : 0; }

}  // namespace

void run_on_gpu(const TrainBenchOptions& o) {
  const Gpu gpu(o.solver.precision == "tf32");
  ThreadPool pool(o.threads);
  Ceilings ceilings = measure_ceilings(gpu, o);
  test::MemorySource source(zipf_batches(pool, o.shape, o.batches, o.solver.batch, o.alpha));
  const auto batch = static_cast<double>(o.solver.batch);

  // One model at a time: two sets of tables may not fit.
  const double without_graph =
      o.eager ? Workload(gpu, o, pool, source, /*graph=*/false).measure(true, o.seconds).iteration
              : 0;
  Workload work(gpu, o, pool, source, /*graph=*/true);
  const Workload::Times train = work.measure(true, o.seconds);
  const float loss = trainer::loss_of(work.model());
  const Workload::Times evaluation = work.measure(false, o.seconds);

  const data::HostBatch& first = source.next();
  const auto& tables = *work.model().layers().embeddings.at(0);
  const int64_t rows = o.solver.hashed ? tables.hash_capacity() : tables.layout().total_rows;
  const Traffic traffic{.lookups = static_cast<double>(first.keys.size()),
                        .distinct = static_cast<double>(distinct_rows(first, o.shape)),
                        .rows = rows};
  work.model().train(context_of(first));  // its keys are those whose rows were counted
  gpu.table().device_synchronize();
  const auto measured = [&](const plan::Plan& plan) {
    plan::StepContext context = context_of(first);
    context.exec = gpu.exec();
    return measure_steps(gpu, o, plan, context, traffic);
  };
  auto train_steps = measured(work.model().train_plan());
  if (!o.machine.empty()) {
    std::vector<double> seconds;
    for (const StepTime& t : train_steps) seconds.push_back(t.seconds);
    write_machine(o, work.model(), seconds, ceilings.host_bytes);
  }
  auto eval_steps = measured(work.model().eval_plan());
  const double large_product = ceilings.flops;
  for (const auto* steps : {&train_steps, &eval_steps})
    for (const StepTime& t : *steps) ceilings.flops = std::max(ceilings.flops, t.flops / t.seconds);
  set_floors(train_steps, ceilings);
  set_floors(eval_steps, ceilings);
  // Either looks up; the second multiplies, too.
  const double lookup = seconds_of(train_steps, "emb.lookup") +
                        seconds_of(train_steps, "emb.rows") +
                        seconds_of(train_steps, "inter.lookup_fprop"),
               update = seconds_of(train_steps, "emb.update");
  const StepTime train_sum = sum_of(train_steps), eval_sum = sum_of(eval_steps);
  const double overlapped = overlap_floor(train_sum, ceilings);

  if (!o.quiet) {
    print_steps("training step", train_steps);
    print_steps("evaluation step", eval_steps);
    fmt::print(
        stderr,
        "{} {} {}, batch {}, alpha {}, {:.3f} distinct rows a lookup, {:.1f} GB of tables\n"
        "ceilings: {:.1f} TFLOP/s (large product {:.1f}), copy {:.0f} GB/s, from host memory {:.1f} "
        "GB/s\n"
        "training: {:.4f} ms, {:.0f} samples/s; bounds: {:.4f} ms in turn ({:.0f}%), {:.4f} ms "
        "overlapped ({:.0f}%); without a graph {:.0f} samples/s; host {:.1f} us an iteration (mean "
        "{:.1f})\n"
        "evaluation: {:.4f} ms, {:.0f} samples/s; embedding: {:.3f} G lookups and updates/s\n",
        gpu.name(), o.shape_name, o.solver.precision, o.solver.batch, o.alpha,
        traffic.distinct / traffic.lookups,
        static_cast<double>(rows * o.shape.width) * sizeof(float) * 1e-9, ceilings.flops * 1e-12,
        large_product * 1e-12, ceilings.copy_bytes * 1e-9, ceilings.host_bytes * 1e-9,
        train.iteration * 1e3, batch / train.iteration, train_sum.floor * 1e3,
        100 * train_sum.floor / train.iteration, overlapped * 1e3,
        100 * overlapped / train.iteration, rate(batch, without_graph), train.host_median * 1e6,
        train.host_mean * 1e6, evaluation.iteration * 1e3, batch / evaluation.iteration,
        rate(traffic.lookups, lookup + update) * 1e-9);
  }
  fmt::print(
      R"({{"device":"cuda","gpu":"{}","shape":"{}","hashed":{},"cap":{},"precision":"{}","optimizer":"{}","batch":{},"alpha":{},"distinct_rows_per_lookup":{:.4f},)",
      gpu.name(), o.shape_name, o.solver.hashed, o.cap, o.solver.precision, o.solver.optimizer,
      o.solver.batch, o.alpha, traffic.distinct / traffic.lookups);
  fmt::print(
      R"("tflops":{:.2f},"tflops_large":{:.2f},"copy_gbs":{:.1f},"host_copy_gbs":{:.2f},"samples_per_s":{:.0f},"ms":{:.4f},"samples_per_s_without_graph":{:.0f},"host_us":{:.2f},"host_us_mean":{:.2f},)",
      ceilings.flops * 1e-12, large_product * 1e-12, ceilings.copy_bytes * 1e-9,
      ceilings.host_bytes * 1e-9, batch / train.iteration, train.iteration * 1e3,
      rate(batch, without_graph), train.host_median * 1e6, train.host_mean * 1e6);
  fmt::print(
      R"("floor_ms":{:.4f},"overlap_floor_ms":{:.4f},"steps_ms":{:.4f},"eval_samples_per_s":{:.0f},"eval_ms":{:.4f},"eval_floor_ms":{:.4f},"eval_host_us":{:.2f},)",
      train_sum.floor * 1e3, overlapped * 1e3, train_sum.seconds * 1e3,
      batch / evaluation.iteration, evaluation.iteration * 1e3, eval_sum.floor * 1e3,
      evaluation.host_median * 1e6);
  const std::string loss_text = std::isfinite(loss) ? fmt::format("{:.5f}", loss) : "null";
  fmt::print(
      R"("lookup_ms":{:.4f},"update_ms":{:.4f},"lookups_per_s":{:.0f},"loss":{},"train_steps":[{}],"eval_steps":[{}]}})"
      "\n",
      lookup * 1e3, update * 1e3, rate(traffic.lookups, lookup + update), loss_text,
      json_of(train_steps), json_of(eval_steps));
}

}  // namespace hlite::bench
