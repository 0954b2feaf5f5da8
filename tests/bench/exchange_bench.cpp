// Times the steps of an embedding whose rows are spread over ranks: route, exchange of keys,
// gather, exchange of rows, pool, sort, reduce, exchange of gradients, update.
//
//   exchange_bench [--device cpu|cuda] [--shape mlperf|dcnv2|kaggle|tiny] [--ranks N,..]
//                  [--nodes M] [--batch B] [--cap ROWS] [--alpha A,..] [--precision fp32|bf16]
//                  [--seconds S] [--system SYSTEM] [--quiet]
//
// Shapes and keys: dlrm_workload.h, with as small a network as there can be; --batch are samples of
// all ranks together, tables have at most --cap rows, and no rows are copied. On one rank the steps
// are lookup and update. Ranks begin a step together; its time is the slowest one's, the mean over
// whole iterations on the CPU, over repetitions of the step on a GPU. "iteration": all steps as the
// trainer runs them, captured where no two ranks share a GPU.
//
// "sent": what a rank sent, by count, the largest of the ranks. "model": what the estimate of
// --system takes the step to be. Under mpirun (a process a node) a start makes one run. Prints
// tables on standard error and a JSON object a run, one to a line, on standard output.
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "hugectr_lite/comm/mpi_plugin.h"
#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/number_option.h"
#include "hugectr_lite/core/stopwatch.h"
#include "hugectr_lite/plan/step_work.h"
#include "hugectr_lite/trainer/estimate/machine.h"
#include "hugectr_lite/trainer/model/model_tensors.h"
#include "tests/bench/bench_ranks.h"
#include "tests/bench/dlrm_workload.h"

namespace hlite::bench {
namespace {

constexpr int64_t kBatches = 2;
const std::string kLayer = "emb.";

struct ExchangeOptions : RankOptions {
  std::string shape_name = "mlperf", precision = "fp32", system;
  std::vector<int> rank_counts = {1, 2, 4};
  std::vector<double> alphas = {0, 1.05};
  int64_t batch = 0, cap = 0;
  double seconds = 1;
  bool quiet = false;
};

// The tables of a shape, and as little network as there can be.
Shape tables_alone(const ExchangeOptions& o) {
  Shape shape = shape_named(o.shape_name, o.cap);
  shape.bottom = {shape.width, shape.width};
  shape.top = {shape.width, 1};
  shape.cross_layers = 0;
  return shape;
}

// "[[0,1],[2,3]]": the config's ranks.
std::string ranks_text(const RankOptions& o) {
  std::string rows;
  const int each = o.ranks / o.nodes;
  for (int n = 0; n < o.nodes; ++n) {
    std::vector<int> row;
    for (int r = 0; r < each; ++r) row.push_back(n * each + r);
    rows += fmt::format("{}[{}]", n ? "," : "", fmt::join(row, ","));
  }
  return fmt::format("solver.gpu=[{}]", rows);
}

struct StepTime {
  std::string name;
  double seconds = 0, bytes = 0;  // bytes: in the rank's own memory
  trainer::ExchangeWork sends = {};
};
struct Result {
  std::vector<StepTime> steps;
  double iteration = 0;
};

// A rank's model and its part of the batches.
class Workload {
 public:
  Workload(const BenchRank& rank, const ExchangeOptions& o, const config::TrainConfig& config,
           const std::vector<data::BatchBuffer>& batches,
           const std::vector<trainer::LayerPlacement>& placements)
      : rank_(rank),
        o_(o),
        batches_(batches),
        model_(config, 1, o.threads,
               {.context = {.rank = rank.rank(),
                            .topology = std::make_shared<const comm::Topology>(topology_of(o)),
                            .world = o.ranks > 1 ? &rank.world() : nullptr,
                            .devices = o.ranks > 1 ? rank.devices() : nullptr},
                .placements = placements},
               rank.gpu()) {
    model_.compile(rank.host());
    model_.allocate();
    trainer::initialize(model_);
    trainer::weights_changed(model_);
  }

  Result measure() {
    for (int i = 0; i < 4; ++i) train();  // exchanges grow to their capacity
    model_.executor().synchronize();
    Result result;
    result.iteration = rank_.seconds_of(o_.seconds, false, [&] {
      train();
      model_.executor().synchronize();
    });
    const std::vector<comm::StepTraffic> before = model_.traffic();
    turn_ = 0;  // the first batch is the one that is counted
    train();
    model_.executor().synchronize();
    count(result, before, model_.traffic());
    if (rank_.gpu())
      repeat_steps(result);
    else
      repeat_iterations(result);
    return result;
  }

 private:
  plan::StepContext context() {
    const int64_t index = turn_++ % kBatches * o_.ranks + rank_.rank();
    const data::HostBatch& b = batches_[static_cast<size_t>(index)].batch();
    return {.exec = rank_.exec(),
            .batch = b.size,
            .input = trainer::input_of(b),
            .global_batch = b.size * o_.ranks,
            .first_row = b.size * rank_.rank()};
  }
  void train() {
    model_.executor().wait_for_input();
    model_.train(context());
  }
  // Of an iteration, in an order.
  [[nodiscard]] std::vector<plan::Step> steps() const {
    std::vector<plan::Step> all;
    for (const plan::Plan* part : {&model_.keys_plan(), &model_.train_plan()})
      all.insert(all.end(), part->steps().begin(), part->steps().end());
    return all;
  }
  [[nodiscard]] static bool counts(const plan::Step& step) { return step.name.starts_with(kLayer); }

  // The steps, with what one iteration moved.
  void count(Result& result, const std::vector<comm::StepTraffic>& before,
             const std::vector<comm::StepTraffic>& after) const {
    const comm::Topology topology = topology_of(o_);
    const plan::WorkSize size{.batch = o_.batch / o_.ranks, .max_batch = model_.max_batch()};
    for (const plan::Step& step : steps()) {
      if (!counts(step)) continue;
      StepTime t{.name = step.name.substr(kLayer.size()),
                 .bytes = work_of(model_.train_plan(), step, size).bytes,
                 .sends = {.nodes = topology.nodes(), .ranks_of_node = topology.ranks_on(0)}};
      for (size_t i = 0; i < after.size(); ++i) {
        if (after[i].step != step.name) continue;
        const comm::TrafficTotals sent = after[i].totals - before.at(i).totals;
        t.sends.in_node = rank_.largest(static_cast<double>(sent.intra_bytes));
        t.sends.between = rank_.largest(static_cast<double>(sent.inter_bytes));
      }
      result.steps.push_back(t);
    }
  }

  // A step again and again before the next: on a GPU one alone is shorter than its launch.
  void repeat_steps(Result& result) {
    const plan::StepContext own = context();
    plan::StepContext other = own;
    other.exec = model_.executor().exec();  // with what multiplies
    size_t next = 0;
    for (const plan::Step& step : steps()) {
      if (counts(step)) {
        result.steps[next++].seconds =
            rank_.seconds_of(o_.seconds / 10, false, [&] { step.run(own); });
      } else {
        step.run(other);
        model_.executor().synchronize();
      }
    }
  }

  void repeat_iterations(Result& result) {
    int64_t iterations = 0;
    const auto start = Clock::now();
    do {
      const plan::StepContext c = context();
      size_t next = 0;
      for (const plan::Step& step : steps()) {
        rank_.world().barrier();
        const auto begin = Clock::now();
        step.run(c);
        if (counts(step)) result.steps[next++].seconds += seconds_since(begin);
      }
      ++iterations;
    } while (rank_.first(seconds_since(start)) < o_.seconds);
    for (StepTime& t : result.steps)
      t.seconds = rank_.largest(t.seconds) / static_cast<double>(iterations);
  }

  const BenchRank& rank_;
  const ExchangeOptions& o_;
  const std::vector<data::BatchBuffer>& batches_;
  trainer::Model model_;
  int64_t turn_ = 0;
};

double model_seconds(const trainer::Machine& machine, const StepTime& t) {
  const bool exchange = t.name.ends_with("_exchange");
  if (!exchange) return machine.step_seconds + t.bytes / machine.memory_bytes_per_s;
  const trainer::ExchangeSeconds s = exchange_seconds(machine, t.sends);
  return machine.step_seconds + s.in_node + s.between;
}

void print(const ExchangeOptions& o, double alpha, double distinct, const Result& result) {
  std::optional<trainer::Machine> machine;
  if (!o.system.empty()) machine = trainer::parse_system(o.system).machine;
  if (!o.quiet)
    fmt::print(stderr,
               "{} {}, {} ranks on {} node(s), {}, batch {}, alpha {}, {:.3f} distinct rows a key\n"
               "{:16}{:>11}{:>11}{:>13}{:>13}{:>9}{:>11}{:>9}\n",
               o.shape_name, o.precision, o.ranks, o.nodes, o.gpu ? "GPUs" : "CPU", o.batch, alpha,
               distinct, "step", "ms", "own MB", "in node MB", "between MB", "GB/s", "model ms",
               "x model");
  std::string json;
  double total = 0;
  for (const StepTime& t : result.steps) {
    const double sent = t.sends.in_node + t.sends.between, bytes = sent > 0 ? sent : t.bytes,
                 model = machine ? model_seconds(*machine, t) : 0;
    total += t.seconds;
    if (!o.quiet)
      fmt::print(stderr, "{:16}{:11.4f}{:11.3f}{:13.3f}{:13.3f}{:9.2f}{:>11}{:>9}\n", t.name,
                 t.seconds * 1e3, t.bytes * 1e-6, t.sends.in_node * 1e-6, t.sends.between * 1e-6,
                 bytes / t.seconds * 1e-9, machine ? fmt::format("{:.4f}", model * 1e3) : "-",
                 machine ? fmt::format("{:.2f}", t.seconds / model) : "-");
    json += fmt::format(
        R"({}{{"name":"{}","ms":{:.5f},"bytes":{:.0f},"in_node":{:.0f},"between":{:.0f},"model_ms":{:.5f}}})",
        json.empty() ? "" : ",", t.name, t.seconds * 1e3, t.bytes, t.sends.in_node, t.sends.between,
        model * 1e3);
  }
  if (!o.quiet)
    fmt::print(stderr, "{:16}{:11.4f}\n{:16}{:11.4f}\n\n", "all in turn", total * 1e3, "iteration",
               result.iteration * 1e3);
  fmt::print(
      R"({{"device":"{}","shape":"{}","cap":{},"precision":"{}","ranks":{},"nodes":{},"batch":{},"alpha":{},"distinct_rows_per_key":{:.4f},"iteration_ms":{:.5f},"steps":[{}]}})"
      "\n",
      o.gpu ? "cuda" : "cpu", o.shape_name, o.cap, o.precision, o.ranks, o.nodes, o.batch, alpha,
      distinct, result.iteration * 1e3, json);
  std::fflush(stdout);
}

void run_ranks(ExchangeOptions o, int ranks, double alpha) {
  o.ranks = ranks;
  o.nodes = std::min(o.nodes, ranks);
  const Shape shape = tables_alone(o);
  const comm::Topology topology = topology_of(o);
  std::vector<data::BatchBuffer> batches;
  {
    ThreadPool pool(available_threads());
    batches = zipf_batches(pool, shape, kBatches * ranks, o.batch / ranks, alpha);
  }
  double distinct = 0;  // of a rank's part of a batch
  for (const data::BatchBuffer& b : batches)
    distinct += static_cast<double>(distinct_rows(b.batch(), shape)) /
                static_cast<double>(b.batch().keys.size() * std::ssize(batches));
  on_ranks(o, [&](BenchRank& rank) {
    const Solver solver{
        .batch = o.batch, .precision = o.precision, .graph = ranks == 1 || rank.captures()};
    const auto config =
        config::parse_train_config(config_text(shape, solver), "exchange_bench", {ranks_text(o)});
    std::vector<trainer::LayerPlacement> placements;
    if (ranks > 1)
      placements = expect_placements(
                       *config, topology,
                       alpha > 0 ? trainer::AssumedKeys::kCriteo : trainer::AssumedKeys::kUniform,
                       /*copies=*/false)
                       .placements;
    Workload work(rank, o, *config, batches, placements);
    const Result result = work.measure();
    if (rank.rank() == 0) print(o, alpha, distinct, result);
    rank.world().barrier();  // no rank frees what others use
  });
}

int run(int argc, char** argv) {
  ExchangeOptions o;
  CLI::App app("Times the steps of embeddings whose rows are spread over ranks.", "exchange_bench");
  app.set_version_flag("--version", fmt::format("exchange_bench {}", kVersion));
  add_rank_options(app, o);
  app.add_option("--shape", o.shape_name)
      ->check(CLI::IsMember({"kaggle", "mlperf", "dcnv2", "tiny"}));
  app.add_option("--ranks", o.rank_counts, "Of all nodes; several numbers, one after the other")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096));
  app.add_option("--batch", o.batch, "Samples of all ranks; 8192, on GPUs 65536")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--cap", o.cap, "Most rows of a table; 200,000, on GPUs 10,000,000")
      ->check(whole_number(1));
  app.add_option("--alpha", o.alphas, "Of the keys' Zipf distribution; 0: uniform")->delimiter(',');
  app.add_option("--precision", o.precision)->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--seconds", o.seconds, "Of each measurement");
  app.add_option("--system", o.system, "The machine to compare with, as train --estimate takes it");
  app.add_flag("--quiet", o.quiet, "No tables, only the JSON lines");
  CLI11_PARSE(app, argc, argv);
  if (o.batch == 0) o.batch = o.gpu ? 65536 : 8192;
  if (o.cap == 0) o.cap = o.gpu ? 10'000'000 : 200'000;
  for (const int ranks : o.rank_counts)
    if (o.batch % ranks != 0)
      raise<ConfigError>("--batch: expected a multiple of the {} ranks, found {}", ranks, o.batch);
  if (!o.system.empty()) (void)trainer::parse_system(o.system);
  if (comm::under_mpirun() && o.rank_counts.size() * o.alphas.size() > 1)
    raise<ConfigError>(
        "under mpirun: expected one number of ranks and one --alpha, found {} and {}",
        o.rank_counts.size(), o.alphas.size());
  for (const double alpha : o.alphas)
    for (const int ranks : o.rank_counts) run_ranks(o, ranks, alpha);
  return 0;
}

}  // namespace
}  // namespace hlite::bench

int main(int argc, char** argv) {
  return hlite::bench::run_bench("exchange_bench", hlite::bench::run, argc, argv);
}
