// A file as memory: pages are read when they are touched, and processes share them.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <utility>

namespace hlite {

class MappedFile {
 public:
  MappedFile() = default;
  // Throws FileError "<path>: cannot open: <reason>" or "<path>: cannot map ...". What replaces the
  // file later (rename) changes nothing; a file that is cut short under its mapping ends the
  // process when a lost page is touched.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  // Not to be written to.
  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, bytes_}; }
  // Maps all pages, so that the first access to one does not wait for a page fault: some 0.1 s a GB
  // for a file in the page cache. Asks `stop` every 16 MiB, and returns early where it says so or
  // the kernel does not know how (before Linux 5.14). Other threads may read meanwhile.
  void populate(const std::function<bool()>& stop) const;

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace hlite
