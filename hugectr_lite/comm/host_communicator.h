// The common part of communicators of threads and of processes: all collectives are made of one
// step, visit(). Private to this folder.
#pragma once

#include <memory>
#include <vector>

#include "hugectr_lite/comm/communicator.h"
#include "hugectr_lite/core/thread_pool.h"

namespace hlite::comm {

class HostCommunicator : public Communicator {
 public:
  HostCommunicator(Topology topology, int rank) : topology_(std::move(topology)), rank_(rank) {}

  [[nodiscard]] int rank() const final { return rank_; }
  [[nodiscard]] const Topology& topology() const final { return topology_; }

  // The step everything below is made of. Rank r sends send[q] to rank q, and calls
  // consume(q, the bytes that q sent to r) for q = 0, 1, ..., itself included. buffers[q].size() is
  // the size of the largest message that may come from q; a larger one is a CommError on all ranks.
  // A message that has to be moved is put at buffers[q].data(), or if that is null into memory of
  // the communicator. The bytes given to consume() are valid during that call; what is sent must
  // stay unchanged until visit() returns, and so consume() must not write to it.
  using Consume = FunctionRef<void(int from, ConstBytes bytes)>;
  virtual void visit(std::span<const ConstBytes> send /*[size]*/,
                     std::span<const Bytes> buffers /*[size]*/, Consume consume) = 0;
  // Does what split() does.
  virtual std::unique_ptr<HostCommunicator> part(int colour) = 0;

  std::unique_ptr<Communicator> split(int colour) override { return part(colour); }
  std::unique_ptr<Communicator> copy(Route route) override;
  void broadcast(const Exec& exec, Bytes bytes, int root) override;
  void gather(const Exec& exec, ConstBytes mine, Bytes all, int root) override;
  void all_gather(const Exec& exec, ConstBytes mine, Bytes all, size_t unit) override;
  void all_to_all_v(const Exec& exec, const Blocks& blocks) override;
  void reduce_scatter(const Exec& exec, std::span<const float> all, std::span<float> mine,
                      size_t pairs) override;
  void all_reduce(const Exec& exec, std::span<float> values, AllReduce algo, size_t pairs) override;
  [[nodiscard]] TrafficTotals traffic() const override { return traffic_; }

 protected:
  // Used by visit() of implementations. Checks the numbers of messages and counts what is sent.
  void account(std::span<const ConstBytes> send, std::span<const Bytes> buffers);
  // Counts a message from `from`. Throws CommError when it is larger than its buffer.
  void account_received(int from, size_t bytes, std::span<const Bytes> buffers);

 private:
  // Moves what send_ names to where room_ names: each message fills its place.
  void move(const Exec& exec, const char* what);
  void add_up(const Exec& exec, std::span<float> sum, size_t pairs);

  const Topology topology_;
  const int rank_;
  TrafficTotals traffic_;
  std::vector<ConstBytes> send_;
  std::vector<Bytes> received_;
  std::vector<float> sum_;
  std::vector<float> wide_;  // sums of pairs, as they grow
};

// A buffer that takes a message wherever it lies.
inline Bytes anywhere(size_t bytes) { return {static_cast<std::byte*>(nullptr), bytes}; }

}  // namespace hlite::comm
