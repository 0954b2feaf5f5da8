#include "hugectr_lite/core/thread_pool.h"

#include <sched.h>

#include <chrono>
#include <system_error>

#include "hugectr_lite/core/error.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "hugectr_lite/core/error.h"

namespace hlite {
namespace {
// The time that a waiter looks before it sleeps: about the gap between two steps of an iteration.
// Longer would steal the core from another process or rank.
constexpr std::chrono::microseconds kSpin{30};

// Looks until done() or kSpin is over. A pause takes 40 to 140 cycles, as the processor is made, so
// that counting them is no clock.
template <typename Done>
bool spin_until(Done&& done) {
  const auto start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < 16; ++i) {
      if (done()) return true;
#if defined(__x86_64__)
      _mm_pause();
#endif
    }
  } while (std::chrono::steady_clock::now() - start < kSpin);
  return false;
}
}  // namespace

ThreadPool::ThreadPool() = default;

// A pool of no workers is whole: where one of them cannot start, its destructor ends the others.
ThreadPool::ThreadPool(int threads) : ThreadPool() {
  workers_.reserve(static_cast<size_t>(std::max(threads - 1, 0)));
  for (int w = 1; w < threads; ++w) try {
      workers_.emplace_back([this, w] { work(w); });
    } catch (const std::system_error& error) {
      raise("expected {} threads, the system starts no more than {}: {}", threads, w,
            error.code().message());
    }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    generation_.fetch_add(1, std::memory_order_release);
  }
  wake_.notify_all();
  for (auto& t : workers_) t.join();
}

void ThreadPool::run(int64_t tasks, FunctionRef<void(int64_t, int)> task) {
  if (tasks <= 0) return;
  if (workers_.empty() || tasks == 1) {
    for (int64_t i = 0; i < tasks; ++i) task(i, 0);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    tasks_ = tasks;
    task_ = &task;
    next_task_.store(0, std::memory_order_relaxed);
    busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
  }
  wake_.notify_all();
  take_tasks(0);
  // `task` lives on the caller's stack: every worker must have let go of it.
  const auto let_go = [&] { return busy_.load(std::memory_order_acquire) == 0; };
  if (!spin_until(let_go))
    while (!let_go()) std::this_thread::yield();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadPool::take_tasks(int worker) {
  for (;;) {
    const int64_t i = next_task_.fetch_add(1, std::memory_order_relaxed);
    if (i >= tasks_) return;
    try {
      (*task_)(i, worker);
    } catch (...) {
      fail(std::current_exception());
    }
  }
}

void ThreadPool::fail(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
}

void ThreadPool::work(int worker) {
  uint64_t seen = 0;
  for (;;) {
    const auto called = [&] { return generation_.load(std::memory_order_acquire) != seen; };
    if (!spin_until(called)) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, called);
    }
    {
      const std::lock_guard lock(mutex_);
      if (stop_) return;
      seen = generation_.load(std::memory_order_relaxed);
    }
    take_tasks(worker);
    busy_.fetch_sub(1, std::memory_order_release);
  }
}

int available_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

}  // namespace hlite
