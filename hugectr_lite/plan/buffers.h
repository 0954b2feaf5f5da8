// The memory a plan works on: named buffers, sized before anything is allocated, so that "does it
// fit" has an answer before training starts.
//
// A slice is a byte range of another buffer with its own name (one layer's gradient inside the
// buffer that is all-reduced). Two buffers overlap when their ranges of one root buffer do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "hugectr_lite/core/device_memory.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/memory.h"

namespace hlite::plan {

using BufferId = int32_t;
inline constexpr BufferId kNoBuffer = -1;

enum class BufferKind {
  kInput,       // filled from outside before the plan runs: labels, dense features, keys
  kAhead,       // left by a plan for one that follows it, maybe after its next run: like an input
  kActivation,  // written by a step of the plan before it is read
  kGradient,
  kParameter,  // live across iterations
  kState,      // optimizer state, learning rate, step counter
  kTable,      // embedding rows
};
// Memory of as many bytes as a root buffer has, such as a mapped file that is only read.
struct LentMemory {
  BufferId buffer;
  std::byte* data;
};

class Buffers {
 public:
  // Both throw ConfigError on a duplicate name: names begin with those of the config.
  BufferId add(const std::string& name, BufferKind kind, int64_t bytes);
  BufferId slice(const std::string& name, BufferId parent, int64_t offset, int64_t bytes);

  // Reserves memory for every root buffer: zeroed. Throws DataError naming the buffer that did not
  // fit. data() is valid afterwards. Root buffers in `lent` lie in memory of the caller's, which
  // outlives them.
  void allocate(std::span<const LentMemory> lent = {});
  // The same on the current device of a GPU, as one block. Inputs and what is made ahead are there
  // twice, so that one batch can arrive while another is worked on. Throws DeviceError.
  void allocate(const cuda::Backend& gpu);
  // Called before each copy between host and GPU, which waits itself, but without a limit: where
  // others take part in what has been issued.
  void set_wait(std::function<void()> wait) { wait_ = std::move(wait); }
  // Bytes that allocate() on a GPU takes.
  [[nodiscard]] int64_t device_bytes() const;
  // data() of inputs is from now on that of the other side; returns which, 0 or 1.
  int flip() { return side_ = 1 - side_; }
  [[nodiscard]] int side() const { return side_; }
  [[nodiscard]] bool allocated() const { return allocated_; }

  [[nodiscard]] const std::string& name(BufferId id) const { return at(id).name; }
  [[nodiscard]] BufferKind kind(BufferId id) const { return at(id).kind; }
  [[nodiscard]] int64_t bytes(BufferId id) const { return at(id).bytes; }
  [[nodiscard]] bool overlap(BufferId a, BufferId b) const;
  // Bytes of all root buffers of a kind.
  [[nodiscard]] int64_t total_bytes(BufferKind kind) const;

  template <typename T>
  [[nodiscard]] T* data(BufferId id) const {
    const Entry& e = at(id);
    HLITE_CHECK(allocated_, "buffer {} is used before allocate()", e.name);
    const Entry& root = entries_[static_cast<size_t>(e.root)];
    return reinterpret_cast<T*>(root.data[has_sides(root.kind) ? side_ : 0] + e.offset);
  }

  // Copies between host memory and the elements from `first` on, wherever the buffer lies. On a GPU
  // they wait for all that was issued, and until they are done. Throw Error beyond its end.
  template <typename T>
  void read(BufferId id, int64_t first, std::span<T> to) const {
    copy(to.data(), range<T>(id, first, std::ssize(to)), to.size_bytes());
  }
  template <typename T>
  void write(BufferId id, int64_t first, std::span<const T> from) const {
    copy(range<T>(id, first, std::ssize(from)), from.data(), from.size_bytes());
  }
  // Views a buffer that is one T, or begins with one.
  template <typename T>
  [[nodiscard]] T value(BufferId id) const {
    T value;
    read(id, 0, std::span<T>(&value, 1));
    return value;
  }
  template <typename T>
  void set_value(BufferId id, const T& value) const {
    write(id, 0, std::span<const T>(&value, 1));
  }

 private:
  struct Entry {
    std::string name;
    BufferKind kind;
    BufferId root;
    int64_t offset, bytes;
    HostMemory memory;        // of large root buffers in host memory
    std::byte* data[2] = {};  // of root buffers: each side; the same where there is one
  };
  static bool has_sides(BufferKind kind) {
    return kind == BufferKind::kInput || kind == BufferKind::kAhead;
  }
  [[nodiscard]] const Entry& at(BufferId id) const;
  void check_new(const std::string& name) const;
  void copy(void* to, const void* from, size_t bytes) const;
  template <typename T>
  [[nodiscard]] T* range(BufferId id, int64_t first, int64_t count) const {
    HLITE_CHECK(first >= 0 && (first + count) * static_cast<int64_t>(sizeof(T)) <= bytes(id),
                "elements [{}, {}) of buffer {} with {} bytes", first, first + count, name(id),
                bytes(id));
    return data<T>(id) + first;
  }
  std::vector<Entry> entries_;
  bool allocated_ = false;
  int side_ = 0;
  const cuda::Backend* gpu_ = nullptr;  // that the memory is on; null: the host's
  DeviceMemory arena_;                  // there
  HostMemory small_;                    // all small root buffers in host memory
  std::function<void()> wait_;
};

}  // namespace hlite::plan
