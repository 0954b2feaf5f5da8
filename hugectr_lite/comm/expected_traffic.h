// Traffic of collectives, known before they run.
#pragma once

#include "hugectr_lite/comm/communicator.h"
#include "hugectr_lite/core/thread_pool.h"

namespace hlite::comm {

// Bytes that one rank sends, within its node and between nodes.
struct ExpectedBytes {
  double intra = 0, inter = 0;
  ExpectedBytes& operator+=(const ExpectedBytes& other) {
    intra += other.intra;
    inter += other.inter;
    return *this;
  }
};

// By `rank` in an all-reduce of `count` floats.
ExpectedBytes all_reduce_bytes(const Topology& topology, int rank, Route route, AllReduce algo,
                               int64_t count);

// The same in the first half of an all-reduce in two phases, which leaves slices of the sum; and in
// the second half, of `count` things of `unit` bytes, which hands slices to all.
ExpectedBytes reduce_scatter_bytes(const Topology& topology, int rank, Route route, int64_t count);
ExpectedBytes gather_slices_bytes(const Topology& topology, int rank, Route route, int64_t count,
                                  int64_t unit);

// By `rank` in a flat all-gather to which it gives `bytes`.
ExpectedBytes all_gather_bytes(const Topology& topology, int rank, int64_t bytes);

// By `rank` in an all-to-all-v in which rank p sends rank q bytes(p, q). Sizes that travel with
// them are left out: size_bytes() a block.
using BytesOfPair = FunctionRef<double(int from, int to)>;
ExpectedBytes all_to_all_bytes(const Topology& topology, int rank, Route route, BytesOfPair bytes);
inline int64_t size_bytes(Route route) { return route == Route::kHierarchical ? 8 : 0; }

}  // namespace hlite::comm
