// RowCacheCounts: counters of a row cache since it was attached.
#pragma once

#include <cstdint>

namespace hlite::embedding {

struct RowCacheCounts {
  int64_t lookups = 0;                        // lookups in admitted batches
  int64_t resident = 0;                       // lookups whose row was in memory already
  int64_t fetched = 0;                        // distinct rows read from the slower tier
  int64_t first = 0;                          // distinct rows that got their initial values
  int64_t written = 0;                        // rows written to the slower tier
  int64_t read_bytes = 0, written_bytes = 0;  // over the link to the slower tier

  RowCacheCounts& operator+=(const RowCacheCounts& more) { return add(more, 1); }
  RowCacheCounts& operator-=(const RowCacheCounts& less) { return add(less, -1); }
  [[nodiscard]] double resident_share() const {
    return lookups > 0 ? static_cast<double>(resident) / static_cast<double>(lookups) : 1;
  }

 private:
  RowCacheCounts& add(const RowCacheCounts& other, int64_t sign) {
    lookups += sign * other.lookups;
    resident += sign * other.resident;
    fetched += sign * other.fetched;
    first += sign * other.first;
    written += sign * other.written;
    read_bytes += sign * other.read_bytes;
    written_bytes += sign * other.written_bytes;
    return *this;
  }
};

}  // namespace hlite::embedding
