#include "hugectr_lite/trainer/run/followed_files.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <thread>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/trainer/run/training_data.h"

namespace hlite::trainer {

namespace {

using Next = data::FollowedSource::Next;

// The find of rank 0 that is broadcast to all ranks. No file system has longer names.
struct FoundFile {
  Next next = Next::kNothing;
  std::array<char, 256> name = {};
};

// Waits a second, or less on a stop request.
void wait_for_files() {
  constexpr auto kLook = std::chrono::milliseconds(50);
  for (int i = 0; i < 20 && !InterruptGuard::requested(); ++i) std::this_thread::sleep_for(kLook);
}

}  // namespace

void FollowedFiles::open_folder() {
  if (!run_.options.mllog.empty())
    raise<ConfigError>("--mllog: expected data of a known size, found a folder to follow ({})",
                       run_.config.data.name);
  auto source = std::make_unique<data::FollowedSource>(
      run_.config.data, run_.config.resolve(run_.config.data.source), run_.config.solver.batchsize,
      run_.model->layers().slot_rows, data::Shard{run_.ranks.rank, run_.ranks.ranks()});
  run_.followed = source.get();
  run_.source = std::move(source);
  run_.last_iteration = run_.config.solver.max_iter.value_or(kNoEnd);
  if (run_.resumed && !run_.resumed->followed.file.empty())
    run_.followed->reopen(run_.resumed->followed.file, run_.resumed->data_position,
                          run_.resumed->followed.batches);
}

data::FollowedSource::NextFile FollowedFiles::next() {
  for (;;) {
    FoundFile found;
    if (run_.ranks.rank == 0) {
      const auto [next, file] = run_.followed->poll();
      HLITE_CHECK(file.size() < found.name.size(), "name of {} bytes", file.size());
      found.next = next;
      std::copy(file.begin(), file.end(), found.name.begin());
      if (next == Next::kFile)
        run_.trained_on = check_followed_file(run_.followed->path(file), std::move(run_.trained_on),
                                              run_.options);
    }
    if (run_.ranks.ranks() > 1)
      run_.ranks.world->broadcast(run_.exec(), std::as_writable_bytes(std::span(&found, 1)), 0);
    if (found.next != Next::kNothing || run_.agree_to_stop())
      return {found.next, found.name.data()};
    saver_.check();
    if (run_.ranks.rank == 0) wait_for_files();
  }
}

void FollowedFiles::open(const std::string& file) {
  run_.model->between_runs([&] {
    run_.pinned = PinnedBlocks();  // before its memory goes
    run_.followed->open(file);
    run_.pinned = PinnedBlocks(run_.model->gpu(), run_.followed->memory());
  });
}

}  // namespace hlite::trainer
