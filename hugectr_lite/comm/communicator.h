// Collectives among the ranks of a run. A rank is a thread of this process (ThreadCommunicator) or
// a process under mpirun (MpiCommunicator); what is computed is the same, bit for bit: sums are
// always taken in the order of ranks, whoever takes them.
//
// Every call is collective: all ranks of the communicator make the same calls in the same order,
// one call at a time. Whoever wants two exchanges at once (lanes that overlap) takes two
// communicators: split(0) copies one. A rank that fails calls abort(); every other rank then gets a
// CommError with that reason out of the call it is in, or makes next, instead of waiting for ever.
//
// Once warm, a call allocates nothing (scratch memory only grows).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/thread_pool.h"

namespace hlite::comm {

// A rank failed or the ranks disagree; exit code 4.
class CommError : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

// What this rank sent to each other rank and got from it, since it was made. What stays with the
// rank itself does not count.
struct Traffic {
  std::vector<int64_t> bytes, messages;  // [size] sent
  std::vector<int64_t> received_bytes;   // [size]
};

enum class AllReduce {
  kTwoPhase,  // each rank sums a slice, then all gather the slices: 2 (n-1)/n of the data sent
  kOneShot,   // each rank reads all others' data and sums it all: (n-1) times the data, one step
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  // Returns when every rank has called it.
  virtual void barrier() = 0;

  // The step everything below is made of. Rank r sends send[q] to rank q, and calls
  // consume(q, the bytes that q sent to r) for q = 0, 1, ..., itself included. `most[q]`: the
  // largest message that may come from q; a larger one is a CommError on all ranks. The bytes given
  // to consume() are valid during that call; what is sent must stay unchanged until visit()
  // returns, and so consume() must not write to it.
  using Consume = FunctionRef<void(int from, ConstBytes bytes)>;
  virtual void visit(std::span<const ConstBytes> send /*[size]*/,
                     std::span<const size_t> most /*[size]*/, Consume consume) = 0;

  // A communicator of the ranks that gave the same colour (>= 0), in the order of their ranks.
  virtual std::unique_ptr<Communicator> split(int colour) = 0;

  // Ends the call that any rank is in, and every later one, on this communicator and on all that
  // were split from the same world. The first reason counts. May be called from any thread.
  virtual void abort(const std::string& reason) noexcept = 0;

  // bytes of rank `root` -> bytes of all. Equal sizes.
  void broadcast(Bytes bytes, int root);
  // all[q * mine.size() ...) <- mine of rank q. all.size() == size() * mine.size().
  void all_gather(ConstBytes mine, Bytes all);
  // receive[q][0, received[q]) <- send[rank()] of rank q. receive[q].size() is the capacity.
  void all_to_all_v(std::span<const ConstBytes> send, std::span<const Bytes> receive,
                    std::span<size_t> received);
  // mine[i] <- sum over ranks q of all_q[rank() * mine.size() + i]. all.size() == size() *
  // mine.size(). The two must not overlap.
  void reduce_scatter(std::span<const float> all, std::span<float> mine);
  // values[i] <- sum over ranks. Both ways give the same bits.
  void all_reduce(std::span<float> values, AllReduce algo = AllReduce::kTwoPhase);

  [[nodiscard]] const Traffic& traffic() const { return traffic_; }

 protected:
  // For visit() of implementations. Checks the numbers of messages and counts what is sent.
  void account(std::span<const ConstBytes> send, std::span<const size_t> most);
  // Counts a message from `from`. Throws CommError when it is larger than most[from].
  void account_received(int from, size_t bytes, std::span<const size_t> most);

 private:
  void add_up(std::span<const ConstBytes> send, std::span<float> sum);

  Traffic traffic_;
  std::vector<ConstBytes> send_;
  std::vector<size_t> most_;
  std::vector<float> sum_;
};

// The [begin, end) of n items that belong to part `part` of `parts`: sizes differ by at most one.
struct Slice {
  size_t begin, end;
  [[nodiscard]] size_t size() const { return end - begin; }
};
inline Slice slice_of(size_t n, int part, int parts) {
  const auto p = static_cast<size_t>(part), count = static_cast<size_t>(parts);
  return {n * p / count, n * (p + 1) / count};
}

}  // namespace hlite::comm
