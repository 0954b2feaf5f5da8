// A running XXH3 (64 bits) of bytes that pass by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

struct XXH3_state_s;

namespace hlite {

struct FileSum {
  int64_t bytes = 0;
  uint64_t xxh3_64 = 0;  // XXH3 (64 bits, seed 0) of all bytes
  // 16 hexadecimal digits, as `xxhsum -H3` prints them.
  [[nodiscard]] std::string digits() const;
};

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

}  // namespace hlite
