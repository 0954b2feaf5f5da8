// The part of Trainer that goes through the files of a folder that grows.
#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <thread>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/trainer/run/trainer.h"
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

void Trainer::open_folder() {
  if (!options_.mllog.empty())
    raise<ConfigError>("--mllog: expected data of a known size, found a folder to follow ({})",
                       config_.data.name);
  auto source = std::make_unique<data::FollowedSource>(
      config_.data, config_.resolve(config_.data.source), config_.solver.batchsize,
      model_->layers().slot_rows, data::Shard{ranks_.rank, ranks_.ranks()});
  followed_ = source.get();
  source_ = std::move(source);
  last_iteration_ = config_.solver.max_iter.value_or(kNoEnd);
  if (resumed_ && !resumed_->followed.file.empty())
    followed_->reopen(resumed_->followed.file, resumed_->data_position, resumed_->followed.batches);
}

data::FollowedSource::NextFile Trainer::next_file() {
  for (;;) {
    FoundFile found;
    if (ranks_.rank == 0) {
      const auto [next, file] = followed_->poll();
      HLITE_CHECK(file.size() < found.name.size(), "name of {} bytes", file.size());
      found.next = next;
      std::copy(file.begin(), file.end(), found.name.begin());
      if (next == Next::kFile)
        trained_on_ = check_followed_file(followed_->path(file), std::move(trained_on_), options_);
    }
    if (ranks_.ranks() > 1)
      ranks_.world->broadcast(exec(), std::as_writable_bytes(std::span(&found, 1)), 0);
    if (found.next != Next::kNothing || agree_to_stop()) return {found.next, found.name.data()};
    check_save();
    if (ranks_.rank == 0) wait_for_files();
  }
}

std::optional<EvalResult> Trainer::score_file(const std::string& file) {
  model_->synchronize();
  Evaluator evaluator(config_,
                      {.path = followed_->path(file), .most_samples = kNoEnd, .test = true},
                      *model_, exec(), ranks_);
  evaluator.allocate();
  if (!evaluator.start([this] { return agree_to_stop(); })) return std::nullopt;
  return evaluator.finish();
}

void Trainer::open_file(const std::string& file) {
  model_->synchronize();
  pinned_ = PinnedBlocks();  // before its memory goes
  followed_->open(file);
  pinned_ = PinnedBlocks(model_->gpu(), followed_->memory());
}

}  // namespace hlite::trainer
