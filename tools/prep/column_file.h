// An append-only file of the work folder, written at given places by several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "hugectr_lite/core/file.h"

namespace hlite::tools {

class ColumnFile {
 public:
  // Opens or creates the file and cuts it to `bytes`, which a run before this one is known to have
  // written. Throws FileError, DataError when there are fewer.
  ColumnFile(std::string path, int64_t bytes);
  [[nodiscard]] const std::string& path() const { return path_; }
  // Throws FileError "<path>: cannot write 4096 bytes at offset 123: <reason>".
  void write(int64_t offset, std::span<const std::byte> bytes) const;
  // fdatasync.
  void make_durable() const;

 private:
  std::string path_;
  FileDescriptor fd_;
};

}  // namespace hlite::tools
