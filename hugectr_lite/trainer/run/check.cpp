#include "hugectr_lite/trainer/run/check.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <vector>

#include "data_reader/followed_source.h"
#include "data_reader/record_format.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/trainer/model/model_sizes.h"
#include "hugectr_lite/trainer/model/placements.h"
#include "hugectr_lite/trainer/model/resources.h"
#include "hugectr_lite/trainer/model/row_memory.h"
#include "hugectr_lite/trainer/report/submission.h"
#include "hugectr_lite/trainer/run/memory_report.h"
#include "hugectr_lite/trainer/run/preconditions.h"
#include "hugectr_lite/trainer/run/run_outputs.h"
#include "hugectr_lite/trainer/run/training_data.h"

namespace hlite::trainer {
namespace {

using Lines = std::vector<std::string>;

// Rank 0 of the run, without anybody to talk to.
ModelRanks ranks_for_report(const config::TrainConfig& config,
                            const std::vector<LayerPlacement>& placements, const RowTiers& tiers) {
  ModelRanks ranks;
  ranks.context.topology = std::make_shared<comm::Topology>(topology_of(config.solver));
  ranks.placements = placements;
  ranks.tiers = tiers;
  ranks.one_process = config.solver.gpu.size() == 1;
  return ranks;
}

RowMemoryDecision row_memory_for_report(const config::TrainConfig& config, const Options& options,
                                        const std::vector<LayerPlacement>& placements, int threads,
                                        const cuda::Backend* gpu) {
  return decide_row_memory(
      {.config = config,
       .save = options.save,
       .placements = placements,
       .threads = threads,
       .gpu = gpu,
       .ranks = {.topology = std::make_shared<comm::Topology>(topology_of(config.solver))}});
}

std::string launch_text(const Options& options, size_t nodes) {
  return fmt::format("start: mpirun -np {} --map-by node --bind-to none train --config {}", nodes,
                     options.config);
}

std::string layer_table(const Model& model) {
  const auto rows = layer_sizes(model);
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

// Returns a line about the file. `written`: its path, as the config has it.
std::string check_data_file(const config::TrainConfig& config, const Model& model, const char* what,
                            const std::string& written, data::Split split, Lines& reasons) {
  const std::string path = config.resolve(written);
  if (!std::filesystem::exists(path)) {
    reasons.push_back(fmt::format("{}: {} is not there", what, path));
    return fmt::format("  {:24}{}: not there\n", what, path);
  }
  if (config.data.follow && split == data::Split::kTrain) {
    const data::FollowedSource source(config.data, path, config.solver.batchsize, {}, {});
    return fmt::format("  {:24}{}: followed\n", what, path);
  }
  if (const std::string why = data::record_format(config.data).why_missing(); !why.empty()) {
    reasons.push_back(fmt::format("{}: {}", what, why));
    return fmt::format("  {:24}{}: not read\n", what, path);
  }
  // Decodes the first batch too, so that a file of another shape is found here.
  data::SourceOptions once;
  once.repeat = false;
  const auto source =
      data::open_source(config.data, path, split, std::min<int64_t>(config.solver.batchsize, 8192),
                        model.layers().slot_rows, once);
  source->next();
  return fmt::format("  {:24}{}: {} samples\n", what, path, source->samples());
}

std::string memory_text(const MemoryOfRun& memory, const RowMemoryDecision& rows, Lines& reasons) {
  std::string text;
  for (const std::string& line : rows.lines) text += line + "\n";
  for (const std::string& warning : rows.warnings) text += "warning: " + warning + "\n";
  return text + memory_report(memory, reasons);
}

// Checks what the options name: outputs, and what a run starts from.
void check_options(const config::TrainConfig& config, const Options& options,
                   const data::TrainedOn& data, Lines& reasons) {
  const auto try_to = [&](auto&& action) {
    try {
      action();
    } catch (const Error& why) {
      reasons.emplace_back(why.what());
    }
  };
  parse_submission(options.submission);  // wrong usage on any machine
  try_to([&] { const RunOutputs outputs(config, options); });
  const size_t before = reasons.size();
  if (!options.resume.empty())
    try_to([&] { check_same_run(config, checkpoint::read_manifest(options.resume), options); });
  try_to([&] { check_rows_fit(config, options); });
  if (options.with_preparation) try_to([&] { preparation_of(config); });
  // A model that can be read and is of other data contradicts the config on any machine.
  if (reasons.size() == before) check_model_data(data, options, config.data.follow);
}

// The GPU to report about; absent_gpu() if one is requested and is not here, null for the CPU.
// What is missing is added to `reasons`.
const cuda::Backend* gpu_to_report(const config::TrainConfig& config, const Options& options,
                                   Lines& reasons) {
  try {
    const cuda::Backend* gpu = choose_device(config, options.device);
    if (gpu) gpu->use_device(config.solver.gpu[0][0]);
    return gpu;
  } catch (const DeviceError& why) {
    const std::string text = why.what();
    reasons.push_back(text.starts_with("device ") ? text : "device cuda: " + text);
    return needs_cpu(config).empty() ? &absent_gpu() : nullptr;
  }
}

}  // namespace

std::string check_report(const config::TrainConfig& config, const Options& options) {
  const int threads = std::max<int>(1, resolve_threads(config, options.threads) /
                                           static_cast<int>(config.solver.max_ranks_of_a_node()));
  const auto placements = make_placements(config, topology_of(config.solver), false);
  Lines reasons;
  const cuda::Backend* gpu = gpu_to_report(config, options, reasons);
  RowMemoryDecision memory_of_rows =
      row_memory_for_report(config, options, placements, threads, gpu);
  const Model model(config, resolve_seed(config), threads,
                    ranks_for_report(config, placements, memory_of_rows.tiers), gpu);
  const data::TrainedOn data = check_training_data(config, options);
  std::string files = check_data_file(config, model, "training data", config.data.source,
                                      data::Split::kTrain, reasons);
  check_options(config, options, data, reasons);
  if (config.solver.evaluates())
    files += check_data_file(config, model, "evaluation data", config.data.eval_source,
                             data::Split::kEval, reasons);
  if (!config.data.test_source.empty())
    files += check_data_file(config, model, "test data", config.data.test_source,
                             data::Split::kEval, reasons);
  const MemoryOfRun memory = memory_of_run(config, model, threads);
  std::string text = layer_table(model) + "\n" + memory_text(memory, memory_of_rows, reasons) +
                     "\nfiles\n" + files;
  for (const std::string& warning : path_warnings(config)) text += "  " + warning + "\n";
  const auto& solver = config.solver;
  text += fmt::format("\ntopology: {} node{} x {} rank{}\n", solver.gpu.size(),
                      solver.gpu.size() == 1 ? "" : "s", solver.gpu[0].size(),
                      solver.gpu[0].size() == 1 ? "" : "s");
  for (const LayerPlacement& p : placements) text += p.explanation + "\n";
  if (const std::string precision = precision_text(model); !precision.empty())
    text += precision + "\n";
  if (solver.gpu.size() > 1)
    text += fmt::format("{}; or as threads of one process, without mpirun\n",
                        launch_text(options, solver.gpu.size()));
  text += "\nthe config is valid";
  if (reasons.empty()) return text + ", and the run can start here\n";
  text += "; the run cannot start here yet:\n";
  for (const std::string& r : reasons) text += "  - " + r + "\n";
  return text;
}

static std::string plan_text(const char* what, const plan::Plan& plan) {
  std::array<int, plan::kLanes> steps{};
  for (const plan::Step& step : plan.steps()) ++steps[static_cast<size_t>(step.lane)];
  std::string lanes;
  for (size_t lane = 0; lane < steps.size(); ++lane)
    if (steps[lane] > 0)
      lanes += fmt::format("{}{} {}", lanes.empty() ? "" : ", ", steps[lane],
                           plan::lane_name(static_cast<plan::Lane>(lane)));
  return fmt::format("{}: {} steps ({})\n{}", what, plan.steps().size(), lanes, plan.describe());
}

std::string plan_report(const config::TrainConfig& config, const Options& options) {
  const auto placements = make_placements(config, topology_of(config.solver), false);
  Lines reasons;
  const cuda::Backend* gpu = gpu_to_report(config, options, reasons);
  const int threads = resolve_threads(config, options.threads);
  Model model(
      config, resolve_seed(config), threads,
      ranks_for_report(config, placements,
                       row_memory_for_report(config, options, placements, threads, gpu).tiers),
      gpu);
  model.build_plans();
  std::string text = gpu ? "on a GPU" : "on the CPU";
  for (const std::string& r : reasons) text += fmt::format("; {}", r);
  text += "\n\n";
  if (model.keys_ahead())
    text += plan_text("keys of a batch, beside the iteration before", model.keys_plan()) + "\n";
  return text + plan_text("training iteration", model.train_plan()) + "\n" +
         plan_text("evaluation batch", model.eval_plan());
}

}  // namespace hlite::trainer
