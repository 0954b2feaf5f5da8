// Connections between processes of the emulated NCCL. A thread of their own moves the bytes, so
// that no holder of StreamQueues::lock() ever waits for a socket.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/cuda_emulation/nccl_address.h"

namespace hlite::emulation {

// Messages between processes; meanings are in nccl_world.h.
struct NcclMessage {
  struct Head {
    uint32_t kind = 0;
    int32_t rank = -1;
    int32_t value = 0;
    int32_t to = -1;
    uint64_t bytes = 0;
  } head;
  std::vector<std::byte> body;
};

class NcclLink {
 public:
  // Called with StreamQueues::lock() held; `ended`: why there will be no more, once, in the end.
  struct Handler {
    std::function<void(NcclMessage)> message;
    std::function<void(const std::string& why)> ended;
  };

  // All may be called from any thread.
  void send(const NcclMessage& message);
  // Ends it when all that has been sent has gone, and the other side has ended it as well: a socket
  // that is closed with something to read would lose what it still has to send. No notification.
  void close();

  NcclLink(int socket, bool connecting) : socket_(socket), connecting_(connecting) {}
  ~NcclLink();
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

 private:
  friend class NcclLinks;
  bool closing();
  short wanted();  // what to poll for
  // False when the connection has ended.
  bool serve(short events);
  bool read_some();
  bool write_some();
  bool fail(const std::string& why);

  const int socket_;
  Handler handler_;
  std::string why_ended_;
  // The message that is being read; only the thread uses it.
  NcclMessage in_;
  size_t in_bytes_ = 0;

  std::mutex mutex_;
  bool connecting_, closing_ = false;
  std::deque<std::vector<std::byte>> out_;
  size_t out_bytes_ = 0;  // of the first that have been written
};

class NcclLinks {
 public:
  static NcclLinks& get();

  // Returns the address at which this process listens from the first call on. Throws
  // EmulationError.
  NcclAddress listen();
  std::shared_ptr<NcclLink> connect(const NcclAddress& address, NcclLink::Handler handler);

  // Handles a connection that another process has opened.
  std::function<NcclLink::Handler(const std::shared_ptr<NcclLink>&)> accepted;
  // Called with StreamQueues::lock() held when the process ends: closes links that must not be
  // waited for any more. The others have a while to end.
  std::function<void()> ending;

 private:
  NcclLinks();
  ~NcclLinks();
  friend class NcclLink;
  void start();
  void wake() const;
  void loop();
  void accept_one();
  bool finished(size_t links) const;

  const int event_;
  std::mutex mutex_;
  std::thread thread_;
  int listener_ = -1;
  NcclAddress address_;
  std::vector<std::shared_ptr<NcclLink>> links_;
  std::atomic<bool> ending_{false};
  std::chrono::steady_clock::time_point limit_;
};

}  // namespace hlite::emulation
