// Routing finds the owners of the rows that a rank's share of a batch looks up. Each rank q gets a
// request list: the distinct rows it owns, by table and then key. Rows that are replicated on every
// rank are on no list. The received rows form one array, and an entry of a lookup is a row of it:
//
//   rows [q * capacity, ...)        the list of rank q, in its order
//   rows [ranks * capacity, ...)    the replicated rows that the batch looks up
//
// All numbers stay in the device's memory. Lists for other ranks lie where they are sent from,
// after a header that says how long the longest of them is. A list of hashed tables holds keys, by
// table and then key, and its header also says where each table ends in it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "embedding/key_error_record.h"
#include "embedding/placement_ref.h"
#include "embedding/slots_ref.h"
#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::embedding {

// Words of a list's header: the longest list of its sender, an int64.
inline constexpr int64_t kListHeader = 2;
// Ranks that a GPU can make lists for.
inline constexpr int kMaxListRanks = 128;

// The layout of lists and of received rows: their capacities and widths.
struct ExchangeShape {
  int32_t ranks = 1;
  int64_t capacity = 0;             // rows, of any one rank
  int64_t replicated_capacity = 0;  // replicated rows; a batch never has more
  int64_t width = 0;
  int64_t value_bytes = 4;    // per element of a row on the wire
  int64_t hashed_tables = 0;  // number of hashed tables; else 0

  [[nodiscard]] HLITE_HD int64_t list_capacity() const { return ranks * capacity; }
  [[nodiscard]] HLITE_HD int64_t rows() const { return ranks * capacity + replicated_capacity; }
  [[nodiscard]] HLITE_HD int64_t header_words() const { return kListHeader + hashed_tables; }
  [[nodiscard]] HLITE_HD int64_t block_words() const { return header_words() + capacity; }
  [[nodiscard]] HLITE_HD int64_t row_bytes() const { return width * value_bytes; }
};

// The rows that a rank requests of others.
struct RequestLists {
  uint32_t* blocks = nullptr;     // [ranks][header_words() + capacity]
  int64_t* list_bytes = nullptr;  // [ranks] of a block, to be sent; of a list too long the header's
  uint32_t* replicated = nullptr;   // [replicated_capacity] rows of the replicated ones
  uint32_t* counts = nullptr;       // [ranks + 1] received rows: by list, then replicated
  int64_t* vector_bytes = nullptr;  // [ranks] of the lists' vectors
};

struct RouteArgs {
  SlotsRef slots = {};  // of the tables
  PlacementRef placement = {};
  ExchangeShape shape = {};
  Matrix<const uint32_t> keys = {};  // [B,columns]
  Matrix<uint32_t> entries = {};     // [B,columns] written in the layer's columns; kNoKey: none
  RequestLists lists = {};
  KeyRecorder check = {};
  std::byte* workspace = nullptr;
  size_t workspace_bytes = 0;
};

// The rows that others request of a rank, from the blocks that came.
struct RequestedRows {
  uint32_t* rows = nullptr;         // [ranks * capacity] kNoKey after each list's end
  uint32_t* counts = nullptr;       // [ranks]
  int64_t* vector_bytes = nullptr;  // [ranks]
  int64_t* needed = nullptr;        // rows of the longest list of any rank
  // Written instead of rows for hashed tables: keys, and the table of each.
  uint32_t *keys = nullptr, *tables = nullptr;
};

// Bytes and messages between this rank and each other one, by exchange.
struct ExchangeCounts {
  int64_t sent = 0, messages = 0, received = 0;
  int64_t calls = 0;
};
struct PeerCounts {
  ExchangeCounts keys, rows, grads;
};

struct TakeArgs {
  ExchangeShape shape = {};
  const uint32_t* blocks = nullptr;         // [ranks][header_words() + capacity] as they came
  const int64_t* received_bytes = nullptr;  // [ranks]
  RequestLists lists = {};                  // what this rank has requested
  RequestedRows requested = {};             // written
  int32_t* capacity_exceeded = nullptr;     // set to 1 if a list of any rank is too long
  PeerCounts* counts = nullptr;             // [ranks] added to
  bool training = true;
};

// Bytes of RouteArgs::workspace for batches of up to max_batch samples, of rows with numbers up to
// `numbers` on so many ranks, on up to `threads` threads of the CPU; an estimate for a GPU that is
// not there.
size_t routing_workspace(const Exec& exec, const SlotsRef& slots, int ranks, int64_t max_batch,
                         uint32_t numbers, int threads);
// Writes entries and lists of a batch. A list that is too long sends only its header, and its
// lookups have no entry or, if slots.complete, an arbitrary one: the run will be repeated.
void route_keys(const Exec& exec, const RouteArgs& args);
// Writes what other ranks request.
void take_lists(const Exec& exec, const TakeArgs& args);

namespace kernels {
// Bytes for batches of up to `lookups` keys, of rows with numbers up to `numbers`.
inline const Kernel<size_t(int64_t /*lookups*/, uint32_t /*numbers*/)> routing_workspace{
    "routing_workspace"};
inline const KernelOf<decltype(embedding::route_keys)> route_keys{"route_keys"};
inline const KernelOf<decltype(embedding::take_lists)> take_lists{"take_lists"};
}  // namespace kernels

}  // namespace hlite::embedding
