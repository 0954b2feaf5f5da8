// What every Communicator must do, as a function of one rank: the same checks run on threads and
// under mpirun. Expected values are computed from the definition; failures are thrown, so that a
// rank that fails ends the others.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "hugectr_lite/comm/communicator.h"
#include "hugectr_lite/core/random.h"

namespace hlite::test {

inline void require(bool good, const char* what, const comm::Communicator& c, int64_t n) {
  if (!good) raise("{} is wrong on rank {} of {}, size {}", what, c.rank(), c.size(), n);
}

// Element i of rank q's data in experiment `stream`: of very different magnitudes, so that sums
// depend on their order.
inline float value_of(int q, size_t i, uint64_t stream) {
  const uint32_t w = random::word(7, stream * 1000 + static_cast<uint64_t>(q), i);
  return (random::uniform(w) - 0.5f) * static_cast<float>(1 << (w & 15));
}
inline std::vector<float> values_of(int q, size_t n, uint64_t stream) {
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = value_of(q, i, stream);
  return v;
}
inline float sum_of(int ranks, size_t i, uint64_t stream) {
  float sum = value_of(0, i, stream);
  for (int q = 1; q < ranks; ++q) sum += value_of(q, i, stream);
  return sum;
}

inline void check_broadcast(comm::Communicator& c) {
  for (int root = 0; root < c.size(); ++root)
    for (const size_t n : {0, 1, 13, 4099}) {
      const auto wanted = values_of(root, n, 1);
      auto mine = values_of(c.rank(), n, 1);
      c.broadcast(std::as_writable_bytes(std::span(mine)), root);
      require(mine == wanted, "broadcast", c, static_cast<int64_t>(n));
    }
}

inline void check_all_gather(comm::Communicator& c) {
  for (const size_t n : {0, 1, 13, 4099}) {
    const auto mine = values_of(c.rank(), n, 2);
    std::vector<float> all(n * static_cast<size_t>(c.size()), -1);
    c.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
    bool good = true;
    for (int q = 0; q < c.size(); ++q)
      for (size_t i = 0; i < n; ++i)
        good &= all[static_cast<size_t>(q) * n + i] == value_of(q, i, 2);
    require(good, "all-gather", c, static_cast<int64_t>(n));
  }
}

// Numbers that rank `from` sends to rank `to`: some messages are empty.
inline size_t length_of(int from, int to, size_t scale) {
  return (static_cast<size_t>(from * 7 + to * 3) % 5) * scale + static_cast<size_t>(from == to);
}

inline void check_all_to_all(comm::Communicator& c) {
  const auto ranks = static_cast<size_t>(c.size());
  for (const size_t scale : {0, 1, 1031}) {
    std::vector<std::vector<float>> out(ranks), in(ranks);
    std::vector<comm::ConstBytes> send(ranks);
    std::vector<comm::Bytes> receive(ranks);
    std::vector<size_t> received(ranks, 99);
    for (int q = 0; q < c.size(); ++q) {
      const auto at = static_cast<size_t>(q);
      out[at] = values_of(c.rank() * 100 + q, length_of(c.rank(), q, scale), 3);
      in[at].assign(4 * scale + 1, -1);
      send[at] = std::as_bytes(std::span(out[at]));
      receive[at] = std::as_writable_bytes(std::span(in[at]));
    }
    c.all_to_all_v(send, receive, received);
    bool good = true;
    for (int q = 0; q < c.size(); ++q) {
      const auto at = static_cast<size_t>(q);
      const auto wanted = values_of(q * 100 + c.rank(), length_of(q, c.rank(), scale), 3);
      good &= received[at] == wanted.size() * sizeof(float);
      good &= std::equal(wanted.begin(), wanted.end(), in[at].begin());
      // Nothing is written behind what was sent.
      good &= std::all_of(in[at].begin() + static_cast<int64_t>(wanted.size()), in[at].end(),
                          [](float v) { return v == -1; });
    }
    require(good, "all-to-all", c, static_cast<int64_t>(scale));
  }
}

inline void check_reductions(comm::Communicator& c) {
  for (const size_t n : {0, 1, 3, 7, 64, 5003}) {
    std::vector<float> wanted(n);
    for (size_t i = 0; i < n; ++i) wanted[i] = sum_of(c.size(), i, 4);
    for (const auto algo : {comm::AllReduce::kTwoPhase, comm::AllReduce::kOneShot}) {
      auto mine = values_of(c.rank(), n, 4);
      c.all_reduce(mine, algo);
      require(mine == wanted, "all-reduce", c, static_cast<int64_t>(n));
    }
    const auto ranks = static_cast<size_t>(c.size());
    const auto all = values_of(c.rank(), n * ranks, 5);
    std::vector<float> mine(n, -1);
    c.reduce_scatter(all, mine);
    bool good = true;
    for (size_t i = 0; i < n; ++i)
      good &= mine[i] == sum_of(c.size(), static_cast<size_t>(c.rank()) * n + i, 5);
    require(good, "reduce-scatter", c, static_cast<int64_t>(n));
  }
}

// Even and odd ranks apart; then collectives inside, at different lengths in the two halves.
inline void check_split(comm::Communicator& c) {
  const auto half = c.split(c.rank() % 2);
  require(half->rank() == c.rank() / 2, "place after split", c, half->rank());
  require(half->size() == (c.size() + 1 - c.rank() % 2) / 2, "size after split", c, half->size());
  std::vector<float> ones(static_cast<size_t>(3 + c.rank() % 2), 1.0f);
  half->all_reduce(ones);
  for (const float v : ones)
    require(v == static_cast<float>(half->size()), "sum after split", c, half->size());
  const auto copy = c.split(0);
  require(copy->rank() == c.rank() && copy->size() == c.size(), "copy", c, copy->size());
  check_all_to_all(*half);
  check_reductions(*copy);
}

inline void check_everything(comm::Communicator& c) {
  check_broadcast(c);
  check_all_gather(c);
  check_all_to_all(c);
  check_reductions(c);
  check_split(c);
  c.barrier();
}

}  // namespace hlite::test
