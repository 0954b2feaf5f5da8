// A ByteSink that keeps the checksum of what passes through it.
#pragma once

#include <span>
#include <string>

#include "hugectr_lite/core/checksum.h"
#include "hugectr_lite/core/file.h"

namespace hlite::checkpoint {

class SummingSink final : public ByteSink {
 public:
  explicit SummingSink(ByteSink& to) : to_(to) {}
  [[nodiscard]] const std::string& name() const override { return to_.name(); }
  void write(std::span<const std::byte> bytes) override {
    to_.write(bytes);
    checksum_.add(bytes);
  }
  void close() override { to_.close(); }
  [[nodiscard]] FileSum sum() const { return checksum_.sum(); }

 private:
  ByteSink& to_;
  Checksum checksum_;
};

}  // namespace hlite::checkpoint
