// Routing on a GPU: what one rank's share of a batch needs from where, as key_routing.h says it.
// The lists are the same, number by number; an entry of a lookup is a row of the pool:
//
//   rows [q * capacity, ...)        the list of rank q, in its order
//   rows [ranks * capacity, ...)    the copied rows that the batch looks up
//
// All numbers stay in the device's memory. Lists for other ranks lie where they are sent from,
// behind a header that says how long the longest of them is. Of tables whose rows come as keys come
// a list holds keys, by slot and then key, and its header also says where each slot ends in it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "embedding/key_error_record.h"
#include "embedding/placement_ref.h"
#include "embedding/slots_ref.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::embedding {

// Words of a list's header: the longest list of its sender, an int64.
inline constexpr int64_t kListHeader = 2;
// Ranks that lists can be made for.
inline constexpr int kMostListed = 128;

// The room of lists, and of the pool.
struct PoolShape {
  int32_t ranks = 1;
  int64_t capacity = 0;         // rows, of any one rank
  int64_t copied_capacity = 0;  // copied rows; a batch never has more
  int64_t width = 0;
  int64_t value_bytes = 4;   // of an element of a row as it travels
  int64_t hashed_slots = 0;  // of tables whose rows come as keys come; else 0

  [[nodiscard]] HLITE_HD int64_t listed_rows() const { return ranks * capacity; }
  [[nodiscard]] HLITE_HD int64_t rows() const { return ranks * capacity + copied_capacity; }
  [[nodiscard]] HLITE_HD int64_t header_words() const { return kListHeader + hashed_slots; }
  [[nodiscard]] HLITE_HD int64_t block_words() const { return header_words() + capacity; }
  [[nodiscard]] HLITE_HD int64_t row_bytes() const { return width * value_bytes; }
};

// What a rank wants.
struct WantedLists {
  uint32_t* blocks = nullptr;     // [ranks][header_words() + capacity]
  int64_t* list_bytes = nullptr;  // [ranks] of a block, to be sent; of a list too long the header's
  uint32_t* copied = nullptr;     // [copied_capacity] rows of the copied ones
  uint32_t* counts = nullptr;     // [ranks + 1] rows in the pool: of each list, of the copied ones
  int64_t* vector_bytes = nullptr;  // [ranks] of the lists' vectors
};

struct RouteArgs {
  SlotsRef slots = {};  // of the tables
  PlacementRef placement = {};
  PoolShape pool = {};
  Matrix<const uint32_t> keys = {};  // [B,columns]
  Matrix<uint32_t> entries = {};     // [B,columns] written in the layer's columns; kNoKey: none
  WantedLists lists = {};
  KeyCheck check = {};
  std::byte* workspace = nullptr;
  size_t workspace_bytes = 0;
};

// What others want of a rank, from the blocks that came.
struct AskedRows {
  uint32_t* rows = nullptr;         // [ranks * capacity] kNoKey behind each list's end
  uint32_t* counts = nullptr;       // [ranks]
  int64_t* vector_bytes = nullptr;  // [ranks]
  int64_t* needed = nullptr;        // rows of the longest list of any rank
  // Written in place of rows where these come as keys come: keys, and the slot of each.
  uint32_t *keys = nullptr, *slots = nullptr;
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
  PoolShape pool = {};
  const uint32_t* blocks = nullptr;         // [ranks][header_words() + capacity] as they came
  const int64_t* received_bytes = nullptr;  // [ranks]
  WantedLists lists = {};                   // what this rank has asked for
  AskedRows asked = {};                     // written
  int32_t* overflow = nullptr;              // 1: a list of some rank was too long
  PeerCounts* counts = nullptr;             // [ranks] added to
  bool training = true;
};

namespace kernels {
// Bytes for batches of up to `lookups` keys, of rows with numbers up to `numbers`.
inline const Kernel<size_t(int64_t /*lookups*/, uint32_t /*numbers*/)> routing_workspace{
    "routing_workspace"};
inline const Kernel<void(const RouteArgs&)> route_keys{"route_keys"};
inline const Kernel<void(const TakeArgs&)> take_lists{"take_lists"};
}  // namespace kernels

}  // namespace hlite::embedding
