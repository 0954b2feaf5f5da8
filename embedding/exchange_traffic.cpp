// Traffic of a RowExchange.
#include "embedding/row_exchange.h"
#include "hugectr_lite/comm/expected_traffic.h"

namespace hlite::embedding {

std::vector<comm::StepTraffic> RowExchange::traffic_of(const comm::TrafficTotals& keys,
                                                       const comm::TrafficTotals& rows,
                                                       const comm::TrafficTotals& grads) const {
  std::vector<comm::StepTraffic> list = {{spec_.name + ".rows_exchange", rows},
                                         {spec_.name + ".grads_exchange", grads}};
  if (!place_.gathers_keys) list.insert(list.begin(), {spec_.name + ".keys_exchange", keys});
  return list;
}

// On the rails there is what several ranks have for another: `own` and the counts of all others.
std::vector<comm::StepTraffic> RowExchange::traffic_by_rails(
    const std::vector<PeerCounts>& own) const {
  const size_t n = own.size();
  std::vector<PeerCounts> all(n * n);
  ThreadPool pool(1);
  ranks().world->all_gather({.pool = &pool}, std::as_bytes(std::span(own)),
                            std::as_writable_bytes(std::span(all)));
  const auto totals = [&](ExchangeCounts PeerCounts::*kind) {
    return comm::rail_traffic(*ranks().topology, ranks().rank, (own[0].*kind).calls,
                              [&](int from, int to) {
                                const auto at = static_cast<size_t>(from) * n;
                                return (all[at + static_cast<size_t>(to)].*kind).sent;
                              });
  };
  return traffic_of(totals(&PeerCounts::keys), totals(&PeerCounts::rows),
                    totals(&PeerCounts::grads));
}

std::vector<comm::StepTraffic> RowExchange::traffic() const {
  if (!exec_.on_gpu())  // their hosts see what is sent
    return traffic_of(key_exchange_->traffic(), row_exchange_->traffic(),
                      gradient_exchange_->traffic());
  std::vector<PeerCounts> counts(static_cast<size_t>(ranks().ranks()));
  get_bytes(exec_, counts.data(), fixed_.counts, counts.size() * sizeof(PeerCounts));
  if (place_.exchange.route == comm::Route::kHierarchical) return traffic_by_rails(counts);
  comm::TrafficTotals keys, rows, grads;
  const comm::Topology& topology = *ranks().topology;
  for (int q = 0; q < ranks().ranks(); ++q) {
    if (q == ranks().rank) continue;
    const bool intra = topology.node_of(q) == topology.node_of(ranks().rank);
    const auto add = [&](comm::TrafficTotals& to, const ExchangeCounts& of) {
      (intra ? to.intra_bytes : to.inter_bytes) += of.sent;
      (intra ? to.intra_messages : to.inter_messages) += of.messages;
      (intra ? to.intra_received : to.inter_received) += of.received;
    };
    const PeerCounts& c = counts[static_cast<size_t>(q)];
    add(keys, c.keys);
    add(rows, c.rows);
    add(grads, c.grads);
  }
  return traffic_of(keys, rows, grads);
}

}  // namespace hlite::embedding
