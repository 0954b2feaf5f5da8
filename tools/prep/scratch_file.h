// A nameless file for data that does not fit into memory: the system removes it when the process
// ends, however it ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "hugectr_lite/core/file.h"

namespace hlite::tools {

class ScratchFile {
 public:
  // Throws FileError when the folder cannot hold one.
  explicit ScratchFile(const std::string& folder);
  // Several threads may read and write at once. Both throw FileError "<folder>: cannot write 4096
  // bytes at offset 123 of a scratch file: <reason>".
  void write(int64_t offset, std::span<const std::byte> bytes);
  void read(int64_t offset, std::span<std::byte> out) const;

 private:
  std::string folder_;
  FileDescriptor fd_;
};

}  // namespace hlite::tools
