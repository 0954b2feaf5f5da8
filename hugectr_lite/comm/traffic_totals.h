// Counts of the bytes that ranks send to each other.
#pragma once

#include <cstdint>
#include <string>

#include "hugectr_lite/comm/topology.h"
#include "hugectr_lite/core/thread_pool.h"

namespace hlite::comm {

// Bytes and messages that one rank sent, and bytes that it got, within its node and between nodes.
struct TrafficTotals {
  int64_t intra_bytes = 0, inter_bytes = 0, intra_messages = 0, inter_messages = 0;
  int64_t intra_received = 0, inter_received = 0;  // bytes
  TrafficTotals& operator+=(const TrafficTotals& other);
  friend TrafficTotals operator+(TrafficTotals a, const TrafficTotals& b) { return a += b; }
  friend TrafficTotals operator-(TrafficTotals a, const TrafficTotals& b);
};

// Its numbers, by their names in reports.
struct TrafficCount {
  const char* name;
  int64_t TrafficTotals::*at;
};
inline constexpr TrafficCount kTrafficCounts[] = {
    {"intra_bytes", &TrafficTotals::intra_bytes},
    {"inter_bytes", &TrafficTotals::inter_bytes},
    {"intra_messages", &TrafficTotals::intra_messages},
    {"inter_messages", &TrafficTotals::inter_messages},
    {"intra_received", &TrafficTotals::intra_received},
    {"inter_received", &TrafficTotals::inter_received}};

// Scales the totals of `calls` calls to `runs` runs that are alike.
TrafficTotals scaled(TrafficTotals of_calls, int64_t runs, int64_t calls);

// Returns what a rank sends and receives in `calls` all-to-all-vs by rails, sizes included, in
// which rank p has bytes(p, q) for rank q altogether. As hierarchical_communicator.h says it.
TrafficTotals rail_traffic(const Topology& topology, int rank, int64_t calls,
                           FunctionRef<int64_t(int from, int to)> bytes);

// Traffic of a rank in one step of a plan.
struct StepTraffic {
  std::string step;
  TrafficTotals totals;
};

}  // namespace hlite::comm
