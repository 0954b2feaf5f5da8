#include "hugectr_lite/comm/peer_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "hugectr_lite/core/device_memory.h"

namespace hlite::comm {
namespace {

using kernels::PeerLink;

constexpr int kTimedCopies = 8;
constexpr size_t kNamedPairs = 4;

Exec on(const cuda::Backend& gpu, void* stream = nullptr) {
  return {.device = Device::kCuda, .cuda = &gpu, .stream = stream};
}

// A stream of the current device.
class OwnedStream {
 public:
  explicit OwnedStream(const cuda::Backend& gpu) : gpu_(gpu) { gpu.stream_create(&handle_); }
  ~OwnedStream() {
    cuda::Failure ignored;
    (void)gpu_.stream_destroy.entry(&ignored, handle_);
  }
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  [[nodiscard]] void* get() const { return handle_; }

 private:
  const cuda::Backend& gpu_;
  void* handle_ = nullptr;
};

const char* name_of(PeerLink link) {
  return link == PeerLink::kDirect ? "NVLink" : link == PeerLink::kBus ? "bus" : "none";
}

}  // namespace

PeerLinks::PeerLinks(const cuda::Backend& gpu, std::vector<int> devices)
    : gpu_(gpu), devices_(std::move(devices)), rates_(ranks() * ranks(), 0.0) {
  for (const int from : devices_)
    for (const int to : devices_)
      links_.push_back(from == to ? PeerLink::kDirect : kernels::peer_link(on(gpu_), from, to));
}

std::vector<size_t> PeerLinks::distinct() const {
  std::vector<size_t> first;
  for (size_t q = 0; q < ranks(); ++q)
    if (std::none_of(first.begin(), first.end(), [&](size_t f) { return same(f, q); }))
      first.push_back(q);
  return first;
}

void PeerLinks::measure(int64_t bytes) {
  const auto gpus = distinct();
  std::vector<DeviceMemory> memory;
  for (const size_t g : gpus) {
    gpu_.use_device(devices_[g]);
    memory.emplace_back(gpu_, static_cast<size_t>(bytes));
  }
  for (size_t a = 0; a < gpus.size(); ++a) {
    gpu_.use_device(devices_[gpus[a]]);
    const OwnedStream stream(gpu_);
    for (size_t b = 0; b < gpus.size(); ++b) {
      if (a == b || links_[gpus[a] * ranks() + gpus[b]] == PeerLink::kNone) continue;
      kernels::reach_peer(on(gpu_), devices_[gpus[b]]);
      const auto copy = [&] {
        gpu_.copy(memory[b].data(), memory[a].data(), memory[a].size(), stream.get());
      };
      copy();  // the first one opens the way
      gpu_.stream_synchronize(stream.get());
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < kTimedCopies; ++i) copy();
      gpu_.stream_synchronize(stream.get());
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      const double rate = static_cast<double>(kTimedCopies * bytes) / took.count();
      for (size_t from = 0; from < ranks(); ++from)
        for (size_t to = 0; to < ranks(); ++to)
          if (same(from, gpus[a]) && same(to, gpus[b])) rates_[from * ranks() + to] = rate;
    }
  }
  memory.clear();
  gpu_.use_device(devices_.front());
  measured_ = true;
}

std::string PeerLinks::gpus_text() const {
  if (distinct().size() == 1) return fmt::format("GPU {}", devices_.front());
  return fmt::format("GPUs {}", fmt::join(devices_, " "));
}

std::string PeerLinks::describe() const {
  const size_t gpus = distinct().size();
  if (gpus == 1) return fmt::format("{} ranks on {}: which they share", ranks(), gpus_text());
  const bool direct = std::all_of(links_.begin(), links_.end(),
                                  [](PeerLink link) { return link == PeerLink::kDirect; });
  return fmt::format("{} ranks on {}: each reaches all others, {}{}", ranks(), gpus_text(),
                     direct ? "over NVLink" : "some over the bus only, which is slow",
                     gpus < ranks() ? "; some share one" : "");
}

template <typename Cell>
std::string PeerLinks::table(const char* corner, Cell&& cell) const {
  std::string text = fmt::format("  {:10}", corner);
  for (size_t to = 0; to < ranks(); ++to) text += fmt::format("{:>8}", to);
  for (size_t from = 0; from < ranks(); ++from) {
    text += fmt::format("\n  {:<10}", fmt::format("rank {}", from));
    for (size_t to = 0; to < ranks(); ++to)
      text += fmt::format("{:>8}", from == to ? "-" : cell(from, to));
  }
  return text;
}

std::string PeerLinks::matrix() const {
  if (distinct().size() < 2) return "";
  std::string text = table("to rank", [&](size_t from, size_t to) -> std::string {
    return same(from, to) ? "same" : name_of(links_[from * ranks() + to]);
  });
  if (measured_)
    text += "\n" + table("GB/s to", [&](size_t from, size_t to) -> std::string {
              const double rate = rates_[from * ranks() + to];
              return rate > 0 ? fmt::format("{:.1f}", rate * 1e-9) : "-";
            });
  return text;
}

std::string PeerLinks::warning() const {
  std::vector<std::string> pairs;
  const auto gpus = distinct();
  for (size_t a = 0; a < gpus.size(); ++a)
    for (size_t b = a + 1; b < gpus.size(); ++b)
      if (links_[gpus[a] * ranks() + gpus[b]] == PeerLink::kBus)
        pairs.push_back(fmt::format("{}-{}", devices_[gpus[a]], devices_[gpus[b]]));
  if (pairs.empty()) return "";
  const size_t n = pairs.size(), all = gpus.size() * (gpus.size() - 1) / 2;
  if (n > kNamedPairs) {
    pairs.resize(kNamedPairs);
    pairs.emplace_back("...");
  }
  return fmt::format(
      "{} of {} pairs of GPUs reach each other over the bus (PCIe) only: {}; expected NVLink, "
      "since exchanges and sums wait for the slowest pair: eight A100 on a bus were seen to train "
      "a DLRM 48 times slower than with NVLink",
      n, all, fmt::join(pairs, ", "));
}

}  // namespace hlite::comm
