#include "hugectr_lite/comm/communicator.h"

#include <algorithm>
#include <cstring>

namespace hlite::comm {
namespace {
void copy(ConstBytes from, std::byte* to) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}
}  // namespace

void Communicator::account(std::span<const ConstBytes> send, std::span<const size_t> most) {
  const auto n = static_cast<size_t>(size());
  HLITE_CHECK(send.size() == n && most.size() == n, "{} messages, {} bounds, {} ranks", send.size(),
              most.size(), n);
  traffic_.bytes.resize(n);
  traffic_.messages.resize(n);
  traffic_.received_bytes.resize(n);
  for (size_t q = 0; q < n; ++q) {
    if (static_cast<int>(q) == rank() || send[q].empty()) continue;
    traffic_.bytes[q] += static_cast<int64_t>(send[q].size());
    ++traffic_.messages[q];
  }
}

void Communicator::account_received(int from, size_t bytes, std::span<const size_t> most) {
  if (from != rank())
    traffic_.received_bytes[static_cast<size_t>(from)] += static_cast<int64_t>(bytes);
  if (bytes > most[static_cast<size_t>(from)])
    raise<CommError>("rank {} sent {} bytes to rank {}, which expects at most {}", from, bytes,
                     rank(), most[static_cast<size_t>(from)]);
}

void Communicator::broadcast(Bytes bytes, int root) {
  const auto n = static_cast<size_t>(size());
  HLITE_CHECK(root >= 0 && root < size(), "root {} of {}", root, n);
  send_.assign(n, rank() == root ? ConstBytes(bytes) : ConstBytes());
  most_.assign(n, 0);
  most_[static_cast<size_t>(root)] = bytes.size();
  visit(send_, most_, [&](int from, ConstBytes got) {
    if (from != root || rank() == root) return;
    if (got.size() != bytes.size())
      raise<CommError>("broadcast: rank {} expects {} bytes, rank {} sent {}", rank(), bytes.size(),
                       root, got.size());
    copy(got, bytes.data());
  });
}

void Communicator::all_gather(ConstBytes mine, Bytes all) {
  const auto n = static_cast<size_t>(size());
  HLITE_CHECK(all.size() == n * mine.size(), "{} bytes for {} times {}", all.size(), n,
              mine.size());
  send_.assign(n, mine);
  most_.assign(n, mine.size());
  visit(send_, most_, [&](int from, ConstBytes got) {
    if (got.size() != mine.size())
      raise<CommError>("all-gather: rank {} has {} bytes, rank {} has {}", rank(), mine.size(),
                       from, got.size());
    copy(got, all.data() + static_cast<size_t>(from) * mine.size());
  });
}

void Communicator::all_to_all_v(std::span<const ConstBytes> send, std::span<const Bytes> receive,
                                std::span<size_t> received) {
  const auto n = static_cast<size_t>(size());
  HLITE_CHECK(receive.size() == n && received.size() == n, "{} and {} of {}", receive.size(),
              received.size(), n);
  most_.resize(n);
  for (size_t q = 0; q < n; ++q) most_[q] = receive[q].size();
  visit(send, most_, [&](int from, ConstBytes got) {
    const auto q = static_cast<size_t>(from);
    copy(got, receive[q].data());
    received[q] = got.size();
  });
}

// sum[i] <- the floats that rank 0, 1, ... sent, added in that order.
void Communicator::add_up(std::span<const ConstBytes> send, std::span<float> sum) {
  most_.assign(static_cast<size_t>(size()), sum.size_bytes());
  visit(send, most_, [&](int from, ConstBytes got) {
    if (got.size() != sum.size_bytes())
      raise<CommError>("sum over ranks: rank {} expects {} bytes, rank {} sent {}", rank(),
                       sum.size_bytes(), from, got.size());
    const auto* values = reinterpret_cast<const float*>(got.data());
    if (from == 0)
      std::copy(values, values + sum.size(), sum.begin());
    else
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  });
}

void Communicator::reduce_scatter(std::span<const float> all, std::span<float> mine) {
  const auto n = static_cast<size_t>(size());
  HLITE_CHECK(all.size() == n * mine.size(), "{} values for {} times {}", all.size(), n,
              mine.size());
  send_.resize(n);
  for (size_t q = 0; q < n; ++q)
    send_[q] = std::as_bytes(all.subspan(q * mine.size(), mine.size()));
  add_up(send_, mine);
}

void Communicator::all_reduce(std::span<float> values, AllReduce algo) {
  const int n = size();
  if (n == 1) return;
  send_.resize(static_cast<size_t>(n));
  if (algo == AllReduce::kOneShot) {
    sum_.resize(std::max(sum_.size(), values.size()));
    std::fill(send_.begin(), send_.end(), std::as_bytes(values));
    add_up(send_, std::span(sum_).first(values.size()));
    std::copy_n(sum_.begin(), values.size(), values.begin());
    return;
  }
  const Slice own = slice_of(values.size(), rank(), n);
  sum_.resize(std::max(sum_.size(), own.size()));
  for (int q = 0; q < n; ++q) {
    const Slice s = slice_of(values.size(), q, n);
    send_[static_cast<size_t>(q)] = std::as_bytes(values.subspan(s.begin, s.size()));
  }
  add_up(send_, std::span(sum_).first(own.size()));
  std::fill(send_.begin(), send_.end(), std::as_bytes(std::span(sum_).first(own.size())));
  for (int q = 0; q < n; ++q)
    most_[static_cast<size_t>(q)] = sizeof(float) * slice_of(values.size(), q, n).size();
  visit(send_, most_, [&](int from, ConstBytes got) {
    const Slice s = slice_of(values.size(), from, n);
    if (got.size() != sizeof(float) * s.size())
      raise<CommError>("all-reduce: rank {} has {} values, rank {} another number", rank(),
                       values.size(), from);
    copy(got, reinterpret_cast<std::byte*>(values.data() + s.begin));
  });
}

}  // namespace hlite::comm
