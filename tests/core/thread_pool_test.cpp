#include "hugectr_lite/core/thread_pool.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <numeric>
#include <stdexcept>

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/sanitized.h"

using namespace hlite;

TEST_CASE("every task runs once, on a worker of the pool", "[threads]") {
  for (const int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    REQUIRE(pool.threads() == threads);
    for (const int64_t tasks : {0, 1, 2, 3, 100, 1009}) {
      std::vector<std::atomic<int>> times(static_cast<size_t>(tasks));
      std::atomic<int> strange{0};
      pool.run(tasks, [&](int64_t task, int worker) {
        ++times[static_cast<size_t>(task)];
        if (worker < 0 || worker >= threads) ++strange;
      });
      CHECK(strange == 0);
      int64_t once = 0;
      for (const auto& t : times) once += t == 1;
      CHECK(once == tasks);
    }
  }
}

TEST_CASE("no two tasks at one time share a worker number", "[threads]") {
  ThreadPool pool(4);
  std::atomic<int> inside[4] = {};
  std::atomic<int> clashes{0};
  pool.run(2000, [&](int64_t, int worker) {
    if (inside[worker].fetch_add(1) != 0) ++clashes;
    inside[worker].fetch_sub(1);
  });
  CHECK(clashes == 0);
}

TEST_CASE("ranges of parallel_for cover everything once and respect the grain", "[threads]") {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (const int64_t n : {0, 1, 2, 31, 1000}) {
      for (const int64_t grain : {0, 1, 7, 64, 5000}) {
        std::mutex mutex;
        std::vector<std::pair<int64_t, int64_t>> ranges;
        pool.parallel_for(n, grain, [&](int64_t begin, int64_t end) {
          const std::lock_guard lock(mutex);
          ranges.emplace_back(begin, end);
        });
        std::sort(ranges.begin(), ranges.end());
        INFO("threads " << threads << " n " << n << " grain " << grain);
        CHECK(static_cast<int>(ranges.size()) <= threads);
        int64_t at = 0;
        bool consecutive = true;
        for (const auto& [begin, end] : ranges) {
          consecutive &= begin == at && end > begin;
          at = end;
        }
        CHECK(consecutive);
        CHECK(at == n);
      }
    }
  }
}

TEST_CASE("a task's error reaches the caller and the pool goes on", "[threads]") {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 20; ++round) {
      const std::string message = test::message_of<std::runtime_error>([&] {
        pool.run(50, [&](int64_t task, int) {
          if (task == 17) throw std::runtime_error("task 17");
        });
      });
      CHECK(message == "task 17");
      std::atomic<int64_t> sum{0};
      pool.run(10, [&](int64_t task, int) { sum += task; });
      CHECK(sum == 45);
    }
  }
}

TEST_CASE("many short runs lose nothing", "[threads]") {
  ThreadPool pool(3);
  std::atomic<int64_t> sum{0};
  constexpr int64_t kRuns = 3000;
  for (int64_t run = 0; run < kRuns; ++run)
    pool.run(4, [&](int64_t task, int) { sum += run * 4 + task; });
  CHECK(sum == kRuns * 4 * (kRuns * 4 - 1) / 2);
}

TEST_CASE("pools start and stop, used or not", "[threads]") {
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(3);
    std::atomic<int> count{0};
    if (i % 2) pool.run(3, [&](int64_t, int) { ++count; });
    CHECK(count == (i % 2 ? 3 : 0));
  }
  CHECK(available_threads() >= 1);
}

// In a child, whose memory limit allows the stacks of only some of its threads.
TEST_CASE("a pool whose threads cannot all be started says so, and ends those that were",
          "[threads]") {
  if (test::kSanitized) return;  // their own memory has no such limit
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(600);  // ends a child that waits for ever
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t bytes = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + (rlim_t{48} << 20);
    const rlimit limit{bytes, bytes};
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(3);
    int status = 1;
    try {
      const ThreadPool pool(100);
    } catch (const Error& error) {
      const std::string_view found = error.what();
      const bool said =
          found.starts_with("expected 100 threads, the system starts no more than ") &&
          found.ends_with(": Resource temporarily unavailable");
      status = said ? 0 : 2;
    }
    _exit(status);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("a borrowed callable calls its target") {
  int calls = 0;
  const auto add = [&](int n) { return calls += n; };
  const FunctionRef<int(int)> ref = add;
  CHECK(ref(2) == 2);
  CHECK(ref(3) == 5);
  const FunctionRef<int(int)> copy = ref;
  CHECK(copy(1) == 6);
}
