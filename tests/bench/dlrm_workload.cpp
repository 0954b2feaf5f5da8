#include "tests/bench/dlrm_workload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "hugectr_lite/core/random.h"
#include "tests/support/memory_source.h"

namespace hlite::bench {

Shape shape_named(const std::string& name, int64_t cap) {
  const Shape kaggle{{512, 256, 64, 16},
                     {512, 256, 1},
                     {1460,  583,  10131227, 2202608, 305, 24,     12517,   633,   3,
                      93145, 5683, 8351593,  3194,    27,  14992,  5461306, 10,    5652,
                      2173,  4,    7046547,  18,      15,  286181, 105,     142572},
                     16};
  const Shape mlperf{{512, 256, 128},
                     {1024, 1024, 512, 256, 1},
                     {39884406, 39043,    17289,    7420,     20263,  3,     7120, 1543, 63,
                      38532951, 2953546,  403346,   10,       2208,   11938, 155,  4,    976,
                      14,       39979771, 25641295, 39664984, 585935, 12972, 108,  36},
                     128};
  const Shape tiny{{16, 8}, {16, 1}, mlperf.rows, 8};
  Shape shape = name == "kaggle" ? kaggle : name == "tiny" ? tiny : mlperf;
  for (int64_t& r : shape.rows) r = std::min(r, cap);
  return shape;
}

std::string config_text(const Shape& s, const Solver& solver) {
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
      solver.optimizer == "SGD"
          ? R"("sgd_hparam":{"learning_rate":0.01})"
          : R"("adagrad_hparam":{"learning_rate":0.01,"epsilon":1e-8,"initial_accumulator":0})";
  const bool tf32 = solver.precision == "tf32";
  return fmt::format(
      R"({{"solver":{{"seed":1,"lr_policy":"fixed","display":1000,"max_iter":1000000,"gpu":[0],"batchsize":{0},"snapshot":1000000000,"snapshot_prefix":"./b_","precision":"{6}","enable_tf32_compute":{7},"cuda_graph":{8}}},
"optimizer":{{"type":"{1}","update_type":"Local",{2}}},
"layers":[{{"name":"data","type":"Data","format":"Raw","source":"none","eval_source":"none","check":"None","num_samples":1,"eval_num_samples":1,
"label":{{"top":"label","label_dim":1}},"dense":{{"top":"dense","dense_dim":13}},
"sparse":[{{"top":"keys","type":"DistributedSlot","max_feature_num_per_sample":26,"max_nnz":1,"slot_num":26}}]}},
{{"name":"emb","type":"HybridSparseEmbedding","bottom":"keys","top":"emb","sparse_embedding_hparam":{{"slot_size_array":[{3}],"embedding_vec_size":{4},"combiner":0}}}}
{5},{{"name":"loss","type":"BinaryCrossEntropyLoss","bottom":["z","label"],"top":"loss"}}]}})",
      solver.batch, solver.optimizer, block, fmt::join(s.rows, ","), s.width, layers,
      tf32 ? "fp32" : solver.precision, tf32, solver.graph);
}

std::vector<uint32_t> zipf_keys(int64_t rows, double alpha, uint64_t stream, int64_t n) {
  auto step = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(rows) * 0.6180339887));
  while (std::gcd(step, rows) != 1) ++step;
  const double low = 0.5, high = static_cast<double>(rows) + 0.5, power = 1 - alpha;
  const double at_low = std::pow(low, power), at_high = std::pow(high, power);
  std::vector<uint32_t> keys(static_cast<size_t>(n));
  for (size_t i = 0; i < keys.size(); ++i) {
    const double u = (random::word(7, stream, i) + 0.5) * 0x1p-32;
    const double x = std::abs(power) < 1e-9 ? low * std::pow(high / low, u)
                                            : std::pow(at_low + u * (at_high - at_low), 1 / power);
    const auto rank = std::clamp<int64_t>(static_cast<int64_t>(x - low), 0, rows - 1);
    keys[i] = static_cast<uint32_t>(rank * step % rows);
  }
  return keys;
}

std::vector<data::BatchBuffer> zipf_batches(ThreadPool& pool, const Shape& shape, int64_t count,
                                            int64_t batch, double alpha) {
  auto batches = test::random_batches(count, batch, 13, 13, shape.rows, 3);
  pool.run(static_cast<int64_t>(shape.rows.size()), [&](int64_t s, int) {
    const auto keys = zipf_keys(shape.rows[static_cast<size_t>(s)], alpha, static_cast<uint64_t>(s),
                                count * batch);
    for (int64_t i = 0; i < count * batch; ++i)
      batches[static_cast<size_t>(i / batch)].batch().keys(i % batch, s) =
          keys[static_cast<size_t>(i)];
  });
  return batches;
}

int64_t distinct_rows(const data::HostBatch& batch) {
  int64_t distinct = 0;
  std::vector<uint32_t> keys(static_cast<size_t>(batch.size));
  for (int64_t s = 0; s < batch.keys.dim(1); ++s) {
    for (int64_t i = 0; i < batch.size; ++i) keys[static_cast<size_t>(i)] = batch.keys(i, s);
    std::sort(keys.begin(), keys.end());
    distinct += std::unique(keys.begin(), keys.end()) - keys.begin();
  }
  return distinct;
}

}  // namespace hlite::bench
