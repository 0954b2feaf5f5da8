// What ranks send to each other, counted.
#pragma once

#include <cstdint>
#include <string>

namespace hlite::comm {

// Bytes and messages that one rank sent, and bytes that it got, within its node and between nodes.
struct TrafficTotals {
  int64_t intra_bytes = 0, inter_bytes = 0, intra_messages = 0, inter_messages = 0;
  int64_t intra_received = 0, inter_received = 0;  // bytes
  TrafficTotals& operator+=(const TrafficTotals& other);
  friend TrafficTotals operator+(TrafficTotals a, const TrafficTotals& b) { return a += b; }
  friend TrafficTotals operator-(TrafficTotals a, const TrafficTotals& b);
};

// Of `runs` runs that are alike, from those of `calls` calls.
TrafficTotals scaled(TrafficTotals of_calls, int64_t runs, int64_t calls);

// What a rank has exchanged in one step of a plan.
struct StepTraffic {
  std::string step;
  TrafficTotals totals;
};

}  // namespace hlite::comm
