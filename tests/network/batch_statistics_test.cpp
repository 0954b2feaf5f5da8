// Columns normalised over the batch of all ranks, and the running values that follow it. The other
// ranks' sums come from a gather that knows their samples.
#include "hugectr_lite/network/batch_statistics.h"

#include <algorithm>
#include <numeric>

#include "hugectr_lite/core/thread_pool.h"
#include "tests/support/compare.h"

namespace hlite::test {
namespace {

using network::LayerIo;
using network::Phase;
using plan::BufferKind;

constexpr int64_t kRankRows = 5, kStatisticsColumns = 3;  // of each rank

// Rank 1 of 2: `all` is the sums of the other rank, followed by those of this one.
class OtherRank final : public network::RankGather {
 public:
  explicit OtherRank(std::vector<double> sums) : sums_(std::move(sums)) {}
  [[nodiscard]] int ranks() const override { return 2; }
  void add_gather_step(plan::Plan& plan, const std::string& name, plan::BufferId mine,
                       plan::BufferId all) override {
    plan.add({.name = name,
              .reads = {mine},
              .writes = {all},
              .run = [this, mine, all, &buffers = plan.buffers()](const plan::StepContext&) {
                double* const to = buffers.data<double>(all);
                std::copy(sums_.begin(), sums_.end(), to);
                std::copy_n(buffers.data<double>(mine), sums_.size(), to + sums_.size());
              }});
  }

 private:
  std::vector<double> sums_;
};

// Sums of x and x^2 down the columns.
std::vector<double> sums_of_columns(const std::vector<float>& x) {
  std::vector<double> sums(2 * kStatisticsColumns);
  for (size_t i = 0; i < x.size(); ++i) {
    sums[i % kStatisticsColumns] += x[i];
    sums[kStatisticsColumns + i % kStatisticsColumns] += static_cast<double>(x[i]) * x[i];
  }
  return sums;
}

std::vector<float> rank_samples(uint64_t stream) {
  std::vector<float> x(kRankRows * kStatisticsColumns);
  fill_random(x, stream, -2, 3);
  return x;
}

// The buffers that a network gives a layer which asked for statistics.
struct StatisticsPlace {
  plan::Buffers buffers;
  LayerIo io;
  std::vector<float> x = rank_samples(1), other = rank_samples(2);
  OtherRank gather{sums_of_columns(other)};

  StatisticsPlace() {
    network::LayerShape shape;
    network::BatchStatistics::ask_for(shape, kStatisticsColumns);
    const auto add = [&](const char* name, int64_t bytes) {
      return buffers.add(name, BufferKind::kState, bytes);
    };
    const auto of_doubles = [](int64_t n) { return n * static_cast<int64_t>(sizeof(double)); };
    io.bottoms = {{.name = "x",
                   .dims = {kStatisticsColumns},
                   .value = add("x", kRankRows * kStatisticsColumns * 4)}};
    io.fixed = add("fixed", shape.fixed_bytes);
    io.workspace = add("workspace", shape.workspace_bytes);
    for (const auto& of : shape.running)
      io.running.push_back(add(of.suffix.c_str(), network::elements(of.dims) * 4));
    for (const int64_t n : shape.rank_sums) {
      const std::string name = "sums" + std::to_string(io.rank_sums.size());
      io.rank_sums.push_back(
          {add(name.c_str(), of_doubles(n)), add((name + ".all").c_str(), of_doubles(2 * n))});
    }
    io.capacity_exceeded = add("void", sizeof(int32_t));
    io.gather = &gather;
    buffers.allocate();
    std::copy(x.begin(), x.end(), buffers.data<float>(io.bottoms[0].value));
    *buffers.data<int32_t>(io.capacity_exceeded) = 0;
    std::fill_n(buffers.data<float>(io.running[0]), kStatisticsColumns, 0.5f);
    std::fill_n(buffers.data<float>(io.running[1]), kStatisticsColumns, 2.0f);
  }
  void run(const plan::Plan& plan, ThreadPool& pool) const {
    plan::run_in_order(plan, {.exec = {.device = Device::kCpu, .pool = &pool},
                              .batch = kRankRows,
                              .input = {},
                              .global_batch = 2 * kRankRows});
  }
};

// Mean, biased variance and unbiased one of a column of both ranks' samples.
struct ColumnMoments {
  double mean = 0, variance = 0, unbiased = 0;
};
ColumnMoments moments_of(const StatisticsPlace& p, int64_t column) {
  std::vector<double> all;
  for (const auto* of : {&p.x, &p.other})
    for (int64_t i = 0; i < kRankRows; ++i)
      all.push_back((*of)[static_cast<size_t>(i * kStatisticsColumns + column)]);
  const auto n = static_cast<double>(all.size());
  ColumnMoments m;
  m.mean = std::accumulate(all.begin(), all.end(), 0.0) / n;
  for (const double v : all) m.variance += (v - m.mean) * (v - m.mean) / n;
  m.unbiased = m.variance * n / (n - 1);
  return m;
}

// The step of a layer that takes the statistics.
void add_make(plan::Plan& plan, const network::BatchStatistics& s, Phase phase,
              ops::ColumnStatistics& to) {
  network::add_typed_step(
      plan, FloatType::kFloat, {.name = "make", .reads = s.sources(phase), .writes = {s.fixed()}},
      [&to, s, phase]<typename T>(const network::StepViews<T>& v) { to = s.make(v, phase); });
}

}  // namespace

TEST_CASE("statistics of a batch are those of all ranks' samples, and running ones follow them") {
  StatisticsPlace p;
  ThreadPool pool(2);
  constexpr double kEpsilon = 0.25, kFactor = 0.125;
  const network::BatchStatistics s(p.io, kEpsilon);
  plan::Plan train(p.buffers), eval(p.buffers);
  ops::ColumnStatistics of_batch, of_running;
  s.emit_sums(train, p.io, "bn", Phase::kTrain);
  add_make(train, s, Phase::kTrain, of_batch);
  s.emit_running(train, p.io, "bn", kFactor);
  train.finalize();
  s.emit_sums(eval, p.io, "bn", Phase::kEval);
  add_make(eval, s, Phase::kEval, of_running);
  eval.finalize();
  CHECK(eval.steps().size() == 1);  // evaluation sums nothing

  const float* const mean = p.buffers.data<float>(p.io.running[0]);
  const float* const variance = p.buffers.data<float>(p.io.running[1]);
  p.run(train, pool);
  for (int64_t j = 0; j < kStatisticsColumns; ++j) {
    const ColumnMoments m = moments_of(p, j);
    CHECK(of_batch.mean.data()[j] == Approx(m.mean).epsilon(1e-6));
    CHECK(of_batch.variance.data()[j] == Approx(m.variance).epsilon(1e-6));
    CHECK(of_batch.rate.data()[j] == Approx(1 / std::sqrt(m.variance + kEpsilon)).epsilon(1e-6));
    CHECK(mean[j] == Approx(0.5 * (1 - kFactor) + kFactor * m.mean).epsilon(1e-6));
    CHECK(variance[j] == Approx(2 * (1 - kFactor) + kFactor * m.unbiased).epsilon(1e-6));
  }
  p.run(eval, pool);
  for (int64_t j = 0; j < kStatisticsColumns; ++j) {
    CHECK(of_running.mean.data()[j] == mean[j]);
    CHECK(of_running.variance.data()[j] == variance[j]);
    CHECK(of_running.rate.data()[j] == Approx(1 / std::sqrt(variance[j] + kEpsilon)).epsilon(1e-6));
  }
}

TEST_CASE("a run that will be repeated leaves the running values alone") {
  StatisticsPlace p;
  ThreadPool pool(1);
  const network::BatchStatistics s(p.io, 1e-5);
  plan::Plan train(p.buffers);
  s.emit_sums(train, p.io, "bn", Phase::kTrain);
  ops::ColumnStatistics of_batch;
  add_make(train, s, Phase::kTrain, of_batch);
  s.emit_running(train, p.io, "bn", 0.5);
  train.finalize();
  *p.buffers.data<int32_t>(p.io.capacity_exceeded) = 1;
  p.run(train, pool);
  const float* const mean = p.buffers.data<float>(p.io.running[0]);
  const float* const variance = p.buffers.data<float>(p.io.running[1]);
  CHECK(std::all_of(mean, mean + kStatisticsColumns, [](float m) { return m == 0.5f; }));
  CHECK(std::all_of(variance, variance + kStatisticsColumns, [](float v) { return v == 2.0f; }));
  *p.buffers.data<int32_t>(p.io.capacity_exceeded) = 0;
  p.run(train, pool);
  CHECK(mean[0] != 0.5f);
  CHECK(variance[0] != 2.0f);
}

}  // namespace hlite::test
