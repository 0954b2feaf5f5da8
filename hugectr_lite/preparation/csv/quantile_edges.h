// Quantiles of a column of numbers on disk, the same for any number of threads.
#pragma once

#include <cstdint>
#include <vector>

#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/thread_pool.h"

namespace hlite::prep {

// Edges of `quantiles` buckets with as many values each, of the first `rows` numbers of `column`,
// which are ordered_bits(); missing ones do not count. Of the sorted values x[0], ..., x[n - 1]
// edge j is x[floor(j n / quantiles)], 0 < j < quantiles; equal edges are one. Exact, in memory
// that does not depend on the rows: the bits of all edges are found 8 at a time, each by a pass.
std::vector<double> quantile_edges(const ByteSource& column, int64_t rows, int64_t quantiles,
                                   ThreadPool& pool);

}  // namespace hlite::prep
