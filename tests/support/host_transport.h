// A transport from outside of the product, through host memory from one thread to another: what is
// in this file is all that one needs, but for its line in comm/device_ranks.h and in
// CMakeLists.txt.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "hugectr_lite/comm/transport.h"
#include "hugectr_lite/comm/wait_limit.h"

namespace hlite::test {

class HostTransport final : public comm::Transport {
 public:
  HostTransport(comm::Communicator& host, const cuda::Backend& table,
                std::function<void()> check_others)
      : Transport(host.rank(), host.size()),
        table_(table),
        check_others_(std::move(check_others)),
        mail_(std::make_shared<Mail>()) {
    ThreadPool pool(1);
    const auto* first = &mail_;
    host.broadcast({.pool = &pool}, std::as_writable_bytes(std::span(&first, 1)), 0);
    mail_ = std::shared_ptr(*first);
    host.barrier();
  }
  [[nodiscard]] std::string name() const override { return "host memory"; }
  [[nodiscard]] std::string graphs_want() const override { return "NCCL"; }
  void exchange(const Exec& exec, std::span<const kernels::Message> messages) override {
    for (const kernels::Message& m : messages)
      if (m.send) {
        std::vector<std::byte> bytes(static_cast<size_t>(m.bytes));
        table_.copy(bytes.data(), m.send, bytes.size(), exec.stream);
        table_.stream_synchronize(exec.stream);
        const std::scoped_lock lock(mail_->mutex);
        mail_->sent[{rank(), m.peer}].push_back(std::move(bytes));
      }
    for (const kernels::Message& m : messages)
      if (m.receive) {
        const std::vector<std::byte> bytes = next_from(m.peer);
        HLITE_CHECK(std::ssize(bytes) == m.bytes, "{} bytes of {}", bytes.size(), m.bytes);
        table_.copy(m.receive, bytes.data(), bytes.size(), exec.stream);
        table_.stream_synchronize(exec.stream);
      }
  }
  void check() override {}
  void revoke() noexcept override { revoked_ = true; }

 private:
  struct Mail {
    std::mutex mutex;
    std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> sent;  // from, to
  };
  std::vector<std::byte> next_from(int peer) {
    for (comm::Wait wait;; std::this_thread::yield()) {
      {
        const std::scoped_lock lock(mail_->mutex);
        auto& sent = mail_->sent[{peer, rank()}];
        if (!sent.empty()) {
          auto bytes = std::move(sent.front());
          sent.pop_front();
          return bytes;
        }
      }
      check_others_();
      if (revoked_) raise<DeviceError>("rank {}: the ranks' communication has ended", rank());
      wait.check(rank(), "for bytes");
    }
  }

  const cuda::Backend& table_;
  const std::function<void()> check_others_;
  std::shared_ptr<Mail> mail_;  // rank 0's
  std::atomic<bool> revoked_ = false;
};

inline std::unique_ptr<comm::Transport> join_by_host_memory(comm::Communicator& host,
                                                            const cuda::Backend& table,
                                                            std::function<void()> check_others) {
  return std::make_unique<HostTransport>(host, table, std::move(check_others));
}

}  // namespace hlite::test
