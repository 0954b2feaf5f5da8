#include "hugectr_lite/comm/hierarchical_exchange.h"

#include <cstring>

namespace hlite::comm {
namespace {

using Size = uint64_t;  // an entry of a message's table

// Calls body(block, its bytes) for each of the blocks of a message.
template <typename Body>
void for_each_block(ConstBytes message, size_t blocks, Body&& body) {
  size_t at = blocks * sizeof(Size);
  for (size_t b = 0; b < blocks; ++b) {
    Size size = 0;
    if (at <= message.size()) std::memcpy(&size, message.data() + b * sizeof(Size), sizeof size);
    if (at > message.size() || size > message.size() - at)
      raise<CommError>("hierarchical exchange: a message of {} bytes is damaged", message.size());
    body(b, message.subspan(at, size));
    at += size;
  }
}

}  // namespace

void HierarchicalExchange::Message::start(size_t blocks) {
  bytes.assign(blocks * sizeof(Size), std::byte{0});
}

void HierarchicalExchange::Message::append(size_t block, ConstBytes data) {
  const Size size = data.size();
  std::memcpy(bytes.data() + block * sizeof(Size), &size, sizeof size);
  bytes.insert(bytes.end(), data.begin(), data.end());
}

HierarchicalExchange::HierarchicalExchange(Communicator& world, const Topology& topology,
                                           size_t block_capacity)
    : topology_(topology), block_capacity_(block_capacity) {
  HLITE_CHECK(world.size() == topology.ranks(), "{} ranks, a topology of {}", world.size(),
              topology.ranks());
  if (!topology.uniform())
    raise<CommError>("hierarchical exchange: expected as many ranks on every node");
  intra_ = world.split(topology.node_of(world.rank()));
  rail_ = world.split(topology.local_of(world.rank()));
  to_local_.resize(static_cast<size_t>(intra_->size()));
  to_node_.resize(static_cast<size_t>(rail_->size()));
}

void HierarchicalExchange::all_to_all_v(std::span<const ConstBytes> send,
                                        std::span<const Bytes> receive,
                                        std::span<size_t> received) {
  const auto ranks = static_cast<size_t>(topology_.ranks());
  const size_t nodes = to_node_.size(), locals = to_local_.size();
  HLITE_CHECK(send.size() == ranks && receive.size() == ranks && received.size() == ranks,
              "{}, {} and {} of {}", send.size(), receive.size(), received.size(), ranks);
  const auto rank_at = [&](size_t node, size_t local) {
    return static_cast<size_t>(topology_.rank_at(static_cast<int>(node), static_cast<int>(local)));
  };

  send_.clear();
  for (size_t r = 0; r < locals; ++r) {
    to_local_[r].start(nodes);
    for (size_t d = 0; d < nodes; ++d) {
      const ConstBytes block = send[rank_at(d, r)];
      HLITE_CHECK(block.size() <= block_capacity_, "{} bytes, capacity {}", block.size(),
                  block_capacity_);
      to_local_[r].append(d, block);
    }
    send_.push_back(to_local_[r].bytes);
  }
  for (Message& message : to_node_) message.start(locals);
  most_.assign(locals, nodes * (sizeof(Size) + block_capacity_));
  intra_->visit(send_, most_, [&](int local, ConstBytes message) {
    for_each_block(message, nodes, [&](size_t node, ConstBytes block) {
      to_node_[node].append(static_cast<size_t>(local), block);
    });
  });

  send_.clear();
  for (const Message& message : to_node_) send_.push_back(message.bytes);
  most_.assign(nodes, locals * (sizeof(Size) + block_capacity_));
  rail_->visit(send_, most_, [&](int node, ConstBytes message) {
    for_each_block(message, locals, [&](size_t local, ConstBytes block) {
      const size_t q = rank_at(static_cast<size_t>(node), local);
      if (block.size() > receive[q].size())
        raise<CommError>("rank {} sent {} bytes, the receiver has room for {}", q, block.size(),
                         receive[q].size());
      if (!block.empty()) std::memcpy(receive[q].data(), block.data(), block.size());
      received[q] = block.size();
    });
  });
}

}  // namespace hlite::comm
