// Collectives on several nodes of several ranks: inside the node first, then between nodes along
// rails (the r-th ranks of all nodes). Source: HugeCTR's hierarchical all-to-all for hybrid
// embeddings, with an exact all-to-all-v in each step.
//
// All-to-all-v: a rank sends one message to each other node instead of one to each rank there.
//   1. Inside node s, rank l hands rank r what it has for the r-th rank of every node.
//   2. Along rail r, node s sends node d everything that its ranks have for the r-th rank of d, as
//      one message.
//   3. The receiver takes the message apart by source rank.
// Sizes travel inside the messages; nothing is negotiated.
//
// All-reduce: a reduce-scatter in the node, an all-reduce along the rail, an all-gather in the
// node. Between nodes every value travels 2 (nodes - 1) / nodes times a node, whatever the ranks on
// it; a flat all-reduce sends it once for each rank. Sums are taken in the order of local ranks,
// then of nodes: the same bits every time, though not those of a flat one.
//
// All else goes flat.
#pragma once

#include <memory>
#include <vector>

#include "hugectr_lite/comm/host_communicator.h"

namespace hlite::comm {

class HierarchicalCommunicator final : public HostCommunicator {
 public:
  // Collective over `world`; it needs as many ranks on every node (CommError).
  explicit HierarchicalCommunicator(HostCommunicator& world);

  void barrier() override { flat_->barrier(); }
  void visit(std::span<const ConstBytes> send, std::span<const Bytes> buffers,
             Consume consume) override {
    flat_->visit(send, buffers, consume);
  }
  std::unique_ptr<HostCommunicator> part(int colour) override { return flat_->part(colour); }
  void abort(const std::string& reason) noexcept override { flat_->abort(reason); }
  [[nodiscard]] bool aborted() const override { return flat_->aborted(); }

  void all_to_all_v(const Exec& exec, const Blocks& blocks) override;
  // `algo`: of the sum over nodes.
  void all_reduce(const Exec& exec, std::span<float> values, AllReduce algo, size_t pairs) override;
  [[nodiscard]] TrafficTotals traffic() const override {
    return intra_->traffic() + rail_->traffic() + flat_->traffic();
  }

 private:
  // A message being put together: a table of sizes, then the blocks.
  struct Message {
    std::vector<std::byte> bytes;
    void start(size_t blocks);
    void append(size_t block, ConstBytes data);
  };
  void exchange_in_node(const Blocks& blocks);
  void exchange_along_rail(const Blocks& blocks);

  const std::unique_ptr<HostCommunicator> flat_, intra_, rail_;
  std::vector<Message> to_local_, to_node_;
  std::vector<ConstBytes> send_;
  std::vector<Bytes> received_;
  std::vector<float> slice_;
};

}  // namespace hlite::comm
