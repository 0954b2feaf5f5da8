// What every Communicator must do, as a function of one rank: the same checks run on threads and
// under mpirun. Expected values are computed from the definition; failures are thrown, so that a
// rank that fails ends the others.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "hugectr_lite/comm/communicator.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/random.h"
#include "tests/comm/rank_blocks.h"

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

// Rank r's place for operations: one or two threads.
class RankExec {
 public:
  explicit RankExec(const comm::Communicator& c) : pool_(1 + c.rank() % 2) {}
  operator Exec() { return {.pool = &pool_}; }  // NOLINT: implicit on purpose

 private:
  ThreadPool pool_;
};

inline void check_broadcast(comm::Communicator& c) {
  RankExec exec(c);
  for (int root = 0; root < c.size(); ++root)
    for (const size_t n : {0, 1, 13, 4099}) {
      const auto wanted = values_of(root, n, 1);
      auto mine = values_of(c.rank(), n, 1);
      c.broadcast(exec, std::as_writable_bytes(std::span(mine)), root);
      require(mine == wanted, "broadcast", c, static_cast<int64_t>(n));
    }
}

inline void check_all_gather(comm::Communicator& c) {
  RankExec exec(c);
  for (const size_t n : {0, 1, 13, 4099}) {
    const auto mine = values_of(c.rank(), n, 2);
    std::vector<float> all(n * static_cast<size_t>(c.size()), -1);
    c.all_gather(exec, std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
    bool good = true;
    for (int q = 0; q < c.size(); ++q)
      for (size_t i = 0; i < n; ++i)
        good &= all[static_cast<size_t>(q) * n + i] == value_of(q, i, 2);
    require(good, "all-gather", c, static_cast<int64_t>(n));
  }
}

// Slices of a length that the ranks need not divide: what reduce_scatter() leaves.
inline void check_slices(comm::Communicator& c) {
  RankExec exec(c);
  for (const size_t n : {0, 1, 3, 7, 64, 5003}) {
    const auto wanted = values_of(99, n, 6);
    const comm::Slice own = comm::slice_of(n, c.rank(), c.size());
    std::vector<float> all(n, -1);
    c.all_gather(exec, std::as_bytes(std::span(wanted).subspan(own.begin, own.size())),
                 std::as_writable_bytes(std::span(all)), sizeof(float));
    require(all == wanted, "all-gather of slices", c, static_cast<int64_t>(n));
    std::vector<float> mine(own.size(), -1);
    c.reduce_scatter(exec, values_of(c.rank(), n, 7), mine);
    bool good = true;
    for (size_t i = 0; i < mine.size(); ++i) good &= mine[i] == sum_of(c.size(), own.begin + i, 7);
    require(good, "reduce-scatter of slices", c, static_cast<int64_t>(n));
  }
}

inline void check_gather(comm::Communicator& c) {
  RankExec exec(c);
  for (int root = 0; root < c.size(); ++root)
    for (const size_t n : {0, 1, 13, 4099}) {
      const auto mine = values_of(c.rank(), n, 8);
      std::vector<float> all(c.rank() == root ? n * static_cast<size_t>(c.size()) : 0, -1);
      c.gather(exec, std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)), root);
      bool good = true;
      for (size_t i = 0; i < all.size(); ++i)
        good &= all[i] == value_of(static_cast<int>(i / n), i % n, 8);
      require(good, "gather", c, static_cast<int64_t>(n));
    }
}

// Numbers that rank `from` sends to rank `to`: some messages are empty.
inline size_t length_of(int from, int to, size_t scale) {
  return (static_cast<size_t>(from * 7 + to * 3) % 5) * scale + static_cast<size_t>(from == to);
}

inline void check_all_to_all(comm::Communicator& c) {
  RankExec exec(c);
  for (const size_t scale : {0, 1, 1031})
    for (const uint64_t stream : {3, 9}) {
      RankBlocks<float> blocks(c.size(), 4 * scale + 1, -1.0f);
      for (int q = 0; q < c.size(); ++q)
        blocks.set(q, values_of(c.rank() * 100 + q, length_of(c.rank(), q, scale), stream));
      c.all_to_all_v(exec, blocks.blocks());
      bool good = true;
      for (int q = 0; q < c.size(); ++q) {
        const auto wanted = values_of(q * 100 + c.rank(), length_of(q, c.rank(), scale), stream);
        const auto got = blocks.got(q), tail = blocks.block(q).subspan(got.size());
        good &= std::equal(got.begin(), got.end(), wanted.begin(), wanted.end());
        // Nothing is written after the bytes that were sent.
        good &= std::all_of(tail.begin(), tail.end(), [](float v) { return v == -1; });
      }
      require(good, "all-to-all", c, static_cast<int64_t>(scale));
    }
}

inline void check_reductions(comm::Communicator& c) {
  RankExec exec(c);
  for (const size_t n : {0, 1, 3, 7, 64, 5003}) {
    std::vector<float> wanted(n);
    for (size_t i = 0; i < n; ++i) wanted[i] = sum_of(c.size(), i, 4);
    for (const auto algo : {comm::AllReduce::kTwoPhase, comm::AllReduce::kOneShot}) {
      auto mine = values_of(c.rank(), n, 4);
      c.all_reduce(exec, mine, algo);
      require(mine == wanted, "all-reduce", c, static_cast<int64_t>(n));
    }
    const auto ranks = static_cast<size_t>(c.size());
    const auto all = values_of(c.rank(), n * ranks, 5);
    std::vector<float> mine(n, -1);
    c.reduce_scatter(exec, all, mine);
    bool good = true;
    for (size_t i = 0; i < n; ++i)
      good &= mine[i] == sum_of(c.size(), static_cast<size_t>(c.rank()) * n + i, 5);
    require(good, "reduce-scatter", c, static_cast<int64_t>(n));
  }
}

// Words of which the first `pairs` hold two bf16 each, and the others a float.
inline std::vector<float> words_of(const std::vector<float>& narrow,
                                   const std::vector<float>& floats) {
  std::vector<uint16_t> halves;
  for (const float v : narrow) halves.push_back(from_float<bf16>(v).bits);
  std::vector<float> words(narrow.size() / 2);
  if (!words.empty()) std::memcpy(words.data(), halves.data(), 2 * halves.size());
  words.insert(words.end(), floats.begin(), floats.end());
  return words;
}
inline std::vector<float> packed_values(int q, size_t pairs, size_t floats) {
  return words_of(values_of(q, 2 * pairs, 10), values_of(q, floats, 11));
}
inline float rounded(float x) { return to_float(from_float<bf16>(x)); }
// Their sum over ranks: of what each rank rounds, rounded once.
inline std::vector<float> packed_sums(int ranks, size_t pairs, size_t floats) {
  std::vector<float> narrow, exact;
  for (size_t i = 0; i < 2 * pairs; ++i) {
    float sum = rounded(value_of(0, i, 10));
    for (int q = 1; q < ranks; ++q) sum += rounded(value_of(q, i, 10));
    narrow.push_back(sum);
  }
  for (size_t i = 0; i < floats; ++i) exact.push_back(sum_of(ranks, i, 11));
  return words_of(narrow, exact);
}
// As bits: two bf16 may be a NaN as a float.
inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

inline void check_packed_sums(comm::Communicator& c) {
  RankExec exec(c);
  for (const auto& [pairs, floats] :
       {std::pair<size_t, size_t>{0, 3}, {1, 0}, {3, 2}, {64, 16}, {2001, 5}}) {
    const auto wanted = packed_sums(c.size(), pairs, floats);
    const auto n = static_cast<int64_t>(wanted.size());
    for (const auto algo : {comm::AllReduce::kTwoPhase, comm::AllReduce::kOneShot}) {
      auto words = packed_values(c.rank(), pairs, floats);
      c.all_reduce(exec, words, algo, pairs);
      require(same_bits(words, wanted), "all-reduce of bf16", c, n);
    }
    const comm::Slice own = comm::slice_of(wanted.size(), c.rank(), c.size());
    std::vector<float> mine(own.size());
    c.reduce_scatter(exec, packed_values(c.rank(), pairs, floats), mine, pairs);
    require(same_bits(mine, std::span(wanted).subspan(own.begin, own.size())),
            "reduce-scatter of bf16", c, n);
  }
}

// Even and odd ranks apart; then collectives inside, at different lengths in the two halves.
inline void check_split(comm::Communicator& c) {
  const auto half = c.split(c.rank() % 2);
  require(half->rank() == c.rank() / 2, "place after split", c, half->rank());
  require(half->size() == (c.size() + 1 - c.rank() % 2) / 2, "size after split", c, half->size());
  std::vector<float> ones(static_cast<size_t>(3 + c.rank() % 2), 1.0f);
  half->all_reduce(RankExec(c), ones);
  for (const float v : ones)
    require(v == static_cast<float>(half->size()), "sum after split", c, half->size());
  const auto copy = c.copy(comm::Route::kFlat);
  require(copy->rank() == c.rank() && copy->size() == c.size(), "copy", c, copy->size());
  check_all_to_all(*half);
  check_reductions(*copy);
}

// The sum of the local ranks on each node, added up over nodes.
inline float sum_by_node(const comm::Topology& t, size_t i, uint64_t stream) {
  float sum = 0;
  for (int node = 0; node < t.nodes(); ++node) {
    float part = value_of(t.rank_at(node, 0), i, stream);
    for (int local = 1; local < t.ranks_on(node); ++local)
      part += value_of(t.rank_at(node, local), i, stream);
    sum = node == 0 ? part : sum + part;
  }
  return sum;
}

// Where all nodes have as many ranks.
inline void check_hierarchical(comm::Communicator& world) {
  if (!world.topology().uniform()) return;
  RankExec exec(world);
  const auto c = world.copy(comm::Route::kHierarchical);
  require(c->rank() == world.rank() && c->size() == world.size(), "copy", world, c->size());
  check_broadcast(*c);
  check_all_gather(*c);
  check_slices(*c);
  check_gather(*c);
  check_all_to_all(*c);
  for (const auto algo : {comm::AllReduce::kTwoPhase, comm::AllReduce::kOneShot})
    for (const size_t n : {0, 1, 2, 3, 7, 64, 1001}) {
      auto values = values_of(c->rank(), n, 4);
      c->all_reduce(exec, values, algo);
      bool good = true;
      for (size_t i = 0; i < n; ++i) good &= values[i] == sum_by_node(c->topology(), i, 4);
      require(good, "hierarchical all-reduce", *c, static_cast<int64_t>(n));
    }
}

inline void check_everything(comm::Communicator& c) {
  check_broadcast(c);
  check_all_gather(c);
  check_slices(c);
  check_gather(c);
  check_all_to_all(c);
  check_reductions(c);
  check_packed_sums(c);
  check_split(c);
  check_hierarchical(c);
  c.barrier();
}

}  // namespace hlite::test
