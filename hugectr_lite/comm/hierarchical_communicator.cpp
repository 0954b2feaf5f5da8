#include "hugectr_lite/comm/hierarchical_communicator.h"

#include <algorithm>
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

HostCommunicator& with_rails(HostCommunicator& world) {
  if (!world.topology().uniform())
    raise<CommError>("hierarchical exchange: expected as many ranks on every node");
  return world;
}

}  // namespace

void HierarchicalCommunicator::Message::start(size_t blocks) {
  bytes.assign(blocks * sizeof(Size), std::byte{0});
}

void HierarchicalCommunicator::Message::append(size_t block, ConstBytes data) {
  const Size size = data.size();
  std::memcpy(bytes.data() + block * sizeof(Size), &size, sizeof size);
  bytes.insert(bytes.end(), data.begin(), data.end());
}

HierarchicalCommunicator::HierarchicalCommunicator(HostCommunicator& world)
    : HostCommunicator(with_rails(world).topology(), world.rank()),
      flat_(world.part(0)),
      intra_(world.part(world.topology().node_of(world.rank()))),
      rail_(world.part(world.topology().local_of(world.rank()))),
      to_local_(static_cast<size_t>(intra_->size())),
      to_node_(static_cast<size_t>(rail_->size())) {}

void HierarchicalCommunicator::all_to_all_v(const Exec& exec, const Blocks& blocks) {
  HLITE_CHECK(!exec.on_gpu(), "threads and processes exchange host memory");
  exchange_in_node(blocks);
  exchange_along_rail(blocks);
}

void HierarchicalCommunicator::exchange_in_node(const Blocks& blocks) {
  const size_t nodes = to_node_.size(), locals = to_local_.size();
  const auto capacity = static_cast<size_t>(blocks.capacity);
  send_.clear();
  for (size_t r = 0; r < locals; ++r) {
    to_local_[r].start(nodes);
    for (size_t d = 0; d < nodes; ++d) {
      const auto q =
          static_cast<size_t>(topology().rank_at(static_cast<int>(d), static_cast<int>(r)));
      HLITE_CHECK(blocks.send_bytes[q] >= 0 && blocks.send_bytes[q] <= blocks.capacity,
                  "{} bytes in a block of {}", blocks.send_bytes[q], capacity);
      to_local_[r].append(d,
                          {blocks.send + q * capacity, static_cast<size_t>(blocks.send_bytes[q])});
    }
    send_.push_back(to_local_[r].bytes);
  }
  for (Message& message : to_node_) message.start(locals);
  received_.assign(locals, anywhere(nodes * (sizeof(Size) + capacity)));
  intra_->visit(send_, received_, [&](int local, ConstBytes message) {
    for_each_block(message, nodes, [&](size_t node, ConstBytes block) {
      to_node_[node].append(static_cast<size_t>(local), block);
    });
  });
}

void HierarchicalCommunicator::exchange_along_rail(const Blocks& blocks) {
  const size_t nodes = to_node_.size(), locals = to_local_.size();
  const auto capacity = static_cast<size_t>(blocks.capacity);
  send_.clear();
  for (const Message& message : to_node_) send_.push_back(message.bytes);
  received_.assign(nodes, anywhere(locals * (sizeof(Size) + capacity)));
  rail_->visit(send_, received_, [&](int node, ConstBytes message) {
    for_each_block(message, locals, [&](size_t local, ConstBytes block) {
      const auto q = static_cast<size_t>(topology().rank_at(node, static_cast<int>(local)));
      if (block.size() > capacity)
        raise<CommError>("rank {} sent {} bytes to rank {}, which expects at most {}", q,
                         block.size(), rank(), capacity);
      if (!block.empty()) std::memcpy(blocks.receive + q * capacity, block.data(), block.size());
      blocks.received_bytes[q] = std::ssize(block);
    });
  });
}

void HierarchicalCommunicator::all_reduce(const Exec& exec, std::span<float> values, AllReduce algo,
                                          size_t pairs) {
  const Slice own = slice_of(values.size(), intra_->rank(), intra_->size());
  slice_.resize(std::max(slice_.size(), own.size()));
  const auto slice = std::span(slice_).first(own.size());
  intra_->reduce_scatter(exec, values, slice, pairs);
  rail_->all_reduce(exec, slice, algo, pairs_in(own, pairs));
  intra_->all_gather(exec, std::as_bytes(slice), std::as_writable_bytes(values), sizeof(float));
}

}  // namespace hlite::comm
