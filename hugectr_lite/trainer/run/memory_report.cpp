#include "hugectr_lite/trainer/run/memory_report.h"

#include <algorithm>
#include <utility>

#include "data_reader/record_format.h"
#include "hugectr_lite/comm/mpi_plugin.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/live_line.h"
#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/trainer/evaluation/gpu_evaluation.h"
#include "hugectr_lite/trainer/model/model_sizes.h"
#include "hugectr_lite/trainer/run/resources.h"

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

// Returns the bytes of one rank in host memory: batches that are read ahead, samples that are kept.
int64_t data_bytes(const MemoryOfRun& run) {
  const auto& [config, model, threads, samples, train_samples] = run;
  const int64_t ranks = config.solver.ranks(), eval_batch = config.solver.batchsize_eval;
  data::SourceOptions options{.shuffle_samples = config.data.shuffle_samples,
                              .shard = {.count = ranks}};
  const int64_t bytes = data::source_memory_bytes(config.data, config.solver.batchsize / ranks,
                                                  train_samples, options);
  if (samples == 0) return bytes;
  options.shuffle_samples = false;
  const int64_t values =
      config.data.label_width() + config.data.dense_width() + config.data.key_layout().columns;
  const bool cached = (samples + eval_batch - 1) / eval_batch <= config.data.cache_eval_data;
  return bytes +
         (cached ? 4 * samples * values / ranks
                 : data::source_memory_bytes(config.data, model.max_batch(), samples, options));
}

// Scores and labels on the host.
int64_t scores_bytes(const MemoryOfRun& run) {
  return 8 * run.eval_samples / run.config.solver.ranks();
}

std::string available_text(int64_t bytes) {
  return fmt::format("({} available here)", bytes_text(bytes));
}

std::string host_report(const MemoryOfRun& run, Lines& reasons) {
  const auto& solver = run.config.solver;
  const MemoryEstimate m = memory_of(run.model);
  const int64_t data = data_bytes(run) + scores_bytes(run);
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

// What to write in a config whose run takes too much memory of the host.
std::string advice(const MemoryOfRun& run) {
  const MemoryEstimate m = memory_of(run.model);
  const int64_t rows = run.model.gpu() ? host_row_bytes(run.model) : m.tables + m.optimizer_states;
  std::vector<std::string> ways;
  if (rows >= host_bytes_here(run) / ranks_here(run.config.solver) / 2) {
    const auto& memory = run.config.solver.embedding_memory;
    if (!memory)
      ways.emplace_back(
          "\"embedding_memory\": \"auto\" in the solver block keeps the rows that do not fit on a "
          "disk (--set solver.embedding_memory=auto)");
    else if (!memory->automatic)
      ways.emplace_back(
          "a smaller host_gb in solver.embedding_memory, with disk, keeps fewer rows");
    ways.push_back(fmt::format(
        "smaller vectors (embedding_vec_size) or an optimizer with fewer states take less; the "
        "largest tables: {}",
        largest_tables(table_sizes(run.model))));
  } else {
    ways.emplace_back("a smaller solver.batchsize takes less");
    if (run.config.data.shuffle_samples)
      ways.emplace_back("without shuffle_samples the training set is not kept in memory");
  }
  if (!comm::under_mpirun() && run.config.solver.gpu.size() > 1)
    ways.push_back(fmt::format("under mpirun each of {} machines has its share",
                               run.config.solver.gpu.size()));
  return fmt::format("{}", fmt::join(ways, "; "));
}

// Samples in a file; 0: not known. What is wrong with the file is said by who reads it.
int64_t samples_in(const MemoryOfRun& run, const std::string& file, data::Split split) {
  try {
    return data::count_samples(run.config.data, run.config.resolve(file), split,
                               run.model.layers().slot_rows);
  } catch (const DataError&) {
    return 0;
  }
}

}  // namespace

MemoryOfRun memory_of_run(const config::TrainConfig& config, const Options& options,
                          const Model& model, int threads) {
  MemoryOfRun run{.config = config, .model = model, .threads = threads};
  if (options.without_data) return run;
  // The others read ahead as much of any set.
  const bool keeps_samples =
      config.data.shuffle_samples || data::record_format(config.data).holds_samples();
  if (keeps_samples && !config.data.follow)
    run.train_samples = samples_in(run, config.data.source, data::Split::kTrain);
  if (config.solver.evaluates())
    run.eval_samples = std::min(config.solver.eval_samples(),
                                samples_in(run, config.data.eval_source, data::Split::kEval));
  return run;
}

int64_t row_bytes_of(const Model& model, int rank) {
  int64_t bytes = 0;
  for (const auto& e : model.layers().embeddings) {
    const embedding::TableStorage& storage = e->tables().storage();
    bytes += e->row_bytes() *
             (storage.placement() ? storage.placement()->rows_of(rank) : storage.own_rows());
  }
  return bytes;
}

int64_t row_bytes_here(const Model& model) {
  int64_t all = 0;
  for (int rank = 0; rank < model.ranks(); ++rank) all += row_bytes_of(model, rank);
  return all / model.ranks() * ranks_here(model.config().solver);
}

int64_t bytes_outside_model(const MemoryOfRun& run) { return data_bytes(run) + scores_bytes(run); }

int64_t host_bytes_here(const MemoryOfRun& run) {
  const Model& model = run.model;
  const int64_t here = ranks_here(run.config.solver), outside = bytes_outside_model(run);
  if (model.gpu()) return here * (outside + host_row_bytes(model));
  const int64_t own = memory_of(model).total();
  if (model.row_memory()) return here * (own + outside);
  return here * (own - row_bytes_of(model, model.rank()) + outside) + row_bytes_here(model);
}

std::string host_shortage(const MemoryOfRun& run, int64_t available) {
  const int64_t needed = host_bytes_here(run), ranks = ranks_here(run.config.solver);
  if (needed <= available) return {};
  return fmt::format("memory: expected {} available{}, found {}; {}", bytes_text(needed),
                     ranks > 1 ? fmt::format(" for {} ranks on one machine", ranks) : "",
                     bytes_text(available), advice(run));
}

std::string memory_report(const MemoryOfRun& run, Lines& reasons) {
  return run.model.gpu() ? device_report(run, reasons) : host_report(run, reasons);
}

}  // namespace hlite::trainer
