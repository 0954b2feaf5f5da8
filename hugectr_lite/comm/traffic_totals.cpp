#include "hugectr_lite/comm/traffic_totals.h"

namespace hlite::comm {

TrafficTotals& TrafficTotals::operator+=(const TrafficTotals& other) {
  intra_bytes += other.intra_bytes;
  inter_bytes += other.inter_bytes;
  intra_messages += other.intra_messages;
  inter_messages += other.inter_messages;
  intra_received += other.intra_received;
  inter_received += other.inter_received;
  return *this;
}

TrafficTotals operator-(TrafficTotals a, const TrafficTotals& b) {
  a.intra_bytes -= b.intra_bytes;
  a.inter_bytes -= b.inter_bytes;
  a.intra_messages -= b.intra_messages;
  a.inter_messages -= b.inter_messages;
  a.intra_received -= b.intra_received;
  a.inter_received -= b.inter_received;
  return a;
}

}  // namespace hlite::comm
