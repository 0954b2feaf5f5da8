// The part of Trainer that writes snapshots while training goes on: a forked process, which sees
// the memory of all ranks as it was, writes the checkpoint.
#include <algorithm>
#include <chrono>
#include <span>
#include <thread>
#include <utility>

#include "hugectr_lite/comm/mpi_plugin.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/core/output_place.h"
#include "hugectr_lite/core/stopwatch.h"
#include "hugectr_lite/trainer/model/model_tensors.h"
#include "hugectr_lite/trainer/run/rank_tensors.h"
#include "hugectr_lite/trainer/run/trainer.h"

namespace hlite::trainer {

static constexpr auto kPoll = std::chrono::milliseconds(5);

// An image holds the memory of this process alone: not that of a GPU, of other processes, or rows
// on a disk. The same on all ranks.
bool Trainer::saves_in_background() const {
  const auto& embeddings = model_->layers().embeddings;
  return model_->gpu() == nullptr && !comm::under_mpirun() &&
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

void Trainer::save_snapshot(const std::string& directory, const PolicyState& policy) {
  const auto stopped = Clock::now();
  wait_for_save();
  model_->synchronize();
  evict_for_checkpoint();
  const checkpoint::CheckpointMeta meta = this->meta(policy);
  if (saves_in_background() && fork_save(directory, meta)) {
    if (save_) save_->stopped_seconds = seconds_since(stopped);
    return;
  }
  const auto begin = Clock::now();
  const auto rows_before = trainer::moved_rows(*model_);
  ForkedTask::Result result{.done = true};
  write_collected(exec(), ranks_, {weights_of(*model_), states_of(*model_)},
                  [&](const RankLists& lists) {
                    try {
                      result.text = write_snapshot(directory, meta, lists);
                    } catch (const DataError& failure) {
                      result = {.text = failure.what()};
                    }
                  });
  leave_out(rows_before);
  result.seconds = seconds_since(begin);
  if (ranks_.rank == 0) report_save(directory, iteration_, seconds_since(stopped), result);
}

// Returns what is to be warned of.
std::string Trainer::write_snapshot(const std::string& directory,
                                    const checkpoint::CheckpointMeta& meta,
                                    const RankLists& lists) const {
  checkpoint::save_checkpoint(directory, meta, lists[0], lists[1]);
  return outputs_->remove_older_snapshots(run_);
}

// Returns false, on all ranks, if there is no memory for an image.
bool Trainer::fork_save(const std::string& directory, const checkpoint::CheckpointMeta& meta) {
  const bool alone = ranks_.ranks() == 1;
  const auto make_lists = [this] { return RankLists{weights_of(*model_), states_of(*model_)}; };
  RankLists own;
  const RankLists* const mine = &own;
  std::vector<const RankLists*> of_ranks(static_cast<size_t>(ranks_.ranks()), mine);
  if (!alone) {
    own = make_lists();  // collective; one rank leaves it to the child, as hash tables take a while
    ranks_.world->all_gather(exec(), std::as_bytes(std::span(&mine, 1)),
                             std::as_writable_bytes(std::span(of_ranks)));
  }
  bool forked = false;
  if (ranks_.rank == 0 && image_fits(model_->buffers(), ranks_.ranks())) {
    auto task = ForkedTask::start([&] {
      return write_snapshot(directory, meta, alone ? make_lists() : joined_lists(of_ranks));
    });
    forked = task.has_value();
    if (forked) save_.emplace(PendingSave{directory, iteration_, std::move(*task)});
  }
  // No rank trains on before rank 0 has the image.
  if (!alone) ranks_.world->broadcast(exec(), std::as_writable_bytes(std::span(&forked, 1)), 0);
  return forked;
}

void Trainer::check_save() {
  if (!save_) return;
  const auto result = save_->task.poll();
  if (!result) return;
  const PendingSave save = std::move(*save_);
  save_.reset();  // before an error of its own is thrown
  report_save(save.directory, save.iteration, save.stopped_seconds, *result);
}

void Trainer::report_save(const std::string& directory, int64_t iteration, double stopped_seconds,
                          const ForkedTask::Result& result) {
  if (result.done) {
    if (!result.text.empty()) log::warning("{}", result.text);
    return progress_.line(
        fmt::format("saved {} after iteration {} in {:.2f} s, training stopped for {:.2f} s",
                    directory, iteration, result.seconds, stopped_seconds));
  }
  const std::string why =
      result.killed ? fmt::format("{}: {}", directory, result.text) : result.text;
  if (result.killed) remove_stale(directory);
  if (config_.solver.on_save_error == config::OnSaveError::kEnd) throw FileError(why);
  log::warning("{}; training goes on without the checkpoint of iteration {} (solver.on_save_error)",
               why, iteration);
  records_.notify(&RunRecord::save_failed, iteration, why);
}

// Other ranks wait a second at a time, which never exceeds the limit of a wait.
void Trainer::wait_for_save() {
  if (!saves_in_background()) return;
  for (bool waiting = true; waiting;) {
    for (const auto begin = Clock::now(); save_ && seconds_since(begin) < 1;) {
      check_save();
      if (save_) std::this_thread::sleep_for(kPoll);
    }
    waiting = save_.has_value();
    if (ranks_.ranks() > 1)
      ranks_.world->broadcast(exec(), std::as_writable_bytes(std::span(&waiting, 1)), 0);
  }
}

void Trainer::end_save() {
  try {
    while (save_) {
      check_save();
      if (save_) std::this_thread::sleep_for(kPoll);
    }
  } catch (const FileError& failure) {
    log::warning("{}", failure.what());
  }
}

}  // namespace hlite::trainer
