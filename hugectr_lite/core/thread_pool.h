// ThreadPool: CPU threads that run parallel loops.
//
// Work is cut into tasks by the caller, never by the pool, so results do not depend on which thread
// took which task. The calling thread works too. Nothing is allocated per call. A pool serves one
// caller at a time: each rank owns its own.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace hlite {

// A borrowed callable: like std::function, without the allocation. Must not outlive its target.
template <typename Signature>
class FunctionRef;
template <typename R, typename... Args>
class FunctionRef<R(Args...)> {
 public:
  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
      FunctionRef(F&& f)  // NOLINT: implicit on purpose
      : target_(const_cast<void*>(static_cast<const void*>(&f))),
        call_([](void* target, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(target))(args...);
        }) {}
  R operator()(Args... args) const { return call_(target_, args...); }

 private:
  void* target_;
  R (*call_)(void*, Args...);
};

class ThreadPool {
 public:
  // `threads` >= 1 counts the calling thread. Throws Error where the machine gives fewer.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls task(i, worker) once for every i in [0, tasks), worker in [0, threads()); returns when
  // all are done. The first exception thrown by a task is rethrown here.
  void run(int64_t tasks, FunctionRef<void(int64_t task, int worker)> task);

  // Calls body(begin, end) over disjoint ranges that cover [0, n), each of at least `grain` items
  // but the last; at most one range a thread.
  template <typename Body>
  void parallel_for(int64_t n, int64_t grain, Body&& body) {
    if (n <= 0) return;
    const int64_t ranges =
        std::clamp<int64_t>((n + grain - 1) / std::max<int64_t>(grain, 1), 1, threads());
    if (ranges == 1) return body(int64_t{0}, n);
    run(ranges, [&](int64_t i, int) { body(n * i / ranges, n * (i + 1) / ranges); });
  }

 private:
  ThreadPool();
  void work(int worker);
  void take_tasks(int worker);
  void fail(std::exception_ptr error);

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<uint64_t> generation_{0};  // bumped for each run
  std::atomic<int> busy_{0};
  std::atomic<int64_t> next_task_{0};
  int64_t tasks_ = 0;
  const FunctionRef<void(int64_t, int)>* task_ = nullptr;
  std::exception_ptr error_;
  bool stop_ = false;
};

// Threads this process may use: CPUs of its affinity mask.
int available_threads();

}  // namespace hlite
