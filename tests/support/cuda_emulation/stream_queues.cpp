#include "tests/support/cuda_emulation/stream_queues.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <utility>

#include "tests/support/cuda_emulation/device_ranges.h"
#include "tests/support/cuda_emulation/planted.h"
#include "tests/support/cuda_emulation/runtime_state.h"

namespace hlite::emulation {
namespace {

using Clock = std::chrono::steady_clock;

std::recursive_mutex mutex;  // work that runs may put work on streams
std::condition_variable_any changed;
size_t waiting_works = 0;  // of all streams
uint64_t world = 1;        // changes whenever a piece that said NotYet may be asked again
int streams_made = 0;
int stuck = 0;  // how often nothing could go on
std::string why_stuck;
Clock::time_point last_change = Clock::now();
int blocked_threads = 0;
std::mt19937_64 generator{machine().seed};

// Threads of the host that use streams: where all of them wait, nobody is left to help.
int host_threads = 0;
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
void register_thread() { thread_local const HostThread self; }

void note_change() {
  ++world;
  last_change = Clock::now();
  changed.notify_all();
}

// What the running thread of the host has waited for.
thread_local Behind host_behind;

void merge(Behind& to, const StreamPoint& point) {
  const auto raise_to = [&](const StreamQueue* queue, uint64_t count) {
    to[queue] = std::max(to[queue], count);
  };
  raise_to(point.queue.get(), point.count);
  if (point.behind)
    for (const auto& [queue, count] : *point.behind) raise_to(queue, count);
}

constexpr int kSettledMs = 50;  // time for what a thread outside of the count may do

bool one_in(uint64_t n) { return generator() % n == 0; }

}  // namespace

std::vector<StreamHandle> StreamQueues::list_;

std::atomic<int>& elsewhere_ms() {
  static std::atomic<int> ms = [] {
    const char* const text = std::getenv("HLITE_EMULATED_ELSEWHERE_MS");
    return text ? std::atoi(text) : 60000;
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
  static std::vector<StreamHandle> all(kMostDevices);
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
  // What holds the stream back is a part of it, though no work has come behind it yet.
  std::erase_if(stream->held_by_, [](const StreamPoint& point) { return point.passed(); });
  if (!stream->held_by_.empty()) {
    Work nothing;
    nothing.single = {[] {}, "wait", stream->device_};
    push(stream, std::move(nothing));
  }
  judge_left_out(stream, "an event");
  return {stream, stream->done_ + stream->waiting_.size(),
          leaves_waits_out() ? std::make_shared<const Behind>(stream->behind_) : nullptr,
          stream->last_};
}

void StreamQueues::hold_back(const StreamHandle& stream, const StreamPoint& point) {
  const std::lock_guard lock(mutex);
  if (!point.passed()) stream->held_by_.push_back(point);
  if (leaves_waits_out() && point.queue) merge(stream->behind_, point);
}

void StreamQueues::leave_out(const StreamHandle& stream, const StreamPoint& point, int number) {
  const std::lock_guard lock(mutex);
  if (point.queue) stream->left_out_.push_back({point, number});
}

// Before `next` comes behind what the stream has been told to wait for.
void StreamQueues::judge_left_out(const StreamHandle& stream, const char* next) {
  for (const auto& [point, number] : std::exchange(stream->left_out_, {})) {
    const auto behind = [&](const Behind& all) {
      const auto found = all.find(point.queue.get());
      return found != all.end() && found->second >= point.count;
    };
    const bool implied = point.queue == stream || behind(stream->behind_) || behind(host_behind);
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
    for (const auto& [queue, count] : host_behind)
      stream->behind_[queue] = std::max(stream->behind_[queue], count);
  if (work.graph) {
    work.left = work.graph->pieces.size();
    work.missing = work.graph->before;
    for (size_t i = 0; i < work.left; ++i)
      if (work.missing[i] == 0) work.ready.push_back({i, generator(), 0, {}, false});
  } else {
    work.ready.push_back({0, generator(), 0, {}, false});
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

void StreamQueues::run_at_put() {
  if (machine().order == StreamOrder::kAtOnce)
    while (run_one({})) {
    }
  if (machine().order == StreamOrder::kRandom)
    while (one_in(2) && run_one({})) {
    }
}

bool StreamQueues::may_run(const StreamQueue& stream) {
  return !stream.waiting_.empty() &&
         std::all_of(stream.waiting_.front().after.begin(), stream.waiting_.front().after.end(),
                     [](const StreamPoint& point) { return point.passed(); });
}

// All that may run and has not said NotYet since the world changed.
std::vector<StreamQueues::Choice> StreamQueues::choices() {
  std::vector<Choice> all;
  for (const StreamHandle& stream : list_) {
    if (!may_run(*stream)) continue;
    const auto& ready = stream->waiting_.front().ready;
    for (size_t i = 0; i < ready.size(); ++i)
      if (ready[i].asked != world) all.push_back({stream, i});
  }
  return all;
}

// A ready piece of the stream's next work: of a graph any, another order each time.
bool StreamQueues::choose_ready(const StreamHandle& stream, Choice& choice) {
  const auto& ready = stream->waiting_.front().ready;
  const size_t first = ready.size() > 1 ? generator() % ready.size() : 0;
  for (size_t i = 0; i < ready.size(); ++i) {
    const size_t at = (first + i) % ready.size();
    if (ready[at].asked == world) continue;
    choice = {stream, at};
    return true;
  }
  return false;
}

// What brings `point` nearer, if it is known and can run.
bool StreamQueues::choose_for(const StreamPoint& point, Choice& choice) {
  if (point.passed()) return false;
  for (const StreamPoint& before : point.queue->waiting_.front().after)
    if (!before.passed()) return choose_for(before, choice);
  return choose_ready(point.queue, choice);
}

bool StreamQueues::choose(std::span<const StreamPoint> wanted, Choice& choice) {
  if (machine().order == StreamOrder::kRandom) {
    const std::vector<Choice> all = choices();
    if (all.empty()) return false;
    const auto rank = [](const Choice& c) {
      const auto& work = c.stream->waiting_.front();
      return work.graph ? work.ready[c.ready].priority : c.stream->priority_;
    };
    choice = *std::max_element(all.begin(), all.end(),
                               [&](const Choice& a, const Choice& b) { return rank(a) < rank(b); });
    if (one_in(4)) choice.stream->priority_ = generator();
    return true;
  }
  for (const StreamPoint& point : wanted)
    if (choose_for(point, choice)) return true;
  // Where what is wanted says NotYet, anything may be what it waits for.
  for (size_t i = list_.size(); i-- > 0;)
    if (may_run(*list_[i]) && choose_ready(list_[i], choice)) return true;
  return false;
}

bool StreamQueues::run_one(std::span<const StreamPoint> wanted) {
  Choice choice;
  if (!choose(wanted, choice)) return false;
  run(choice);
  return true;
}

// A piece of work stays in front until it is done: that keeps the count.
void StreamQueues::run(const Choice& choice) {
  Work& work = choice.stream->waiting_.front();
  StreamQueue::Ready& ready = work.ready[choice.ready];
  const Piece& piece = work.piece(ready.piece);
  try {
    if (!broken(piece.device)) run_on_device(piece.device, piece.name, piece.run);
  } catch (const NotYet& not_yet) {
    ready.asked = world;
    ready.waits_for = not_yet.waits_for;
    ready.elsewhere = not_yet.elsewhere;
    return;
  } catch (...) {
    finish_piece(choice.stream, choice.ready);
    throw;
  }
  finish_piece(choice.stream, choice.ready);
}

void StreamQueues::finish_piece(const StreamHandle& stream, size_t at) {
  Work& work = stream->waiting_.front();
  const size_t done = work.ready[at].piece;
  std::swap(work.ready[at], work.ready.back());
  work.ready.pop_back();
  if (work.graph)
    for (const size_t next : work.graph->next[done])
      if (--work.missing[next] == 0) work.ready.push_back({next, generator(), 0, {}, false});
  if (--work.left == 0) {
    stream->waiting_.pop_front();
    ++stream->done_;
    --waiting_works;
    if (stream->destroyed_ && stream->waiting_.empty()) std::erase(list_, StreamHandle(stream));
  }
  note_change();
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

bool StreamQueues::query(const StreamPoint& point) {
  register_thread();
  auto held = lock();
  const int stuck_before = stuck;
  const std::vector<StreamPoint> wanted{point};
  if (!point.passed() && !run_one(wanted)) pause(held, /*for_good=*/false);
  // Polling takes time, in which a device does more than one thing.
  while (stuck == stuck_before && !point.passed() && !one_in(8) && run_one(wanted)) {
  }
  if (stuck != stuck_before) throw EmulationError(why_stuck);
  return point.passed();
}

void StreamQueues::wait(std::vector<StreamPoint> wanted) {
  register_thread();
  auto held = lock();
  const int stuck_before = stuck;
  const auto passed = [&] {
    return std::all_of(wanted.begin(), wanted.end(), [](const auto& p) { return p.passed(); });
  };
  last_change = Clock::now();
  while (!passed()) {
    if (!run_one(wanted)) pause(held, /*for_good=*/true);
    if (stuck != stuck_before) throw EmulationError(why_stuck);
  }
  if (leaves_waits_out())
    for (const StreamPoint& point : wanted) merge(host_behind, point);
}

// Nothing can run: another thread may put work on a stream, or change what a piece looks at; unless
// all threads of the host wait `for_good`.
void StreamQueues::pause(std::unique_lock<std::recursive_mutex>& held, bool for_good) {
  using std::chrono::milliseconds;
  blocked_threads += for_good ? 1 : 0;
  if (Clock::now() - last_change > milliseconds(patience_ms()))
    fail_stuck();
  else
    changed.wait_for(held, milliseconds(1));
  blocked_threads -= for_good ? 1 : 0;
  ++world;
}

// How long nothing may happen.
int StreamQueues::patience_ms() {
  for (const StreamHandle& stream : list_)
    if (may_run(*stream))
      for (const StreamQueue::Ready& ready : stream->waiting_.front().ready)
        if (ready.elsewhere) return elsewhere_ms();
  const bool all_wait = blocked_threads >= host_threads;
  return all_wait ? std::min(machine().stuck_ms, kSettledMs) : machine().stuck_ms;
}

void StreamQueues::wake() { note_change(); }

void StreamQueues::fail_stuck() {
  why_stuck = who_waits();
  ++stuck;
  for (const StreamHandle& stream : std::vector(list_)) {
    stream->done_ += stream->waiting_.size();
    stream->waiting_.clear();
    stream->held_by_.clear();
    if (stream->destroyed_) std::erase(list_, stream);
  }
  waiting_works = 0;
  note_change();
}

std::string StreamQueues::who_waits() {
  std::string text = "no work on any stream can go on:";
  for (const StreamHandle& stream : list_) {
    if (stream->waiting_.empty()) continue;
    const Work& work = stream->waiting_.front();
    text += fmt::format("\n  device {}, stream {}: ", stream->device_, stream->number_);
    for (const StreamPoint& point : work.after)
      if (!point.passed())
        text += fmt::format("{} waits for device {}, stream {}, which lacks {} of its work; ",
                            work.graph ? "a graph" : work.single.name, point.queue->device_,
                            point.queue->number_, point.count - point.queue->done_);
    if (!may_run(*stream)) continue;
    for (const StreamQueue::Ready& ready : work.ready)
      text += fmt::format("{}{} of device {} waits for {}; ", work.graph ? "graph node " : "",
                          work.piece(ready.piece).name, work.piece(ready.piece).device,
                          ready.waits_for);
    text += fmt::format("{} behind it", stream->waiting_.size() - 1);
  }
  return text;
}

void StreamQueues::begin_order(uint64_t seed) {
  const std::lock_guard lock(mutex);
  // Else the first work of a process would make them, and draw, where later work finds them.
  for (int device = 0; device < machine().devices; ++device)
    static_cast<void>(default_stream(device));
  generator.seed(seed);
  for (const StreamHandle& stream : list_) stream->priority_ = generator();
}

}  // namespace hlite::emulation
