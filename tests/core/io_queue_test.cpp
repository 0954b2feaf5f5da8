#include "hugectr_lite/core/io_queue.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <thread>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

using namespace hlite;
using std::chrono::milliseconds;
using test::check_contains;
using test::message_of;
using test::TemporaryDirectory;

namespace {
constexpr int64_t kAlignment = 4096;

struct RandomFile {
  explicit RandomFile(size_t bytes) : text(bytes, '\0') {
    for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(random::word(4, 0, i));
    test::write_text(path, text);
  }
  TemporaryDirectory dir;
  std::string text;
  std::string path = dir / "f.bin";
};

// A buffer of aligned pieces.
struct Pieces {
  explicit Pieces(int64_t count, int64_t each = kAlignment)
      : bytes(each), memory(static_cast<size_t>(count * each + kAlignment), "test") {
    const auto address = reinterpret_cast<uintptr_t>(memory.data());
    first = memory.data() + (-address & static_cast<uintptr_t>(kAlignment - 1));
  }
  [[nodiscard]] std::byte* at(int64_t i) const { return first + i * bytes; }
  [[nodiscard]] std::string text(int64_t i, int64_t n) const {
    return {reinterpret_cast<const char*>(at(i)), static_cast<size_t>(n)};
  }
  int64_t bytes;
  HostMemory memory;
  std::byte* first;
};

std::unique_ptr<IoQueue> open_buffered(const std::string& path, const IoQueueOptions& options) {
  return std::make_unique<BufferedQueue>(path, options, "the test wants it");
}

std::unique_ptr<IoQueue> open_synchronous(const std::string& path, const IoQueueOptions& options) {
  return std::make_unique<SynchronousQueue>(path, options);
}

std::vector<IoQueueFactory> all_queues() {
  return {open_buffered, open_synchronous, [](auto& p, auto& o) { return open_io_queue(p, o); }};
}

// Everything that was submitted.
std::map<uint64_t, int64_t> reap_all(IoQueue& queue, size_t count) {
  std::map<uint64_t, int64_t> results;
  std::vector<IoCompletion> done(2);
  while (results.size() < count) {
    const size_t n = queue.reap(done, IoQueue::kForever);
    for (size_t i = 0; i < n; ++i) results[done[i].tag] = done[i].result;
  }
  return results;
}

// An AioQueue whose kernel is moody.
class MoodyQueue final : public AioQueue {
 public:
  MoodyQueue(const std::string& path, const IoQueueOptions& options) : AioQueue(path, options) {
    std::string refusal;
    usable = start(refusal);
  }
  bool usable = false;
  std::vector<int64_t> answers;  // of the system call, the last first; then as it is
 private:
  int64_t io_submit(std::span<iocb*> reads) override {
    if (answers.empty()) return AioQueue::io_submit(reads);
    const int64_t answer = answers.back();
    answers.pop_back();
    return answer > 0 ? AioQueue::io_submit(reads.first(static_cast<size_t>(answer))) : answer;
  }
};
}  // namespace

TEST_CASE("all queues read what is asked, at most `depth` at a time", "[threads]") {
  const RandomFile f(10 * kAlignment + 100);
  for (const IoQueueFactory& open : all_queues()) {
    const auto queue = open(f.path, {.depth = 4, .alignment = kAlignment});
    INFO("buffered because: " << queue->buffered_because());
    CHECK(queue->file_size() == 10 * kAlignment + 100);
    const Pieces pieces(12);
    std::vector<IoRequest> requests;
    for (int64_t i = 0; i < 12; ++i)
      requests.push_back(
          {i * kAlignment, pieces.at(i), kAlignment, static_cast<uint64_t>(100 + i)});
    for (size_t begin = 0; begin < 12; begin += 4) {
      CHECK(queue->submit(std::span(requests).subspan(begin)) == 4);
      CHECK(queue->submit(std::span(requests).subspan(begin)) == 0);
      const auto results = reap_all(*queue, 4);
      for (size_t i = begin; i < begin + 4; ++i) {
        const int64_t there = i < 10 ? kAlignment : i == 10 ? 100 : 0;
        CHECK(results.at(100 + i) == there);
        CHECK(pieces.text(static_cast<int64_t>(i), there) ==
              f.text.substr(std::min(f.text.size(), i * kAlignment), static_cast<size_t>(there)));
      }
    }
    std::vector<IoCompletion> none(1);
    CHECK(queue->reap(none, milliseconds(0)) == 0);
    CHECK(queue->reap(none, milliseconds(1)) == 0);
    CHECK(queue->submit({}) == 0);
  }
}

TEST_CASE("a read that fails says why in its completion", "[threads]") {
  const RandomFile f(2 * kAlignment);
  for (const IoQueueFactory& open : all_queues()) {
    const auto queue = open(f.path, {.depth = 2, .alignment = kAlignment});
    // An address outside of all mappings; aligned.
    const IoRequest request{0, reinterpret_cast<std::byte*>(uintptr_t{1} << 12), kAlignment, 7};
    CHECK(queue->submit(std::span(&request, 1)) == 1);
    CHECK(reap_all(*queue, 1).at(7) == -EFAULT);
  }
}

TEST_CASE("what the kernel does not accept at once is left to the caller") {
  const RandomFile f(8 * kAlignment);
  MoodyQueue queue(f.path, {.depth = 8, .alignment = kAlignment});
  if (!queue.usable) return;  // no O_DIRECT here
  const Pieces pieces(8);
  std::vector<IoRequest> requests;
  for (int64_t i = 0; i < 8; ++i)
    requests.push_back({i * kAlignment, pieces.at(i), kAlignment, static_cast<uint64_t>(i)});
  // Interrupted, takes 3, takes 1, has no resources.
  queue.answers = {-EAGAIN, 1, 3, -EINTR};
  CHECK(queue.submit(requests) == 4);
  CHECK(queue.answers.empty());
  queue.answers = {0};
  CHECK(queue.submit(std::span(requests).subspan(4)) == 0);
  queue.answers = {-EBADF, 2};
  check_contains(message_of<FileError>([&] { queue.submit(std::span(requests).subspan(4)); }),
                 {f.path, "cannot start reading 4096 bytes at offset 24576", "Bad file"});
  // Two were taken before it failed.
  for (const auto& [tag, result] : reap_all(queue, 6)) {
    CHECK(result == kAlignment);
    CHECK(pieces.text(static_cast<int64_t>(tag), kAlignment) ==
          f.text.substr(tag * kAlignment, kAlignment));
  }
}

TEST_CASE("a waiting thread can be woken, before or while it waits", "[threads]") {
  const RandomFile f(kAlignment);
  for (const IoQueueFactory& open : all_queues()) {
    const auto queue = open(f.path, {.depth = 2, .alignment = kAlignment});
    std::vector<IoCompletion> done(2);
    queue->wake();
    queue->wake();
    CHECK(queue->reap(done, IoQueue::kForever) == 0);
    std::thread other([&] { queue->wake(); });
    CHECK(queue->reap(done, IoQueue::kForever) == 0);
    other.join();
  }
}

TEST_CASE("a queue may be destroyed while it reads", "[threads]") {
  const RandomFile f(64 * kAlignment);
  for (const IoQueueFactory& open : all_queues()) {
    for (int round = 0; round < 20; ++round) {
      const Pieces pieces(16);
      const auto queue = open(f.path, {.depth = 16, .alignment = kAlignment});
      std::vector<IoRequest> requests;
      for (int64_t i = 0; i < 16; ++i)
        requests.push_back({i * kAlignment, pieces.at(i), kAlignment, 0});
      queue->submit(requests);
    }  // the queue goes before the memory
  }
}

TEST_CASE("where direct reads are refused a file is read through the page cache", "[threads]") {
  std::string refusal;
  // Kernel files have no O_DIRECT.
  CHECK(AioQueue::open("/proc/self/status", {}, refusal) == nullptr);
  check_contains(refusal, {"O_DIRECT"});
  const auto status = open_io_queue("/proc/self/status", {});
  CHECK(status->buffered_because() == refusal);
  std::vector<std::byte> bytes(5);
  const IoRequest request{0, bytes.data(), 5, 1};
  status->submit(std::span(&request, 1));
  CHECK(reap_all(*status, 1).at(1) == 5);
  CHECK(std::memcmp(bytes.data(), "Name:", 5) == 0);
}

TEST_CASE("reads aligned worse than the device allows fall back to the page cache", "[threads]") {
  // Some file systems accept any alignment: then it reads directly.
  const RandomFile f(1000);
  const auto queue = open_io_queue(f.path, {.depth = 1, .alignment = 4});
  if (const std::string why = queue->buffered_because(); !why.empty())
    check_contains(why, {"refuses direct reads aligned to 4 bytes"});
  std::vector<uint32_t> words(3);
  const IoRequest request{8, reinterpret_cast<std::byte*>(words.data()), 12, 1};
  queue->submit(std::span(&request, 1));
  CHECK(reap_all(*queue, 1).at(1) == 12);
  CHECK(std::memcmp(words.data(), f.text.data() + 8, 12) == 0);
}

TEST_CASE("a depth beyond what the system gives is refused with its limit") {
  const RandomFile f(kAlignment);
  int64_t most = 0;
  std::ifstream("/proc/sys/fs/aio-max-nr") >> most;
  if (most < 1 || most > (int64_t{1} << 24)) return;
  std::string refusal;
  const auto queue = AioQueue::open(f.path, {.depth = most + 1, .alignment = kAlignment}, refusal);
  CHECK(queue == nullptr);
  check_contains(refusal, {"no AIO context of depth " + std::to_string(most + 1),
                           "fs.aio-max-nr = " + std::to_string(most)});
}

TEST_CASE("a file that cannot be opened is an error for all queues") {
  const TemporaryDirectory dir;
  const std::string path = dir / "none";
  for (const IoQueueFactory& open : all_queues())
    check_contains(message_of<FileError>([&] { open(path, {}); }),
                   {path, "cannot open: No such file"});
}
