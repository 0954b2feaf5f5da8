// The memory of an all-to-all-v, as vectors of one type a rank.
#pragma once

#include <algorithm>
#include <vector>

#include "hugectr_lite/comm/communicator.h"

namespace hlite::test {

template <typename T>
class RankBlocks {
 public:
  // Allocates `capacity` items in a block; what is received starts as `unset`.
  RankBlocks(int ranks, size_t capacity, T unset = T())
      : capacity_(capacity),
        send_(static_cast<size_t>(ranks) * capacity),
        receive_(send_.size(), unset),
        send_bytes_(static_cast<size_t>(ranks), 0),
        received_bytes_(send_bytes_.size(), -1) {}

  void set(int to, std::span<const T> items) {
    const auto q = static_cast<size_t>(to);
    std::copy(items.begin(), items.end(), send_.begin() + static_cast<int64_t>(q * capacity_));
    send_bytes_[q] = static_cast<int64_t>(items.size_bytes());
  }
  [[nodiscard]] comm::Blocks blocks() {
    return {std::as_bytes(std::span(send_)).data(), send_bytes_.data(),
            std::as_writable_bytes(std::span(receive_)).data(), received_bytes_.data(),
            static_cast<int64_t>(capacity_ * sizeof(T))};
  }
  // What rank `from` sent, and the whole block.
  [[nodiscard]] std::span<const T> got(int from) const {
    const auto q = static_cast<size_t>(from);
    return block(from).first(static_cast<size_t>(received_bytes_[q]) / sizeof(T));
  }
  [[nodiscard]] std::span<const T> block(int from) const {
    return std::span(receive_).subspan(static_cast<size_t>(from) * capacity_, capacity_);
  }

 private:
  size_t capacity_;
  std::vector<T> send_, receive_;
  std::vector<int64_t> send_bytes_, received_bytes_;
};

}  // namespace hlite::test
