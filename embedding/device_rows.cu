// Kernels of DeviceRowCache.
//
// Admission marks the line of every lookup that hits. If lookups miss a row, the first of them
// claims it (by an atomic minimum over their numbers), so claims do not depend on the order of
// threads. A prefix sum over the claims numbers the missing rows. Blocks count what the CLOCK hand
// finds on its way over the lines, until it is enough, and list as many victims. Then each warp
// writes victims to the host and fetches rows, four at a time. At the MLPerf DLRM shape (1.44 M lookups, 8 % of them missed) 59 MB cross the
// bus each way.
#include "embedding/device_row_args.h"

#include <algorithm>
#include <string>

#include "embedding/block_scan.cuh"
#include "embedding/find_row.cuh"
#include "embedding/item_threads.cuh"
#include "hugectr_lite/core/device_sort.cuh"
#include "hugectr_lite/core/kernel_list.cuh"

namespace hlite::embedding::gpu {
namespace {

constexpr int kSearchThreads = 1024;
constexpr int64_t kSearchBlocks = 128;
constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int64_t kMaxBlocks = 1024;  // for kernels whose amount of work the host does not know

__device__ inline uint32_t read_now(const uint32_t* at) {
  return *static_cast<const volatile uint32_t*>(at);
}
__device__ inline bool is_line(uint32_t where) { return where < DeviceRows::kClaim; }

__global__ void __launch_bounds__(kItemThreads)
    number_rows_kernel(SlotsRef slots, const uint32_t* keys, uint32_t* rows, int64_t lookups,
                       KeyRecorder check) {
  const int64_t i = global_thread();
  if (i >= lookups) return;
  const KeyPlace place = place_of_key(slots, static_cast<uint32_t>(i));
  rows[place.index] = find_row(slots.slots[place.slot], keys, place.index, check);
}

__global__ void begin_kernel(DeviceRows of) {
  DeviceRowCounts& counts = *of.counts;
  counts.batch += DeviceRows::kBatch;
  counts.missed = counts.drawn = counts.found = counts.passed = 0;
  counts.hand = counts.next_hand;
}

// All lookups of one line in a batch write the same word, so their order does not matter.
__global__ void __launch_bounds__(kItemThreads) claim_kernel(DeviceRows of, AdmittedRows admitted) {
  const int64_t i = global_thread();
  const uint32_t row = i < admitted.lookups() ? admitted.row(i) : kNoRow;
  const bool valid = row < of.rows;
  bool resident = false;
  if (valid) {
    const uint32_t where = read_now(of.where + row);
    resident = is_line(where);
    if (resident) {
      const uint32_t before = read_now(of.uses + where),
                     use = of.counts->batch | (before & DeviceRows::kChanged) |
                           (admitted.training ? DeviceRows::kChanged : 0);
      if (before != use) atomicMax(of.uses + where, use);
    } else {
      atomicMin(of.where + row, DeviceRows::kClaim | static_cast<uint32_t>(i));
    }
  }
  __shared__ unsigned lookups, found;
  if (threadIdx.x == 0) lookups = found = 0;
  __syncthreads();
  const int valid_lanes = __popc(__ballot_sync(kAllLanes, valid)),
            found_lanes = __popc(__ballot_sync(kAllLanes, resident));
  if (threadIdx.x % kWarp == 0) {
    atomicAdd(&lookups, static_cast<unsigned>(valid_lanes));
    atomicAdd(&found, static_cast<unsigned>(found_lanes));
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  atomicAdd(&of.counts->lookups, static_cast<unsigned long long>(lookups));
  atomicAdd(&of.counts->resident, static_cast<unsigned long long>(found));
}

__device__ inline bool claims(const DeviceRows& of, uint32_t row, int64_t lookup) {
  return row < of.rows && of.where[row] == (DeviceRows::kClaim | static_cast<uint32_t>(lookup));
}

__global__ void __launch_bounds__(kItemThreads) mark_kernel(DeviceRows of, AdmittedRows admitted) {
  const int64_t i = global_thread();
  if (i < admitted.lookups()) admitted.claimed[i] = claims(of, admitted.row(i), i) ? 1 : 0;
}

__global__ void __launch_bounds__(kItemThreads) list_kernel(DeviceRows of, AdmittedRows admitted) {
  const int64_t i = global_thread();
  if (i >= admitted.lookups()) return;
  const uint32_t n = admitted.before[i];
  if (admitted.claimed[i]) {
    admitted.missed[n] = admitted.row(i);
    admitted.from[n] = admitted.host_row(i);
  }
  if (i == admitted.lookups() - 1) of.counts->missed = n + admitted.claimed[i];
}

// The hand moves over the lines. It takes those that this batch does not use and that were not used
// since its last visit; in a second turn it has been everywhere, and takes the others that this
// batch does not use. Blocks look at kSearchLines of this way at a time, beginning at the group of
// lines where the hand is.
struct SearchPiece {
  uint32_t first, end;  // lines
  bool again;           // in the second turn
};
class SearchWay {
 public:
  __device__ explicit SearchWay(const DeviceRows& of)
      : hand_(of.counts->hand),
        begin_(hand_ / kGroupLines * kGroupLines),
        lines_(of.line_count()),
        until_end_(pieces_of(lines_ - begin_)),
        turn_(until_end_ + pieces_of(begin_)) {}
  [[nodiscard]] __device__ uint32_t pieces() const { return 2 * turn_; }
  [[nodiscard]] __device__ SearchPiece piece(uint32_t i) const {
    const bool again = i >= turn_;
    if (again) i -= turn_;
    const bool wrapped = i >= until_end_;
    const uint32_t first = wrapped ? (i - until_end_) * kSearchLines : begin_ + i * kSearchLines,
                   limit = wrapped ? begin_ : lines_;
    return {first, limit - first < kSearchLines ? limit : first + kSearchLines, again};
  }
  // Returns true if the hand takes a line of a piece.
  [[nodiscard]] __device__ bool takes(const DeviceRows& of, const SearchPiece& piece,
                                      uint32_t line) const {
    if (line >= piece.end) return false;
    const uint32_t use = of.uses[line] & ~DeviceRows::kChanged;
    if (use == of.counts->batch) return false;
    const bool behind_hand = line >= begin_ && line < hand_;  // seen in the second turn only
    return piece.again != (!behind_hand && use <= of.passed[line / kGroupLines]);
  }
  // Notes that the search ends behind a line of a piece.
  __device__ void stop(const DeviceRows& of, const SearchPiece& piece, uint32_t line) const {
    const bool at_end = line + 1 == lines_;
    const uint32_t groups = (lines_ + kGroupLines - 1) / kGroupLines, from = begin_ / kGroupLines,
                   to = at_end ? groups : (line + 1) / kGroupLines;
    of.counts->passed_from = from;
    of.counts->passed = piece.again ? groups : line < begin_ ? groups - from + to : to - from;
    of.counts->next_hand = at_end ? 0 : line + 1;
  }

 private:
  static constexpr uint32_t kGroupLines = DeviceRows::kGroup, kSearchLines = DeviceRows::kPiece;
  [[nodiscard]] static __device__ uint32_t pieces_of(uint32_t lines) {
    return lines / kSearchLines + (lines % kSearchLines != 0);
  }
  const uint32_t hand_, begin_, lines_, until_end_, turn_;
};

// Counts what the hand would take, piece by piece, until there is enough. Blocks draw the pieces in
// order, so those that were counted are the first ones of the way, however many they are.
__global__ void __launch_bounds__(kSearchThreads) search_kernel(DeviceRows of) {
  __shared__ uint32_t of_warp[kSearchThreads / kWarp], drawn;
  DeviceRowCounts& counts = *of.counts;
  if (counts.missed == 0) return;
  const SearchWay way(of);
  for (;;) {
    __syncthreads();  // `drawn` has been read
    if (threadIdx.x == 0)
      drawn = read_now(&counts.found) < counts.missed ? atomicAdd(&counts.drawn, 1u) : way.pieces();
    __syncthreads();
    const uint32_t i = drawn;
    if (i >= way.pieces()) return;
    const SearchPiece piece = way.piece(i);
    uint32_t mine = 0;
    for (uint32_t line = piece.first + threadIdx.x; line < piece.end; line += kSearchThreads)
      mine += way.takes(of, piece, line) ? 1 : 0;
    const uint32_t all = sum_block(mine, of_warp).all;
    if (threadIdx.x != 0) continue;
    of.found[i] = all;
    atomicAdd(&counts.found, all);
  }
}

// Lists the lines that the hand takes: each block those of an equal share of the counted pieces.
__global__ void __launch_bounds__(kSearchThreads)
    victims_kernel(DeviceRows of, AdmittedRows admitted) {
  __shared__ uint32_t of_warp[kSearchThreads / kWarp];
  DeviceRowCounts& counts = *of.counts;
  const uint32_t wanted = counts.missed;
  if (wanted == 0) return;
  const SearchWay way(of);
  const uint32_t pieces = counts.drawn < way.pieces() ? counts.drawn : way.pieces();
  const auto share = [&](uint32_t block) {
    return static_cast<uint32_t>(uint64_t{pieces} * block / gridDim.x);
  };
  const uint32_t first = share(blockIdx.x), end = share(blockIdx.x + 1);
  uint32_t mine = 0;
  for (uint32_t i = threadIdx.x; i < first; i += kSearchThreads) mine += of.found[i];
  uint32_t taken = sum_block(mine, of_warp).all;
  for (uint32_t i = first; i < end && taken < wanted; ++i) {
    if (of.found[i] == 0) continue;
    const SearchPiece piece = way.piece(i);
    for (uint32_t base = piece.first; base < piece.end && taken < wanted; base += kSearchThreads) {
      const uint32_t line = base + threadIdx.x;
      const bool takes = way.takes(of, piece, line);
      const BlockSum sum = sum_block(takes ? 1 : 0, of_warp);
      const uint32_t n = taken + sum.before;
      if (takes && n < wanted) admitted.victims[n] = line;
      if (takes && n == wanted - 1) way.stop(of, piece, line);
      taken += sum.all;
    }
  }
}

// Rows that a warp moves at a time: what is on its way over the bus hides how long that is.
constexpr int kRowsInFlight = 4;

// Of lane i < kRowsInFlight: row `from` is to be copied to row `to`; kNoRow: none.
struct LaneMove {
  uint32_t from = kNoRow, to = kNoRow;
};

// Rows of so many bytes, a Unit an access.
template <typename Unit>
__device__ inline void copy_part(const std::byte* from, std::byte* to, int64_t bytes,
                                 const LaneMove (&moves)[kRowsInFlight], int lane) {
  const auto* const source = reinterpret_cast<const Unit*>(from);
  auto* const target = reinterpret_cast<Unit*>(to);
  const int64_t width = bytes / static_cast<int64_t>(sizeof(Unit));
  for (int64_t j = lane; j < width; j += kWarp) {
    Unit values[kRowsInFlight] = {};
    for (int i = 0; i < kRowsInFlight; ++i)
      if (moves[i].from != kNoRow) values[i] = source[moves[i].from * width + j];
    for (int i = 0; i < kRowsInFlight; ++i)
      if (moves[i].from != kNoRow) target[moves[i].to * width + j] = values[i];
  }
}

// Copies rows of each part, by a whole warp: all are read before the first is written.
__device__ inline void copy_rows(const UpdatedRows& from, const UpdatedRows& to,
                                 const LaneMove& move, int lane) {
  LaneMove moves[kRowsInFlight];
  for (int i = 0; i < kRowsInFlight; ++i)
    moves[i] = {__shfl_sync(kAllLanes, move.from, i), __shfl_sync(kAllLanes, move.to, i)};
  const auto copy = [&](const WeightRows& a, const WeightRows& b) {
    using Wide = Pack<float, kPackCount<float>>;
    const int64_t bytes = a.row_bytes();
    const uintptr_t ends = reinterpret_cast<uintptr_t>(a.bytes()) |
                           reinterpret_cast<uintptr_t>(b.bytes()) | static_cast<uintptr_t>(bytes);
    if (ends % sizeof(Wide) == 0)
      copy_part<Wide>(a.bytes(), b.bytes(), bytes, moves, lane);
    else if (ends % sizeof(float) == 0)
      copy_part<float>(a.bytes(), b.bytes(), bytes, moves, lane);
    else
      copy_part<uint16_t>(a.bytes(), b.bytes(), bytes, moves, lane);
  };
  copy(from.w, to.w);
  if (from.state0.data()) copy(from.state0, to.state0);
  if (from.state1.data()) copy(from.state1, to.state1);
}

// Calls move(i) for items [0, n) of the grid: lanes below kRowsInFlight have one each, of which some
// may lie beyond n; all lanes of a warp come together.
template <typename Move>
__device__ inline void for_each_row(int64_t n, const Move& move) {
  const int64_t lane = threadIdx.x % kWarp;
  for (int64_t first = global_thread() / kWarp * kRowsInFlight; first < n;
       first += grid_threads() / kWarp * kRowsInFlight)
    move(lane < kRowsInFlight ? first + lane : n);
}

__global__ void __launch_bounds__(kItemThreads) move_kernel(DeviceRows of, AdmittedRows admitted) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  DeviceRowCounts& counts = *of.counts;
  const uint32_t taken = counts.found < counts.missed ? counts.found : counts.missed,
                 batch = counts.batch;
  if (global_thread() == 0 && taken < counts.missed) counts.lacking = 1;
  const auto groups = static_cast<uint32_t>((int64_t{of.line_count()} + DeviceRows::kGroup - 1) /
                                            DeviceRows::kGroup);
  for (int64_t i = global_thread(); i < counts.passed; i += grid_threads())
    of.passed[(counts.passed_from + i) % groups] = batch;
  for_each_row(taken, [&](int64_t i) {
    LaneMove out, in;
    uint32_t old = kNoRow;
    if (i < taken) {
      in = {admitted.from[i], admitted.victims[i]};
      old = of.row_of[in.to];
      if (old != kNoRow && (of.uses[in.to] & DeviceRows::kChanged))
        out = {in.to, of.host_of[in.to]};
    }
    copy_rows(of.lines, of.host, out, lane);
    __syncwarp();
    copy_rows(of.host, of.lines, in, lane);
    if (i >= taken) return;
    const uint32_t row = admitted.missed[i], line = in.to;
    if (old != kNoRow) of.where[old] = DeviceRows::kOutside;
    of.where[row] = line;
    of.row_of[line] = row;
    of.host_of[line] = in.from;
    of.uses[line] = batch | (admitted.training ? DeviceRows::kChanged : 0);
    if (out.from != kNoRow) atomicAdd(&counts.written, 1ull);
    if (i == 0) atomicAdd(&counts.fetched, static_cast<unsigned long long>(taken));
  });
}

__global__ void __launch_bounds__(kItemThreads)
    to_lines_kernel(DeviceRows of, AdmittedRows admitted) {
  const int64_t i = global_thread();
  if (i >= admitted.lookups()) return;
  const uint32_t row = admitted.row(i);
  uint32_t line = row;
  if (row < of.rows) line = is_line(of.where[row]) ? of.where[row] : kNoRow;
  admitted.lines.data()[admitted.index(i)] = line;
}

__global__ void __launch_bounds__(kItemThreads)
    recall_kernel(DeviceRows of, Vector<const uint32_t> rows) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  for_each_row(rows.size(), [&](int64_t i) {
    const uint32_t row = i < rows.size() ? rows.data()[i] : kNoRow,
                   line = row != kNoRow ? of.where[row] : kNoRow;
    LaneMove out;
    if (is_line(line) && (of.uses[line] & DeviceRows::kChanged)) out = {line, of.host_of[line]};
    copy_rows(of.lines, of.host, out, lane);
    if (!is_line(line)) return;
    of.where[row] = DeviceRows::kOutside;
    of.row_of[line] = kNoRow;
    of.uses[line] = 0;
    if (out.from != kNoRow) atomicAdd(&of.counts->written, 1ull);
  });
}

// A minimum of one block: without one ptxas saves registers by spilling some.
__global__ void __launch_bounds__(kItemThreads, 1) flush_kernel(DeviceRows of) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int64_t lines = of.line_count();
  for_each_row(lines, [&](int64_t i) {
    LaneMove out;
    const uint32_t line = static_cast<uint32_t>(i);
    if (i < lines && of.row_of[line] != kNoRow && (of.uses[line] & DeviceRows::kChanged))
      out = {line, of.host_of[line]};
    if (__ballot_sync(kAllLanes, out.from != kNoRow) == 0) return;
    copy_rows(of.lines, of.host, out, lane);
    if (out.from != kNoRow) of.uses[line] &= ~DeviceRows::kChanged;
  });
}

__global__ void __launch_bounds__(kItemThreads) forget_kernel(DeviceRows of) {
  const int64_t lines = of.line_count(), rows = of.rows, most = lines > rows ? lines : rows;
  for (int64_t i = global_thread(); i < most; i += grid_threads()) {
    if (i < rows) of.where[i] = DeviceRows::kOutside;
    if (i >= lines) continue;
    of.row_of[i] = kNoRow;
    of.uses[i] = 0;
    if (i % DeviceRows::kGroup == 0) of.passed[i / DeviceRows::kGroup] = 0;
  }
  if (global_thread() == 0) of.counts->next_hand = of.counts->batch = 0;
}

// For for_each_row().
LaunchShape row_shape(const char* name, int64_t rows, cudaStream_t stream) {
  return item_shape(name, (rows + kRowsInFlight - 1) / kRowsInFlight * kWarp, stream, kMaxBlocks);
}

}  // namespace

void number_rows(cudaStream_t stream, const SlotsRef& slots, Matrix<const uint32_t> keys,
                 Matrix<uint32_t> rows, const KeyRecorder& check) {
  if (!indices_fit(slots, keys.dim(0)))
    throw CudaError("rows beyond memory: expected fewer than 2^32 keys, found a batch of " +
                    std::to_string(keys.dim(0)));
  const int64_t lookups = keys.dim(0) * slots.lookups;
  launch(item_shape("number_rows", lookups, stream), number_rows_kernel, slots, keys.data(),
         rows.data(), lookups, check);
}

size_t admit_workspace(int64_t lookups) {
  return lookups == 0 ? 0 : hlite::gpu::exclusive_sums_bytes(static_cast<uint32_t>(lookups));
}

void admit_rows(cudaStream_t stream, const DeviceRows& of, const AdmittedRows& admitted) {
  const int64_t n = admitted.lookups();
  if (n == 0) return;
  const auto item = [&](const char* name) { return item_shape(name, n, stream); };
  const auto search = [&](const char* name) {
    return LaunchShape{.name = name,
                       .grid = grid_for(of.line_count(), DeviceRows::kPiece, kSearchBlocks),
                       .block = kSearchThreads,
                       .stream = stream};
  };
  launch({.name = "admit_begin", .stream = stream}, begin_kernel, of);
  launch(item("admit_claim"), claim_kernel, of, admitted);
  launch(item("admit_mark"), mark_kernel, of, admitted);
  hlite::gpu::exclusive_sums(stream, {admitted.temporary, admitted.temporary_bytes},
                             admitted.claimed, admitted.before, static_cast<uint32_t>(n));
  launch(item("admit_list"), list_kernel, of, admitted);
  launch(search("admit_search"), search_kernel, of);
  launch(search("admit_victims"), victims_kernel, of, admitted);
  launch(row_shape("admit_move", n, stream), move_kernel, of, admitted);
  launch(item("admit_lines"), to_lines_kernel, of, admitted);
}

void recall_rows(cudaStream_t stream, const DeviceRows& of, Vector<const uint32_t> rows) {
  if (rows.size() == 0) return;
  launch(row_shape("recall_rows", rows.size(), stream), recall_kernel, of, rows);
}

void flush_rows(cudaStream_t stream, const DeviceRows& of) {
  launch(row_shape("flush_rows", of.line_count(), stream), flush_kernel, of);
}

void forget_rows(cudaStream_t stream, const DeviceRows& of) {
  const int64_t most = std::max<int64_t>(of.line_count(), of.rows);
  launch(item_shape("forget_rows", most, stream, kMaxBlocks), forget_kernel, of);
}

HLITE_KERNELS(device_rows) {
  list.add<number_rows>(kernels::number_rows);
  list.add<admit_workspace>(kernels::admit_workspace);
  list.add<admit_rows>(kernels::admit_rows);
  list.add<recall_rows>(kernels::recall_rows);
  list.add<flush_rows>(kernels::flush_rows);
  list.add<forget_rows>(kernels::forget_rows);
}

}  // namespace hlite::embedding::gpu
