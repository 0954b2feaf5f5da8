#include "hugectr_lite/trainer/check.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "data_reader/source.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/live_line.h"
#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/trainer/model.h"
#include "hugectr_lite/trainer/trainer.h"

namespace hlite::trainer {
namespace {

using Lines = std::vector<std::string>;

int64_t most_ranks_of_a_node(const config::SolverConfig& solver) {
  size_t most = 0;
  for (const auto& row : solver.gpu) most = std::max(most, row.size());
  return static_cast<int64_t>(most);
}

// Rank 0 of the run, without anybody to talk to.
ModelRanks ranks_for_report(const config::TrainConfig& config,
                            const std::vector<LayerPlacement>& placements) {
  return {.context = {.topology = std::make_shared<comm::Topology>(topology_of(config.solver))},
          .placements = placements};
}

std::string launch_text(const Options& options, size_t nodes) {
  return fmt::format("start: mpirun -np {} train --config {}", nodes, options.config);
}

std::string layer_table(const Model& model) {
  const auto rows = model.describe();
  size_t name = 5, type = 4, output = 6;
  for (const auto& r : rows) {
    name = std::max(name, r.name.size());
    type = std::max(type, r.type.size());
    output = std::max(output, r.output.size());
  }
  std::string text = fmt::format("{:{}}  {:{}}  {:{}}  {:>14}  {}\n", "layer", name, "type", type,
                                 "output", output, "parameters", "detail");
  int64_t total = 0;
  for (const auto& r : rows) {
    text += fmt::format("{:{}}  {:{}}  {:{}}  {:>14}  {}\n", r.name, name, r.type, type, r.output,
                        output, r.parameters, r.detail);
    total += r.parameters;
  }
  return text +
         fmt::format("{:{}}  {:{}}  {:{}}  {:>14}\n", "total", name, "", type, "", output, total);
}

// Scores and labels of the whole set, and its samples or the batches that are read ahead.
int64_t evaluation_bytes(const config::TrainConfig& config, const Model& model) {
  const auto& solver = config.solver;
  if (solver.eval_interval == 0) return 0;
  const int64_t samples = std::min(config.data.eval_num_samples.value_or(INT64_MAX),
                                   solver.eval_batches * solver.batchsize_eval);
  const int64_t values =
      config.data.label_dim + config.data.dense_width() + config.data.key_layout().columns;
  const bool cached =
      (samples + solver.batchsize_eval - 1) / solver.batchsize_eval <= config.data.cache_eval_data;
  return 8 * samples + (cached ? 4 * samples * values
                               : data::source_memory_bytes(config.data, model.max_batch()));
}

std::string memory_table(const config::TrainConfig& config, const Model& model, int threads,
                         Lines& reasons) {
  const MemoryEstimate m = model.memory();
  const int64_t ranks = config.solver.ranks();
  // Each rank reads and keeps its rows only.
  const int64_t data = data::source_memory_bytes(config.data, config.solver.batchsize / ranks) +
                       evaluation_bytes(config, model) / ranks;
  std::string text = fmt::format("memory{}, batch {}, {} threads\n", ranks > 1 ? " of rank 0" : "",
                                 config.solver.batchsize, threads);
  const std::pair<const char*, int64_t> lines[] = {{"embedding tables", m.tables},
                                                   {"optimizer states", m.optimizer_states},
                                                   {"dense parameters", m.dense_parameters},
                                                   {"activations", m.activations},
                                                   {"gradients", m.gradients},
                                                   {"sorting workspace", m.workspace},
                                                   {"batches and evaluation", m.batch + data}};
  for (const auto& [what, bytes] : lines)
    text += fmt::format("  {:24}{:>12}\n", what, bytes_text(bytes));
  const int64_t here = most_ranks_of_a_node(config.solver);
  const int64_t total = (m.total() + data) * here, available = available_memory_bytes();
  text += fmt::format("  {:24}{:>12}   ({} available here)\n",
                      here > 1 ? fmt::format("total of {} ranks", here) : "total",
                      bytes_text(total), bytes_text(available));
  if (total > available)
    reasons.push_back(fmt::format("memory: {} needed on one node, {} available", bytes_text(total),
                                  bytes_text(available)));
  return text;
}

std::string file_line(const config::TrainConfig& config, const Model& model, data::Split split,
                      Lines& reasons) {
  const bool train = split == data::Split::kTrain;
  const std::string path = config.resolve(train ? config.data.source : config.data.eval_source);
  const char* what = train ? "training data" : "evaluation data";
  if (!std::filesystem::exists(path)) {
    reasons.push_back(fmt::format("{}: {} is not there", what, path));
    return fmt::format("  {:24}{}: not there\n", what, path);
  }
  // Decodes the first batch too, so that a file of another shape is found here.
  data::SourceOptions once;
  once.repeat = false;
  const auto source =
      data::open_source(config.data, path, split, std::min<int64_t>(config.solver.batchsize, 8192),
                        model.slot_rows(), once);
  source->next();
  return fmt::format("  {:24}{}: {} samples\n", what, path, source->samples());
}

}  // namespace

std::string check_report(const config::TrainConfig& config, const Options& options) {
  const int threads = std::max<int>(
      1, resolve_threads(config, options) / static_cast<int>(most_ranks_of_a_node(config.solver)));
  const auto placements = make_placements(config, topology_of(config.solver), false);
  const Model model(config, resolve_seed(config), threads, ranks_for_report(config, placements));
  Lines reasons;
  std::string text =
      layer_table(model) + "\n" + memory_table(config, model, threads, reasons) + "\nfiles\n";
  text += file_line(config, model, data::Split::kTrain, reasons);
  if (config.solver.eval_interval > 0)
    text += file_line(config, model, data::Split::kEval, reasons);
  const auto& solver = config.solver;
  text += fmt::format("\ntopology: {} node{} x {} rank{}\n", solver.gpu.size(),
                      solver.gpu.size() == 1 ? "" : "s", solver.gpu[0].size(),
                      solver.gpu[0].size() == 1 ? "" : "s");
  for (const LayerPlacement& p : placements) text += p.explanation + "\n";
  if (solver.gpu.size() > 1)
    text += fmt::format("{}; or as threads of one process, without mpirun\n",
                        launch_text(options, solver.gpu.size()));
  text += "\nthe config is valid";
  if (reasons.empty()) return text + ", and the run can start here\n";
  text += "; the run cannot start here yet:\n";
  for (const std::string& r : reasons) text += "  - " + r + "\n";
  return text;
}

std::string plan_report(const config::TrainConfig& config, const Options& options) {
  const auto placements = make_placements(config, topology_of(config.solver), false);
  Model model(config, resolve_seed(config), resolve_threads(config, options),
              ranks_for_report(config, placements));
  model.compile();
  return "training iteration\n" + model.train_plan().describe() + "\nevaluation batch\n" +
         model.eval_plan().describe();
}

}  // namespace hlite::trainer
