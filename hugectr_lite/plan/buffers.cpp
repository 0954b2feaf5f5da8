#include "hugectr_lite/plan/buffers.h"

#include <algorithm>
#include <cstring>

namespace hlite::plan {

// Every buffer begins where the widest loads may.
static int64_t aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

// Smaller buffers share one block of huge pages: to be given pages of 4 KiB takes longer than to
// score a few thousand samples. AddressSanitizer finds overruns of blocks only, so there every
// buffer is one.
#if defined(__SANITIZE_ADDRESS__)
static constexpr int64_t kLarge = 0;
#else
static constexpr int64_t kLarge = int64_t{2} << 20;
#endif

const Buffers::Entry& Buffers::at(BufferId id) const {
  HLITE_CHECK(id >= 0 && id < static_cast<BufferId>(entries_.size()), "buffer id {} of {}", id,
              entries_.size());
  return entries_[static_cast<size_t>(id)];
}

void Buffers::check_new(const std::string& name) const {
  if (std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.name == name; }))
    raise<ConfigError>(
        "layers: expected names under which every buffer has its own, found two buffers named "
        "\"{}\"; name a layer or tensor differently",
        name);
}

BufferId Buffers::add(const std::string& name, BufferKind kind, int64_t bytes) {
  HLITE_CHECK(bytes >= 0, "buffer {}: {} bytes", name, bytes);
  HLITE_CHECK(!allocated_, "buffer {} is added after allocate()", name);
  check_new(name);
  const auto id = static_cast<BufferId>(entries_.size());
  entries_.push_back({name, kind, id, 0, bytes, {}});
  return id;
}

BufferId Buffers::slice(const std::string& name, BufferId parent, int64_t offset, int64_t bytes) {
  const Entry& p = at(parent);
  check_new(name);
  HLITE_CHECK(offset >= 0 && bytes >= 0 && offset + bytes <= p.bytes,
              "slice {} [{}, {}) of {} with {} bytes", name, offset, offset + bytes, p.name,
              p.bytes);
  Entry e{name, p.kind, p.root, p.offset + offset, bytes, {}};
  const auto id = static_cast<BufferId>(entries_.size());
  entries_.push_back(std::move(e));
  return id;
}

void Buffers::allocate(std::span<const LentMemory> lent) {
  for (const auto& [buffer, data] : lent) {
    Entry& e = entries_[static_cast<size_t>(at(buffer).root)];
    HLITE_CHECK(e.root == buffer, "memory is lent for slice {}", at(buffer).name);
    e.data[0] = e.data[1] = data;
  }
  int64_t small = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    Entry& e = entries_[i];
    if (e.root != static_cast<BufferId>(i) || e.data[0] != nullptr) continue;
    if (e.bytes < kLarge) {
      small += aligned(e.bytes);
      continue;
    }
    e.memory = HostMemory(static_cast<size_t>(e.bytes), e.name.c_str());
    e.data[0] = e.data[1] = e.memory.data();
  }
  small_ = HostMemory(static_cast<size_t>(small), "buffers of less than 2 MiB");
  std::byte* next = small_.data();
  for (size_t i = 0; i < entries_.size(); ++i) {
    Entry& e = entries_[i];
    if (e.root != static_cast<BufferId>(i) || e.data[0] != nullptr || e.bytes >= kLarge) continue;
    e.data[0] = e.data[1] = next;
    next += aligned(e.bytes);
  }
  allocated_ = true;
}

int64_t Buffers::device_bytes() const {
  int64_t bytes = 0;
  for (size_t i = 0; i < entries_.size(); ++i)
    if (const Entry& e = entries_[i]; e.root == static_cast<BufferId>(i))
      bytes += aligned(e.bytes) * (has_sides(e.kind) ? 2 : 1);
  return bytes;
}

void Buffers::allocate(const cuda::Backend& gpu) {
  gpu_ = &gpu;
  const auto bytes = static_cast<size_t>(device_bytes());
  arena_ = DeviceMemory(gpu, bytes);
  auto* at = static_cast<std::byte*>(arena_.data());
  gpu.zero(at, bytes, nullptr);
  gpu.stream_synchronize(nullptr);
  for (size_t i = 0; i < entries_.size(); ++i) {
    Entry& e = entries_[i];
    if (e.root != static_cast<BufferId>(i)) continue;
    for (std::byte*& side : e.data) {
      if (&side == &e.data[1] && !has_sides(e.kind)) {
        side = e.data[0];
      } else {
        side = at;
        at += aligned(e.bytes);
      }
    }
  }
  allocated_ = true;
}

void Buffers::copy(void* to, const void* from, size_t bytes) const {
  if (wait_) wait_();
  if (gpu_)
    read_device(*gpu_, to, from, bytes);  // a copy knows its direction
  else if (bytes > 0)
    std::memcpy(to, from, bytes);
}

bool Buffers::overlap(BufferId a, BufferId b) const {
  const Entry &x = at(a), &y = at(b);
  return x.root == y.root && x.bytes > 0 && y.bytes > 0 && x.offset < y.offset + y.bytes &&
         y.offset < x.offset + x.bytes;
}

int64_t Buffers::total_bytes(BufferKind kind) const {
  int64_t sum = 0;
  for (size_t i = 0; i < entries_.size(); ++i)
    if (entries_[i].root == static_cast<BufferId>(i) && entries_[i].kind == kind)
      sum += entries_[i].bytes;
  return sum;
}

}  // namespace hlite::plan
