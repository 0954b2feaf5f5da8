// The hierarchical all-to-all: inside the node first, then between nodes along rails, so that a
// rank sends one message to each other node instead of one to each rank there.
//
//   1. Inside node s, rank l hands rank r what it has for the r-th rank of every node.
//   2. Along rail r (the r-th ranks of all nodes), node s sends node d everything that its ranks
//      have for the r-th rank of d, as one message.
//   3. The receiver takes the message apart by source rank.
//
// Source: HugeCTR's hierarchical all-to-all for hybrid embeddings, with an exact all-to-all-v in
// each step. Sizes travel inside the messages; nothing is negotiated.
#pragma once

#include <memory>
#include <vector>

#include "hugectr_lite/comm/communicator.h"
#include "hugectr_lite/comm/topology.h"

namespace hlite::comm {

class HierarchicalExchange {
 public:
  // Collective over `world`, whose ranks are those of `topology`; it needs as many ranks on every
  // node (CommError). `block_capacity`: the most bytes that any rank sends to any one rank.
  HierarchicalExchange(Communicator& world, const Topology& topology, size_t block_capacity);

  // As Communicator::all_to_all_v(). REQUIRES send[q].size() <= block_capacity.
  void all_to_all_v(std::span<const ConstBytes> send, std::span<const Bytes> receive,
                    std::span<size_t> received);

  // Agreed by all ranks, between calls.
  void set_block_capacity(size_t bytes) { block_capacity_ = bytes; }
  [[nodiscard]] const Communicator& intra() const { return *intra_; }
  [[nodiscard]] const Communicator& rail() const { return *rail_; }

 private:
  // A message being put together: a table of sizes, then the blocks.
  struct Message {
    std::vector<std::byte> bytes;
    void start(size_t blocks);
    void append(size_t block, ConstBytes data);
  };

  const Topology topology_;
  size_t block_capacity_;
  std::unique_ptr<Communicator> intra_, rail_;
  std::vector<Message> to_local_, to_node_;
  std::vector<ConstBytes> send_;
  std::vector<size_t> most_;
};

}  // namespace hlite::comm
