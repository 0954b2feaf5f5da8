#include "embedding/exchange_forecast.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "hugectr_lite/comm/expected_traffic.h"

namespace hlite::embedding {

static constexpr int64_t kMinExtraRows = 1024;  // rows

// [ranks] expected rows that a rank requests from each rank with a full batch, times `factor`. The
// placement decides which rank a lookup goes to.
std::vector<double> ExchangeForecast::likely_rows(double factor) const {
  std::vector<double> rows(static_cast<size_t>(place_.ranks.ranks()), 0.0);
  for (int64_t t = 0; t < spec_.layout.tables(); ++t) {
    const auto n = static_cast<double>(place_.max_batch * spec_.layout.table_lookups(t));
    const auto share = storage_.placement()->key_share(t);
    for (size_t q = 0; q < share.size(); ++q)
      rows[q] += std::min(n * share[q] * factor,
                          static_cast<double>(spec_.layout.table_rows[static_cast<size_t>(t)]));
  }
  for (double& n : rows) n *= place_.exchange.exchanged_share;
  return rows;
}

int64_t ExchangeForecast::capacity() const {
  const auto rows = likely_rows(kCapacityFactor);
  const double likely =
      *std::max_element(rows.begin(), rows.end()) + static_cast<double>(kMinExtraRows);
  const auto most = static_cast<double>(place_.max_batch * spec_.layout.columns());
  return static_cast<int64_t>(std::ceil(std::min(likely, most)));
}

// The expected rows without reserve: the distinct ones, if their share is known.
std::vector<double> ExchangeForecast::expected_rows() const {
  if (place_.rows_per_lookup == 0) return likely_rows(1);
  std::vector<double> rows(static_cast<size_t>(place_.ranks.ranks()), 0.0);
  for (int64_t t = 0; t < spec_.layout.tables(); ++t) {
    const auto n = static_cast<double>(place_.max_batch * spec_.layout.table_lookups(t));
    const auto share = storage_.placement()->key_share(t);
    for (size_t q = 0; q < share.size(); ++q)
      rows[q] += n * share[q] * place_.exchange.exchanged_share * place_.rows_per_lookup;
  }
  return rows;
}

ExchangeForecast::MovedBytes ExchangeForecast::moved_bytes() const {
  const auto rows = expected_rows();
  const auto batch = static_cast<double>(place_.max_batch),
             columns = static_cast<double>(spec_.layout.columns()),
             row = static_cast<double>(spec_.layout.width * kFloatBytes),  // bytes of a vector
      stored = static_cast<double>(spec_.row_bytes()),
             vectors = static_cast<double>(spec_.layout.slots() * spec_.layout.width *
                                           float_type_bytes(place_.type)),
             replicated_rows = static_cast<double>(storage_.replicated_rows());
  // Per sample: rows that this rank requests, rows that all ranks request of it, and replicated
  // rows that it reads.
  const double requested = std::accumulate(rows.begin(), rows.end(), 0.0) / batch,
               owned = rows[static_cast<size_t>(place_.ranks.rank)] * place_.ranks.ranks() / batch,
               replicated = std::min(replicated_rows / batch,
                                     columns * (1 - place_.exchange.exchanged_share)),
               updated = row + 2.0 * static_cast<double>(spec_.stored_row_bytes());
  return {.route = columns * (4 + 4 * 16 + 8),  // keys, their sort to and fro, where they go
          .gather = owned * (stored + row + 4),
          .pool = requested * row + replicated * stored + columns * 4 + vectors,
          .reduce = vectors + requested * row + 2 * replicated_rows * row / batch,
          .update = owned * updated,
          .update_replicated = replicated_rows * updated / batch};
}

plan::SentBytes ExchangeForecast::sends(int64_t header, int64_t row, bool to_owners) const {
  const auto rows = expected_rows();
  const auto by_route = [&](auto&& bytes_of_pair) {
    return comm::all_to_all_bytes(*place_.ranks.topology, place_.ranks.rank, place_.exchange.route,
                                  bytes_of_pair);
  };
  const auto always = by_route([&](int, int) {
    return static_cast<double>(header + comm::size_bytes(place_.exchange.route));
  });
  const auto sample = by_route([&](int from, int to) {
    const double requested = rows[static_cast<size_t>(to_owners ? to : from)];
    return static_cast<double>(row) * requested / static_cast<double>(place_.max_batch);
  });
  return {always.intra, always.inter, sample.intra, sample.inter};
}

}  // namespace hlite::embedding
