#include "hugectr_lite/trainer/run/saver.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <thread>
#include <utility>

#include "hugectr_lite/checkpoint/delta.h"
#include "hugectr_lite/comm/mpi_plugin.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/live_line.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/core/output_place.h"
#include "hugectr_lite/core/stopwatch.h"
#include "hugectr_lite/trainer/model/model_tensors.h"

namespace hlite::trainer {

// Calls body(lists) with the tensors of all ranks, on rank 0. Ranks take memory to read rows of
// their GPUs.
void Saver::write(const RankLists& lists, const std::function<void(const RankLists&)>& body) {
  run_.model->between_runs(
      [&] { counts_.leave_out([&] { write_collected(run_.exec(), run_.ranks, lists, body); }); });
}

void Saver::save(const std::string& directory, const PolicyState& policy) {
  const auto start = Clock::now();
  run_.model->synchronize();
  vocabularies_.evict_for_checkpoint();
  const checkpoint::CheckpointMeta meta = this->meta(policy);
  write({weights_of(*run_.model), states_of(*run_.model)}, [&](const RankLists& lists) {
    checkpoint::save_checkpoint(directory, meta, lists[0], lists[1]);
  });
  run_.progress.line(fmt::format("saved {} after iteration {} in {:.2f} s", directory,
                                 run_.iteration, seconds_since(start)));
}

std::string Saver::save_delta(const std::string& chain, const PolicyState& policy) {
  const auto start = Clock::now();
  HLITE_CHECK(run_.resumed != nullptr, "{}: a delta without a checkpoint to begin from", chain);
  run_.model->synchronize();
  vocabularies_.evict_for_checkpoint();
  checkpoint::DeltaSize size;
  std::string failure;
  std::optional<checkpoint::SafetensorsReader> best;
  if (policy.best_weights) best.emplace(*policy.best_weights);
  write({best ? best->refs() : weights_of(*run_.model)}, [&](const RankLists& lists) {
    try {
      const ReadFile base(run_.resumed_weights.path);
      size =
          checkpoint::write_delta(chain, run_.iteration, base, *run_.resumed_weights.sum, lists[0]);
    } catch (const DataError& why) {  // as FileError; the other ranks wait for this one
      failure = why.what();
    }
  });
  if (!failure.empty()) return failure;
  run_.progress.line(
      size.was_there
          ? fmt::format("the delta of iteration {} is in {} already", run_.iteration, chain)
          : fmt::format(
                "saved the delta of iteration {}{} to {}: {} rows updated or added, {} removed, {} "
                "for {} of weights, in {:.2f} s",
                run_.iteration, best ? " (its best weights)" : "", chain, count_text(size.rows),
                count_text(size.gone), bytes_text(size.bytes), bytes_text(size.full_bytes),
                seconds_since(start)));
  return {};
}

checkpoint::CheckpointMeta Saver::meta(const PolicyState& policy) {
  checkpoint::CheckpointMeta meta;
  meta.iteration = run_.iteration;
  meta.samples = run_.samples;
  meta.data_position = run_.source ? run_.source->position() : 0;
  meta.seed = run_.seed;
  meta.run = run_.number;
  meta.config = run_.config.root.dump();
  if (const auto scale = run_.model->loss_scaling().dynamic_state()) {
    meta.loss_scale = static_cast<double>(scale->scale);
    meta.loss_scale_good = scale->good;
  }
  meta.rate_scale = run_.model->rates().scale();
  meta.plateau = policy.plateau;
  meta.early_stop = policy.early_stop;
  meta.best_weights = policy.best_weights;
  meta.trained_on = run_.trained_on.to_text();
  if (run_.followed) meta.followed = {run_.followed->file(), run_.followed->file_batches()};
  meta.preparation = run_.preparation;
  return meta;
}

FileSum Saver::write_tensors(const std::string& path, const std::vector<TensorRef>& tensors) {
  FileSum sum;
  write({tensors}, [&](const RankLists& lists) {
    sum = checkpoint::save_weights(path, lists[0], run_.trained_on.to_text());
  });
  return sum;
}

void Saver::export_weights(const std::string& path) {
  std::vector<TensorRef> weights = weights_of(*run_.model, /*all_rows=*/true);
  for (TensorRef& t : weights)
    if (t.dtype != DType::kU32) t.dtype = DType::kF32;  // whatever the tables' precision
  write_tensors(path, weights);
  run_.progress.line(fmt::format("exported the weights to {}", path));
}

// Snapshots in the background: a forked process, which sees the memory of all ranks as it was, writes
// them while training goes on.
static constexpr auto kPoll = std::chrono::milliseconds(5);

// An image holds the memory of this process alone: not that of a GPU, of other processes, or rows
// on a disk. The same on all ranks.
bool Saver::in_background() const {
  const auto& embeddings = run_.model->layers().embeddings;
  return run_.model->gpu() == nullptr && !comm::under_mpirun() &&
         std::none_of(embeddings.begin(), embeddings.end(),
                      [](const auto& e) { return e->tables().storage().beyond_memory(); });
}

// Training copies each page that it writes to while the image is in use: at worst all of them.
static bool image_fits(const plan::Buffers& buffers, int ranks) {
  using enum plan::BufferKind;
  const int64_t bytes =
      buffers.total_bytes(kTable) + buffers.total_bytes(kState) + buffers.total_bytes(kParameter);
  return bytes * ranks < available_memory_bytes();
}

void Saver::save_snapshot(const std::string& directory, const PolicyState& policy) {
  const auto stopped = Clock::now();
  wait();
  run_.model->synchronize();
  vocabularies_.evict_for_checkpoint();
  const checkpoint::CheckpointMeta meta = this->meta(policy);
  if (in_background() && save_in_fork(directory, meta)) {
    if (pending_) pending_->stopped_seconds = seconds_since(stopped);
    return;
  }
  const auto begin = Clock::now();
  ForkedTask::Result result{.done = true};
  write({weights_of(*run_.model), states_of(*run_.model)}, [&](const RankLists& lists) {
    try {
      result.text = write_snapshot(directory, meta, lists);
    } catch (const DataError& failure) {
      result = {.text = failure.what()};
    }
  });
  result.seconds = seconds_since(begin);
  if (run_.ranks.rank == 0) report(directory, run_.iteration, seconds_since(stopped), result);
}

// Returns the text of a warning, or "".
std::string Saver::write_snapshot(const std::string& directory,
                                  const checkpoint::CheckpointMeta& meta,
                                  const RankLists& lists) const {
  checkpoint::save_checkpoint(directory, meta, lists[0], lists[1]);
  return run_.outputs->remove_older_snapshots(run_.number);
}

// Returns false, on all ranks, if there is no memory for an image.
bool Saver::save_in_fork(const std::string& directory, const checkpoint::CheckpointMeta& meta) {
  const bool alone = run_.ranks.ranks() == 1;
  const auto make_lists = [this] {
    return RankLists{weights_of(*run_.model), states_of(*run_.model)};
  };
  RankLists own;
  const RankLists* const mine = &own;
  std::vector<const RankLists*> of_ranks(static_cast<size_t>(run_.ranks.ranks()), mine);
  if (!alone) {
    own = make_lists();  // collective; one rank leaves it to the child, as hash tables take a while
    run_.ranks.world->all_gather(run_.exec(), std::as_bytes(std::span(&mine, 1)),
                                 std::as_writable_bytes(std::span(of_ranks)));
  }
  bool forked = false;
  if (run_.ranks.rank == 0 && image_fits(run_.model->buffers(), run_.ranks.ranks())) {
    auto task = ForkedTask::start([&] {
      return write_snapshot(directory, meta, alone ? make_lists() : joined_lists(of_ranks));
    });
    forked = task.has_value();
    if (forked) pending_.emplace(PendingSave{directory, run_.iteration, std::move(*task)});
  }
  // No rank trains on before rank 0 has the image.
  if (!alone)
    run_.ranks.world->broadcast(run_.exec(), std::as_writable_bytes(std::span(&forked, 1)), 0);
  return forked;
}

void Saver::check() {
  if (!pending_) return;
  const auto result = pending_->task.poll();
  if (!result) return;
  const PendingSave save = std::move(*pending_);
  pending_.reset();  // before an error of its own is thrown
  report(save.directory, save.iteration, save.stopped_seconds, *result);
}

void Saver::report(const std::string& directory, int64_t iteration, double stopped_seconds,
                   const ForkedTask::Result& result) {
  if (result.done) {
    if (!result.text.empty()) log::warning("{}", result.text);
    return run_.progress.line(
        fmt::format("saved {} after iteration {} in {:.2f} s, training stopped for {:.2f} s",
                    directory, iteration, result.seconds, stopped_seconds));
  }
  const std::string why =
      result.killed ? fmt::format("{}: {}", directory, result.text) : result.text;
  if (result.killed) remove_stale(directory);
  if (run_.config.solver.on_save_error == config::OnSaveError::kEnd) throw FileError(why);
  log::warning("{}; training goes on without the checkpoint of iteration {} (solver.on_save_error)",
               why, iteration);
  run_.records.notify(&RunRecord::save_failed, iteration, why);
}

void Saver::wait_a_second() {
  for (const auto begin = Clock::now(); pending_ && seconds_since(begin) < 1;) {
    check();
    if (pending_) std::this_thread::sleep_for(kPoll);
  }
}

// Other ranks wait a second at a time, which never exceeds the limit of a wait.
void Saver::wait() {
  if (!in_background()) return;
  for (bool waiting = true; waiting;) {
    wait_a_second();
    waiting = pending_.has_value();
    if (run_.ranks.ranks() > 1)
      run_.ranks.world->broadcast(run_.exec(), std::as_writable_bytes(std::span(&waiting, 1)), 0);
  }
}

void Saver::end() {
  try {
    while (pending_) wait_a_second();
  } catch (const FileError& failure) {
    log::warning("{}", failure.what());
  }
}

}  // namespace hlite::trainer
