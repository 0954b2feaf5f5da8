// The kernels of DeviceRowCache, and what they are handed.
#pragma once

#include <cstdint>

#include "embedding/key_error_record.h"
#include "embedding/slots_ref.h"
#include "embedding/updated_rows.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::embedding {

// Counters of the whole run, and the state of the admission that runs now.
struct DeviceRowCounts {
  unsigned long long lookups = 0;   // admissions of rows, repeats included
  unsigned long long resident = 0;  // that had a line
  unsigned long long fetched = 0;   // distinct rows that came from the host
  unsigned long long written = 0;   // rows that went there
  uint32_t batch = 0;
  uint32_t missed = 0;     // distinct rows of this batch without a line
  uint32_t hand = 0;       // the line that the search for their lines begins at
  uint32_t drawn = 0;      // pieces of its way that blocks have drawn, or one more each at its end
  uint32_t found = 0;      // lines in them that it may take
  uint32_t next_hand = 0;  // the line that the next search begins at
  uint32_t passed_from = 0, passed = 0;  // groups of lines that it left: the first, how many
  uint32_t lacking = 0;                  // 1 after a batch with more distinct rows than lines
};

// The lines [lines, widths] in the GPU's memory, rows [host rows, widths] in page-locked host
// memory, and the maps between the two. Where the host holds all rows, row r lies in host row r,
// and host_of is row_of. Where it holds a part of them, the caller says where they lie.
struct DeviceRows {
  // `where` holds the line of a row in the GPU's memory, kOutside for a row that is on the host
  // only, or, during an admission, kClaim | the first lookup that misses the row.
  static constexpr uint32_t kClaim = 0x80000000u, kOutside = 0xffffffffu;
  static constexpr uint32_t kChanged = 1, kBatch = 2;  // bits of a line's use: the batch, changed
  static constexpr int64_t kGroup = 64;
  static constexpr int64_t kPiece = 4096;  // lines of a step of the search for lines to take

  UpdatedRows lines = {}, host = {};
  uint32_t rows = 0;
  uint32_t* where = nullptr;    // [rows]
  uint32_t* row_of = nullptr;   // [lines] kNoRow: none
  uint32_t* host_of = nullptr;  // [lines] the host row of that row
  uint32_t* uses = nullptr;     // [lines] batch * kBatch, and kChanged
  uint32_t* passed = nullptr;   // [groups of kGroup lines] batch * kBatch when the hand came by
  DeviceRowCounts* counts = nullptr;
  uint32_t* found = nullptr;  // [pieces of the hand's way, search_pieces()] lines to take there

  [[nodiscard]] HLITE_HD uint32_t line_count() const {
    return static_cast<uint32_t>(lines.w.dim(0));
  }
  // Of two turns over the lines, in two parts each; at most.
  [[nodiscard]] static int64_t search_pieces(int64_t lines) { return 2 * (lines / kPiece + 2); }
};

// The arguments of one admission. It reads the row numbers rows[b, c], first <= c < first + count,
// and writes their lines to lines[b, c]. Numbers beyond the last row are copied. host_rows[b, c] is
// the row's host row. The matrices are of one shape and may be the same.
struct AdmittedRows {
  Matrix<const uint32_t> rows = {}, host_rows = {};
  Matrix<uint32_t> lines = {};
  int32_t first = 0, count = 0;
  bool training = false;        // the lines are going to change
  uint8_t* claimed = nullptr;   // [lookups] whether a lookup is the first of its row
  uint32_t* before = nullptr;   // [lookups] how many are, before it
  uint32_t* missed = nullptr;   // [lookups] rows without a line
  uint32_t* from = nullptr;     // [lookups] their host rows; missed, where the host holds all rows
  uint32_t* victims = nullptr;  // [lookups] lines for them
  void* temporary = nullptr;    // workspace of the prefix sums
  size_t temporary_bytes = 0;

  [[nodiscard]] HLITE_HD int64_t lookups() const { return rows.dim(0) * count; }
  [[nodiscard]] HLITE_HD int64_t index(int64_t lookup) const {
    return lookup / count * rows.dim(1) + first + lookup % count;
  }
  [[nodiscard]] HLITE_HD uint32_t row(int64_t lookup) const { return rows.data()[index(lookup)]; }
  [[nodiscard]] HLITE_HD uint32_t host_row(int64_t lookup) const {
    return host_rows.data()[index(lookup)];
  }
};

namespace kernels {
// rows[b, c] = the row of the key among all rows of the layer, or kNoRow.
inline const Kernel<void(const SlotsRef&, Matrix<const uint32_t> /*keys*/,
                         Matrix<uint32_t> /*rows*/, const KeyRecorder&)>
    number_rows{"number_rows"};
inline const Kernel<size_t(int64_t /*lookups*/)> admit_workspace{"admit_workspace"};
inline const Kernel<void(const DeviceRows&, const AdmittedRows&)> admit_rows{"admit_rows"};
// Takes the lines of these distinct rows from them. Writes those that have changed to the host.
inline const Kernel<void(const DeviceRows&, Vector<const uint32_t> /*rows*/)> recall_rows{
    "recall_rows"};
// Writes changed lines to the host. The rows stay in the GPU's memory.
inline const Kernel<void(const DeviceRows&)> flush_rows{"flush_rows"};
// Empties all lines without writing them to the host. Keeps the counters.
inline const Kernel<void(const DeviceRows&)> forget_rows{"forget_rows"};
}  // namespace kernels

}  // namespace hlite::embedding
