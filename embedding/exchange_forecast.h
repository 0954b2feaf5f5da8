// ExchangeForecast: the needs of row exchanges, from statistics and the placement of rows: capacity
// of lists, bytes that steps move, bytes between ranks.
#pragma once

#include <vector>

#include "embedding/table_storage.h"
#include "embedding/tables_place.h"
#include "hugectr_lite/plan/plan.h"

namespace hlite::embedding {

class ExchangeForecast {
 public:
  // All but `place` must outlive it.
  ExchangeForecast(const TablesSpec& spec, const TableStorage& storage, const TablesPlace& place)
      : spec_(spec), storage_(storage), place_(place) {}

  static constexpr double kCapacityFactor = 1.25;  // beyond what is likely

  // Rows of the longest list of a rank, with reserve.
  [[nodiscard]] int64_t capacity() const;
  // Bytes that a full batch is expected to move, per sample.
  struct MovedBytes {
    double route = 0, gather = 0, pool = 0, reduce = 0, update = 0, update_replicated = 0;
  };
  [[nodiscard]] MovedBytes moved_bytes() const;
  // Traffic of an exchange of a list for each rank: `header` bytes, then `row` for each requested
  // row.
  [[nodiscard]] plan::SentBytes sends(int64_t header, int64_t row, bool to_owners) const;

 private:
  [[nodiscard]] std::vector<double> likely_rows(double factor) const;
  [[nodiscard]] std::vector<double> expected_rows() const;

  const TablesSpec& spec_;
  const TableStorage& storage_;
  const TablesPlace place_;
};

}  // namespace hlite::embedding
