#include "embedding/device_row_cache.h"

#include "embedding/cutter.h"
#include "hugectr_lite/core/error.h"

namespace hlite::embedding {
namespace {

DeviceRows cut_state(const DeviceRowCacheOptions& options, Cutter& cutter) {
  DeviceRows rows;
  rows.rows = static_cast<uint32_t>(options.rows);
  rows.counts = cutter.cut<DeviceRowCounts>(1);
  rows.where = cutter.cut<uint32_t>(options.rows);
  rows.row_of = cutter.cut<uint32_t>(options.lines);
  rows.host_of = options.host_rows > 0 ? cutter.cut<uint32_t>(options.lines) : rows.row_of;
  rows.uses = cutter.cut<uint32_t>(options.lines);
  rows.passed = cutter.cut<uint32_t>((options.lines + DeviceRows::kGroup - 1) / DeviceRows::kGroup);
  rows.found = cutter.cut<uint32_t>(DeviceRows::search_pieces(options.lines));
  return rows;
}

AdmittedRows cut_workspace(const DeviceRowCacheOptions& options, size_t temporary_bytes,
                           Cutter& cutter) {
  const int64_t lookups = options.max_lookups;
  AdmittedRows rows;
  rows.claimed = cutter.cut<uint8_t>(lookups);
  rows.before = cutter.cut<uint32_t>(lookups);
  rows.missed = cutter.cut<uint32_t>(lookups);
  rows.from = options.host_rows > 0 ? cutter.cut<uint32_t>(lookups) : rows.missed;
  rows.victims = cutter.cut<uint32_t>(lookups);
  rows.temporary = cutter.cut<std::byte>(static_cast<int64_t>(temporary_bytes));
  rows.temporary_bytes = temporary_bytes;
  return rows;
}

// Bytes of CUB's temporary storage; 0 if there is no plug-in to ask.
size_t temporary_bytes(const Exec& exec, int64_t lookups) {
  return kernels::admit_workspace.is_in(*exec.cuda) ? kernels::admit_workspace(exec, lookups) : 0;
}

UpdatedRows cut_rows(const DeviceRowCacheOptions& options, Cutter& cutter) {
  const int64_t count = options.host_rows > 0 ? options.host_rows : options.rows;
  const auto part = [&](size_t i) {
    const int64_t width = options.widths[i];
    return width == 0 ? Matrix<float>()
                      : Matrix<float>(cutter.cut<float>(count * width), count, width);
  };
  UpdatedRows rows;
  const int64_t width = options.widths[0];
  rows.w = {cutter.cut<std::byte>(count * width * float_type_bytes(options.type)), count, width,
            options.type};
  rows.state0 = part(1);
  rows.state1 = part(2);
  return rows;
}

}  // namespace

DeviceRowCache::DeviceRowCache(const DeviceRowCacheOptions& options) : options_(options) {
  constexpr int64_t kMax = DeviceRows::kClaim;
  HLITE_CHECK(options.rows < kMax && options.lines > 0 && options.lines < kMax &&
                  options.max_lookups < kMax - 1,
              "{}: {} rows, {} lines, {} lookups", options.name, options.rows, options.lines,
              options.max_lookups);
}

int64_t DeviceRowCache::device_bytes(const Exec& exec, const DeviceRowCacheOptions& options) {
  Cutter cutter(nullptr);
  (void)cut_state(options, cutter);
  (void)cut_workspace(options, temporary_bytes(exec, options.max_lookups), cutter);
  return static_cast<int64_t>(cutter.bytes());
}

int64_t DeviceRowCache::host_bytes() const {
  Cutter cutter(nullptr);
  (void)cut_rows(options_, cutter);
  return static_cast<int64_t>(cutter.bytes());
}

void DeviceRowCache::attach(const Exec& exec, const UpdatedRows& lines) {
  exec_ = exec;
  if (!host_memory_.data()) {
    host_memory_ = PinnedMemory(*exec.cuda, static_cast<size_t>(host_bytes()));
    Cutter host_cutter(host_memory_.data());
    host_ = cut_rows(options_, host_cutter);
    Cutter state_size(nullptr), workspace_size(nullptr);
    (void)cut_state(options_, state_size);
    state_memory_ = ExecMemory(exec, state_size.bytes(), "map of rows");
    Cutter state_cutter(state_memory_.data());
    rows_ = cut_state(options_, state_cutter);
    const size_t sums = temporary_bytes(exec, options_.max_lookups);
    (void)cut_workspace(options_, sums, workspace_size);
    workspace_ = ExecMemory(exec, workspace_size.bytes(), "admission of rows");
    Cutter workspace_cutter(workspace_.data());
    scratch_ = cut_workspace(options_, sums, workspace_cutter);
  }
  rows_.lines = lines;
  rows_.host = host_;
  const DeviceRowCounts none;
  put_bytes(exec_, rows_.counts, &none, sizeof(none));
  forget();
}

void DeviceRowCache::admit(const Exec& exec, Matrix<const uint32_t> rows,
                           Matrix<const uint32_t> host_rows, Matrix<uint32_t> lines, int64_t first,
                           int64_t count, bool training) const {
  AdmittedRows admitted = scratch_;
  admitted.rows = rows;
  admitted.host_rows = host_rows;
  admitted.lines = lines;
  admitted.first = static_cast<int32_t>(first);
  admitted.count = static_cast<int32_t>(count);
  admitted.training = training;
  HLITE_CHECK(admitted.lookups() <= options_.max_lookups, "{}: {} lookups, at most {}",
              options_.name, admitted.lookups(), options_.max_lookups);
  kernels::admit_rows(exec, rows_, admitted);
}

void DeviceRowCache::recall(const Exec& exec, Vector<const uint32_t> rows) const {
  kernels::recall_rows(exec, rows_, rows);
}

void DeviceRowCache::flush() const {
  exec_.cuda->device_synchronize();  // runs are on other streams
  kernels::flush_rows(exec_, rows_);
  exec_.cuda->stream_synchronize(exec_.stream);
}

void DeviceRowCache::forget() const {
  exec_.cuda->device_synchronize();
  kernels::forget_rows(exec_, rows_);
  exec_.cuda->stream_synchronize(exec_.stream);
}

DeviceRowCounts DeviceRowCache::read_counts() const {
  DeviceRowCounts counts;
  if (rows_.counts) get_bytes(exec_, &counts, rows_.counts, sizeof(counts));
  return counts;
}

void DeviceRowCache::check() const {
  if (read_counts().lacking != 0)
    raise<DeviceError>(
        "embedding {}: a batch has more distinct rows than the {} lines of its cache",
        options_.name, options_.lines);
}

RowCacheCounts DeviceRowCache::counts() const {
  const DeviceRowCounts of = read_counts();
  const int64_t record = options_.widths[0] * float_type_bytes(options_.type) +
                         (options_.widths[1] + options_.widths[2]) * kFloatBytes;
  return {.lookups = static_cast<int64_t>(of.lookups),
          .resident = static_cast<int64_t>(of.resident),
          .fetched = static_cast<int64_t>(of.fetched),
          .written = static_cast<int64_t>(of.written),
          .read_bytes = static_cast<int64_t>(of.fetched) * record,
          .written_bytes = static_cast<int64_t>(of.written) * record};
}

}  // namespace hlite::embedding
