// A transport is one file: here, ranks that reach each other by Unix sockets. It has what
// HostCommunicator asks for, and with that every collective, every route and every exchange of
// rows.
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "hugectr_lite/comm/host_communicator.h"
#include "hugectr_lite/comm/thread_communicator.h"
#include "tests/comm/collective_checks.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::comm {
namespace {

// A pair of connected sockets for each pair of ranks, and the reason why a run has ended.
class SocketLinks {
 public:
  explicit SocketLinks(int ranks)
      : ends_(static_cast<size_t>(ranks), std::vector<int>(static_cast<size_t>(ranks), -1)) {
    for (size_t a = 0; a < ends_.size(); ++a)
      for (size_t b = 0; b < a; ++b) {
        std::array<int, 2> pair{};
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.data()) != 0)
          raise("socketpair: {}", std::strerror(errno));
        ends_[a][b] = pair[0];
        ends_[b][a] = pair[1];
      }
  }
  ~SocketLinks() {
    for (const auto& row : ends_)
      for (const int end : row)
        if (end >= 0) ::close(end);
  }
  SocketLinks(const SocketLinks&) = delete;
  SocketLinks& operator=(const SocketLinks&) = delete;

  [[nodiscard]] int end(int of, int to) const {
    return ends_[static_cast<size_t>(of)][static_cast<size_t>(to)];
  }
  void abort(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (!aborted_) reason_ = why;
    aborted_ = true;
  }
  [[nodiscard]] bool aborted() const { return aborted_; }
  void check() {
    if (!aborted_) return;
    const std::lock_guard lock(mutex_);
    throw CommError(reason_);
  }

 private:
  std::vector<std::vector<int>> ends_;
  std::mutex mutex_;
  std::atomic<bool> aborted_ = false;
  std::string reason_;
};

// A message on its way: its size, then its bytes.
struct Message {
  uint64_t size = 0;
  size_t done = 0;  // of both
  std::byte* bytes = nullptr;
  [[nodiscard]] bool finished() const { return done == sizeof(size) + size; }
};

class SocketCommunicator final : public HostCommunicator {
 public:
  // `members`: of each rank of the topology, its rank among the links.
  SocketCommunicator(std::shared_ptr<SocketLinks> links, Topology topology, int rank,
                     std::vector<int> members)
      : HostCommunicator(std::move(topology), rank),
        links_(std::move(links)),
        members_(std::move(members)) {}

  void barrier() override {
    const std::vector<ConstBytes> send(static_cast<size_t>(size()));
    const std::vector<Bytes> buffers(send.size());
    visit(send, buffers, [](int, ConstBytes) {});
  }

  void visit(std::span<const ConstBytes> send, std::span<const Bytes> buffers,
             Consume consume) override {
    account(send, buffers);
    std::vector<Message> out(send.size()), in(send.size());
    std::vector<std::vector<std::byte>> memory(send.size());
    for (size_t q = 0; q < send.size(); ++q)
      out[q] = {.size = send[q].size(), .bytes = const_cast<std::byte*>(send[q].data())};
    for (;;) {
      links_->check();
      std::vector<pollfd> waiting;
      for (int q = 0; q < size(); ++q) {
        const auto i = static_cast<size_t>(q);
        if (q == rank()) continue;
        short events = 0;
        if (!move<true>(q, out[i], memory[i])) events |= POLLOUT;
        if (!move<false>(q, in[i], memory[i])) events |= POLLIN;
        if (events != 0) waiting.push_back({end(q), events, 0});
      }
      if (waiting.empty()) break;
      ::poll(waiting.data(), waiting.size(), 20);  // and looks whether the run has ended
    }
    try {
      for (int q = 0; q < size(); ++q) {
        const auto i = static_cast<size_t>(q);
        const ConstBytes bytes = q == rank() ? send[i] : ConstBytes(memory[i]);
        account_received(q, bytes.size(), buffers);
        if (buffers[i].data() == nullptr || q == rank()) {
          consume(q, bytes);
        } else {
          std::copy(bytes.begin(), bytes.end(), buffers[i].data());
          consume(q, {buffers[i].data(), bytes.size()});
        }
      }
    } catch (const std::exception& error) {
      abort(error.what());
      throw;
    }
  }

  std::unique_ptr<HostCommunicator> part(int colour) override {
    const auto n = static_cast<size_t>(size());
    const ConstBytes mine = std::as_bytes(std::span(&colour, 1));
    const std::vector<ConstBytes> send(n, mine);
    const std::vector<Bytes> buffers(n, anywhere(mine.size()));
    std::vector<int> ranks, members;
    int place = 0;
    visit(send, buffers, [&](int q, ConstBytes bytes) {
      int theirs = 0;
      std::memcpy(&theirs, bytes.data(), sizeof(theirs));
      if (theirs != colour) return;
      if (q == rank()) place = static_cast<int>(ranks.size());
      ranks.push_back(q);
      members.push_back(members_[static_cast<size_t>(q)]);
    });
    return std::make_unique<SocketCommunicator>(links_, topology().part(ranks), place, members);
  }
  void abort(const std::string& reason) noexcept override { links_->abort(reason); }
  [[nodiscard]] bool aborted() const override { return links_->aborted(); }

 private:
  [[nodiscard]] int end(int q) const {
    return links_->end(members_[static_cast<size_t>(rank())], members_[static_cast<size_t>(q)]);
  }
  // As much as the socket takes or has now; returns whether the message is through.
  template <bool kOut>
  bool move(int q, Message& message, std::vector<std::byte>& memory) {
    while (message.done < sizeof(message.size) || !message.finished()) {
      const bool head = message.done < sizeof(message.size);
      std::byte* const from = head ? reinterpret_cast<std::byte*>(&message.size) + message.done
                                   : message.bytes + (message.done - sizeof(message.size));
      const size_t left = (head ? 0 : message.size) + sizeof(message.size) - message.done;
      const ssize_t n =
          kOut ? ::send(end(q), from, left, MSG_NOSIGNAL) : ::recv(end(q), from, left, 0);
      if (n <= 0) {
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
        throw CommError(fmt::format("rank {}: the socket to rank {} is closed", rank(), q));
      }
      message.done += static_cast<size_t>(n);
      if (!kOut && head && message.done == sizeof(message.size)) {
        memory.resize(message.size);
        message.bytes = memory.data();
      }
    }
    return true;
  }

  const std::shared_ptr<SocketLinks> links_;
  const std::vector<int> members_;
};

std::vector<std::unique_ptr<Communicator>> make_socket_ranks(const Topology& topology) {
  const auto links = std::make_shared<SocketLinks>(topology.ranks());
  std::vector<int> members;
  for (int r = 0; r < topology.ranks(); ++r) members.push_back(r);
  std::vector<std::unique_ptr<Communicator>> all;
  for (int r = 0; r < topology.ranks(); ++r)
    all.push_back(std::make_unique<SocketCommunicator>(links, topology, r, members));
  return all;
}

}  // namespace

TEST_CASE("a transport of sockets has every collective, on one rank, several, and nodes",
          "[threads]") {
  for (const auto& nodes : {std::vector<int>{1}, {2}, {7}, {1, 1}, {2, 2}, {3, 3}}) {
    INFO(fmt::format("nodes of {}", fmt::join(nodes, ", ")));
    const auto ranks = make_socket_ranks(Topology(nodes));
    std::atomic<int> checked = 0;
    run_ranks(ranks, [&](Communicator& world) {
      test::check_everything(world);
      ++checked;
    });
    CHECK(checked == std::ssize(ranks));
  }
}

TEST_CASE("a rank that fails ends the others of a transport of sockets", "[threads]") {
  const auto ranks = make_socket_ranks(Topology({3}));
  const std::string message = test::message_of<Error>([&] {
    run_ranks(ranks, [](Communicator& world) {
      if (world.rank() == 1) raise("the disk is on fire");
      float word = 1;
      world.all_reduce(test::RankExec(world), {&word, 1});
    });
  });
  test::check_contains(message, {"the disk is on fire"});
}

}  // namespace hlite::comm
