// Reads and writes of one file that are started now and finish later, a limited number at a time
// and in any order.
//
// AioQueue goes past the page cache (O_DIRECT) through libaio; BufferedQueue goes through the page
// cache with a thread of its own, on file systems that refuse the former; SynchronousQueue reads
// small files. Each belongs to one thread, except for wake().
#pragma once

#include <libaio.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "hugectr_lite/core/file.h"

namespace hlite {

struct IoRequest {
  int64_t offset = 0;           // in the file
  std::byte* buffer = nullptr;  // alive until the request is reaped or the queue is destroyed
  int64_t bytes = 0;
  uint64_t tag = 0;     // comes back with the completion
  bool writes = false;  // the buffer goes to the file; REQUIRES IoQueueOptions::writable
};

struct IoCompletion {
  uint64_t tag = 0;
  // Bytes read or written, or minus an errno. Fewer bytes than asked for, or none, need not mean
  // the end of the file.
  int64_t result = 0;
};

struct IoQueueOptions {
  int64_t depth = 1;        // most requests in flight
  int64_t alignment = 512;  // required of offsets, buffers and sizes; a power of two
  bool writable = false;    // the file is opened for writing too
};

class IoQueue {
 public:
  static constexpr std::chrono::milliseconds kForever{-1};

  // Waits for the requests in flight: their buffers are the kernel's until then.
  virtual ~IoQueue() = default;

  // Starts requests from the front of `requests` and returns how many: fewer than all when the
  // queue is full, or when the system takes no more for now. Throws FileError when it never will.
  virtual size_t submit(std::span<const IoRequest> requests) = 0;
  // Moves finished requests, in the order they finished, into `done` and returns how many. When
  // there are none, waits until there is one, until wake() or for `timeout`; may return none before
  // that.
  virtual size_t reap(std::span<IoCompletion> done, std::chrono::milliseconds timeout) = 0;
  // Ends a reap() that waits, or the next one that would. Any thread may call it.
  virtual void wake() = 0;
  // The current size of the file in bytes. Throws FileError.
  [[nodiscard]] virtual int64_t file_size() const = 0;
  // Why it reads through the page cache; empty when it does not.
  [[nodiscard]] virtual std::string buffered_because() const { return {}; }
};

// Linux AIO on a descriptor of its own, opened with O_DIRECT.
class AioQueue : public IoQueue {
 public:
  // Nothing, and the reason in `refusal`, where the file cannot be read like that: the file system
  // has no O_DIRECT, it wants a larger alignment, or the system gives no AIO context of that depth.
  // Throws FileError when it cannot be read at all.
  static std::unique_ptr<IoQueue> open(const std::string& path, const IoQueueOptions& options,
                                       std::string& refusal);
  ~AioQueue() override;

  size_t submit(std::span<const IoRequest> requests) override;
  size_t reap(std::span<IoCompletion> done, std::chrono::milliseconds timeout) override;
  void wake() override;
  [[nodiscard]] int64_t file_size() const override;

 protected:
  AioQueue(std::string path, const IoQueueOptions& options);
  // False with a reason, as in open().
  bool start(std::string& refusal);
  // libaio's, which takes fewer than it is given as it likes: -errno, or how many.
  virtual int64_t io_submit(std::span<iocb*> requests);

 private:
  size_t take_finished(std::span<IoCompletion> done);

  std::string path_;
  IoQueueOptions options_;
  FileDescriptor file_, event_;  // event: counts completions and calls of wake()
  io_context_t context_ = nullptr;
  int64_t in_flight_ = 0;
  std::vector<iocb> blocks_;        // used within one call
  std::vector<iocb*> block_of_;     // pointers to them
  std::vector<io_event> finished_;  // used within one call
};

// Serves requests in the order of submission. The kernel gets a hint of all reads at once and reads
// ahead.
class BufferedQueue final : public IoQueue {
 public:
  // `because`: what buffered_because() says. Throws FileError.
  BufferedQueue(std::string path, const IoQueueOptions& options, std::string because);
  ~BufferedQueue() override;

  size_t submit(std::span<const IoRequest> requests) override;
  size_t reap(std::span<IoCompletion> done, std::chrono::milliseconds timeout) override;
  void wake() override;
  [[nodiscard]] int64_t file_size() const override;
  [[nodiscard]] std::string buffered_because() const override { return because_; }

 private:
  void serve_all();

  std::string path_, because_;
  IoQueueOptions options_;
  FileDescriptor file_;
  std::mutex mutex_;
  std::condition_variable requested_, answered_;
  std::deque<IoRequest> requests_;
  std::deque<IoCompletion> done_;
  int64_t in_flight_ = 0;
  bool stop_ = false, woken_ = false;
  std::thread thread_;  // last: it uses all of the above
};

// Reads and writes through the page cache in submit(), which returns when they are done. For small
// files: a queue of libaio costs more than they do, because the kernel waits for all processors
// when it is destroyed, up to 30 ms, also where the process ends without that.
class SynchronousQueue final : public IoQueue {
 public:
  // Files of up to this size take less time to read than an AioQueue takes to be destroyed.
  static constexpr int64_t kSmallFile = int64_t{8} << 20;

  // Throws FileError.
  SynchronousQueue(std::string path, const IoQueueOptions& options);

  size_t submit(std::span<const IoRequest> requests) override;
  size_t reap(std::span<IoCompletion> done, std::chrono::milliseconds timeout) override;
  void wake() override;
  [[nodiscard]] int64_t file_size() const override;

 private:
  std::string path_;
  IoQueueOptions options_;
  FileDescriptor file_;
  std::deque<IoCompletion> done_;
  std::mutex mutex_;  // of woken_
  std::condition_variable changed_;
  bool woken_ = false;
};

using OpenDirect = std::unique_ptr<IoQueue> (*)(const std::string& path,
                                                const IoQueueOptions& options,
                                                std::string& refusal);
// A direct queue, or where that is refused a buffered one.
std::unique_ptr<IoQueue> open_io_queue(const std::string& path, const IoQueueOptions& options,
                                       OpenDirect direct = AioQueue::open);

// Readers open their queues through a factory, so that tests can inject faults.
using IoQueueFactory =
    std::function<std::unique_ptr<IoQueue>(const std::string&, const IoQueueOptions&)>;

}  // namespace hlite
