// Times training iterations of a DLRM on data in memory, step by step, beside the ceilings of the
// machine measured in the same run.
//
//   train_bench [--shape kaggle|mlperf] [--optimizer SGD|AdaGrad] [--threads N] [--batch N]
//               [--seconds S] [--alpha A] [--quiet]
//
// Shapes: kaggle: bottom 13-512-256-64-16, top 512-256-1, 26 tables x 16, Kaggle cardinalities of
// at most 1,000,000. mlperf: bottom 13-512-256-128, top 1024-1024-512-256-1, 26 tables x 128,
// Criteo Terabyte cardinalities of at most 200,000. Keys: Zipf (alpha), ranks scattered over each
// table. Prints a table on standard error and one JSON object on standard output. The floor of a
// step is the larger of its FLOPs at the rate of large matrix products and its bytes at the rate of
// random row access (rows of this shape's width), both measured here.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>

#include "data_reader/memory_source.h"
#include "embedding/lookup.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/ops/gemm.h"
#include "hugectr_lite/trainer/model.h"

namespace hlite {
namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Shape {
  std::vector<int64_t> bottom, top, rows;
  int64_t width;
};

Shape shape_named(const std::string& name) {
  Shape kaggle{{512, 256, 64, 16},
               {512, 256, 1},
               {1460,  583,  10131227, 2202608, 305, 24,     12517,   633,   3,
                93145, 5683, 8351593,  3194,    27,  14992,  5461306, 10,    5652,
                2173,  4,    7046547,  18,      15,  286181, 105,     142572},
               16};
  Shape mlperf{{512, 256, 128},
               {1024, 1024, 512, 256, 1},
               {39884406, 39043,    17289,    7420,     20263,  3,     7120, 1543, 63,
                38532951, 2953546,  403346,   10,       2208,   11938, 155,  4,    976,
                14,       39979771, 25641295, 39664984, 585935, 12972, 108,  36},
               128};
  Shape shape = name == "kaggle" ? kaggle : mlperf;
  const int64_t cap = name == "kaggle" ? 1'000'000 : 200'000;
  for (int64_t& r : shape.rows) r = std::min(r, cap);
  return shape;
}

std::string config_text(const Shape& s, int64_t batch, const std::string& optimizer) {
  std::string layers;
  const auto chain = [&](const std::string& name, const std::vector<int64_t>& widths,
                         std::string bottom, bool last_relu) {
    for (size_t i = 0; i < widths.size(); ++i) {
      const bool first = i == 0, last = i + 1 == widths.size();
      const std::string self = fmt::format("{}{}", name, i + 1);
      const std::string four = fmt::format(R"(["{0}_o","{0}_m","{0}_r","{0}_d"])", self);
      layers += fmt::format(
          R"(,{{"name":"{}","type":"FusedInnerProduct","position":"{}","bottom":{},"top":{},"activation":"{}","fc_param":{{"num_output":{}}}}})",
          self,
          first  ? "Head"
          : last ? "Tail"
                 : "Body",
          bottom, last ? "\"" + name + "\"" : four, last && !last_relu ? "None" : "Relu",
          widths[i]);
      bottom = four;
    }
  };
  chain("bot", s.bottom, "\"dense\"", true);
  layers += R"(,{"name":"inter","type":"Interaction","bottom":["bot","emb"],"top":"inter"})";
  chain("z", s.top, "\"inter\"", false);
  const std::string block =
      optimizer == "SGD"
          ? R"("sgd_hparam":{"learning_rate":0.01})"
          : R"("adagrad_hparam":{"learning_rate":0.01,"epsilon":1e-8,"initial_accumulator":0})";
  return fmt::format(
      R"({{"solver":{{"seed":1,"lr_policy":"fixed","display":1000,"max_iter":1000000,"gpu":[0],"batchsize":{0},"snapshot":1000000000,"snapshot_prefix":"./b_"}},
"optimizer":{{"type":"{1}","update_type":"Local",{2}}},
"layers":[{{"name":"data","type":"Data","format":"Raw","source":"none","eval_source":"none","check":"None","num_samples":1,"eval_num_samples":1,
"label":{{"top":"label","label_dim":1}},"dense":{{"top":"dense","dense_dim":13}},
"sparse":[{{"top":"keys","type":"DistributedSlot","max_feature_num_per_sample":26,"max_nnz":1,"slot_num":26}}]}},
{{"name":"emb","type":"HybridSparseEmbedding","bottom":"keys","top":"emb","sparse_embedding_hparam":{{"slot_size_array":[{3}],"embedding_vec_size":{4},"combiner":0}}}}
{5},{{"name":"loss","type":"BinaryCrossEntropyLoss","bottom":["z","label"],"top":"loss"}}]}})",
      batch, optimizer, block, fmt::join(s.rows, ","), s.width, layers);
}

// Keys whose frequency falls as rank^-alpha; the rank is scattered over the table by an affine map.
class ZipfKeys {
 public:
  ZipfKeys(int64_t rows, double alpha, uint64_t stream)
      : rows_(rows), stream_(stream), cdf_(static_cast<size_t>(rows)) {
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r)
      cdf_[static_cast<size_t>(r)] = sum += std::pow(static_cast<double>(r + 1), -alpha);
    for (double& c : cdf_) c /= sum;
    step_ = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(rows) * 0.6180339887));
    while (std::gcd(step_, rows) != 1) ++step_;
  }
  uint32_t key(uint64_t index) const {
    const double u = (random::word(7, stream_, index) + 0.5) * 0x1p-32;
    const auto rank =
        std::min<int64_t>(std::upper_bound(cdf_.begin(), cdf_.end(), u) - cdf_.begin(), rows_ - 1);
    return static_cast<uint32_t>(rank * step_ % rows_);
  }

 private:
  int64_t rows_, step_ = 1;
  uint64_t stream_;
  std::vector<double> cdf_;
};

std::vector<data::BatchBuffer> zipf_batches(const Shape& shape, int64_t count, int64_t batch,
                                            double alpha) {
  auto batches = data::random_batches(count, batch, 13, 13, shape.rows, 3);
  for (size_t s = 0; s < shape.rows.size(); ++s) {
    const ZipfKeys keys(shape.rows[s], alpha, s);
    for (int64_t i = 0; i < count * batch; ++i)
      batches[static_cast<size_t>(i / batch)].batch().keys(i % batch, static_cast<int64_t>(s)) =
          keys.key(static_cast<uint64_t>(i));
  }
  return batches;
}

struct Ceilings {
  double flops = 0;       // of products 2048 x 1024 x 1024, per second
  double copy_bytes = 0;  // read + written, per second
  double row_bytes = 0;   // random rows of this width read, per second
};

template <typename F>
double best_seconds(int times, F&& body) {
  double best = 1e9;
  for (int i = 0; i < times; ++i) {
    const auto start = Clock::now();
    body();
    best = std::min(best, since(start));
  }
  return best;
}

Ceilings measure_ceilings(const Exec& exec, int64_t width) {
  Ceilings c;
  {
    const Tensor<float, 2> a(2048, 1024), b(1024, 1024), out(2048, 1024);
    const double s = best_seconds(8, [&] {
      ops::gemm(exec, ops::Transpose::kNo, ops::Transpose::kNo, 1, a.view(), b.view(), 0,
                out.view());
    });
    c.flops = 2.0 * 2048 * 1024 * 1024 / s;
  }
  {
    const int64_t n = int64_t{64} << 20;
    const Tensor<float, 1> from(n), to(n);
    const double s = best_seconds(4, [&] {
      exec.threads().parallel_for(n, 1 << 16, [&](int64_t b, int64_t e) {
        std::copy(from.data() + b, from.data() + e, to.data() + b);
      });
    });
    c.copy_bytes = 2.0 * static_cast<double>(n) * 4 / s;
  }
  {
    const int64_t batch = 2048, slots = 26;
    const int64_t rows = (int64_t{1} << 30) / 4 / width / slots * slots;  // 1 GiB
    const Tensor<float, 2> table(rows, width);
    std::fill_n(table.data(), table.size(), 1.0f);
    const Tensor<uint32_t, 2> keys(batch, slots);
    const embedding::TableLayout layout(std::vector<int64_t>(slots, rows / slots), width);
    const auto pooling = embedding::Pooling::one_hot(slots);
    const Tensor<float, 3> out(batch, slots, width);
    uint64_t round = 0;
    double total = 0;
    constexpr int kRounds = 20;
    for (int r = 0; r < kRounds; ++r) {
      for (int64_t i = 0; i < keys.size(); ++i)
        keys.data()[i] = random::word(5, 0, ++round) % static_cast<uint32_t>(rows / slots);
      const auto start = Clock::now();
      embedding::lookup_forward(exec, layout, pooling, table.view(),
                                Matrix<const uint32_t>(keys.view()), out.view());
      total += since(start);
    }
    c.row_bytes = kRounds * static_cast<double>(batch * slots * width) * 4 / total;
  }
  return c;
}

int run(int argc, char** argv) {
  std::string shape_name = "kaggle", optimizer = "SGD";
  int threads = available_threads();
  int64_t batch = 2048;
  double seconds = 5, alpha = 1.05;
  bool quiet = false;
  CLI::App app("Times training iterations of a DLRM on data in memory.", "train_bench");
  app.add_option("--shape", shape_name)->check(CLI::IsMember({"kaggle", "mlperf"}));
  app.add_option("--optimizer", optimizer)->check(CLI::IsMember({"SGD", "AdaGrad"}));
  app.add_option("--threads", threads)->check(CLI::Range(1, 1024));
  app.add_option("--batch", batch)->check(CLI::Range(1, 1 << 20));
  app.add_option("--seconds", seconds);
  app.add_option("--alpha", alpha);
  app.add_flag("--quiet", quiet, "No table, only the JSON line");
  CLI11_PARSE(app, argc, argv);

  const Shape shape = shape_named(shape_name);
  ThreadPool pool(threads);
  const Exec exec{.device = Device::kCpu, .pool = &pool};
  const Ceilings ceilings = measure_ceilings(exec, shape.width);
  const auto config = config::parse_train_config(config_text(shape, batch, optimizer), "bench", {});
  trainer::Model model(*config, 1, threads);
  model.compile();
  model.allocate();
  model.initialize(exec);
  data::MemorySource source(zipf_batches(shape, 64, batch, alpha));

  const auto steps = model.train_plan().steps();
  std::vector<double> step_seconds(steps.size()), iterations;
  const auto iterate = [&](std::span<double> times) {
    const data::HostBatch& b = source.next();
    plan::run_in_order(
        model.train_plan(),
        {.exec = exec, .batch = b.size, .input = {b.labels.data(), b.dense.data(), b.keys.data()}},
        times);
  };
  for (int i = 0; i < 8; ++i) iterate({});
  const auto start = Clock::now();
  while (since(start) < seconds) {
    const auto one = Clock::now();
    iterate(step_seconds);
    iterations.push_back(since(one));
  }
  const double total = since(start);
  const auto n = static_cast<double>(iterations.size());
  std::sort(iterations.begin(), iterations.end());

  double floor_total = 0;
  std::string json_steps;
  if (!quiet)
    fmt::print(stderr, "{:16}{:>9}{:>10}{:>9}{:>8}\n", "step", "ms", "floor ms", "% floor",
               "share");
  for (size_t i = 0; i < steps.size(); ++i) {
    const double ms = step_seconds[i] / n * 1e3;
    const double floor_ms = 1e3 * static_cast<double>(batch) *
                            std::max(steps[i].flops_per_sample / ceilings.flops,
                                     steps[i].bytes_per_sample / ceilings.copy_bytes);
    floor_total += floor_ms;
    if (!quiet)
      fmt::print(stderr, "{:16}{:9.3f}{:10.3f}{:>9}{:7.1f}%\n", steps[i].name, ms, floor_ms,
                 floor_ms > 0 ? fmt::format("{:.0f}%", 100 * floor_ms / ms) : "",
                 100 * ms / (total / n * 1e3));
    json_steps +=
        fmt::format(R"({}"{}":[{:.4f},{:.4f}])", i ? "," : "", steps[i].name, ms, floor_ms);
  }
  const double mean_ms = total / n * 1e3;
  if (!quiet)
    fmt::print(stderr,
               "{:16}{:9.3f}{:10.3f}{:8.0f}%\nceilings: {:.0f} GFLOP/s, copy {:.1f} GB/s, random "
               "rows of {} bytes {:.2f} GB/s\n",
               "iteration", mean_ms, floor_total, 100 * floor_total / mean_ms, ceilings.flops / 1e9,
               ceilings.copy_bytes / 1e9, shape.width * 4, ceilings.row_bytes / 1e9);
  fmt::print(
      R"({{"shape":"{}","optimizer":"{}","threads":{},"batch":{},"ms_mean":{:.3f},"ms_median":{:.3f},"ms_min":{:.3f},"samples_per_s":{:.0f},"floor_ms":{:.3f},"gflops":{:.1f},"copy_gbs":{:.2f},"rows_gbs":{:.2f},"loss":{:.5f},"steps_ms_floor":{{{}}}}})"
      "\n",
      shape_name, optimizer, threads, batch, mean_ms, iterations[iterations.size() / 2] * 1e3,
      iterations[0] * 1e3, static_cast<double>(batch) / (total / n), floor_total,
      ceilings.flops / 1e9, ceilings.copy_bytes / 1e9, ceilings.row_bytes / 1e9,
      static_cast<double>(model.loss()), json_steps);
  return 0;
}

}  // namespace
}  // namespace hlite

int main(int argc, char** argv) {
  try {
    return hlite::run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "train_bench: {}\n", e.what());
    return 1;
  }
}
