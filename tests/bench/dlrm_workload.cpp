#include "tests/bench/dlrm_workload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "hugectr_lite/core/key_layout.h"
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
  const Shape tables{{16, 64}, {16, 1}, std::vector<int64_t>(26, 1'000'000), 64};
  const Shape dcnv2{
      mlperf.bottom,
      mlperf.top,
      {40000000, 39060,    17295,    7424,     20265,  3,     7122, 1543, 63,
       40000000, 3067956,  405282,   10,       2209,   11938, 155,  4,    976,
       14,       40000000, 40000000, 40000000, 590152, 12973, 108,  36},
      128,
      {3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1},
      3,
      512};
  Shape shape = name == "kaggle"   ? kaggle
                : name == "tiny"   ? tiny
                : name == "tables" ? tables
                : name == "dcnv2"  ? dcnv2
                                   : mlperf;
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
  if (s.cross_layers > 0)
    layers += fmt::format(
        R"(,{{"name":"vectors","type":"Reshape","bottom":"emb","top":"vectors","leading_dim":{}}},
{{"name":"x0","type":"Concat","bottom":["vectors","bot"],"top":"x0"}},
{{"name":"cross","type":"MultiCross","bottom":"x0","top":"inter","mc_param":{{"num_layers":{},"projection_dim":{}}}}})",
        std::ssize(s.rows) * s.width, s.cross_layers, s.cross_rank);
  else
    layers += R"(,{"name":"inter","type":"Interaction","bottom":["bot","emb"],"top":"inter"})";
  chain("z", s.top, "\"inter\"", false);
  const std::string block =
      solver.optimizer == "SGD"
          ? R"("sgd_hparam":{"learning_rate":0.01})"
          : fmt::format(
                R"("{}adagrad_hparam":{{"learning_rate":0.01,"epsilon":1e-8,"initial_accumulator":0}})",
                solver.optimizer == "RowWiseAdaGrad" ? "row_wise_" : "");
  const bool tf32 = solver.precision == "tf32";
  return fmt::format(
      R"({{"solver":{{"seed":1,"lr_policy":"fixed","display":1000,"max_iter":1000000,"gpu":[0],"batchsize":{0},"snapshot":1000000000,"snapshot_prefix":"./b_","precision":"{6}","table_precision":"{11}","enable_tf32_compute":{7},"cuda_graph":{8}}},
"optimizer":{{"type":"{1}","update_type":"Local",{2}}},
"layers":[{{"name":"data","type":"Data","format":"Raw","source":"none","eval_source":"none","check":"None","num_samples":1,"eval_num_samples":1,
"label":{{"top":"label","label_dim":1}},"dense":{{"top":"dense","dense_dim":13}},
"sparse":[{{"top":"keys","type":"DistributedSlot","slot_num":{9},"nnz_per_slot":[{10}],"is_fixed_length":true}}]}},
{{"name":"emb","type":"{12}","bottom":"keys","top":"emb","sparse_embedding_hparam":{{{3},"embedding_vec_size":{4},"combiner":0}}}}
{5},{{"name":"loss","type":"BinaryCrossEntropyLoss","bottom":["z","label"],"top":"loss"}}]}})",
      solver.batch, solver.optimizer, block,
      solver.hashed ? fmt::format(R"("max_vocabulary_size_per_gpu":{})",
                                  std::accumulate(s.rows.begin(), s.rows.end(), int64_t{0}))
                    : fmt::format(R"("slot_size_array":[{}])", fmt::join(s.rows, ",")),
      s.width, layers, tf32 ? "fp32" : solver.precision, tf32, solver.graph, s.rows.size(),
      fmt::join(s.hotness, ","), solver.table_precision,
      solver.hashed ? "DistributedSlotSparseEmbeddingHash" : "HybridSparseEmbedding");
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
  const KeyLayout layout(shape.hotness);
  std::vector<int64_t> rows;  // of each column's table
  for (size_t s = 0; s < shape.rows.size(); ++s)
    rows.insert(rows.end(), static_cast<size_t>(shape.hotness[s]), shape.rows[s]);
  auto batches = test::random_batches(count, batch, 13, 13, rows, 3);
  pool.run(std::ssize(shape.rows), [&](int64_t s, int) {
    const auto slot = static_cast<size_t>(s);
    const auto table = static_cast<uint64_t>(shape.rows[slot]), stream = static_cast<uint64_t>(s);
    const auto hotness = static_cast<uint64_t>(layout.hotness[slot]);
    const auto keys = zipf_keys(shape.rows[slot], alpha, stream, count * batch);
    for (int64_t i = 0; i < count * batch; ++i) {
      uint32_t* const sample = batches[static_cast<size_t>(i / batch)].batch().keys.row(i % batch) +
                               layout.first_column[slot];
      const uint64_t key = sample[0] = keys[static_cast<size_t>(i)];
      for (uint64_t k = 1; k < hotness; ++k)
        sample[k] = static_cast<uint32_t>(random::word(9, stream, key * hotness + k) * table >> 32);
    }
  });
  return batches;
}

int64_t distinct_rows(const data::HostBatch& batch, const Shape& shape) {
  const KeyLayout layout(shape.hotness);
  int64_t distinct = 0;
  std::vector<uint32_t> keys;
  for (size_t s = 0; s < shape.rows.size(); ++s) {
    keys.clear();
    for (int64_t i = 0; i < batch.size; ++i) {
      const uint32_t* const first = batch.keys.row(i) + layout.first_column[s];
      keys.insert(keys.end(), first, first + layout.hotness[s]);
    }
    std::sort(keys.begin(), keys.end());
    distinct += std::unique(keys.begin(), keys.end()) - keys.begin();
  }
  return distinct;
}

}  // namespace hlite::bench
