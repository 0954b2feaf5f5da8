// Borrowed bytes as a ByteSource.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"

namespace hlite::test {

class MemoryBytes final : public ByteSource {
 public:
  MemoryBytes(std::string name, std::span<const std::byte> bytes)
      : name_(std::move(name)), bytes_(bytes) {}
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] int64_t size() const override { return static_cast<int64_t>(bytes_.size()); }
  void read(int64_t offset, std::span<std::byte> out) const override {
    if (offset < 0 || offset > size() || size() - offset < static_cast<int64_t>(out.size()))
      raise<FileError>("{}: cannot read {} bytes at offset {}: the file ends at {}", name_,
                       out.size(), offset, size());
    std::copy_n(bytes_.begin() + offset, out.size(), out.begin());
  }

 private:
  std::string name_;
  std::span<const std::byte> bytes_;
};

}  // namespace hlite::test
