#include "tests/support/cuda_emulation/stream_queues.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace hlite::emulation {
namespace {
std::recursive_mutex mutex;  // work that runs may put work on streams
}  // namespace

std::vector<StreamHandle> StreamQueues::list_ = {std::make_shared<StreamQueue>(false)};

const StreamHandle& StreamQueues::default_stream() { return list_.front(); }

StreamHandle StreamQueues::add(bool blocking) {
  const std::lock_guard lock(mutex);
  return list_.emplace_back(std::make_shared<StreamQueue>(blocking));
}

void StreamQueues::remove(const StreamHandle& stream) {
  const std::lock_guard lock(mutex);
  run_until(end(stream));
  std::erase(list_, stream);
}

StreamPoint StreamQueues::end(const StreamHandle& stream) {
  const std::lock_guard lock(mutex);
  // What holds the stream back is a part of it, though no work has come behind it yet.
  if (!stream->held_by_.empty())
    stream->waiting_.push_back({[] {}, std::exchange(stream->held_by_, {})});
  return {stream, stream->done_ + stream->waiting_.size()};
}

void StreamQueues::hold_back(const StreamHandle& stream, const StreamPoint& point) {
  const std::lock_guard lock(mutex);
  if (point.queue && point.queue->done_ < point.count) stream->held_by_.push_back(point);
}

void StreamQueues::put(const StreamHandle& stream, std::function<void()> work, bool late) {
  {
    const std::lock_guard lock(mutex);
    if (stream->blocking_) hold_back(stream, end(default_stream()));
    if (stream == default_stream())
      for (const StreamHandle& other : list_)
        if (other->blocking_) hold_back(stream, end(other));
    if (late || !stream->waiting_.empty() || !stream->held_by_.empty()) {
      stream->waiting_.push_back({std::move(work), std::exchange(stream->held_by_, {})});
      if (!late) run_until(end(stream));
      return;
    }
  }
  work();  // several threads at once, each on streams of its own
}

// A piece of work stays in front while others run for it: that keeps the count.
void StreamQueues::run_until(const StreamPoint& point) {
  StreamQueue& queue = *point.queue;
  while (queue.done_ < point.count) {
    for (const StreamPoint& before : std::exchange(queue.waiting_.front().after, {}))
      run_until(before);
    const std::function<void()> work = std::move(queue.waiting_.front().run);
    queue.waiting_.pop_front();
    ++queue.done_;
    work();
  }
}

void StreamQueues::finish(const StreamPoint& point) {
  const std::lock_guard lock(mutex);
  if (!point.queue) return;
  if (point.queue == default_stream())
    for (const StreamHandle& other : std::vector(list_))
      if (other->blocking_) run_until(end(other));
  run_until(point);
}

void StreamQueues::finish_all() {
  const std::lock_guard lock(mutex);
  const std::vector<StreamHandle> all = list_;
  for (size_t i = all.size(); i-- > 0;) run_until(end(all[i]));
}

}  // namespace hlite::emulation
