// Streams, what is put on them, and what waits for what.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "tests/support/cuda_emulation/planted.h"
#include "tests/support/cuda_emulation/runtime_state.h"
#include "tests/support/cuda_emulation/stream_state.h"

namespace hlite::emulation {

using namespace queues;  // NOLINT: the state of all streams

namespace {

int streams_made = 0;

struct HostThread {
  HostThread() {
    const std::lock_guard lock(mutex);
    ++host_threads;
  }
  ~HostThread() {
    const std::lock_guard lock(mutex);
    --host_threads;
  }
};

// The work that the running thread of the host has waited for.
thread_local Predecessors host_order;

void merge(Predecessors& to, const StreamPoint& point) {
  const auto raise_to = [&](const StreamQueue* queue, uint64_t count) {
    to[queue] = std::max(to[queue], count);
  };
  raise_to(point.queue.get(), point.count);
  if (point.predecessors)
    for (const auto& [queue, count] : *point.predecessors) raise_to(queue, count);
}

}  // namespace

void queues::register_thread() { thread_local const HostThread self; }

void queues::note_host_wait(std::span<const StreamPoint> points) {
  for (const StreamPoint& point : points) merge(host_order, point);
}

std::vector<StreamHandle> StreamQueues::list_;

std::atomic<int>& elsewhere_ms() {
  static std::atomic<int> ms = [] {
    const char* const text = std::getenv("HLITE_EMULATED_ELSEWHERE_MS");
    return text ? std::atoi(text) : 600000;
  }();
  return ms;
}

bool StreamPoint::passed() const { return !queue || queue->done_ >= count; }

std::unique_lock<std::recursive_mutex> StreamQueues::lock() { return std::unique_lock(mutex); }

StreamHandle StreamQueues::add(int device, bool blocking) {
  const std::lock_guard lock(mutex);
  list_.push_back(std::make_shared<StreamQueue>(device, streams_made++, blocking));
  list_.back()->priority_ = generator();
  return list_.back();
}

StreamHandle StreamQueues::default_stream(int device) {
  static std::vector<StreamHandle> all(kMaxDevices);
  const std::lock_guard lock(mutex);
  StreamHandle& stream = all[static_cast<size_t>(device)];
  if (!stream) stream = add(device, false);
  return stream;
}

void StreamQueues::remove(const StreamHandle& stream) {
  const std::lock_guard lock(mutex);
  stream->destroyed_ = true;
  if (stream->waiting_.empty()) std::erase(list_, stream);
}

StreamPoint StreamQueues::end(const StreamHandle& stream) {
  const std::lock_guard lock(mutex);
  // An event that holds the stream back is a part of it, though no work has come after it yet.
  std::erase_if(stream->held_by_, [](const StreamPoint& point) { return point.passed(); });
  if (!stream->held_by_.empty()) {
    Work nothing;
    nothing.single = {[] {}, "wait", stream->device_};
    push(stream, std::move(nothing));
  }
  judge_left_out(stream, "an event");
  return {
      stream, stream->done_ + stream->waiting_.size(),
      leaves_waits_out() ? std::make_shared<const Predecessors>(stream->predecessors_) : nullptr,
      stream->last_};
}

void StreamQueues::hold_back(const StreamHandle& stream, const StreamPoint& point) {
  const std::lock_guard lock(mutex);
  if (!point.passed()) stream->held_by_.push_back(point);
  if (leaves_waits_out() && point.queue) merge(stream->predecessors_, point);
}

void StreamQueues::leave_out(const StreamHandle& stream, const StreamPoint& point, int number) {
  const std::lock_guard lock(mutex);
  if (point.queue) stream->left_out_.push_back({point, number});
}

// Before `next` is ordered after what the stream waits for.
void StreamQueues::judge_left_out(const StreamHandle& stream, const char* next) {
  for (const auto& [point, number] : std::exchange(stream->left_out_, {})) {
    const auto orders = [&](const Predecessors& all) {
      const auto found = all.find(point.queue.get());
      return found != all.end() && found->second >= point.count;
    };
    const bool implied =
        point.queue == stream || orders(stream->predecessors_) || orders(host_order);
    note_left_out(fmt::format("left out: wait {} of device {}, of {} for {} of device {}: {}",
                              number, stream->device_, next, point.last, point.queue->device_,
                              implied ? "implied" : "not implied"));
  }
}

void StreamQueues::push(const StreamHandle& stream, Work work) {
  work.after = std::exchange(stream->held_by_, {});
  stream->last_ = work.graph ? "a graph" : work.single.name;
  judge_left_out(stream, stream->last_);
  if (leaves_waits_out())
    for (const auto& [queue, count] : host_order)
      stream->predecessors_[queue] = std::max(stream->predecessors_[queue], count);
  if (work.graph) {
    work.left = work.graph->pieces.size();
    work.missing = work.graph->before;
    for (size_t i = 0; i < work.left; ++i)
      if (work.missing[i] == 0) work.ready.push_back({i, generator()});
  } else {
    work.ready.push_back({0, generator()});
  }
  stream->waiting_.push_back(std::move(work));
  ++waiting_works;
  note_change();
}

void StreamQueues::put(const StreamHandle& stream, Piece piece) {
  register_thread();
  Work work;
  work.single = std::move(piece);
  {
    const std::lock_guard lock(mutex);
    const StreamHandle common = default_stream(stream->device_);
    if (stream->blocking_) hold_back(stream, end(common));
    if (stream == common)
      for (const StreamHandle& other : std::vector(list_))
        if (other->blocking_ && other->device_ == stream->device_) hold_back(stream, end(other));
    if (machine().order != StreamOrder::kAtOnce || waiting_works > 0 || machine().devices > 1) {
      push(stream, std::move(work));
      return run_at_put();
    }
  }
  try {
    work.single.run();  // several threads at once, each on streams of its own
  } catch (const NotYet&) {
    const std::lock_guard lock(mutex);
    push(stream, std::move(work));
  }
}

void StreamQueues::put(const StreamHandle& stream, Graph graph) {
  register_thread();
  if (graph->pieces.empty()) return;
  const std::lock_guard lock(mutex);
  Work work;
  work.graph = std::move(graph);
  push(stream, std::move(work));
  run_at_put();
}

std::vector<StreamPoint> StreamQueues::ends(int device) {
  const std::lock_guard lock(mutex);
  std::vector<StreamPoint> all;
  for (const StreamHandle& stream : std::vector(list_))
    if (device < 0 || stream->device_ == device) all.push_back(end(stream));
  std::reverse(all.begin(), all.end());  // the youngest first
  return all;
}

void StreamQueues::finish(const StreamPoint& point) {
  std::vector<StreamPoint> wanted;
  {
    const std::lock_guard lock(mutex);
    if (!point.queue) return;
    if (point.queue == default_stream(point.queue->device_))
      for (const StreamHandle& other : std::vector(list_))
        if (other->blocking_ && other->device_ == point.queue->device_)
          wanted.push_back(end(other));
    wanted.push_back(point);
  }
  wait(std::move(wanted));
}

void StreamQueues::finish_device(int device) { wait(ends(device)); }

void StreamQueues::finish_all() { wait(ends(-1)); }

void StreamQueues::begin_order(uint64_t seed) {
  const std::lock_guard lock(mutex);
  // Else the first work of a process would make them, and draw, where later work finds them.
  for (int device = 0; device < machine().devices; ++device)
    static_cast<void>(default_stream(device));
  generator.seed(seed);
  for (const StreamHandle& stream : list_) stream->priority_ = generator();
}

}  // namespace hlite::emulation
