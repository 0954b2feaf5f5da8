#include "hugectr_lite/trainer/run/memory_report.h"

#include <utility>

#include "hugectr_lite/core/live_line.h"
#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/trainer/evaluation/gpu_evaluation.h"
#include "hugectr_lite/trainer/model/model_sizes.h"
#include "hugectr_lite/trainer/model/resources.h"

namespace hlite::trainer {
namespace {

using Lines = std::vector<std::string>;

std::string line(const std::string& what, int64_t bytes, const std::string& remark = "") {
  return fmt::format("  {:30}{:>12}{}{}\n", what, bytes_text(bytes), remark.empty() ? "" : "   ",
                     remark);
}

std::string tier_lines(const Model& model) {
  std::string text;
  for (const LayerTiers& tiers : tiers_of(model))
    for (const std::string& of : tier_texts(tiers)) text += "  " + of + "\n";
  return text;
}

std::string table_lines(const MemoryOfRun& run) {
  const int64_t ranks = run.config.solver.ranks();
  std::string text = line("embedding tables", memory_of(run.model).tables,
                          ranks > 1 ? "its share of these, whole:" : "");
  for (const TableSize& t : table_sizes(run.model))
    text += line("  " + t.name, t.bytes, fmt::format("{} rows", t.rows));
  return text;
}

std::string available_text(int64_t bytes) {
  return fmt::format("({} available here)", bytes_text(bytes));
}

std::string host_report(const MemoryOfRun& run, Lines& reasons) {
  const auto& solver = run.config.solver;
  const MemoryEstimate m = memory_of(run.model);
  const int64_t data = bytes_outside_model(run);
  std::string text =
      fmt::format("memory{}, batch {}, {} threads\n", solver.ranks() > 1 ? " of rank 0" : "",
                  solver.batchsize, run.threads);
  text += tier_lines(run.model);
  text += table_lines(run) + line("optimizer states", m.optimizer_states) +
          line("dense parameters", m.dense_parameters) + line("activations", m.activations) +
          line("gradients", m.gradients) + line("sorting workspace", m.workspace) +
          line("batches and evaluation", m.batch + data);
  const int64_t here = ranks_here(solver), available = available_memory_bytes();
  text += line(here > 1 ? fmt::format("total of {} ranks", here) : "total", host_bytes_here(run),
               available_text(available));
  if (std::string lack = host_shortage(run, available); !lack.empty())
    reasons.push_back(std::move(lack));
  return text;
}

std::string device_name(const cuda::Backend& gpu, int device) {
  char text[256] = {};
  gpu.device_description(device, text, sizeof(text));
  return text;
}

std::string device_report(const MemoryOfRun& run, Lines& reasons) {
  const cuda::Backend& gpu = *run.model.gpu();
  const bool here = &gpu != &absent_gpu();
  const auto& solver = run.config.solver;
  const MemoryEstimate m = memory_of(run.model);
  int64_t free = 0, total = 0;
  if (here) gpu.memory_info(&free, &total);
  const std::string about = here ? "" : "about";
  std::string text = fmt::format("device memory, batch {}: {}\n", solver.batchsize,
                                 here ? device_name(gpu, solver.gpu[0][0]) : "no GPU here");
  text += tier_lines(run.model);
  text += table_lines(run) + line("optimizer states", m.optimizer_states) +
          line("dense parameters", m.dense_parameters) + line("activations", m.activations) +
          line("gradients", m.gradients) + line("input buffers, two sets", m.batch) +
          line("sparse-update workspace", m.workspace, about) + line("matmul workspace", m.matmul);
  const bool many = run.eval_samples > ops::GpuMetrics::kMaxSamples;
  const int64_t evaluation =
      run.eval_samples == 0 || many ? 0 : GpuEvaluation::device_bytes(gpu, run.eval_samples);
  const int64_t needed = m.total();
  // If it does not fit, the CPU computes the metrics.
  const bool on_host = many || (here && needed + evaluation > free);
  const std::string left = "too little memory: the CPU computes the metrics";
  text += line("evaluation scores and metrics", evaluation, on_host ? left : about);
  text += line("total", needed + (on_host ? 0 : evaluation),
               here ? fmt::format("({} of {} free)", bytes_text(free), bytes_text(total)) : "");
  const int64_t rows = host_row_bytes(run.model), available = available_memory_bytes();
  if (rows > 0) text += line("host: rows of tables", rows);
  text += line("host: batches and evaluation", bytes_outside_model(run), available_text(available));
  if (here && needed > free)
    reasons.push_back(fmt::format(
        "device memory: {} needed, {} free, {} missing; the largest tables: {}; with "
        "solver.embedding_memory (\"auto\", or gpu_gb) rows of tables lie in the host's "
        "memory",
        bytes_text(needed), bytes_text(free), bytes_text(needed - free),
        largest_tables(table_sizes(run.model))));
  if (std::string lack = host_shortage(run, available); !lack.empty())
    reasons.push_back(std::move(lack));
  return text;
}

}  // namespace

std::string memory_report(const MemoryOfRun& run, Lines& reasons) {
  return run.model.gpu() ? device_report(run, reasons) : host_report(run, reasons);
}

}  // namespace hlite::trainer
