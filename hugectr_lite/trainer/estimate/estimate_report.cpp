#include "hugectr_lite/trainer/estimate/estimate_report.h"
#include "hugectr_lite/trainer/model/embedding_layers.h"

#include <fmt/format.h>

#include "hugectr_lite/core/error.h"

namespace hlite::trainer {
namespace {

struct BoundText {
  const char *what, *advice;
};
const BoundText& text_of(Bound bound) {
  static const BoundText texts[kBounds] = {
      {"matrix products", "narrower types (solver.precision) or a smaller network help"},
      {"the device's memory", "narrower activations (solver.precision) or fewer lookups help"},
      {"the fixed cost of its steps", "a larger batch or fewer layers help, a faster GPU does not"},
      {"links within the node", "another sharding, fewer replicated rows or 16 bits on them help"},
      {"the network between nodes", "fewer nodes, fewer exchanged rows or a larger batch help"},
      {"copies from host memory", "a wider link to the host helps"},
      {"rows from a slower tier of memory",
       "more memory for rows (solver.embedding_memory) helps"}};
  return texts[static_cast<size_t>(bound)];
}

std::string rate_text(double per_second) {
  return per_second >= 1e6 ? fmt::format("{:.1f} M samples/s", per_second * 1e-6)
                           : fmt::format("{:.0f} samples/s", per_second);
}
std::string result_text(const IterationEstimate& e) {
  return fmt::format("{:.{}f} ms per iteration, {}", e.seconds * 1e3, e.seconds < 0.1 ? 2 : 1,
                     e.samples_per_s() >= 1e6
                         ? rate_text(e.samples_per_s())
                         : fmt::format("{:.2f} M samples/s", e.samples_per_s() * 1e-6));
}

std::string step_table(const IterationEstimate& e) {
  std::string text = fmt::format("  {:40} {:10}{:>9}{:>10}{:>10}{:>10}{:>12}{:>12}\n", "step",
                                 "lane", "GFLOP", "MB", "MB node", "MB net", "us", "ends");
  for (const EstimatedStep& s : e.steps)
    text += fmt::format("{} {:40} {:10}{:9.2f}{:10.2f}{:10.3f}{:10.3f}{:12.1f}{:12.1f}\n",
                        s.critical ? '*' : ' ', s.name, plan::lane_name(s.lane),
                        s.work.flops * 1e-9, s.work.bytes * 1e-6, s.work.in_node * 1e-6,
                        s.work.between * 1e-6, s.seconds * 1e6, s.end * 1e6);
  return text;
}

std::string path_text(const IterationEstimate& e) {
  std::string text = "the critical path (*) goes to\n";
  for (int b = 0; b < kBounds; ++b)
    if (const double s = e.on_path[static_cast<size_t>(b)]; s > 0)
      text += fmt::format("  {:32}{:9.3f} ms {:5.1f} %\n", text_of(static_cast<Bound>(b)).what,
                          s * 1e3, 100 * s / e.seconds);
  return text +
         fmt::format("bound by {}: {}\n", text_of(e.bound()).what, text_of(e.bound()).advice);
}

// Estimates of one system with other settings.
class WhatIf {
 public:
  WhatIf(const Options& options, const System& system, const IterationEstimate& now)
      : options_(options), system_(system), now_(now) {}

  // A setting that the config or the machine cannot have is left out.
  void add(const std::string& what, const EstimateSetup& setup,
           const std::vector<std::string>& more = {}) {
    try {
      auto overrides = overrides_for(system_, options_.overrides);
      overrides.insert(overrides.end(), more.begin(), more.end());
      const auto config = config::load_train_config(options_.config, overrides, options_.solver);
      const IterationEstimate e = estimate_iteration(*config, system_.machine, setup);
      text_ += fmt::format("  {:34}{:>9.3f} ms {:>22}   {:.2f} x\n", what, e.seconds * 1e3,
                           rate_text(e.samples_per_s()), e.samples_per_s() / now_.samples_per_s());
    } catch (const ConfigError&) {
    }
  }
  [[nodiscard]] std::string text() const { return "what if\n" + text_; }

 private:
  const Options& options_;
  const System& system_;
  const IterationEstimate& now_;
  std::string text_;
};

std::string what_if(const Options& options, const System& system, const config::TrainConfig& config,
                    const IterationEstimate& now) {
  WhatIf table(options, system, now);
  if (config.solver.embedding_memory) table.add("all rows in memory", {.all_in_memory = true});
  table.add("twice the batch", {}, {fmt::format("solver.batchsize={}", 2 * now.batch)});
  table.add("half the batch", {}, {fmt::format("solver.batchsize={}", now.batch / 2)});
  if (now.ranks > 1) {
    table.add("4 bytes a value on links", {.wire_bytes = 4});
    table.add("2 bytes a value on links", {.wire_bytes = 2});
    table.add("no replicated rows", {.replicate = false});
    for (size_t i = 0; i < count_embeddings(config); ++i)
      for (const char* sharding : {"slot", "row", "auto"})
        table.add(fmt::format("sharding {} of layers[{}]", sharding, i + 1), {},
                  {fmt::format("layers[{}].sparse_embedding_hparam.sharding={}", i + 1, sharding)});
  }
  table.add("every key as often as any other", {.keys = AssumedKeys::kUniform});
  return table.text();
}

}  // namespace

std::vector<std::string> overrides_for(const System& system,
                                       const std::vector<std::string>& overrides) {
  std::vector<std::string> all = overrides;
  if (system.nodes > 0) {
    std::vector<int> row;
    for (int i = 0; i < system.ranks_of_node; ++i) row.push_back(i);
    const std::vector<std::string> rows(static_cast<size_t>(system.nodes),
                                        fmt::format("[{}]", fmt::join(row, ",")));
    all.push_back(fmt::format("solver.gpu=[{}]", fmt::join(rows, ",")));
  }
  // "Oneshot" is on GPUs one kernel in which each sums its slice of all: what the CPU calls NCCL.
  if (system.machine.gpu) all.emplace_back("all_reduce.algo=NCCL");
  return all;
}

std::vector<std::string> cliffs_of(const Machine& machine, const IterationEstimate& e, int nodes) {
  std::vector<std::string> cliffs;
  const int ranks_of_node = e.ranks / nodes;
  if (machine.gpu && ranks_of_node > 1 && machine.in_node.kind == "pcie")
    cliffs.push_back(
        fmt::format("GPUs reach each other over PCIe alone: {:.0f} times slower than by NVLink; a "
                    "published run on such a machine took 48 times as long. Fewer ranks a node may "
                    "be faster.",
                    known_machines().front().in_node.bytes_per_s / machine.in_node.bytes_per_s));
  if (nodes > 1 && machine.nics < ranks_of_node)
    cliffs.push_back(
        fmt::format("{} ranks of a node share {} network adapter{}: each has {:.2f} GB/s of {:.2f}",
                    ranks_of_node, machine.nics, machine.nics == 1 ? "" : "s",
                    machine.between.bytes_per_s * machine.nics / ranks_of_node * 1e-9,
                    machine.between.bytes_per_s * 1e-9));
  if (const double network = e.on_path[static_cast<size_t>(Bound::kBetween)];
      network > 0.5 * e.seconds)
    cliffs.push_back(
        fmt::format("{:.0f} % of an iteration wait for the network: one node may be "
                    "faster than {}",
                    100 * network / e.seconds, nodes));
  if (machine.gpu && e.batch / e.ranks < 512)
    cliffs.push_back(fmt::format("{} samples a rank: too few to fill a GPU", e.batch / e.ranks));
  return cliffs;
}

std::string estimate_report(const Options& options) {
  const System system = parse_system(options.estimate);
  const auto config = config::load_train_config(
      options.config, overrides_for(system, options.overrides), options.solver);
  const IterationEstimate e = estimate_iteration(*config, system.machine, {});
  const auto nodes = static_cast<int>(config->solver.gpu.size());
  std::string text =
      fmt::format("{} node{} x {} rank{}, {}: batch {}, {} a rank\nkeys {}\n", nodes,
                  nodes == 1 ? "" : "s", e.ranks / nodes, e.ranks == nodes ? "" : "s",
                  system.machine.name, e.batch, e.batch / e.ranks, e.keys);
  for (const std::string& line : e.placement) text += line + "\n";
  for (const std::string& line : e.tiers) text += line + "\n";
  text += "\n" + step_table(e) + "\n" + path_text(e);
  text += fmt::format("the reader has to give each node {:.2f} GB/s\n",
                      e.sample_bytes * e.samples_per_s() / nodes * 1e-9);
  for (const std::string& cliff : cliffs_of(system.machine, e, nodes))
    text += "warning: " + cliff + "\n";
  text += "\n" + what_if(options, system, *config, e);
  return text + "\nestimate: " + result_text(e) + "\n";
}

}  // namespace hlite::trainer
