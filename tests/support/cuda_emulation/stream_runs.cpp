// Which work on streams runs next, and what becomes of those that wait for it.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "tests/support/cuda_emulation/device_ranges.h"
#include "tests/support/cuda_emulation/planted.h"
#include "tests/support/cuda_emulation/signals.h"
#include "tests/support/cuda_emulation/stream_state.h"

namespace hlite::emulation {

using namespace queues;  // NOLINT: the state of all streams

namespace {
constexpr int kSettledMs = 50;  // time for what a thread outside of the count may do

bool all_passed(std::span<const StreamPoint> points) {
  return std::all_of(points.begin(), points.end(), [](const auto& p) { return p.passed(); });
}

}  // namespace

void StreamQueues::run_at_put() {
  if (machine().order == StreamOrder::kAtOnce)
    while (run_one({})) {
    }
  if (machine().order == StreamOrder::kRandom)
    while (one_in(2) && run_one({})) {
    }
}

bool StreamQueues::may_run(const StreamQueue& stream) {
  return !stream.waiting_.empty() && all_passed(stream.waiting_.front().after);
}

// Work that is ready and has not thrown NotYet since the last state change.
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

// Chooses work that `point` depends on, if it is known and can run.
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
  // If that work throws NotYet, it may wait for any other: run anything.
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
    if (take_signal()) note_change();
    ready.asked = world;
    ready.waits_for = not_yet.waits_for;
    ready.elsewhere = not_yet.elsewhere;
    ready.runs = not_yet.runs;
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
      if (--work.missing[next] == 0) work.ready.push_back({next, generator()});
  if (--work.left == 0) {
    stream->waiting_.pop_front();
    ++stream->done_;
    --waiting_works;
    if (stream->destroyed_ && stream->waiting_.empty()) std::erase(list_, StreamHandle(stream));
  }
  note_change();
}

void StreamQueues::let_kernels_end(const char* call) {
  if (machine().devices <= 1) return;
  const std::lock_guard lock(mutex);
  const auto has_graph = [](const StreamHandle& stream) {
    return std::any_of(stream->waiting_.begin(), stream->waiting_.end(),
                       [](const Work& work) { return work.graph != nullptr; });
  };
  if (std::none_of(list_.begin(), list_.end(), has_graph)) return;
  while (run_one({})) {
  }
  for (int device = 0; device < machine().devices; ++device)
    if (broken(device)) return;  // whose rank is going to end all waits
  bool runs = false, elsewhere = false;
  for (const StreamHandle& stream : list_)
    if (may_run(*stream))
      for (const StreamQueue::Ready& ready : stream->waiting_.front().ready) {
        runs |= ready.runs;
        elsewhere |= ready.elsewhere;  // another process may go on
      }
  if (runs && !elsewhere)
    throw BlockedByWaitingKernel(
        fmt::format("{} during a kernel that waits for work which has not been launched; {}", call,
                    who_waits()));
}

bool StreamQueues::query(const StreamPoint& point) {
  register_thread();
  auto held = lock();
  const int stuck_before = stuck;
  const std::vector<StreamPoint> wanted{point};
  if (!point.passed() && !run_one(wanted)) pause(held, {});
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
  last_change = Clock::now();
  while (!all_passed(wanted)) {
    if (!run_one(wanted)) pause(held, wanted);
    if (stuck != stuck_before) throw EmulationError(why_stuck);
  }
  if (leaves_waits_out()) note_host_wait(wanted);
}

// Nothing can run: another thread may put work on a stream, or change what a piece looks at; unless
// all threads of the host wait `for_good`, for points that have not passed.
void StreamQueues::pause(std::unique_lock<std::recursive_mutex>& held,
                         std::span<const StreamPoint> for_good) {
  using std::chrono::milliseconds;
  if (!for_good.empty()) blocked.push_back(for_good);
  if (Clock::now() - last_change > milliseconds(patience_ms()))
    fail_stuck();
  else
    changed.wait_for(held, milliseconds(1));
  std::erase_if(blocked, [&](const auto& points) { return points.data() == for_good.data(); });
  ++world;
}

// Returns the time in which nothing may run before a hang is reported.
int StreamQueues::patience_ms() {
  for (const StreamHandle& stream : list_)
    if (may_run(*stream))
      for (const StreamQueue::Ready& ready : stream->waiting_.front().ready)
        if (ready.elsewhere) return elsewhere_ms();
  // A thread whose points have passed goes on as soon as the machine lets it.
  const bool all_wait = std::ssize(blocked) >= host_threads &&
                        std::none_of(blocked.begin(), blocked.end(), all_passed);
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
    text += fmt::format("{} after it", stream->waiting_.size() - 1);
  }
  return text;
}

}  // namespace hlite::emulation
