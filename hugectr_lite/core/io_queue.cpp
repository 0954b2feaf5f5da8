#include "hugectr_lite/core/io_queue.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/memory.h"

namespace hlite {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

// The descriptor, or -errno.
int open_file(const std::string& path, const IoQueueOptions& options, int flags) {
  int fd;
  do fd = ::open(path.c_str(), (options.writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | flags);
  while (fd < 0 && errno == EINTR);
  return fd < 0 ? -errno : fd;
}

int64_t size_of(const std::string& path, int fd) {
  struct stat status {};
  if (fstat(fd, &status) != 0)
    raise<FileError>("{}: cannot find its size: {}", path, reason(errno));
  return status.st_size;
}

// Bytes read, or -errno.
int64_t read_at(int fd, std::byte* to, int64_t bytes, int64_t offset) {
  ssize_t got;
  do got = pread(fd, to, static_cast<size_t>(bytes), offset);
  while (got < 0 && errno == EINTR);
  return got < 0 ? -errno : got;
}

// Bytes written, or -errno.
int64_t write_at(int fd, const std::byte* from, int64_t bytes, int64_t offset) {
  ssize_t put;
  do put = pwrite(fd, from, static_cast<size_t>(bytes), offset);
  while (put < 0 && errno == EINTR);
  return put < 0 ? -errno : put;
}

// Returns what the request's completion says.
int64_t serve(int fd, const IoRequest& r) {
  return r.writes ? write_at(fd, r.buffer, r.bytes, r.offset)
                  : read_at(fd, r.buffer, r.bytes, r.offset);
}

FileDescriptor open_buffered(const std::string& path, const IoQueueOptions& options) {
  const int fd = open_file(path, options, 0);
  if (fd < 0) raise<FileError>("{}: cannot open: {}", path, reason(-fd));
  return FileDescriptor(fd);
}

// A number that the kernel shows; -1 where it does not.
int64_t kernel_number(const char* path) {
  int64_t value = -1;
  std::ifstream(path) >> value;
  return value;
}

void check_depth(const IoQueueOptions& o) {
  HLITE_CHECK(o.depth >= 1 && o.alignment >= 1 && (o.alignment & (o.alignment - 1)) == 0,
              "depth {}, alignment {}", o.depth, o.alignment);
}
}  // namespace

AioQueue::AioQueue(std::string path, const IoQueueOptions& options)
    : path_(std::move(path)),
      options_(options),
      blocks_(static_cast<size_t>(options.depth)),
      finished_(static_cast<size_t>(options.depth)) {
  check_depth(options);
  for (iocb& b : blocks_) block_of_.push_back(&b);
}

std::unique_ptr<IoQueue> AioQueue::open(const std::string& path, const IoQueueOptions& options,
                                        std::string& refusal) {
  std::unique_ptr<AioQueue> queue(new AioQueue(path, options));
  if (!queue->start(refusal)) return nullptr;
  return queue;
}

bool AioQueue::start(std::string& refusal) {
  const int fd = open_file(path_, options_, O_DIRECT);
  if (fd == -EINVAL) {
    refusal = "its file system does not read past the page cache (O_DIRECT)";
    return false;
  }
  if (fd < 0) raise<FileError>("{}: cannot open: {}", path_, reason(-fd));
  file_ = FileDescriptor(fd);
  // A read that is aligned as all others will be, and no better.
  const int64_t alignment = options_.alignment;
  const HostMemory memory(static_cast<size_t>(3 * alignment), "trial read");
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  auto lead = static_cast<int64_t>(-address & static_cast<uintptr_t>(alignment - 1));
  if ((address + static_cast<uintptr_t>(lead)) % static_cast<uintptr_t>(2 * alignment) == 0)
    lead += alignment;
  const int64_t got = read_at(fd, memory.data() + lead, alignment, 0);
  if (got == -EINVAL) {
    refusal = fmt::format("its file system refuses direct reads aligned to {} bytes", alignment);
    return false;
  }
  if (got < 0)
    raise<FileError>("{}: cannot read {} bytes at offset 0: {}", path_, alignment,
                     reason(static_cast<int>(-got)));
  event_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (event_.get() < 0) raise<FileError>("{}: cannot make an eventfd: {}", path_, reason(errno));
  if (const int error = -io_setup(static_cast<int>(options_.depth), &context_); error != 0) {
    refusal = fmt::format(
        "the system gives no AIO context of depth {} ({}; {} of fs.aio-max-nr = {} in use)",
        options_.depth, reason(error), kernel_number("/proc/sys/fs/aio-nr"),
        kernel_number("/proc/sys/fs/aio-max-nr"));
    context_ = nullptr;
    return false;
  }
  return true;
}

AioQueue::~AioQueue() {
  if (context_ == nullptr) return;
  // io_destroy() waits too, but older kernels did not.
  while (in_flight_ > 0) {
    const int n =
        io_getevents(context_, 1, static_cast<long>(finished_.size()), finished_.data(), nullptr);
    if (n < 0 && n != -EINTR) break;
    if (n > 0) in_flight_ -= n;
  }
  io_destroy(context_);
}

int64_t AioQueue::io_submit(std::span<iocb*> requests) {
  return ::io_submit(context_, static_cast<long>(requests.size()), requests.data());
}

size_t AioQueue::submit(std::span<const IoRequest> requests) {
  const auto n = static_cast<size_t>(
      std::min<int64_t>(options_.depth - in_flight_, static_cast<int64_t>(requests.size())));
  for (size_t i = 0; i < n; ++i) {
    const IoRequest& r = requests[i];
    iocb& b = blocks_[i];
    (r.writes ? io_prep_pwrite : io_prep_pread)(&b, file_.get(), r.buffer,
                                                static_cast<size_t>(r.bytes), r.offset);
    io_set_eventfd(&b, event_.get());
    b.data = reinterpret_cast<void*>(r.tag);  // comes back with the event
  }
  size_t taken = 0;
  while (taken < n) {
    const int64_t now = io_submit(std::span(block_of_).subspan(taken, n - taken));
    if (now == -EINTR) continue;
    if (now == -EAGAIN || now == 0) break;
    if (now < 0)
      raise<FileError>("{}: cannot start {} {} bytes at offset {}: {}", path_,
                       requests[taken].writes ? "writing" : "reading", requests[taken].bytes,
                       requests[taken].offset, reason(static_cast<int>(-now)));
    taken += static_cast<size_t>(now);
    in_flight_ += now;
  }
  return taken;
}

size_t AioQueue::take_finished(std::span<IoCompletion> done) {
  const size_t most = std::min(done.size(), finished_.size());
  timespec at_once{};
  const int n = io_getevents(context_, 0, static_cast<long>(most), finished_.data(), &at_once);
  if (n < 0 && n != -EINTR) raise<FileError>("{}: cannot wait for requests: {}", path_, reason(-n));
  const size_t count = n < 0 ? 0 : static_cast<size_t>(n);
  for (size_t i = 0; i < count; ++i)
    done[i] = {reinterpret_cast<uint64_t>(finished_[i].data),
               static_cast<int64_t>(finished_[i].res)};
  in_flight_ -= static_cast<int64_t>(count);
  return count;
}

size_t AioQueue::reap(std::span<IoCompletion> done, std::chrono::milliseconds timeout) {
  if (const size_t n = take_finished(done); n > 0 || timeout.count() == 0) return n;
  pollfd waiting{.fd = event_.get(), .events = POLLIN, .revents = 0};
  if (poll(&waiting, 1, static_cast<int>(timeout.count())) > 0) {
    uint64_t count;
    // Non-blocking, and only this thread reads it.
    if (read(event_.get(), &count, sizeof count) < 0 && errno != EAGAIN && errno != EINTR)
      raise<FileError>("{}: cannot wait for requests: {}", path_, reason(errno));
  }
  return take_finished(done);
}

void AioQueue::wake() {
  const uint64_t one = 1;
  // It fails only when the counter is full, and then reap() does not wait anyway.
  [[maybe_unused]] const ssize_t put = write(event_.get(), &one, sizeof one);
}

int64_t AioQueue::file_size() const { return size_of(path_, file_.get()); }

BufferedQueue::BufferedQueue(std::string path, const IoQueueOptions& options, std::string because)
    : path_(std::move(path)), because_(std::move(because)), options_(options) {
  check_depth(options);
  file_ = open_buffered(path_, options_);
  thread_ = std::thread([this] { serve_all(); });
}

BufferedQueue::~BufferedQueue() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  requested_.notify_one();
  thread_.join();
}

void BufferedQueue::serve_all() {
  std::unique_lock lock(mutex_);
  for (;;) {
    requested_.wait(lock, [&] { return stop_ || !requests_.empty(); });
    if (stop_) return;
    const IoRequest r = requests_.front();
    requests_.pop_front();
    lock.unlock();
    const int64_t result = serve(file_.get(), r);
    lock.lock();
    done_.push_back({r.tag, result});
    answered_.notify_one();
  }
}

size_t BufferedQueue::submit(std::span<const IoRequest> requests) {
  size_t n;
  {
    const std::lock_guard lock(mutex_);
    n = std::min(requests.size(), static_cast<size_t>(options_.depth - in_flight_));
    requests_.insert(requests_.end(), requests.begin(),
                     requests.begin() + static_cast<std::ptrdiff_t>(n));
    in_flight_ += static_cast<int64_t>(n);
  }
  requested_.notify_one();
  for (const IoRequest& r : requests.first(n))
    if (!r.writes) posix_fadvise(file_.get(), r.offset, r.bytes, POSIX_FADV_WILLNEED);
  return n;
}

size_t BufferedQueue::reap(std::span<IoCompletion> done, std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const auto something = [&] { return woken_ || !done_.empty(); };
  if (timeout < std::chrono::milliseconds(0))
    answered_.wait(lock, something);
  else
    answered_.wait_for(lock, timeout, something);
  woken_ = false;
  const size_t n = std::min(done.size(), done_.size());
  std::copy_n(done_.begin(), n, done.begin());
  done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(n));
  in_flight_ -= static_cast<int64_t>(n);
  return n;
}

void BufferedQueue::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  answered_.notify_one();
}

int64_t BufferedQueue::file_size() const { return size_of(path_, file_.get()); }

SynchronousQueue::SynchronousQueue(std::string path, const IoQueueOptions& options)
    : path_(std::move(path)), options_(options) {
  check_depth(options);
  file_ = open_buffered(path_, options_);
}

size_t SynchronousQueue::submit(std::span<const IoRequest> requests) {
  const size_t n =
      std::min(requests.size(), static_cast<size_t>(options_.depth - std::ssize(done_)));
  for (const IoRequest& r : requests.first(n)) done_.push_back({r.tag, serve(file_.get(), r)});
  return n;
}

size_t SynchronousQueue::reap(std::span<IoCompletion> done, std::chrono::milliseconds timeout) {
  if (done_.empty()) {
    std::unique_lock lock(mutex_);
    const auto woken = [&] { return woken_; };
    if (timeout < std::chrono::milliseconds(0))
      changed_.wait(lock, woken);
    else
      changed_.wait_for(lock, timeout, woken);
    woken_ = false;
    return 0;
  }
  const size_t n = std::min(done.size(), done_.size());
  std::copy_n(done_.begin(), n, done.begin());
  done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(n));
  return n;
}

void SynchronousQueue::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_one();
}

int64_t SynchronousQueue::file_size() const { return size_of(path_, file_.get()); }

std::unique_ptr<IoQueue> open_io_queue(const std::string& path, const IoQueueOptions& options,
                                       OpenDirect direct) {
  std::string refusal;
  if (auto queue = direct(path, options, refusal)) return queue;
  return std::make_unique<BufferedQueue>(path, options, std::move(refusal));
}

}  // namespace hlite
