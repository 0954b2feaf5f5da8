#include "hugectr_lite/core/forked_task.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/core/stopwatch.h"

namespace hlite {
namespace {

constexpr int kNice = 10;

// The one message of the child. A pipe takes it as a whole without a reader.
struct Message {
  double seconds = 0;
  bool done = false;
  uint16_t length = 0;
  std::array<char, 3072> text = {};
};
static_assert(sizeof(Message) <= PIPE_BUF);

Message message_of(const std::function<std::string()>& body) {
  const auto begin = Clock::now();
  Message message;
  std::string text;
  try {
    text = body();
    message.done = true;
  } catch (...) {
    text = current_failure().message;
  }
  message.seconds = seconds_since(begin);
  message.length = static_cast<uint16_t>(std::min(text.size(), message.text.size()));
  std::copy_n(text.data(), message.length, message.text.data());
  return message;
}

[[noreturn]] void run_child(pid_t parent, const std::function<std::string()>& body, int pipe) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kExitInternal);  // it ended before the line above
  for (const int signal : InterruptGuard::kSignals) std::signal(signal, SIG_IGN);
  if (const int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC); file >= 0)
    static_cast<void>(!write(file, "1000", 4));
  static_cast<void>(!nice(kNice));  // the parent works on
  const Message message = message_of(body);
  while (write(pipe, &message, sizeof(message)) < 0 && errno == EINTR) continue;
  _exit(kExitDone);  // without the destructors and exit handlers of the parent
}

}  // namespace

std::optional<ForkedTask> ForkedTask::start(const std::function<std::string()>& body) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  FileDescriptor from(ends[0]);
  const FileDescriptor to(ends[1]);
  const pid_t parent = getpid(), child = fork();
  if (child == 0) run_child(parent, body, to.get());
  if (child < 0) return std::nullopt;
  return ForkedTask(child, std::move(from));
}

ForkedTask::~ForkedTask() {
  if (pid_ != 0) wait();
}

std::optional<ForkedTask::Result> ForkedTask::reap(bool wait) {
  HLITE_CHECK(pid_ != 0, "the result was taken");
  int status = 0;
  pid_t ended;
  do ended = waitpid(pid_, &status, wait ? 0 : WNOHANG);
  while (ended < 0 && errno == EINTR);
  if (ended == 0) return std::nullopt;
  pid_ = 0;
  Message message;
  if (read(pipe_.get(), &message, sizeof(message)) == sizeof(message))
    return Result{.done = message.done,
                  .text = std::string(message.text.data(), message.length),
                  .seconds = message.seconds};
  const int signal = ended > 0 && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return Result{.text = fmt::format("its process was killed (signal {}: {}){}", signal,
                                    signal ? strsignal(signal) : "unknown",
                                    signal == SIGKILL ? "; the memory may have run out" : ""),
                .killed = true};
}

}  // namespace hlite
