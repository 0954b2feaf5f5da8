#include "hugectr_lite/trainer/model/run_memory.h"

#include <algorithm>

#include "data_reader/open_source.h"
#include "data_reader/record_format.h"
#include "hugectr_lite/comm/mpi_plugin.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/live_line.h"
#include "hugectr_lite/trainer/model/model_sizes.h"
#include "hugectr_lite/trainer/model/resources.h"

namespace hlite::trainer {
namespace {

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

MemoryOfRun memory_of_run(const config::TrainConfig& config, const Model& model, int threads) {
  MemoryOfRun run{.config = config, .model = model, .threads = threads};
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

}  // namespace hlite::trainer
