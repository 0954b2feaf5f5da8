// PeerLinks: how the GPUs of ranks reach each other's memory, and how fast.
#pragma once

#include <string>
#include <vector>

#include "hugectr_lite/comm/peer_kernels.h"

namespace hlite::comm {

class PeerLinks {
 public:
  // `devices`: of each rank; a GPU may be that of several.
  PeerLinks(const cuda::Backend& gpu, std::vector<int> devices);

  // Times copies of `bytes` from each GPU to each other one, one pair at a time, while nothing else
  // runs. Takes that much memory of every GPU meanwhile. Throws DeviceError.
  void measure(int64_t bytes);

  // Describes in a line the ranks' GPUs, and how they reach each other.
  [[nodiscard]] std::string describe() const;
  // A line a rank: how it reaches each other rank's GPU ("same", "NVLink", "bus", "none"); below,
  // where it was measured, at how many GB/s. Empty where all ranks share one GPU.
  [[nodiscard]] std::string matrix() const;
  // Names the GPUs that reach each other over the bus alone, and says what that means; empty if
  // there are none.
  [[nodiscard]] std::string warning() const;

  // Between the GPUs of two ranks.
  [[nodiscard]] kernels::PeerLink link(int from, int to) const { return links_[place(from, to)]; }
  // Bytes a second; 0: not measured.
  [[nodiscard]] double rate(int from, int to) const { return rates_[place(from, to)]; }

 private:
  [[nodiscard]] size_t ranks() const { return devices_.size(); }
  [[nodiscard]] size_t place(int from, int to) const {
    return static_cast<size_t>(from) * ranks() + static_cast<size_t>(to);
  }
  [[nodiscard]] bool same(size_t a, size_t b) const { return devices_[a] == devices_[b]; }
  template <typename Cell>
  [[nodiscard]] std::string table(const char* corner, Cell&& cell) const;
  // Returns the first rank of each device.
  [[nodiscard]] std::vector<size_t> distinct() const;
  [[nodiscard]] std::string gpus_text() const;

  const cuda::Backend& gpu_;
  const std::vector<int> devices_;
  std::vector<kernels::PeerLink> links_;  // [ranks, ranks]
  std::vector<double> rates_;             // the same
  bool measured_ = false;
};

}  // namespace hlite::comm
