// A running XXH3 (64 bits) of bytes that pass by, and a ByteSink that keeps one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "hugectr_lite/checkpoint/safetensors.h"
#include "hugectr_lite/core/file.h"

struct XXH3_state_s;

namespace hlite::checkpoint {

class Checksum {
 public:
  Checksum();
  void add(std::span<const std::byte> bytes);
  [[nodiscard]] FileSum sum() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
  int64_t bytes_ = 0;
};

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
