// What the benchmarks work on: shapes of DLRMs, their config, and batches in host memory.
#pragma once

#include <string>
#include <vector>

#include "data_reader/batch_source.h"
#include "hugectr_lite/core/thread_pool.h"

namespace hlite::bench {

struct Shape {
  std::vector<int64_t> bottom, top;                                     // widths of the layers
  std::vector<int64_t> rows;                                            // of each table
  int64_t width = 0;                                                    // of a table's rows
  std::vector<int64_t> hotness = std::vector<int64_t>(rows.size(), 1);  // keys of a sample in each
  // MultiCross in place of the dot products; 0 layers: none.
  int64_t cross_layers = 0, cross_rank = 0;
};

// kaggle: bottom 13-512-256-64-16, top 512-256-1, 26 tables x 16 of Criteo Kaggle. mlperf: bottom
// 13-512-256-128, top 1024-1024-512-256-1, 26 tables x 128 of Criteo Terabyte. tiny: bottom
// 13-16-8, top 16-1, the same tables x 8, for an emulated GPU. dcnv2: mlperf's networks with three
// cross layers of rank 512, 26 tables x 128 with 214 keys a sample, of MLPerf's DLRM-DCNv2. tables:
// 26 tables of 1,000,000 rows x 64 with next to no network. Tables have at most `cap` rows.
Shape shape_named(const std::string& name, int64_t cap);

struct Solver {
  int64_t batch = 2048;
  std::string optimizer = "SGD";         // or AdaGrad, RowWiseAdaGrad
  std::string precision = "fp32";        // tf32, bf16, fp16
  std::string table_precision = "fp32";  // bf16, fp16
  bool graph = true;
  bool hashed = false;  // tables of keys as they come, with as many rows
};

// A training config of that shape as JSON text; its sources do not exist.
std::string config_text(const Shape& shape, const Solver& solver);

// One key of a table of `rows` rows for each of n samples: P(rank r) ~ (r + 1/2)^-alpha, by
// inverting the continuous distribution function; ranks are scattered over the table by an affine
// map. alpha 0 is uniform.
std::vector<uint32_t> zipf_keys(int64_t rows, double alpha, uint64_t stream, int64_t n);

// `count` batches with such keys for every table. Where a sample has several keys, the first is
// such a one, and the others always follow it, spread evenly over the table: MLPerf's multi-hot
// data.
std::vector<data::BatchBuffer> zipf_batches(ThreadPool& pool, const Shape& shape, int64_t count,
                                            int64_t batch, double alpha);

// Distinct (table, key) pairs of a batch.
int64_t distinct_rows(const data::HostBatch& batch, const Shape& shape);

}  // namespace hlite::bench
