// DeviceRowCache keeps the rows in use in the memory of a GPU, for tables that are larger than
// solver.embedding_memory.gpu_gb. The rows of the rank lie in page-locked host memory, which
// kernels read and write over the bus. The copy in the GPU's memory is the newer one. Where the
// host holds a part of the rows over a disk (host_lines.h), it holds all that are in the GPU's
// memory.
//
// The cache follows RowCache: the rows in the GPU's memory are lines of TableStorage's arrays, a
// step admits rows before any other step uses them, and a row travels with its optimizer states.
// The results are bit for bit those of tables in GPU memory. Admission runs on the GPU's stream.
// The host neither waits for it nor sees the keys, so it can be captured in a graph, and it serves
// the keys of one rank as well as the request lists of several.
//
// CLOCK chooses the rows to evict, as in RowCache. The missing rows of a batch get lines in the
// order of their first lookups, so a run repeats.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "embedding/device_row_args.h"
#include "embedding/line_of_row.h"
#include "embedding/row_cache_counts.h"
#include "embedding/row_of_line.h"
#include "hugectr_lite/core/exec_memory.h"

namespace hlite::embedding {

struct DeviceRowCacheOptions {
  std::string name;  // the layer's
  int64_t rows = 0;  // that the rank owns, below 2^31
  int64_t lines = 0;
  std::array<int64_t, 3> widths = {};  // elements of a row's weights, then of each state
  FloatType type = FloatType::kFloat;  // the weights'
  int64_t max_lookups = 0;             // maximum per batch, below 2^31
  int64_t host_rows = 0;               // that the host holds, if not all
};

class DeviceRowCache {
 public:
  explicit DeviceRowCache(const DeviceRowCacheOptions& options);

  // Allocates memory, on the device of `exec` and page-locked on the host. The lines, [lines,
  // widths[i]] each, must outlive this. To be called before any of the rest. Waits.
  void attach(const Exec& exec, const UpdatedRows& lines);

  // lines[b, c] = the line of own row rows[b, c], first <= c < first + count; numbers beyond the
  // rows stay as they are. host_rows[b, c]: which of host_rows() the row is; the rows themselves
  // where the host holds all. `training`: the lines are going to change. The matrices may be one.
  // REQUIRES at least as many lines as distinct rows.
  void admit(const Exec& exec, Matrix<const uint32_t> rows, Matrix<const uint32_t> host_rows,
             Matrix<uint32_t> lines, int64_t first, int64_t count, bool training) const;
  // Takes distinct rows, which a GPU's kernel can read, from the GPU's memory: writes those that
  // have changed to host_rows(). After it, others may take their places there.
  void recall(const Exec& exec, Vector<const uint32_t> rows) const;
  // Maps the rows that were admitted last to their lines. Sparse updates sort by row and then
  // replace rows by lines, so that sums of gradients do not depend on where rows lie.
  [[nodiscard]] LineOfRow line_of_row() const { return {rows_.where, rows_.line_count()}; }
  [[nodiscard]] RowOfLine row_of_line() const { return {.rows = rows_.row_of}; }

  // Own rows in page-locked host memory, which kernels may use as well: all, or options.host_rows.
  [[nodiscard]] const UpdatedRows& host_rows() const { return host_; }
  // Writes changed lines to host_rows(). Synchronizes the device.
  void flush() const;
  // Empties all lines, because the caller is going to write host_rows(). Synchronizes the device.
  void forget() const;

  // Synchronizes the device. Throws DeviceError if a batch had more distinct rows than lines.
  void check() const;
  [[nodiscard]] RowCacheCounts counts() const;
  // Bytes of GPU memory without the lines themselves, and bytes of host memory.
  [[nodiscard]] static int64_t device_bytes(const Exec& exec, const DeviceRowCacheOptions& options);
  [[nodiscard]] int64_t device_bytes(const Exec& exec) const {
    return device_bytes(exec, options_);
  }
  [[nodiscard]] int64_t host_bytes() const;

 private:
  [[nodiscard]] DeviceRowCounts read_counts() const;

  const DeviceRowCacheOptions options_;
  Exec exec_;
  PinnedMemory host_memory_;
  ExecMemory state_memory_, workspace_;
  UpdatedRows host_;
  DeviceRows rows_;
  AdmittedRows scratch_;
};

}  // namespace hlite::embedding
