// StagedFile: a new file that is written past the page cache, whatever the sizes of its writes.
//
// Tensors of a file begin at any multiple of 4 bytes, so a WriteFile would write them through the
// page cache. There they take as much memory as the model, and the kernel's threads that write
// gigabytes of it back compete with training for processors and disk.
#pragma once

#include <string>

#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/memory.h"

namespace hlite::checkpoint {

class StagedFile final : public ByteSink {
 public:
  // Throws FileError as WriteFile does.
  explicit StagedFile(std::string path) : file_(std::move(path)) {}
  [[nodiscard]] const std::string& name() const override { return file_.name(); }
  void write(std::span<const std::byte> bytes) override;
  void close() override;

 private:
  void write_staged();

  WriteFile file_;
  HostMemory stage_;  // taken by the first write
  size_t staged_ = 0;
};

}  // namespace hlite::checkpoint
