// A file of the work folder that several threads write, and read, at given places.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "hugectr_lite/core/file.h"

namespace hlite::prep {

class PlacedFile {
 public:
  // Opens or creates the file and cuts it to `bytes`, which a run before this one is known to have
  // written. Throws FileError, DataError when there are fewer.
  PlacedFile(std::string path, int64_t bytes);
  // A nameless file for data that does not fit into memory: the system removes it when the process
  // ends, however it ends. Throws FileError when the folder cannot hold one.
  static PlacedFile scratch(const std::string& folder);

  // The name in messages: the path, or "<folder>, scratch file".
  [[nodiscard]] const std::string& name() const { return name_; }
  // Both throw FileError "<name>: cannot write 4096 bytes at offset 123: <reason>".
  void write(int64_t offset, std::span<const std::byte> bytes) const;
  void read(int64_t offset, std::span<std::byte> out) const;

 private:
  PlacedFile(std::string name, FileDescriptor fd) : name_(std::move(name)), fd_(std::move(fd)) {}

  std::string name_;
  FileDescriptor fd_;
};

}  // namespace hlite::prep
