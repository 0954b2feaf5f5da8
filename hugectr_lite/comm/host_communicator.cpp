#include "hugectr_lite/comm/host_communicator.h"

#include <algorithm>
#include <cstring>

#include "hugectr_lite/comm/hierarchical_communicator.h"
#include "hugectr_lite/core/float_loops.h"
#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/core/wide.h"

namespace hlite::comm {
namespace {

constexpr int64_t kGrainBytes = 1 << 18;  // that are worth a task

// `to` may be where the bytes are already.
void copy_bytes(const Exec& exec, ConstBytes from, std::byte* to) {
  if (from.data() == to) return;
  exec.threads().parallel_for(std::ssize(from), kGrainBytes, [&](int64_t begin, int64_t end) {
    std::memcpy(to + begin, from.data() + begin, static_cast<size_t>(end - begin));
  });
}

// sums[i] += the i-th T of `values`, or = for the first one's.
template <typename T>
void add(const Exec& exec, ConstBytes values, float* sums, bool first) {
  const auto* const x = reinterpret_cast<const T*>(values.data());
  exec.threads().parallel_for(std::ssize(values) / static_cast<int64_t>(sizeof(T)),
                              kGrainBytes / static_cast<int64_t>(sizeof(T)),
                              [&](int64_t begin, int64_t end) {
                                wide([&] {
                                  if (first)
                                    widen(x + begin, end - begin, sums + begin);
                                  else
                                    add_row(x + begin, end - begin, sums + begin);
                                });
                              });
}

void check_host(const Exec& exec) {
  HLITE_CHECK(!exec.on_gpu(), "threads and processes exchange host memory");
}

}  // namespace

void HostCommunicator::account(std::span<const ConstBytes> send, std::span<const Bytes> buffers) {
  const auto n = static_cast<size_t>(size());
  HLITE_CHECK(send.size() == n && buffers.size() == n, "{} messages, {} receive buffers, {} ranks",
              send.size(), buffers.size(), n);
  for (int q = 0; q < size(); ++q) {
    const auto bytes = std::ssize(send[static_cast<size_t>(q)]);
    if (q == rank_ || bytes == 0) continue;
    const bool intra = topology_.node_of(q) == topology_.node_of(rank_);
    (intra ? traffic_.intra_bytes : traffic_.inter_bytes) += bytes;
    ++(intra ? traffic_.intra_messages : traffic_.inter_messages);
  }
}

void HostCommunicator::account_received(int from, size_t bytes, std::span<const Bytes> buffers) {
  const bool intra = topology_.node_of(from) == topology_.node_of(rank_);
  if (from != rank_)
    (intra ? traffic_.intra_received : traffic_.inter_received) += static_cast<int64_t>(bytes);
  const size_t most = buffers[static_cast<size_t>(from)].size();
  if (bytes > most)
    raise<CommError>("rank {} sent {} bytes to rank {}, which expects at most {}", from, bytes,
                     rank_, most);
}

std::unique_ptr<Communicator> HostCommunicator::copy(Route route) {
  if (route == Route::kHierarchical) return std::make_unique<HierarchicalCommunicator>(*this);
  return part(0);
}

void HostCommunicator::move(const Exec& exec, const char* what) {
  check_host(exec);
  visit(send_, received_, [&](int from, ConstBytes got) {
    const Bytes to = received_[static_cast<size_t>(from)];
    if (got.size() != to.size())
      raise<CommError>("{}: rank {} expects {} bytes, rank {} sent {}", what, rank_, to.size(),
                       from, got.size());
    copy_bytes(exec, got, to.data());
  });
}

void HostCommunicator::broadcast(const Exec& exec, Bytes bytes, int root) {
  const auto n = static_cast<size_t>(size());
  HLITE_CHECK(root >= 0 && root < size(), "root {} of {}", root, n);
  send_.assign(n, rank_ == root ? ConstBytes(bytes) : ConstBytes());
  received_.assign(n, Bytes());
  received_[static_cast<size_t>(root)] = bytes;
  move(exec, "broadcast");
}

void HostCommunicator::gather(const Exec& exec, ConstBytes mine, Bytes all, int root) {
  const auto n = static_cast<size_t>(size()), block = mine.size();
  HLITE_CHECK(root >= 0 && root < size() && all.size() == (rank_ == root ? n * block : 0),
              "rank {}, root {} of {}: {} bytes for blocks of {}", rank_, root, n, all.size(),
              block);
  send_.assign(n, ConstBytes());
  send_[static_cast<size_t>(root)] = mine;
  received_.assign(n, Bytes());
  for (size_t q = 0; q < n && rank_ == root; ++q) received_[q] = all.subspan(q * block, block);
  move(exec, "gather");
}

void HostCommunicator::all_gather(const Exec& exec, ConstBytes mine, Bytes all, size_t unit) {
  send_.assign(static_cast<size_t>(size()), mine);
  received_.clear();
  for (int q = 0; q < size(); ++q) {
    const Slice s = slice_of(all.size() / unit, q, size());
    received_.push_back(all.subspan(s.begin * unit, s.size() * unit));
  }
  const size_t own = received_[static_cast<size_t>(rank_)].size();
  HLITE_CHECK(all.size() % unit == 0 && mine.size() == own, "{} bytes of {} in units of {}",
              mine.size(), all.size(), unit);
  move(exec, "all-gather");
}

void HostCommunicator::all_to_all_v(const Exec& exec, const Blocks& blocks) {
  const auto n = static_cast<size_t>(size()), capacity = static_cast<size_t>(blocks.capacity);
  check_host(exec);
  send_.clear();
  received_.clear();
  for (size_t q = 0; q < n; ++q) {
    HLITE_CHECK(blocks.send_bytes[q] >= 0 && blocks.send_bytes[q] <= blocks.capacity,
                "{} bytes in a block of {}", blocks.send_bytes[q], capacity);
    send_.emplace_back(blocks.send + q * capacity, static_cast<size_t>(blocks.send_bytes[q]));
    received_.emplace_back(blocks.receive + q * capacity, capacity);
  }
  visit(send_, received_, [&](int from, ConstBytes got) {
    const auto q = static_cast<size_t>(from);
    copy_bytes(exec, got, received_[q].data());
    blocks.received_bytes[q] = std::ssize(got);
  });
}

// sum[i] <- the words that rank 0, 1, ... send by send_, added in that order.
void HostCommunicator::add_up(const Exec& exec, std::span<float> sum, size_t pairs) {
  check_host(exec);
  wide_.resize(std::max(wide_.size(), 2 * pairs));
  received_.assign(static_cast<size_t>(size()), anywhere(sum.size_bytes()));
  visit(send_, received_, [&](int from, ConstBytes got) {
    if (got.size() != sum.size_bytes())
      raise<CommError>("sum over ranks: rank {} expects {} bytes, rank {} sent {}", rank_,
                       sum.size_bytes(), from, got.size());
    add<bf16>(exec, got.first(pairs * sizeof(float)), wide_.data(), from == 0);
    add<float>(exec, got.subspan(pairs * sizeof(float)), sum.data() + pairs, from == 0);
  });
  auto* const rounded = reinterpret_cast<bf16*>(sum.data());
  exec.threads().parallel_for(
      static_cast<int64_t>(2 * pairs), kGrainBytes / kFloatBytes, [&](int64_t begin, int64_t end) {
        wide([&] { narrow(wide_.data() + begin, end - begin, rounded + begin); });
      });
}

void HostCommunicator::reduce_scatter(const Exec& exec, std::span<const float> all,
                                      std::span<float> mine, size_t pairs) {
  const Slice own = slice_of(all.size(), rank_, size());
  HLITE_CHECK(mine.size() == own.size(), "{} values of {} on {} ranks", mine.size(), all.size(),
              size());
  send_.clear();
  for (int q = 0; q < size(); ++q) {
    const Slice s = slice_of(all.size(), q, size());
    send_.push_back(std::as_bytes(all.subspan(s.begin, s.size())));
  }
  add_up(exec, mine, pairs_in(own, pairs));
}

void HostCommunicator::all_reduce(const Exec& exec, std::span<float> values, AllReduce algo,
                                  size_t pairs) {
  if (size() == 1) return;
  const bool slices = algo != AllReduce::kOneShot;
  const size_t n = slices ? slice_of(values.size(), rank_, size()).size() : values.size();
  sum_.resize(std::max(sum_.size(), n));
  const auto sum = std::span(sum_).first(n);
  if (slices) {
    reduce_scatter(exec, values, sum, pairs);
    all_gather(exec, std::as_bytes(sum), std::as_writable_bytes(values), sizeof(float));
  } else {
    send_.assign(static_cast<size_t>(size()), std::as_bytes(values));
    add_up(exec, sum, pairs);
    copy_bytes(exec, std::as_bytes(sum), std::as_writable_bytes(values).data());
  }
}

}  // namespace hlite::comm
