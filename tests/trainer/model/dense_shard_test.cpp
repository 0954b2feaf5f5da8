#include "hugectr_lite/trainer/model/dense_shard.h"

#include <map>

#include "hugectr_lite/comm/thread_communicator.h"
#include "hugectr_lite/core/half.h"
#include "tests/support/catch.h"

namespace hlite::test {
namespace {

using comm::Slice;
using plan::BufferKind;

// Small whole numbers, whose sums are exact in bf16 too.
float gradient_of(int rank, size_t i) { return static_cast<float>((rank * 5 + i * 3) % 11) - 5; }
float weight_of(int rank, size_t i) {
  return static_cast<float>(i) + 0.125f * static_cast<float>(rank);
}

// A rank's part of `count` parameters, whose weights it alone knows.
class ShardOfRank {
 public:
  ShardOfRank(comm::Communicator& world, comm::Route route, FloatType wire, size_t count)
      : ranks_{.rank = world.rank(),
               .topology = std::make_shared<const comm::Topology>(world.topology()),
               .world = &world},
        shard_(ranks_, route, wire),
        count_(count) {
    const auto bytes = static_cast<int64_t>(count * sizeof(float));
    gradients_ = buffers_.add("gradients", BufferKind::kGradient, bytes);
    weights_ = buffers_.add("weights", BufferKind::kParameter, bytes);
    shard_.declare(buffers_, gradients_, static_cast<int64_t>(count));
    state_ = buffers_.add("state", BufferKind::kState, buffers_.bytes(shard_.gradients()));
    shard_.emit_sum(plan_);
    shard_.emit_gather(plan_, weights_);
    buffers_.allocate();
    for (size_t i = 0; i < count; ++i)
      buffers_.data<float>(gradients_)[i] = gradient_of(world.rank(), i);
    for (size_t i = own().begin; i < own().end; ++i)
      buffers_.data<float>(weights_)[i] = weight_of(world.rank(), i);
  }
  void run() { plan::run_in_order(plan_, {.exec = {.pool = &pool_}, .batch = 1}); }
  [[nodiscard]] Slice own() const { return shard_.own(); }
  [[nodiscard]] std::vector<float> sums() const { return values(shard_.gradients(), own().size()); }
  [[nodiscard]] std::vector<float> weights() const { return values(weights_, count_); }
  [[nodiscard]] std::vector<float> states() const { return values(state_, own().size()); }
  // States of the parameters from the `first` on.
  [[nodiscard]] TensorRef tensor(int64_t first) const { return shard_.tensor({}, state_, first); }
  [[nodiscard]] std::vector<comm::StepTraffic> traffic() const { return shard_.traffic(1); }

 private:
  [[nodiscard]] std::vector<float> values(plan::BufferId id, size_t n) const {
    return {buffers_.data<float>(id), buffers_.data<float>(id) + n};
  }
  const comm::RankContext ranks_;
  trainer::DenseShard shard_;
  const size_t count_;
  ThreadPool pool_{1};
  plan::Buffers buffers_;
  plan::Plan plan_{buffers_};
  plan::BufferId gradients_, weights_, state_;
};

struct Got {
  Slice own = {};
  std::vector<float> sums, weights, states;
};

}  // namespace

TEST_CASE("each rank has the sums of its part of the parameters, and all have all weights",
          "[threads]") {
  for (const auto& [rows, route] : {std::pair(std::vector<int>{1}, comm::Route::kFlat),
                                    {{2}, comm::Route::kFlat},
                                    {{5}, comm::Route::kFlat},
                                    {{2, 2}, comm::Route::kHierarchical},
                                    {{3, 3}, comm::Route::kHierarchical}})
    for (const FloatType wire : {FloatType::kFloat, FloatType::kBf16})
      for (const size_t count : {0u, 2u, 6u, 64u, 94u}) {
        const comm::Topology topology(rows);
        const auto ranks = static_cast<size_t>(topology.ranks());
        INFO(ranks << " ranks, " << float_type_name(wire) << ", " << count << " parameters");
        std::vector<Got> got(ranks);
        comm::run_ranks(topology, [&, route = route](comm::Communicator& world) {
          ShardOfRank shard(world, route, wire, count);
          shard.run();
          got[static_cast<size_t>(world.rank())] = {shard.own(), shard.sums(), shard.weights(), {}};
        });
        std::map<size_t, int> owner;  // of each parameter
        for (size_t q = 0; q < ranks; ++q)
          for (size_t i = got[q].own.begin; i < got[q].own.end; ++i)
            CHECK(owner.emplace(i, static_cast<int>(q)).second);
        CHECK(owner.size() == count);
        for (size_t q = 0; q < ranks; ++q) {
          for (size_t i = got[q].own.begin; i < got[q].own.end; ++i) {
            float sum = 0;
            for (size_t r = 0; r < ranks; ++r) sum += gradient_of(static_cast<int>(r), i);
            CHECK(got[q].sums[i - got[q].own.begin] == sum);
          }
          for (size_t i = 0; i < count; ++i) CHECK(got[q].weights[i] == weight_of(owner.at(i), i));
        }
      }
}

TEST_CASE("states that lie in parts are read and written as one tensor, by any range",
          "[threads]") {
  constexpr int kRanks = 3;
  constexpr size_t kCount = 20;
  const int64_t first = 4;  // of the tensor's elements among the parameters
  std::vector<float> in;
  for (size_t i = 0; i < kCount; ++i) in.push_back(static_cast<float>(i) + 0.5f);
  std::vector<Got> got(kRanks);
  std::map<std::pair<int64_t, size_t>, std::vector<float>> ranges;  // as rank 0 reads them
  comm::run_ranks(kRanks, [&](comm::Communicator& world) {
    const ShardOfRank shard(world, comm::Route::kFlat, FloatType::kFloat, kCount);
    shard.tensor(0).put(0, in);
    const TensorRef tensor = shard.tensor(first);
    const std::vector<float> two = {-1, -2};
    tensor.put(3, two);
    for (const auto& [at, n] : {std::pair<int64_t, size_t>{0, 16}, {2, 0}, {1, 1}, {2, 9}}) {
      std::vector<float> out(n);
      tensor.get(at, out);
      if (world.rank() == 0) ranges[{at, n}] = out;
    }
    got[static_cast<size_t>(world.rank())] = {shard.own(), {}, {}, shard.states()};
  });
  in[static_cast<size_t>(first) + 3] = -1;
  in[static_cast<size_t>(first) + 4] = -2;
  CHECK(ranges.size() == 4);
  for (const auto& [range, out] : ranges) {
    const auto begin = in.begin() + first + range.first;
    CHECK(out == std::vector<float>(begin, begin + static_cast<int64_t>(range.second)));
  }
  for (const Got& of : got)
    CHECK(of.states == std::vector<float>(in.begin() + static_cast<int64_t>(of.own.begin),
                                          in.begin() + static_cast<int64_t>(of.own.end)));
}

TEST_CASE("the halves of a sharded sum send a half of an all-reduce each, gradients narrow or not",
          "[threads]") {
  for (const FloatType wire : {FloatType::kFloat, FloatType::kBf16})
    comm::run_ranks(4, [&](comm::Communicator& world) {
      ShardOfRank shard(world, comm::Route::kFlat, wire, 64);
      shard.run();
      const auto traffic = shard.traffic();
      if (traffic.size() != 2 || traffic[0].step != "dense_reduce_scatter" ||
          traffic[1].step != "dense_all_gather")
        raise("{} steps", traffic.size());
      // 16 parameters to each of three others; weights travel in float.
      const int64_t gradients = 3 * 16 * float_type_bytes(wire), weights = 3 * 16 * 4;
      if (traffic[0].totals.intra_bytes != gradients || traffic[1].totals.intra_bytes != weights)
        raise("{} and {} bytes", traffic[0].totals.intra_bytes, traffic[1].totals.intra_bytes);
    });
}

TEST_CASE("an odd number of parameters cannot travel as pairs of bf16") {
  comm::run_ranks(1, [](comm::Communicator& world) {
    CHECK_THROWS_AS(ShardOfRank(world, comm::Route::kFlat, FloatType::kBf16, 7), Error);
  });
}

}  // namespace hlite::test
