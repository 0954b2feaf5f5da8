// ForkedTask: a function that runs in a child process, on an image of this process's memory as it
// was when the task began. The kernel copies a page when either process first writes to it
// (copy-on-write), so the image costs no copy when it is taken.
//
// The child has the calling thread alone. The function may read memory and write files. It must not
// wait for another thread: no thread pool, no log, no communicator. It leaves the processors to
// this process, and if the memory runs out, the kernel ends the child first. The child never
// outlives the thread that started it, and it ignores the signals that ask a process to stop, which
// this process answers for both.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "hugectr_lite/core/file.h"

namespace hlite {

class ForkedTask {
 public:
  struct Result {
    bool done = false;      // false: the function threw, or the child was killed
    std::string text = {};  // what the function returned, or why it failed
    double seconds = 0;     // run time of the function, if it ended
    bool killed = false;    // then nothing has been cleaned up
  };

  // Returns nullopt if the system has no memory or no id for another process.
  static std::optional<ForkedTask> start(const std::function<std::string()>& body);
  ForkedTask(ForkedTask&& other) noexcept
      : pid_(std::exchange(other.pid_, 0)), pipe_(std::move(other.pipe_)) {}
  ForkedTask& operator=(ForkedTask&&) = delete;
  ~ForkedTask();  // waits

  // The result, once: nullopt if the child still runs. wait() waits for it.
  [[nodiscard]] std::optional<Result> poll() { return reap(/*wait=*/false); }
  Result wait() { return *reap(/*wait=*/true); }

 private:
  ForkedTask(pid_t pid, FileDescriptor pipe) : pid_(pid), pipe_(std::move(pipe)) {}
  std::optional<Result> reap(bool wait);

  pid_t pid_;  // 0: its result was taken
  FileDescriptor pipe_;
};

}  // namespace hlite
