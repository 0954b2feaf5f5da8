// A file as memory: pages are read when they are touched, and processes share them.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <utility>

#include "hugectr_lite/core/file.h"

namespace hlite {

// A mapping that the handler of SIGBUS knows.
struct KnownMapping;

class MappedFile {
 public:
  MappedFile() = default;
  // Maps all bytes that the file had when it was opened. Throws FileError "<path>: cannot map ...".
  // What is written to the file later shows in the memory, which only ReadFile::expect_unchanged()
  // tells: all of a later write is later by the file's times, so whoever uses bytes() asks it after
  // that.
  explicit MappedFile(const ReadFile& file);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept
      : known_(std::exchange(other.known_, nullptr)),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(known_, other.known_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  // Not to be written to.
  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, bytes_}; }
  // Returns true if a page was touched that could not be read, because the file was cut short or
  // the disk failed: zeros took its place.
  [[nodiscard]] bool has_lost_pages() const;
  // Maps all pages, so that the first access to one does not wait for a page fault: some 0.1 s a GB
  // for a file in the page cache. Asks `stop` every 16 MiB, and returns early where it says so or
  // the kernel does not know how (before Linux 5.14). Other threads may read meanwhile.
  void populate(const std::function<bool()>& stop) const;

 private:
  KnownMapping* known_ = nullptr;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace hlite
